"""The task `audit`, which every flow that audits submits: models of one day that share labels.

They share one read of the labels; each has a record of its own. Flows differ in what they audit and
when; how audits run, commit, alert and fail is here.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import prefect
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.notify.alerts import Event, alert_of, deliver, emit
from flows.notify.artifacts import progress_bar
from flows.notify.webhook import WebhookError
from flows.progress import Advance
from flows.run.readiness import dataset_of, label_bytes
from flows.settings import Settings
from privcore.exceptions import TerminalError, TransientError
from workers.audit.record import error_record, failed_record
from workers.audit.run import Request, run_audits
from workers.exceptions import Reason
from workers.executors import Executor, OnRay
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord, AuditRow, Status
from workers.warehouse.store import Warehouse

LIMIT = "privaudit-audits"
"""Name of the global concurrency limit; its size is `night.concurrency`."""
RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=32)
"""Only how many tasks may wait for a slot of the limit in one flow run."""
_LEASE = 60.0
"""Seconds after which the slot of a run that was killed is free again."""
_RETRIES = 3
_STARTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One audit to do.

    `overrides` are plan fields that win over the settings; after the `deadline`, what is not done
    is not evaluable.
    """

    model: str
    day: dt.date
    overrides: Mapping[str, Any] | None = None
    deadline: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A committed audit; `undelivered` says why its alert was not delivered, if it was not."""

    row: AuditRow
    undelivered: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """Audits that share one task."""

    jobs: tuple[Job, ...]
    future: PrefectFuture[list[Audited]]


def begin(settings: Settings) -> None:
    """Give the global concurrency limit its size; refuse a run that has crashed again and again.

    Raises:
        TerminalError: an automation has started this run more than three times.
    """
    # None outside of a flow, 1 at the first start.
    starts = flow_run.run_count or 1
    if starts > _STARTS:
        raise TerminalError(
            f"This run was started {starts} times and crashed each time before: see the worker's "
            "logs for why (memory, mostly), then start a run anew."
        )
    with (
        prefect.get_client(sync_client=True) as client,
        suppress(ObjectAlreadyExists),  # another run has just made it
    ):
        client.upsert_global_concurrency_limit_by_name(LIMIT, settings.night.concurrency)


def submit(jobs: Sequence[Job], settings: Settings, executor: OnRay) -> list[Submitted]:
    """Submit audits of one day, those on the same labels as one task, and longest first."""
    lake = Lake(settings.lake)
    together: dict[tuple[str, dt.datetime | None], list[Job]] = {}
    sizes: dict[tuple[str, dt.datetime | None], int] = {}
    for job in jobs:
        dataset = dataset_of(lake, job.model, job.day)
        # A model whose labels are not known yet shares nothing with anybody.
        key = (dataset or f"of {job.model}", job.deadline)
        if key not in together:
            sizes[key] = 0 if dataset is None else label_bytes(lake, dataset, job.day)
        together.setdefault(key, []).append(job)
    longest_first = sorted(together, key=lambda key: -sizes[key] * len(together[key]))
    return [
        Submitted(tuple(group), audit.submit(_title(group), tuple(group), settings, executor))
        for group in (together[key] for key in longest_first)
    ]


def gather(submitted: Sequence[Submitted], settings: Settings) -> list[Audited]:
    """Wait for audits and return them; what kept failing is committed as an error here."""
    gathered = []
    for group in submitted:
        outcome = group.future.result(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            outcome = [
                _commit(_error_record(job, settings, outcome), settings) for job in group.jobs
            ]
        gathered += outcome
    return gathered


def _error_record(job: Job, settings: Settings, error: BaseException) -> AuditRecord:
    plan = settings.plan_of(job.model, job.overrides)
    return error_record(job.model, job.day, plan=plan, error=error)


def _title(jobs: Sequence[Job]) -> str:
    return f"{', '.join(job.model for job in jobs)} {jobs[0].day}"


def may_go_away(_task: Any, _run: Any, state: Any) -> bool:
    """Tell Prefect whether a task that failed is worth another try: of transient errors alone."""
    try:
        state.result()
    except TransientError:
        return True
    except Exception:  # noqa: BLE001  # whatever else it is, trying again cannot help
        return False
    return False


@prefect.task(
    name="audit",
    task_run_name="audit {title}",
    retries=_RETRIES,
    retry_delay_seconds=[2, 10, 30],
    retry_jitter_factor=0.5,
    retry_condition_fn=may_go_away,
    persist_result=False,
)
def audit(title: str, jobs: tuple[Job, ...], settings: Settings, executor: OnRay) -> list[Audited]:
    """Audit models of one day and deadline, commit each record as it comes, and alert.

    Raises:
        TransientError: what failed may go away; Prefect tries again.
    """
    with concurrency(LIMIT, lease_duration=_LEASE), progress_bar(title) as advance:
        return list(_audited(jobs, settings, executor, advance))


def _audited(
    jobs: tuple[Job, ...], settings: Settings, executor: Executor, advance: Advance
) -> Iterator[Audited]:
    done: list[str] = []
    try:
        for record in _records(jobs, settings, executor, advance):
            yield _commit(record, settings)
            done.append(record.audit.model)
    except TransientError:
        raise
    except Exception as error:  # noqa: BLE001  # a failed audit is a record too
        rest = tuple(job for job in jobs if job.model not in done)
        if len(jobs) > 1:
            # One of them broke the pass that they share: each is tried alone.
            for job in rest:
                yield from _audited((job,), settings, executor, advance)
            return
        prefect.get_run_logger().exception("The audit of %s failed.", _title(jobs))
        for job in rest:
            yield _commit(_error_record(job, settings, error), settings)


def _records(
    jobs: tuple[Job, ...], settings: Settings, executor: Executor, advance: Advance
) -> Iterator[AuditRecord]:
    lake = Lake(settings.lake)
    requests = []
    for job in jobs:
        plan = settings.plan_of(job.model, job.overrides)
        refused = _refused(job, settings, lake)
        if refused is None:
            requests.append(Request(job.model, plan))
        else:
            yield failed_record(
                job.model,
                job.day,
                plan=plan,
                status=Status.NOT_EVALUABLE,
                reason_code=Reason.MANIFEST_INVALID,
                reason=refused,
            )
    staging = f"{settings.warehouse}/_staging"
    yield from run_audits(
        lake,
        jobs[0].day,
        requests,
        executor=executor,
        staging=staging,
        progress=advance,
        deadline=jobs[0].deadline,
    )


def _refused(job: Job, settings: Settings, lake: Lake) -> str | None:
    """Return why the manifest's dataset is refused: it is not the one that the settings allow."""
    wanted = settings.model_named(job.model).dataset
    named = None if wanted is None else dataset_of(lake, job.model, job.day)
    if named is None or named == wanted:
        return None
    return (
        f"The manifest of {job.model} for {job.day} names the dataset {named}, the settings allow "
        f"{wanted} alone: change one of them."
    )


def _commit(record: AuditRecord, settings: Settings) -> Audited:
    """Commit a record, then deliver its alert, if it has one."""
    warehouse = Warehouse(settings.warehouse)
    warehouse.commit(record)
    row = record.audit
    if warehouse.withdrawal(row.audit_id) is not None:
        prefect.get_run_logger().warning("%s was withdrawn: nobody is told.", row.audit_id)
        return Audited(row)
    if row.status is Status.EVALUATED:
        emit(Event.EVALUATED, row.model, row.day, payload={"verdict": row.verdict})
    alert = alert_of(row, settings)
    if alert is not None:
        try:
            deliver(alert, settings)
        except WebhookError as error:
            prefect.get_run_logger().error("%s", error)  # no traceback: one sentence
            return Audited(row, str(error))
    return Audited(row)
