"""Flows at a terminal: where no Prefect server stands, the same records without one."""

import threading

import pytest
from prefect import flow, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

import flows.run.audit_requests
import flows.run.auditing
import flows.run.nightly
from flows.run import runs
from flows.run.conclusion import AuditsFailedError
from flows.run.nightly import PlanOverrides, audit_model, backfill, nightly_audit
from flows.run.runs import start
from tests.support.lake import DAY, EVE, clone_model, write_settings
from workers.audit.record import failed_record
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("without_prefect")


@pytest.fixture
def settings(twins, in_process):  # noqa: ARG001
    """Return settings of a small lake of two models, whose audits are done in this process."""
    return twins


@pytest.fixture
def without_prefect(monkeypatch):
    """No server is named, and whoever asks for a client, or would start a server, fails."""

    def asked(*_, **__):
        raise AssertionError("Prefect's server was asked for")

    for door in (
        "prefect.client.orchestration.get_client",
        "prefect.get_client",
        "prefect.server.api.server.SubprocessASGIServer.start",
        "prefect.events.utilities.EventsWorker.instance",
    ):
        monkeypatch.setattr(door, asked)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        yield


def now(settings, **plan):
    given = {"model": "good", "day": DAY, "plan": PlanOverrides(**plan)}
    (row,) = start(audit_model, **given, settings=str(settings))
    return row


@flow
def prefect_is_named(settings: None) -> bool:  # noqa: ARG001  # as every flow has
    """Return whether a flow believes that a server stands."""
    return bool(PREFECT_API_URL.value())


@pytest.mark.slow
def test_what_fails_outside_of_the_audit_is_a_record_too(settings, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("no slot")

    monkeypatch.setattr(flows.run.auditing, "slot", broken)
    with pytest.raises(AuditsFailedError) as failed:
        now(settings)
    (row,) = failed.value.rows
    assert (row.status, row.detail) == ("error", "ZeroDivisionError")


@pytest.mark.usefixtures("no_pages")
def test_a_night_and_a_backfill_need_no_server(settings):
    where = {"settings": str(settings)}
    rows = start(backfill, first=EVE, last=EVE, **where)
    assert [(row.day, row.model) for row in rows] == [(EVE, "good"), (EVE, "twin")]
    night = start(nightly_audit, day=DAY, **where)
    assert [(row.model, row.status) for row in night] == [
        ("good", "evaluated"), ("twin", "evaluated"),
    ]  # fmt: skip
    assert start(backfill, first=DAY, last=DAY, **where) == []


@pytest.mark.parametrize("url", ["http://someone:secret@127.0.0.1:9/api", "no address"])
def test_a_server_that_is_away_is_left_out_with_one_warning(monkeypatch, caplog, url):
    monkeypatch.setattr("prefect.get_client", get_client)
    with temporary_settings({PREFECT_API_URL: url}):
        assert start(prefect_is_named, settings=None) is False
    (said,) = caplog.messages
    assert "does not answer" in said
    assert "PREFECT_API_URL" in said
    assert "secret" not in said


@pytest.mark.slow
def test_audits_on_other_labels_run_at_once_and_no_more_than_the_settings_say(
    settings, instead_of_audits
):
    met, held, most = threading.Barrier(2, timeout=60), [0], [0]
    played = flows.run.audit_requests.run_batches

    def together(*given, **more):
        held[0] += 1
        most[0] = max(most[0], held[0])
        met.wait()
        yield from played(*given, **more)
        met.wait()
        held[0] -= 1

    instead_of_audits(together)
    for name in ("third", "fourth"):
        clone_model(Lake(str(settings.parent / "lake")), name)
    names = ["good", "twin", "third", "fourth"]
    write_settings(settings.parent, names, more="[night]\nconcurrency = 2\n")
    rows = start(nightly_audit, day=DAY, settings=str(settings))
    assert [row.status for row in rows] == ["evaluated"] * 4
    assert most == [2]


@pytest.mark.parametrize("as_record", [False, True])
def test_who_asks_it_to_stop_leaves_no_record_of_a_failure(
    settings, monkeypatch, instead_of_audits, as_record
):
    """As on Ray, which is gone by the time that the audit's thread hears of it."""
    begun, gone, over = threading.Event(), threading.Event(), threading.Event()

    def lost(*_, **__):
        begun.set()
        gone.wait(60)
        over.set()
        error = ValueError("Ray was shut down")
        if as_record:
            yield [failed_record("good", DAY, plan=Plan(), error=error)]
        raise error

    def interrupted(*_):
        begun.wait(60)
        raise KeyboardInterrupt

    instead_of_audits(lost)
    monkeypatch.setattr(flows.run.nightly, "gather", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(nightly_audit, day=DAY, models=["good"], settings=str(settings))
    assert runs.stopped()
    gone.set()
    assert over.wait(60)
    for thread in threading.enumerate():
        if thread.name.startswith("audit "):
            thread.join(60)
    assert Warehouse(str(settings.parent / "warehouse")).current().is_empty()
