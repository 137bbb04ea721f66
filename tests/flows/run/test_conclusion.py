"""The report comes last, and costs neither a record nor an alert."""

import datetime as dt
import pathlib
import pickle
from typing import Any

import pytest
from typer.testing import CliRunner

import flows.notify.alerts
from flows.commands.audits import app
from flows.run.auditing import Audited
from flows.run.conclusion import ReportUnpublishedError, _exceeding, conclude
from flows.run.nightly import nightly_audit
from flows.run.start import start
from flows.settings import load_settings
from flows.settings.together_settings import TogetherSettings
from tests.support.lake import DAY, clone_model, edit_manifest, model_path, write_settings
from tests.support.warehouse import evaluated
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord
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
    assert "compose to 2. The largest, under replacement: a (1), b (1). The total" in alert.reason


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
