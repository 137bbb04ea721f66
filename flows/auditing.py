"""The task `audit`, which every flow that audits submits: one model, one day, one record.

Flows differ in what they audit and when; how an audit runs, commits, tells and fails is here.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import prefect
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.alerts import Event, alert_of, emit, tell
from flows.artifacts import progress_bar
from flows.settings import Settings
from flows.webhook import WebhookError
from privcore.exceptions import TransientError
from workers.audit import Request, run_audits
from workers.executors import Executor, OnRay
from workers.lake import Lake
from workers.records import AuditRecord, AuditRow, Status
from workers.rows import failed_record
from workers.warehouse import Warehouse

LIMIT = "privaudit-audits"
"""Name of the global concurrency limit; its size is `night.concurrency`."""
RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=32)
"""Only how many tasks may wait for a slot of the limit in one flow run."""
_LEASE = 60.0
"""Seconds after which the slot of a run that was killed is free again."""
_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One audit to do; `overrides` are plan fields that win over the settings."""

    model: str
    day: dt.date
    overrides: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A committed audit; `untold` says why its alert could not be delivered, if it could not."""

    row: AuditRow
    untold: str | None = None


def _may_go_away(_task: Any, _run: Any, state: Any) -> bool:
    try:
        state.result()
    except TransientError:
        return True
    except Exception:  # noqa: BLE001  # whatever else it is, trying again cannot help
        return False
    return False


@prefect.task(
    name="audit",
    task_run_name="audit {job.model} {job.day}",
    retries=_RETRIES,
    retry_delay_seconds=[2, 10, 30],
    retry_jitter_factor=0.5,
    retry_condition_fn=_may_go_away,
    persist_result=False,
)
def audit_one(job: Job, settings: Settings, executor: OnRay) -> Audited:
    """Audit one model on one day, commit the record and tell whom it concerns.

    Raises:
        TransientError: what failed may go away; Prefect tries again.
    """
    with concurrency(LIMIT, lease_duration=_LEASE):
        try:
            record = _audit_and_commit(job, settings, executor)
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001  # a failed audit is a record too
            prefect.get_run_logger().exception("The audit of %s for %s failed.", job.model, job.day)
            record = error_record(job, settings, error)
            Warehouse(settings.warehouse).commit(record)
    return Audited(record.audit, _tell(record.audit, settings))


def _audit_and_commit(job: Job, settings: Settings, executor: Executor) -> AuditRecord:
    """Audit one model and commit its record, before its finished shards are swept."""
    warehouse = Warehouse(settings.warehouse)
    request = Request(
        job.model,
        settings.plan_of(job.model, job.overrides),
        warehouse.previous_fraction(job.model, job.day),
    )
    with progress_bar(f"{job.model} {job.day}") as advance:
        for record in run_audits(
            Lake(settings.lake),
            job.day,
            [request],
            executor=executor,
            staging=f"{settings.warehouse}/_staging",
            progress=advance,
        ):
            warehouse.commit(record)
    return record


def _tell(row: AuditRow, settings: Settings) -> str | None:
    """Tell what a committed row has to tell; returns why that could not be delivered."""
    if row.status is Status.EVALUATED:
        emit(Event.EVALUATED, row.model, row.day, payload={"verdict": row.verdict})
    alert = alert_of(row, settings)
    if alert is not None:
        try:
            tell(alert, settings)
        except WebhookError as error:
            prefect.get_run_logger().error("%s", error)  # no traceback: one sentence
            return str(error)
    return None


def ensure_limit(settings: Settings) -> None:
    """Give the global concurrency limit the size that the settings say."""
    with (
        prefect.get_client(sync_client=True) as client,
        suppress(ObjectAlreadyExists),  # another run has just made it
    ):
        client.upsert_global_concurrency_limit_by_name(LIMIT, settings.night.concurrency)


def gather(
    futures: Sequence[tuple[Job, PrefectFuture[Audited]]], settings: Settings
) -> list[Audited]:
    """Wait for audits and return them in the order given.

    An audit that kept failing is committed as an error here.
    """
    gathered = []
    for job, future in futures:
        outcome = future.result(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            record = error_record(job, settings, outcome)
            Warehouse(settings.warehouse).commit(record)
            outcome = Audited(record.audit, _tell(record.audit, settings))
        gathered.append(outcome)
    return gathered


def error_record(job: Job, settings: Settings, error: BaseException) -> AuditRecord:
    """Return the record of an audit that ended with an error that is not its input's."""
    return failed_record(
        job.model,
        job.day,
        plan=settings.plan_of(job.model, job.overrides),
        status=Status.ERROR,
        reason_code=type(error).__name__,
        reason=f"The audit ended with {type(error).__name__}: {error}",
    )
