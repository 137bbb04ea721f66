"""The report comes last, and costs neither a record nor an alert."""

import datetime as dt
import pickle

import pytest
from typer.testing import CliRunner

from flows.commands.audits import app
from flows.next_steps import exit_code
from flows.notify.events import Kind, events, nights_of
from flows.run.auditing import Audited, announce
from flows.run.conclusion import ReportUnpublishedError, conclude
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from flows.settings import load_settings
from privcore.lower_bounds.verdicts import Cause, ReasonCode, Verdict
from tests.support.lake import DAY, PLAN, clone_model, edit_manifest, model_path, write_settings
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, night, put_rows
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(lake, tmp_path):
    """Return a folder with a good model and one without labels, whose report cannot be written."""
    clone_model(lake, "bad")
    (model_path(lake, "bad", DAY) / "manifest.json").write_text("{")
    write_settings(tmp_path, ["good", "bad"])
    (tmp_path / "report").write_text("a file where the folder should be")
    return tmp_path


@pytest.mark.slow
def test_a_report_that_cannot_be_written_costs_no_record_and_no_alert(folder, alerts):
    asked = ["night", "--day", str(DAY), "--config", str(folder / "privaudit.toml")]
    ran = CliRunner().invoke(app, asked)
    assert "good" in ran.output
    assert isinstance(ran.exception, ReportUnpublishedError)
    assert "privaudit report" in str(ran.exception)
    assert [row.model for row in ran.exception.rows] == ["good", "bad"]
    assert [alert.model for alert in alerts] == ["bad"]
    current = Warehouse(str(folder / "warehouse")).current()
    assert current["model"].to_list() == ["bad", "good"]
    again = pickle.loads(pickle.dumps(ran.exception))  # noqa: S301
    assert str(again) == str(ran.exception)


@pytest.mark.slow
def test_what_changed_since_other_nights_is_alerted(lake, tmp_path, alerts):
    """A declaration that is withdrawn, in a manifest that changed after its audit."""
    settings = str(write_settings(tmp_path, ["good"]))
    start(nightly_audit, day=DAY, settings=settings)
    assert alerts == []
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    row = warehouse.record(warehouse.current()["audit_id"][0])
    before = row.audit.day - dt.timedelta(days=1)
    moved = {"day": before, "audit_id": "e" * 32, "target_sha256": None}
    wealth = tuple(one.model_copy(update=moved) for one in row.wealth)
    audit = row.audit.model_copy(update=moved | {"revision": None})
    warehouse.commit([AuditRecord(audit=audit, wealth=wealth)])
    edit_manifest(lake, "good", DAY, privacy=None)
    start(nightly_audit, day=DAY, settings=settings)
    (alert,) = alerts
    assert (alert.model, alert.kind) == ("good", "privaudit.changed")
    assert "and is nothing on" in alert.reason
    assert "manifest" in alert.reason


@pytest.mark.parametrize("code", [None, *ReasonCode])
def test_each_reason_has_its_exit_code(code):
    """A new model's first nights, which are inconclusive by size, fail no pipeline."""
    verdict = Verdict.NOT_REFUTED if code is None else code.verdict
    told = {Verdict.VIOLATED: 1, Verdict.FAILED: 3, Verdict.INCONCLUSIVE: 2}.get(verdict, 0)
    by_size = code is not None and code.cause is Cause.SIZE
    assert exit_code([(verdict, code)]) == (0 if by_size else told)
    assert exit_code([(verdict, code)], strict=True) == told


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], 0),
        ([None, ReasonCode.NOTHING_DECLARED, ReasonCode.NIGHTS_NEEDED], 0),
        ([None, ReasonCode.PROXY_WRONG], 2),
        ([ReasonCode.PROXY_WRONG, ReasonCode.LABELS_MISSING, None], 3),
        ([ReasonCode.NOT_RUN, ReasonCode.EARLIER_NIGHT, ReasonCode.OVER_POLICY], 1),
    ],
)
def test_a_violation_hides_behind_no_failure(codes, code):
    """3 hid 1."""
    words = [(Verdict.NOT_REFUTED if one is None else one.verdict, one) for one in codes]
    assert exit_code(words) == code


SEEING = {"epsilon_ceiling": 8.0, "sees_from": 0.2, "epsilon_lower": 0.1}
REFUTED = SEEING | {"verdict": "violated", "reason_code": "this_night", "epsilon_lower": 0.9}


@pytest.mark.usefixtures("no_pages")
def test_a_new_violation_fails_its_run_and_a_known_one_does_not(tmp_path):
    settings = load_settings(write_settings(tmp_path, ["ads", "loans"]))
    found = []
    for number, changes in enumerate((SEEING, REFUTED, REFUTED, SEEING)):
        night = DAY + dt.timedelta(days=number)
        records = [evaluated("ads", night, **changes), evaluated("loans", night, **SEEING)]
        Warehouse(settings.warehouse).commit(records)
        rows = [record.audit for record in records]
        done = [announce(record, settings, withdrawn=False) for record in records]
        state = conclude(done, settings)
        assert state.data == rows
        found.append((state.name, state.type.value))
        if number == 2:  # a run of another model names it, too
            alone = conclude([Audited(rows[1])], settings)
            assert alone.message == "1 not_refuted. Violated at the last record: ads."
        if number == 1:
            assert (state.message or "").startswith("The declaration of ads is refuted. 1 violated")
    new = ("Violated", "FAILED")
    assert found == [("Completed", "COMPLETED"), new, *[("Completed", "COMPLETED")] * 2]


def kinds(row, settings):
    """Return the events beside a night's own."""
    return [one.kind for one in events(nights_of([row], settings), settings)]


@pytest.mark.parametrize("later", rest_slow([((3,),), ((),)]))
def test_a_day_that_is_audited_afterwards_resolves_no_later_nights(tmp_path, later):
    """A day that was left out, with an honest model: the incident's all-clear, while it went on."""
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    warehouse = Warehouse(settings.warehouse)
    put_rows(warehouse, [night(ahead, **REFUTED) for ahead in (0, 1, *later)])
    honest = night(2, hour=99, **SEEING)
    put_rows(warehouse, [honest])
    assert (Kind.RESOLVED in kinds(honest.audit, settings)) is not bool(later)


OF_LABELS = {"dataset": "clicks", "label_column": "late"}
RECURRING = PLAN.model_copy(update={"labels_recur": True}).model_dump_json()


@pytest.mark.parametrize(
    ("changes", "resolved"),
    rest_slow(
        [
            ({}, True),
            ({"dataset": "other"}, False),
            ({"label_column": "other"}, False),
            ({"privacy_unit": "user"}, False),
            ({"exploratory": True}, False),
            ({"plan": RECURRING}, False),
        ]
    ),
)
def test_a_night_of_something_else_resolves_no_incident(tmp_path, changes, resolved):
    """The declaration was the same, and an honest dataset, persons or another plan ended it."""
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    warehouse = Warehouse(settings.warehouse)
    put_rows(warehouse, [night(0, **REFUTED | OF_LABELS)])
    honest = night(1, hour=24, **SEEING | OF_LABELS | changes)
    recurs = {"labels_recur": "plan" in changes}
    wealth = tuple(row.model_copy(update=recurs) for row in honest.wealth)
    put_rows(warehouse, [honest.model_copy(update={"wealth": wealth})])
    assert (Kind.RESOLVED in kinds(honest.audit, settings)) is resolved
