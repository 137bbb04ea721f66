"""The model's verdict beside every record, also of a night that adds nothing to others."""

import datetime as dt
import pathlib
from typing import Any

import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed, put_rows
from workers.warehouse.model_verdict import REACH
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import with_windows

FAILED = ("failed", "labels_missing")
EARLIER = ("violated", "earlier_night")
CHOSEN = {"exploratory": True}


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def night(ahead: int, verdict: str = "not_refuted", **changes: Any) -> AuditRecord:
    """Return a night whose e-values say nothing of what is declared."""
    record = evaluated("ads", DAY + dt.timedelta(days=ahead), verdict=verdict, **changes)
    told = {"claimed_log_wealth": (0.0,) * 4}
    return record.model_copy(
        update={"wealth": tuple(row.model_copy(update=told) for row in record.wealth)}
    )


def gone(ahead: int, model: str = "ads") -> AuditRecord:
    return failed(model, DAY + dt.timedelta(days=ahead))


def told(warehouse: Warehouse, *records: AuditRecord) -> list[tuple[str, str | None]]:
    """Return verdict and reason of these nights, in their order."""
    put_rows(warehouse, records)
    found = with_windows(warehouse, warehouse.current()).sort("day", "model")
    return found.select("verdict_together", "reason_code_together").rows()


def test_a_violation_goes_on_over_nights_that_failed_until_one_resolves_it(
    warehouse: Warehouse,
) -> None:
    nights = (gone(0), night(1, "violated"), gone(2), gone(3), night(4), gone(5))
    this = ("violated", "this_night")
    assert told(warehouse, *nights) == [FAILED, this, EARLIER, EARLIER, ("not_refuted", None),
                                        FAILED]  # fmt: skip


def test_it_goes_on_for_four_weeks_and_is_the_models_own(warehouse: Warehouse) -> None:
    late = (gone(REACH), gone(REACH + 1), gone(1, model="loans"))
    found = told(warehouse, night(0, "violated"), *late)
    assert found == [("violated", "this_night"), FAILED, EARLIER, FAILED]


@pytest.mark.parametrize(
    ("verdict", "changes", "expected"),
    [
        ("not_refuted", {}, ("inconclusive", "chosen_plan")),
        ("inconclusive", {}, ("inconclusive", "chosen_plan")),
        # Nobody's plan makes these.
        ("inconclusive", {"reason_code": "persons_split"}, ("inconclusive", "persons_split")),
        ("inconclusive", {"reason_code": "over_policy"}, ("inconclusive", "over_policy")),
        ("undeclared", {"epsilon_declared": None}, ("undeclared", "nothing_declared")),
        ("failed", {"status": "not_evaluable", "reason_code": "model_missing"},
         ("failed", "model_missing")),
        ("violated", {}, ("violated", "this_night")),
    ],
)  # fmt: skip
def test_a_plan_that_somebody_chose_acquits_of_nothing(
    warehouse: Warehouse, verdict: str, changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    chosen = night(0, verdict, **CHOSEN, **changes)
    assert told(warehouse, chosen) == [expected]
    before = night(-1, "violated")
    after = expected if verdict == "violated" else EARLIER
    assert told(warehouse, before) == [("violated", "this_night"), after]


def test_what_a_chosen_plan_refutes_goes_on_over_no_night(warehouse: Warehouse) -> None:
    found = told(warehouse, night(0, "violated", **CHOSEN), gone(1))
    assert found == [("violated", "this_night"), FAILED]


def test_a_day_on_which_nothing_is_declared_says_so_beside_others(warehouse: Warehouse) -> None:
    silent = evaluated("ads", DAY, verdict="undeclared", epsilon_declared=None)
    assert told(warehouse, silent, night(1)) == [
        ("undeclared", "nothing_declared"),
        ("not_refuted", None),
    ]


@pytest.mark.parametrize("others", [(), (gone(2),)], ids=["alone", "beside one that failed"])
def test_a_night_that_stands_with_no_other_has_its_own_verdict(
    warehouse: Warehouse, others: tuple[AuditRecord, ...]
) -> None:
    """Of an earlier method: it read as null where no other night was silent."""
    record = night(0, "inconclusive", reason_code="arms_unlike")
    old = {"window_price": None, "standing_price": None}
    record = record.model_copy(
        update={"wealth": tuple(row.model_copy(update=old) for row in record.wealth)}
    )
    assert told(warehouse, record, *others)[0] == ("inconclusive", "arms_unlike")
    found = with_windows(warehouse, warehouse.current())
    assert found.filter(pl.col("verdict_together").is_null()).is_empty()
