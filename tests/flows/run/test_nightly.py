import contextlib
import json
import pickle

import pytest

import flows.run.audit_requests
import flows.run.auditing
import flows.run.nightly
from flows.next_steps import exit_code
from flows.run.conclusion import AlertsUndeliveredError, AuditsFailedError
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from privcore.exceptions import TerminalError, TransientError
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.support.lake import DAY, EVE, clone_model, edit_manifest, write_settings
from tests.support.warehouse import evaluated
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process", "no_pages")


@pytest.fixture
def folder(lake, tmp_path):  # noqa: ARG001
    """Return a folder with a lake, in which `good` is audited."""
    write_settings(tmp_path, ["good"])
    return tmp_path


def night(folder, **given):
    return start(nightly_audit, day=DAY, settings=str(folder / "privaudit.toml"), **given)


def committed(folder):
    return Warehouse(str(folder / "warehouse")).scan("audits").collect()


def code_of(rows):
    """Return the exit code of nights alone."""
    return exit_code(
        (Verdict(row.verdict), ReasonCode(row.reason_code) if row.reason_code else None)
        for row in rows
    )


def made_up(_lake, day, requests, **_):
    """Come to records at once, in place of audits."""
    yield [evaluated(request.model, day) for request in requests]


@pytest.fixture
def _made_up(instead_of_audits):
    instead_of_audits(made_up)


def test_the_plan_of_the_settings_is_the_one_that_is_played(folder):
    write_settings(folder, ["good"], more="seed = 42\nproxy_within_days = 3\n")
    (row,) = night(folder)
    plan = json.loads(row.plan)
    assert (plan["seed"], plan["proxy_within_days"], plan["repetitions"]) == (42, 3, 4)


@pytest.mark.parametrize("failures", [2, 4])
def test_a_transient_error_is_tried_four_times_and_then_committed(
    folder, instead_of_audits, failures
):
    attempts = []

    def away(*given, **more):
        attempts.append(1)
        if len(attempts) <= failures:
            raise TransientError("Storage was away.")
        return made_up(*given, **more)

    instead_of_audits(away)
    try:
        rows = night(folder)
    except AuditsFailedError as error:
        rows = error.rows
    (record,) = committed(folder).to_dicts()
    if failures == 2:
        assert (len(attempts), rows[0].status, record["status"]) == (3, "evaluated", "evaluated")
        return
    assert (len(attempts), code_of(rows)) == (4, 3)
    assert (record["status"], record["detail"]) == ("error", "TransientError")
    assert "Storage was away." in record["reason"]


def test_an_unexpected_error_is_committed_once_while_other_models_go_on(
    folder, instead_of_audits, caplog
):
    clone_model(Lake(str(folder / "lake")), "broken")
    write_settings(folder, ["broken", "good"])
    attempts = []

    def breaks(lake, day, requests, **more):
        attempts.append(requests[0].model)
        if requests[0].model == "broken":
            raise ZeroDivisionError("Nobody thought of this.")
        return made_up(lake, day, requests, **more)

    instead_of_audits(breaks)
    with pytest.raises(AuditsFailedError, match="broken") as caught:
        night(folder)

    assert sorted(attempts) == ["broken", "good"]
    error = caught.value
    assert error.models == ["broken"]
    assert [(row.model, row.status) for row in error.rows] == [
        ("broken", "error"),
        ("good", "evaluated"),
    ]
    assert code_of(error.rows) == 3
    audits = committed(folder).sort("model")
    assert audits["status"].to_list() == ["error", "evaluated"]
    assert audits["detail"].to_list()[0] == "ZeroDivisionError"
    # A library's message may quote the data: the record names its kind, the log has the message.
    assert audits["reason"][0] == (
        "The audit ended with ZeroDivisionError: its message is in the run's log."
    )
    assert "Nobody thought of this." in caplog.text


@pytest.mark.usefixtures("_made_up")
def test_a_commit_that_fails_at_first_is_tried_again(folder, monkeypatch):
    commit, attempts = Warehouse.commit, []

    def loses_once(self, records):
        attempts.extend(record.audit.audit_id for record in records)
        if len(attempts) == 1:
            raise TransientError("Other writers kept winning.")
        return commit(self, records)

    monkeypatch.setattr(Warehouse, "commit", loses_once)
    (row,) = night(folder)
    assert attempts == [row.audit_id] * 2
    assert committed(folder)["status"].to_list() == ["evaluated"]


def test_a_record_that_cannot_be_stored_is_an_error_and_costs_no_other_its_own(
    folder, instead_of_audits
):
    lake = Lake(str(folder / "lake"))
    clone_model(lake, "broken")
    for day in (EVE, DAY):
        edit_manifest(lake, "broken", day, dataset="flights")  # one task, one batch
    write_settings(folder, ["broken", "good"])

    def spoiled(_lake, day, requests, **_):
        many = {"broken": 1 << 70}
        yield [evaluated(one.model, day, records=many.get(one.model, 1)) for one in requests]

    instead_of_audits(spoiled)
    with pytest.raises(AuditsFailedError, match="broken") as caught:
        night(folder)
    assert [(row.model, row.status) for row in caught.value.rows] == [
        ("broken", "error"),
        ("good", "evaluated"),
    ]
    audits = committed(folder).sort("model")
    assert audits["status"].to_list() == ["error", "evaluated"]


def test_a_failed_night_survives_pickling():
    error = AuditsFailedError(["a", "b"], [AuditRow.model_construct(status=Status.ERROR)])
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (back.models, len(back.rows), str(back)) == (["a", "b"], 1, str(error))


@pytest.mark.usefixtures("_made_up")
def test_what_fails_after_a_commit_puts_no_error_beside_the_record(folder, monkeypatch):
    """A server that did not take a slot back left an error beside each committed record."""

    @contextlib.contextmanager
    def failing(_):
        yield
        raise RuntimeError("The slot is gone.")

    monkeypatch.setattr(flows.run.auditing, "slot", failing)
    (row,) = night(folder)
    assert row.status is Status.EVALUATED
    assert committed(folder)["status"].to_list() == ["evaluated"]


@pytest.mark.usefixtures("_made_up")
def test_a_record_that_could_not_be_announced_is_told_and_kept(folder, monkeypatch):
    def refused(*_, **__):
        raise TerminalError("The statements are damaged.")

    monkeypatch.setattr(flows.run.auditing, "announce", refused)
    with pytest.raises(AlertsUndeliveredError, match=r"The statements are damaged\.") as told:
        night(folder)
    assert [row.status for row in told.value.rows] == [Status.EVALUATED]
    assert committed(folder)["status"].to_list() == ["evaluated"]
