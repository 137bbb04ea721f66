"""The ninth round of new attacks: an owner, and an operator with them, over many nights."""

import datetime as dt
import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest

from flows.commands.audits import _print_committed
from flows.commands.printing import Form
from flows.notify.alerts import Alert, Event, alert_of, total_alert
from flows.report.known_windows import known_windows
from flows.run.auditing import _of_incident
from flows.run.conclusion import _beside, _lost
from flows.run.withdrawing import delete_audits
from flows.settings import Settings
from privcore.lower_bounds import WINDOW_EPSILONS
from tests.support.lake import DAY
from tests.support.tiers import rest_slow
from tests.support.warehouse import INPUTS, evaluated, failed, put_rows
from workers.secret_files import state_key
from workers.warehouse.input_changes import input_changes
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRecord
from workers.warehouse.serving_decision import Gate, audits_of, gate
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together
from workers.warehouse.with_windows import with_windows


def night(ahead: int, wealth: float = 0.0, *, hour: int = 0, **changes: Any) -> AuditRecord:
    """A night so many days after `DAY`, with so much evidence against its declaration."""
    day = DAY + dt.timedelta(days=ahead)
    record = evaluated("ads", day, hour=hour, **INPUTS | changes)
    levels = tuple(np.tile(wealth + 1.0 - 2.0 * WINDOW_EPSILONS, 4).tolist())
    told = {"window_log_wealth": levels, "claimed_log_wealth": (wealth,) * 4}
    wealths = tuple(row.model_copy(update=told) for row in record.wealth)
    return record.model_copy(update={"wealth": wealths})


@pytest.mark.slow
def test_nights_that_refuted_together_stay_so_whatever_labels_come_later(
    warehouse: Warehouse, tmp_path: pathlib.Path
) -> None:
    """Ten such nights, each audited again with labels of noise, were consistent together."""
    put_rows(warehouse, [night(ahead, 1.6) for ahead in range(4)])
    before = standings(warehouse, tmp_path)[-1]
    assert before["standing"].item() == "violated"
    noise = [night(ahead, -0.5, hour=1, labels_digest="x" * 64) for ahead in range(4)]
    put_rows(warehouse, noise)
    after = standings(warehouse, tmp_path)[-1]
    assert after["audit_id"].item() == noise[-1].audit.audit_id
    for column in ("standing", "epsilon_standing"):
        assert after[column].item() == before[column].item()
    first = warehouse.first_audits(pl.Series(["ads"]))["audit_id"][0]
    warehouse.withdraw(first, "The labels were damaged.")
    assert standings(warehouse, tmp_path)["standing"].to_list() == ["consistent"] * 4


def standings(warehouse: Warehouse, folder: pathlib.Path) -> pl.DataFrame:
    """Return what the nights prove together, as a report keeps and reads it."""
    (folder / "report").mkdir(exist_ok=True)
    current = warehouse.current(every_secret=True)
    return known_windows(folder / "report", bytes(32))(warehouse, current).sort("day")


@pytest.mark.slow
def test_an_incident_that_grows_step_by_step_notifies_again(
    warehouse: Warehouse, settings: Settings
) -> None:
    """0.51, 1.5, 2.9 and 5.8: none proves twice as much as all before it."""
    events = []
    for ahead, proved in enumerate((0.51, 1.5, 2.9, 5.8)):
        row = night(ahead, verdict="violated", epsilon_lower=proved, epsilon_ceiling=8.0).audit
        alert = _of_incident(alert_of(row, settings), row, settings)
        events.append(None if alert is None else alert.event)
        put_rows(warehouse, [night(ahead, verdict="violated", epsilon_lower=proved)])
    assert events == [Event.VIOLATED, Event.STILL_VIOLATED, Event.VIOLATED, Event.STILL_VIOLATED]


def test_nights_that_refute_together_are_not_deleted_in_silence(
    warehouse: Warehouse, settings: Settings, alerts: list[Alert]
) -> None:
    put_rows(warehouse, [night(ahead, 1.6) for ahead in range(4)])
    delete_audits(settings, DAY + dt.timedelta(days=3))
    (alert,) = alerts
    assert (alert.event, alert.model) == (Event.WITHDRAWN, "ads")
    assert "with its other nights those of ads refute what it declared" in alert.reason


def test_units_of_other_names_take_no_model_out_of_the_total_of_rows(warehouse: Warehouse) -> None:
    """Where no audit was of rows, each column of persons had a total of its own."""
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    rows = [
        evaluated(unit, DAY, privacy_unit=unit, epsilon_declared=6.0, **given)
        for unit in ("who", "user")
    ]
    put_rows(warehouse, rows)
    found = {one.unit: one for one in together(warehouse, day=DAY)}
    assert set(found) == {None, "who", "user"}
    assert found[None].models == ("user", "who")
    assert found[None].epsilon_composed == pytest.approx(12.0)


