"""Changes that the public is told of: nights are compared whatever their labels came to."""

import datetime as dt
import pathlib
from typing import Any

import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, put_rows
from workers.plan import Plan
from workers.warehouse.public_changes import PublicChange, public_changes
from workers.warehouse.schema import AuditRecord, Status
from workers.warehouse.store import Warehouse

DECLARED = {"delta_declared": 0.0, "neighbors": "replace", "dataset": "flights"}


def night(number: int, *, failed: bool = False, **changes: Any) -> AuditRecord:
    """Return a night with these columns; where it failed, without figures."""
    record = evaluated("ads", DAY + dt.timedelta(days=number), **DECLARED | changes)
    if not failed:
        return record
    none = {"status": Status.NOT_EVALUABLE, "verdict": "not_evaluable", "epsilon_lower": None}
    return AuditRecord(audit=record.audit.model_copy(update=none))


def changes(folder: pathlib.Path, *nights: AuditRecord) -> list[PublicChange]:
    warehouse = Warehouse(str(folder))
    put_rows(warehouse, nights)
    return list(public_changes(warehouse, warehouse.current()))


def test_no_label_decides_what_a_night_is_compared_with(tmp_path: pathlib.Path) -> None:
    """It was the last night with figures: its day told that another had none, and alerts lacked."""
    lax = Plan(significance=1e-9).model_dump_json()
    told = [
        changes(
            tmp_path / str(failed),
            night(0),
            night(1, failed=failed, epsilon_declared=3.0),
            night(2, failed=failed, epsilon_declared=3.0, plan=lax),
            night(3, epsilon_declared=3.0, plan=lax),
        )
        for failed in (False, True)
    ]
    assert told[0] == told[1]
    first, second = told[0]
    assert (first.day, first.settings) == (DAY + dt.timedelta(days=1), None)
    assert f"was 0.5 for replacing until {DAY}, and is 3" in str(first.declaration)
    assert second.declaration is None
    assert f"changed after {DAY + dt.timedelta(days=1)}" in str(second.settings)
    assert "plan.significance" in str(second.settings)


def test_a_night_whose_labels_were_not_read_is_compared_with_none(tmp_path: pathlib.Path) -> None:
    nothing = {"epsilon_declared": None, "dataset": None, "failed": True}
    told = changes(tmp_path, night(0), night(1, **nothing), night(2))
    assert told == []


def test_settings_are_not_compared_with_an_exploratory_night(tmp_path: pathlib.Path) -> None:
    lax = Plan(significance=1e-9).model_dump_json()
    (change,) = changes(
        tmp_path, night(0), night(1, exploratory=True), night(2, plan=lax, exploratory=False)
    )
    assert f"changed after {DAY}: " in str(change.settings)


@pytest.mark.parametrize("failed", [(), (1,), (2,), (1, 2)])
def test_a_replaced_checkpoint_is_told_whatever_labels_made_of_the_nights(
    tmp_path: pathlib.Path, failed: tuple[int, ...]
) -> None:
    """Yesterday's file, replaced by one that knows today's labels, hides today's leak."""

    def files(target: str, proxy: str, number: int) -> dict[str, Any]:
        before = DAY + dt.timedelta(days=number - 1)
        return {"target_sha256": target * 64, "proxy_sha256": proxy * 64, "proxy_day": before}

    told = changes(
        tmp_path,
        night(1, failed=1 in failed, **files("a", "0", 1)),
        night(2, failed=2 in failed, **files("b", "f", 2)),
        night(3, **files("c", "b", 3)),
    )
    assert [(one.day, one.declaration, one.settings) for one in told] == [
        (DAY + dt.timedelta(days=2), None, None)
    ]
    assert f"The proxy's checkpoint, of {DAY + dt.timedelta(days=1)}" in str(told[0].checkpoint)
    assert "aaaaaaaaaaaa as the target then, and begins with ffffffffffff" in str(
        told[0].checkpoint
    )
