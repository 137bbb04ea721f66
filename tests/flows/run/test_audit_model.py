"""One audit at a terminal: where no Prefect server stands, the same record without one."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

import flows.run.audit_model
import flows.run.auditing
from flows.notify.prefect_context import in_prefect
from flows.run.audit_model import PlanOverrides, audit_model, audit_now
from flows.run.conclusion import AuditsFailedError
from privcore.exceptions import TransientError
from tests.support.lake import DAY, figures, write_settings
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse


@pytest.fixture
def settings(
    template: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Return settings of a small lake, whose audits are done in this process."""
    shutil.copytree(template.uri, tmp_path / "lake")
    here = contextlib.nullcontext(InProcess())
    monkeypatch.setattr(flows.run.audit_model, "choose_executor", lambda *_: here)
    monkeypatch.setattr(flows.run.auditing, "_PAUSES", (0.0, 0.0, 0.0))
    return write_settings(tmp_path, ["good"])


@pytest.fixture
def without_prefect(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No server is named, and whoever asks for a client, or would start a server, fails."""

    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("Prefect's server was asked for")

    monkeypatch.setattr("prefect.client.orchestration.get_client", asked)
    monkeypatch.setattr("prefect.get_client", asked)
    monkeypatch.setattr("prefect.server.api.server.SubprocessASGIServer.start", asked)
    monkeypatch.setattr("prefect.events.utilities.EventsWorker.instance", asked)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        yield


def now(settings: pathlib.Path, **plan: Any) -> AuditRow:
    (row,) = audit_now("good", DAY, PlanOverrides(**plan), str(settings))
    return row


def stored(settings: pathlib.Path, row: AuditRow) -> dict[str, Any]:
    """Return all that is stored of an audit but when, and how often, it was committed."""
    whole = figures(Warehouse(str(settings.parent / "warehouse")).record(row.audit_id))
    del whole["audit"]["revision"], whole["audit"]["record_digest"]
    return whole


@pytest.mark.usefixtures("without_prefect")
def test_where_no_server_stands_none_is_started(settings: pathlib.Path) -> None:
    row = now(settings, seed=5)
    assert (row.status, row.seed) == ("evaluated", 5)
    assert not in_prefect()
    assert (settings.parent / "report" / "index.html").exists()


def test_the_record_is_the_one_of_the_flow(
    settings: pathlib.Path,
    prefect_server: None,  # noqa: ARG001
    tmp_path: pathlib.Path,
) -> None:
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        alone = stored(settings, now(settings))
    shutil.rmtree(tmp_path / "warehouse")
    carried: list[bool] = []

    def flow(**given: Any) -> list[AuditRow]:
        carried.append(True)
        return audit_model(**given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flows.run.audit_model, "audit_model", flow)
        row = now(settings)  # a server is named: Prefect carries it
    assert carried == [True]
    assert stored(settings, row) == alone


@pytest.mark.usefixtures("without_prefect")
@pytest.mark.parametrize("failures", [0, 1, 3, 4])
def test_what_may_go_away_is_tried_four_times(
    settings: pathlib.Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """As often as the task is by Prefect; then the failure is the record."""
    left, played = iter(range(failures)), flows.run.auditing.run_audits
    attempts: list[int] = []

    def away(*given: Any, **more: Any) -> Any:
        attempts.append(flows.run.auditing._attempt.get())
        if next(left, None) is not None:
            raise TransientError("Storage was away.")
        yield from played(*given, **more)

    monkeypatch.setattr(flows.run.auditing, "run_audits", away)
    if failures < 4:
        assert now(settings).status == "evaluated"
    else:
        with pytest.raises(AuditsFailedError) as failed:
            now(settings)
        (row,) = failed.value.rows
        assert (row.status, row.reason_code) == ("error", "TransientError")
    assert attempts == list(range(1, min(failures, 3) + 2))


@pytest.mark.usefixtures("without_prefect")
def test_what_fails_outside_of_the_audit_is_a_record_too(
    settings: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> Any:
        raise ZeroDivisionError("no slot")

    monkeypatch.setattr(flows.run.auditing, "slot", broken)
    with pytest.raises(AuditsFailedError) as failed:
        now(settings)
    (row,) = failed.value.rows
    assert (row.status, row.reason_code) == ("error", "ZeroDivisionError")
