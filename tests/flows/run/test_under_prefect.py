"""Additions of a Prefect server: attempts, checked parameters, a run's page."""

import collections
import shutil

import prefect
import pytest
from prefect.client.schemas.sorting import FlowRunSort
from prefect.settings import PREFECT_API_URL, temporary_settings

import flows.run.audit_requests
import flows.run.auditing
from flows.failures import without_data
from flows.notify import prefect_context
from flows.notify.prefect_context import in_prefect, log_failure
from flows.run.auditing import LIMIT, audit, set_limit
from flows.run.conclusion import AuditsFailedError
from flows.run.nightly import backfill, nightly_audit
from flows.run.runs import start
from privcore.exceptions import TransientError
from tests.flows.run.test_slots import most_at_once
from tests.support.lake import DAY, figures
from tests.support.warehouse import evaluated
from workers.warehouse.store import Warehouse

pytestmark = [pytest.mark.usefixtures("in_process", "prefect_server"), pytest.mark.slow]


@pytest.fixture
def settings(twins, monkeypatch):
    """Return settings of a lake of two models; what fails is tried again at once."""
    quick = audit.with_options(retry_delay_seconds=0, retry_jitter_factor=None)
    monkeypatch.setattr(flows.run.auditing, "audit", quick)
    return twins


def stored(settings, row):
    """Return all that is stored of an audit but when, and how often, it was committed."""
    whole = figures(Warehouse(str(settings.parent / "warehouse")).record(row.audit_id))
    del whole["audit"]["revision"], whole["audit"]["record_digest"]
    return whole


def test_the_record_is_the_one_without_prefect(settings, monkeypatch, instead_of_audits):
    given = {"day": DAY, "models": ["good"], "settings": str(settings)}
    carried = []
    played = flows.run.audit_requests.run_batches

    def watched(*some, **more):
        carried.append(in_prefect())
        yield from played(*some, **more)

    instead_of_audits(watched)
    # Each warehouse names labels, and audits, under a key of its own.
    monkeypatch.setattr(Warehouse, "digest_key", lambda _: b"of both")
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        (row,) = start(nightly_audit, **given)
    alone = stored(settings, row)
    shutil.rmtree(settings.parent / "warehouse")
    (row,) = start(nightly_audit, **given)  # a server is named: Prefect carries it
    assert carried == [False, True]
    assert stored(settings, row) == alone


def test_a_run_is_named_and_a_new_violation_fails_it_as_teams_expect(
    settings, monkeypatch, instead_of_audits
):
    """Automations on `prefect.flow-run.Failed` hear of it, though its state has another name."""
    refuted = evaluated(
        "good", DAY, verdict="violated", reason_code="this_night", epsilon_lower=0.9
    )
    instead_of_audits(lambda *_, **__: iter([[refuted]]))
    emitted = []
    monkeypatch.setattr(prefect_context, "emit_event", lambda **event: emitted.append(event))
    (row,) = start(nightly_audit, day=DAY, models=["good"], settings=str(settings))
    assert row.verdict == "violated"
    with prefect.get_client(sync_client=True) as client:
        (run, *_) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC)
    assert run.state is not None
    assert (run.name, run.state.name, run.state.is_failed()) == (f"night {DAY}", "Violated", True)
    (event,) = emitted
    assert event["event"] == "prefect.flow-run.Failed"
    assert event["resource"]["prefect.resource.id"] == f"prefect.flow-run.{run.id}"
    assert event["related"][0]["prefect.resource.id"] == f"prefect.flow.{run.flow_id}"


def test_what_may_go_away_is_tried_four_times(settings, instead_of_audits):
    run, tries = flows.run.audit_requests.run_batches, collections.Counter()
    failures = {"good": 2, "twin": 4}

    def away(lake, day, requests, **more):
        (model,) = (one.model for one in requests)
        tries[model] += 1
        if tries[model] <= failures[model]:
            raise TransientError("Storage was away.")
        return run(lake, day, requests, **more)

    instead_of_audits(away)
    with pytest.raises(AuditsFailedError) as failed:
        nightly_audit(day=DAY, settings=str(settings))
    assert tries == {"good": 3, "twin": 4}
    found = {row.model: row.status for row in failed.value.rows}
    assert found == {"good": "evaluated", "twin": "error"}
    stored = Warehouse(str(settings.parent / "warehouse")).scan("audits").collect()
    assert dict(stored.select("model", "status").rows()) == found


def test_a_run_links_the_report_where_it_has_an_address(settings):
    address = "https://reports.example.com/"
    settings.write_text(f'report_url = "{address}"\n{settings.read_text()}')
    given = {"first": DAY, "last": DAY, "settings": str(settings)}
    assert [row.status for row in backfill(**given)] == ["evaluated"] * 2
    done = backfill(**given, return_state=True)
    assert done.message == "0 audits to do. 2 of 2 audits were committed before."
    with prefect.get_client(sync_client=True) as client:
        response = client.request("POST", "/artifacts/filter", json={})
    assert any(address in artifact["data"] for artifact in response.json())


def test_a_standing_server_counts_over_all_runs():
    set_limit(3)
    set_limit(2)
    with prefect.get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(LIMIT).limit == 2
    assert most_at_once(2, 4) == 2
    with prefect.get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(LIMIT).active_slots == 0


def test_prefects_pages_quote_no_label(in_a_run, caplog):
    """A library's words about a label stood in Prefect's log, with the trace, and in its states."""
    error = ValueError("cannot convert 'HIV+'")
    log_failure(error, "The audit of %s failed.", "good")
    assert "HIV+" not in without_data(error)
    (told, _) = caplog.records
    assert (told.name, told.exc_info) == (in_a_run.name, None)
    assert told.getMessage() == (
        "The audit of good failed. ValueError: see the worker's standard error."
    )
    assert "No such file" in without_data(FileNotFoundError(2, "No such file", "report"))
