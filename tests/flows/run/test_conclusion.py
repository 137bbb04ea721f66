"""The report comes last, and costs neither a record nor an alert."""

import datetime as dt
import pathlib
import pickle
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import flows.notify.alerts
from flows.commands.audits import app
from flows.notify.alerts import Event
from flows.run.auditing import Audited
from flows.run.conclusion import (
    ReportUnpublishedError,
    _beside,
    _exceeding,
    conclude,
    derived_once,
)
from flows.run.nightly import nightly_audit
from flows.run.start import start
from flows.settings import Settings, load_settings
from flows.settings.file import TogetherSettings
from tests.support.lake import DAY, PLAN, clone_model, edit_manifest, model_path, write_settings
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, night, put_rows
from workers.lake.layout import Lake
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(lake: Lake, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a good model and one without labels, whose report cannot be written."""
    clone_model(lake, "bad")
    (model_path(lake, "bad", DAY) / "manifest.json").write_text("{")
    write_settings(tmp_path, ["good", "bad"])
    (tmp_path / "report").write_text("a file where the folder should be")
    return tmp_path


@pytest.mark.slow
def test_a_report_that_cannot_be_written_costs_no_record_and_no_alert(
    folder: pathlib.Path, alerts: list[Any]
) -> None:
    with pytest.raises(ReportUnpublishedError, match="privaudit report") as caught:
        start(nightly_audit, day=DAY, settings=str(folder / "privaudit.toml"))
    assert [row.model for row in caught.value.rows] == ["good", "bad"]
    assert [alert.model for alert in alerts] == ["bad"]
    current = Warehouse(str(folder / "warehouse")).current()
    assert current["model"].to_list() == ["bad", "good"]
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert str(again) == str(caught.value)


@pytest.mark.slow
def test_the_command_prints_what_was_audited_and_then_says_so(folder: pathlib.Path) -> None:
    ran = CliRunner().invoke(
        app, ["night", "--day", str(DAY), "--config", str(folder / "privaudit.toml")]
    )
    assert "evaluated" in ran.output or "consistent" in ran.output
    assert isinstance(ran.exception, ReportUnpublishedError)


@pytest.mark.slow
def test_what_changed_since_other_nights_is_alerted(
    lake: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A declaration that is withdrawn, in a manifest that changed after its audit."""
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(
        flows.notify.alerts,
        "deliver",
        lambda alert, _: told.append((alert.model, str(alert.event))),
    )
    settings = str(write_settings(tmp_path, ["good"]))
    start(nightly_audit, day=DAY, settings=settings)
    assert told == []
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    row = warehouse.record(warehouse.current()["audit_id"][0])
    before = row.audit.day - dt.timedelta(days=1)
    moved = {"day": before, "audit_id": "e" * 32, "target_sha256": None}
    wealth = tuple(one.model_copy(update=moved) for one in row.wealth)
    audit = row.audit.model_copy(update=moved | {"revision": None})
    warehouse.commit(AuditRecord(audit=audit, wealth=wealth))
    edit_manifest(lake, "good", DAY, privacy=None)
    start(nightly_audit, day=DAY, settings=settings)
    assert told == [
        ("good", "privaudit.claim.inputs_changed"),
        ("good", "privaudit.claim.declaration_withdrawn"),
    ]


def test_models_that_exceed_the_total_of_their_labels_are_alerted(tmp_path: pathlib.Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    same = {
        "dataset": "clicks",
        "neighbors": "replace",
        "delta_declared": 0.0,
        "epsilon_declared": 1.0,
    }
    records = [evaluated(name, DAY, **same) for name in ("a", "b")]
    warehouse.commit_all(records)
    rows = [record.audit for record in records]
    path = write_settings(tmp_path, ["a", "b"])
    asked = load_settings(path)
    assert list(_exceeding(rows, warehouse, asked)) == []
    for total, alerts in ((1.5, 1), (2.0, 0)):
        limited = asked.model_copy(update={"together": TogetherSettings(epsilon=total)})
        found = list(_exceeding(rows, warehouse, limited))
        assert len(found) == alerts
    limited = asked.model_copy(update={"together": TogetherSettings(epsilon=1.5)})
    (alert,) = _exceeding(rows, warehouse, limited)
    assert alert.event == "privaudit.labels.total_exceeded"
    assert "compose to 2. The total of 1.5 is exceeded." in alert.reason


@pytest.mark.usefixtures("no_pages")
def test_a_nights_end_derives_each_night_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts, the run's end and the report ask for the same nights."""
    derived: list[str] = []

    def windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
        derived.extend(audits["audit_id"])
        return epsilon_windows(warehouse, audits)

    monkeypatch.setattr("flows.run.conclusion.epsilon_windows", windows)
    settings = load_settings(write_settings(tmp_path, ["ads", "loans"]))
    warehouse = Warehouse(settings.warehouse)
    records = [
        evaluated(name, DAY + dt.timedelta(at)) for name in ("ads", "loans") for at in (0, 1)
    ]
    put_rows(warehouse, records)
    conclude("night", "A night", [Audited(one.audit) for one in records], settings)
    assert sorted(derived) == sorted(one.audit.audit_id for one in records)
    once, current = derived_once(), warehouse.current(every_secret=True)
    for some in (current.head(2), current, current.tail(1)):
        assert once(warehouse, some).equals(epsilon_windows(warehouse, some))


REFUTED = {"verdict": "violated", "epsilon_lower": 0.9}


@pytest.mark.usefixtures("no_pages")
@pytest.mark.parametrize("fail_on", ["violation", "never"])
def test_a_new_violation_fails_its_run_and_a_known_one_does_not(
    tmp_path: pathlib.Path, fail_on: str
) -> None:
    more = f'[night]\nfail_on = "{fail_on}"\n'
    settings = load_settings(write_settings(tmp_path, ["ads", "loans"], more=more))
    found = []
    for number, changes in enumerate(({}, REFUTED, REFUTED, {"epsilon_lower": 0.1})):
        night = DAY + dt.timedelta(days=number)
        records = [evaluated("ads", night, **changes), evaluated("loans", night)]
        Warehouse(settings.warehouse).commit_all(records)
        rows = [record.audit for record in records]
        state = conclude("night", "A night", [Audited(row) for row in rows], settings)
        assert state.data == rows
        found.append((state.name, state.type.value))
        if number == 2:  # a run of another model names it, too
            alone = conclude("run", "A run", [Audited(rows[1])], settings)
            assert alone.message == "1 consistent. Violated at the last record: ads."
        if number == 1 and fail_on == "violation":
            assert (state.message or "").startswith("The declaration of ads is refuted. 1 violated")
    new = ("Violated", "FAILED") if fail_on == "violation" else ("Completed", "COMPLETED")
    assert found == [("Completed", "COMPLETED"), new, *[("Completed", "COMPLETED")] * 2]


@pytest.mark.parametrize("later", rest_slow([((3,),), ((),)]))
def test_a_day_that_is_audited_afterwards_resolves_no_later_nights(
    tmp_path: pathlib.Path, later: tuple[int, ...]
) -> None:
    """A day that was left out, with an honest model: the incident's all-clear, while it went on."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    given = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2}
    refuted = given | {"verdict": "violated", "epsilon_lower": 1.0}
    put_rows(warehouse, [night(ahead, **refuted) for ahead in (0, 1, *later)])
    honest = night(2, hour=99, epsilon_lower=0.0, **given)
    put_rows(warehouse, [honest])
    events = [one.event for one in _beside([honest.audit], warehouse, settings, epsilon_windows)]
    assert (Event.RESOLVED in events) is not bool(later)


SEEING = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2, "epsilon_lower": 0.0}


SEEN_REFUTED = SEEING | {"verdict": "violated", "epsilon_lower": 1.0}


OF_LABELS = {"dataset": "clicks", "label_column": "late"}


RECURRING = PLAN.model_copy(update={"labels_recur": True}).model_dump_json()


def events(row: AuditRow, warehouse: Warehouse, settings: Settings) -> list[Event]:
    """Return the alerts beside a night's own."""
    return [one.event for one in _beside([row], warehouse, settings, epsilon_windows)]


@pytest.mark.parametrize(
    ("changes", "resolved"),
    rest_slow(
        [
            ({}, True),
            ({"dataset": "other"}, False),
            ({"dataset": None, "label_column": None}, True),
            ({"label_column": "other"}, False),
            ({"privacy_unit": "user"}, False),
            ({"exploratory": True}, False),
            ({"plan": RECURRING}, False),
        ]
    ),
)
def test_a_night_of_something_else_resolves_no_incident(
    tmp_path: pathlib.Path, changes: dict[str, Any], resolved: bool
) -> None:
    """The declaration was the same, and an honest dataset, persons or another plan ended it."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    given = SEEING | OF_LABELS | changes
    put_rows(warehouse, [night(0, **SEEN_REFUTED | OF_LABELS)])
    honest = night(1, hour=24, **given)
    put_rows(warehouse, [honest])
    assert (Event.RESOLVED in events(honest.audit, warehouse, settings)) is resolved


DOUBTFUL = SEEING | {"verdict": "doubtful", "remarks": ("rows_miscounted",)}


@pytest.mark.parametrize(("exploratory", "told"), [(False, False), (True, True)])
def test_a_doubt_of_one_runs_plan_is_new_on_the_night(
    tmp_path: pathlib.Path, exploratory: bool, told: bool
) -> None:
    """Somebody had it before, on a day that no night audited, and nobody heard of it."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    before = night(1, hour=24, **DOUBTFUL | {"exploratory": exploratory})
    put_rows(warehouse, [night(0, **SEEING), before])
    tonight = night(2, hour=48, **DOUBTFUL)
    put_rows(warehouse, [tonight])
    assert (Event.REMARKED in events(tonight.audit, warehouse, settings)) is told


@pytest.mark.parametrize(("proved", "told"), [(0.9, True), (4.0, False)])
def test_a_doubt_that_lowers_a_violation_to_an_update_is_told(
    tmp_path: pathlib.Path, proved: float, told: bool
) -> None:
    """It proved less than twice as much, so that nobody heard, neither of it nor of the doubt."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    put_rows(warehouse, [night(0, **SEEN_REFUTED)])
    remarks = {"remarks": ("rows_miscounted",), "epsilon_lower": proved}
    tonight = night(1, hour=24, **SEEN_REFUTED | remarks)
    put_rows(warehouse, [tonight])
    assert (Event.REMARKED in events(tonight.audit, warehouse, settings)) is told