@pytest.mark.parametrize("later", rest_slow([((3,),), ((),)]))
def test_a_day_that_is_audited_afterwards_resolves_no_later_nights(
    warehouse: Warehouse, settings: Settings, later: tuple[int, ...]
) -> None:
    """A day that was left out, with an honest model: the incident's all-clear, while it went on."""
    given = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2}
    refuted = given | {"verdict": "violated", "epsilon_lower": 1.0}
    put_rows(warehouse, [night(ahead, **refuted) for ahead in (0, 1, *later)])
    honest = night(2, hour=99, epsilon_lower=0.0, **given)
    put_rows(warehouse, [honest])
    events = [one.event for one in _beside([honest.audit], warehouse, settings, epsilon_windows)]
    assert (Event.RESOLVED in events) is not bool(later)


def test_a_total_that_is_exceeded_by_more_is_another_alert(
    warehouse: Warehouse, settings: Settings
) -> None:
    """A receiver drops an alert whose id it knows: 9 and 59 about the same labels had one."""
    given = {"dataset": "clicks", "neighbors": "replace", "declared_by": "anna"}
    ids = set()
    for ahead, epsilon in enumerate((9.0, 50.0)):
        put_rows(warehouse, [night(ahead, epsilon_declared=epsilon, trained_since=DAY, **given)])
        (found,) = together(warehouse, day=DAY + dt.timedelta(days=ahead))
        assert found.day == DAY
        ids.add(total_alert(found, found.sentence(8.0), settings).id)
    assert len(ids) == 2


def test_a_file_of_a_model_that_stands_violated_passes_by_no_other_checkpoint(
    warehouse: Warehouse,
) -> None:
    """The day was audited again with another file, and the first one had no standing any more."""
    seen = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2}
    put_rows(warehouse, [night(one, 1.6, target_sha256=str(one) * 64, **seen) for one in range(4)])
    put_rows(warehouse, [night(3, -0.5, hour=5, target_sha256="f" * 64, **seen)])
    decided, why = gate(audits_of(warehouse, "3" * 64))
    assert (decided, why) == (
        Gate.FAIL,
        "This file must not be served: ads stands violated on 2026-03-05.",
    )


def test_a_day_that_was_left_out_is_not_audited_with_a_later_days_file(
    warehouse: Warehouse,
) -> None:
    """The page blamed the later day, which was honest, and no alert came."""
    later = night(1, hour=1, target_sha256="f" * 64)
    left_out = night(0, hour=80, target_sha256="f" * 64)
    put_rows(warehouse, [later, left_out])
    told = input_changes(warehouse, warehouse.scan("audits").collect())
    assert list(told) == [left_out.audit.audit_id]
    assert "the file that was audited for 2026-03-03" in told[left_out.audit.audit_id]
    assert "which is later" in told[left_out.audit.audit_id]


def test_a_day_that_is_audited_afterwards_is_in_the_total_of_its_labels(
    warehouse: Warehouse,
) -> None:
    """The next day's model had read its labels again, and no night's total had both."""
    given = {"dataset": "clicks", "neighbors": "replace", "declared_by": "anna"}
    first = evaluated("loud", DAY + dt.timedelta(days=1), trained_since=DAY, **given)
    put_rows(warehouse, [first, evaluated("ads", DAY, hour=90, **given)])
    (found,) = together(warehouse, day=DAY)
    assert (found.day, found.models) == (DAY, ("ads", "loud"))


def test_a_run_under_another_plan_is_not_taken_for_the_nights(
    warehouse: Warehouse, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run --seed` of a violated day printed "consistent", with exit code 0."""
    counts, asked = night(0, verdict="violated"), night(0, hour=1, exploratory=True)
    put_rows(warehouse, [counts, asked])
    assert _print_committed([asked.audit], settings, Form.TABLE, one=True) == 1
    said = capsys.readouterr().out
    assert f"another audit counts, and not this one: {counts.audit.audit_id[:8]}." in said


def test_a_violated_standing_is_shown_on_nights_without_figures(warehouse: Warehouse) -> None:
    """One bad label a night, and first page, `show` and exit code had no figure and no standing."""
    put_rows(warehouse, [night(ahead, 1.6) for ahead in range(4)])
    put_rows(warehouse, [failed("ads", DAY + dt.timedelta(days=one)) for one in (-1, 4, 5)])
    shown = with_windows(warehouse, warehouse.current())["standing"]
    assert shown.to_list() == [None, *["consistent"] * 3, *["violated"] * 3]


def test_another_warehouse_in_the_settings_is_told(
    warehouse: Warehouse, settings: Settings, tmp_path: pathlib.Path
) -> None:
    """All models began anew there, and nothing was said."""
    put_rows(warehouse, [night(0), night(1)])
    (tmp_path / "report").mkdir()
    key = state_key("pages")
    assert key is not None
    known_windows(tmp_path / "report", key)(warehouse, warehouse.current(every_secret=True))
    rows = [night(2).audit]
    assert not [*_lost(rows, warehouse, settings)]
    (alert,) = _lost(rows, Warehouse(str(tmp_path / "another")), settings)
    assert (alert.event, alert.model) == (Event.WITHDRAWN, "ads")
    assert alert.reason.startswith("The report knows an audit of ads for 2026-03-03, and")
