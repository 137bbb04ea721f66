"""The task `audit`, which every flow that audits submits: models of one day that share labels.

They share one read of the labels; each has a record of its own. Flows differ in what they audit and
when; how audits run, commit, alert and fail is here.
"""

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import prefect
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.failures import without_data
from flows.notify.alerts import deliver_all
from flows.notify.events import Event, at_commit
from flows.notify.incidents import Incident, incidents_before
from flows.notify.prefect_context import best_effort, log_failure, run_log
from flows.run import runs
from flows.run.audit_requests import as_asked, batches
from flows.run.night_plan import Job, Planned
from flows.settings import Settings
from privcore.exceptions import AuditError, TerminalError, TransientError, is_failure
from privcore.lower_bounds.question import Secret
from privcore.lower_bounds.verdicts import Verdict
from workers.audit.record import failed_record
from workers.executors import Executor, LostWorkerError
from workers.memory import return_freed_memory
from workers.warehouse.nights_together import commit_nights
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.store import Warehouse

RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=32)
"""Limit only of the tasks that may wait for a slot in one flow run."""
_STARTS = 3


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit.

    Attributes:
        event: of the record alone, if it has one.
        undelivered: why that was not delivered, if it was not.
        uncommitted: why its record could not be committed, if it could not.
    """

    row: AuditRow
    event: Event | None = None
    undelivered: str | None = None
    uncommitted: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """Audits that share one task; `outcome` waits for what they came to, or why they failed."""

    jobs: tuple[Job, ...]
    outcome: Callable[[], list[Audited] | BaseException]


_done: dict[tuple[str, ...], AuditRow | Audited] = {}
"""Records of this run by model, day and secret, and what was announced of them: failing after a
commit is no second record."""


def begin(settings: Settings) -> None:
    """Say how many audits run at once; refuse a run that could only fail.

    Raises:
        TerminalError: an automation has started this run more than three times, or what is
            found could not be committed.
    """
    return_freed_memory()
    _done.clear()
    # None outside of a flow, 1 at the first start.
    starts = flow_run.run_count or 1
    if starts > _STARTS:
        raise TerminalError(
            f"This run was started {starts} times and crashed each time before: see the worker's "
            "logs for why (memory, mostly), then start a run anew."
        )
    Warehouse(settings.warehouse).check_place()
    set_limit(settings.night.concurrency)


def submit(planned: Sequence[Planned], settings: Settings, executor: Executor) -> list[Submitted]:
    """Submit audits of one day, those on the same labels as one task, and longest first."""
    together: dict[Any, list[Planned]] = {}
    for each in planned:
        together.setdefault(each.shares, []).append(each)
    longest_first = sorted(
        together.values(), key=lambda group: -sum(each.label_bytes for each in group)
    )
    return [
        Submitted(
            tuple(each.job for each in group),
            runs.submit(audit, _title(group), tuple(group), settings, executor),
        )
        for group in longest_first
    ]


def gather(submitted: Sequence[Submitted], settings: Settings) -> list[Audited]:
    """Wait for audits and return each once; what kept failing is committed as an error here."""
    gathered = []
    for group in submitted:
        outcome = group.outcome()
        if isinstance(outcome, BaseException):
            outcome = [
                audited for job in group.jobs for audited in _commit_errors(job, settings, outcome)
            ]
        gathered += outcome
    return list({_identity(one.row): one for one in gathered}.values())


def _commit_errors(job: Job, settings: Settings, error: BaseException) -> Iterator[Audited]:
    """Commit that a job's audits failed, those of all secrets but the ones that have a record."""
    for plan in settings.plans_of(job.model, job.overrides):
        trust = settings.model_named(job.model).mode(released=plan.secret is Secret.RELEASED)
        record = failed_record(job.model, job.day, plan=plan, error=error, trust=trust)
        known = _done.get(_identity(record.audit))
        if isinstance(known, AuditRow):
            known = Audited(known, undelivered=without_data(error))
        yield known or _commit_error(record, job, settings)


def _commit_error(record: AuditRecord, job: Job, settings: Settings) -> Audited:
    """Commit that an audit failed; where even that fails, say so and go on with the others."""
    try:
        (audited,) = _commit([record], {job.model: job}, settings)
    except BaseException as failure:
        if not is_failure(failure):
            raise
        log_failure(failure, "The record of %s is lost.", job.model)
        return Audited(record.audit, uncommitted=without_data(failure))
    return audited


def _title(planned: Sequence[Planned]) -> str:
    return f"{', '.join(each.job.model for each in planned)} {planned[0].job.day}"


@prefect.task(name="audit", task_run_name="audit {title}", persist_result=False, **runs.RETRIES)
def audit(
    title: str, planned: tuple[Planned, ...], settings: Settings, executor: Executor
) -> list[Audited]:
    """Audit models of one day and deadline, commit each record as it comes, and alert.

    Raises:
        TransientError: what failed may go away: it is tried again.
    """
    with slot(settings.night.concurrency):
        return list(_audited(planned, settings, executor, title))


def _audited(
    planned: tuple[Planned, ...], settings: Settings, executor: Executor, title: str
) -> Iterator[Audited]:
    """Audit together; where that fails, one of them may have broken what they share: each alone.

    Raises:
        TransientError: it may go away, and is tried again.
    """
    done: Counter[str] = Counter()
    jobs = {each.job.model: each.job for each in planned}
    try:
        for records in batches(planned, settings, executor, title):
            runs.go_on()  # what ends with this process may have come to a record
            for audited in _commit(records, jobs, settings):
                yield audited
                done[audited.row.model] += 1
    except BaseException as error:
        may_go_away = isinstance(error, TransientError) and not isinstance(error, LostWorkerError)
        again = runs.stopped() or (may_go_away and not runs.last_attempt())
        if again or not is_failure(error):
            raise
        # What a model has of its records already is committed again, to one record.
        rest = [
            each
            for each in planned
            if done[each.job.model] < len(settings.plans_of(each.job.model, each.job.overrides))
        ]
        if len(planned) > 1:
            for each in rest:
                yield from _audited((each,), settings, executor, title)
            return
        log_failure(error, "The audit of %s failed.", _title(planned))
        for each in rest:
            yield from _commit_errors(each.job, settings, error)


def _commit(
    records: Sequence[AuditRecord], jobs: Mapping[str, Job], settings: Settings
) -> Iterator[Audited]:
    """Commit records together, with who asked for them; then alert one by one."""
    told = [as_asked(record, jobs[record.audit.model], settings) for record in records]
    warehouse = Warehouse(settings.warehouse)
    commit_nights(warehouse, told)
    _done.update((_identity(record.audit), record.audit) for record in told)
    withdrawn = warehouse.withdrawn(record.audit.audit_id for record in told)
    for record in told:
        audited = announce(record, settings, withdrawn=record.audit.audit_id in withdrawn)
        _done[_identity(record.audit)] = audited
        yield audited


def _identity(row: AuditRow) -> tuple[str, str, str]:
    """Return an audit's model, day and secret: a run has one record of each."""
    return row.model, str(row.day), row.secret


def announce(record: AuditRecord, settings: Settings, *, withdrawn: bool) -> Audited:
    """Deliver the event of a committed record, if it has one."""
    row = record.audit
    if withdrawn:
        run_log().warning("An audit of %s was withdrawn: nobody is notified.", row.model)
        return Audited(row)
    event = at_commit(row, _incident(row, settings), settings)
    undelivered = deliver_all([] if event is None else [event], settings)
    return Audited(row, event, undelivered=undelivered[0] if undelivered else None)


def _incident(row: AuditRow, settings: Settings) -> Incident:
    """Return the incident before a night that refutes its declaration; a new one in doubt."""
    if row.verdict != Verdict.VIOLATED or row.exploratory:
        return Incident()
    try:
        return incidents_before(Warehouse(settings.warehouse), [row])[row.audit_id]
    except AuditError as error:
        log_failure(error, "Earlier nights of %s cannot be read.", row.model)
        return Incident()


LIMIT = "privaudit-audits"
"""Name of the global concurrency limit; its size is `night.concurrency`."""
_LEASE = 60.0
"""Seconds after which a standing server frees the slot of a run that was killed."""


def set_limit(number: int) -> None:
    """Give the standing server's global concurrency limit its size, if there is such a server."""
    if _stands():
        with (
            prefect.get_client(sync_client=True) as client,
            suppress(ObjectAlreadyExists),  # another run has just made it
        ):
            client.upsert_global_concurrency_limit_by_name(LIMIT, number)


@contextmanager
def slot(number: int) -> Iterator[None]:
    """Hold one of `number` slots, and wait for it: of a standing server's limit or this process's.

    A slot that a server does not take back is free after a minute: its audit is done, and did not
    fail.

    Raises:
        TransientError: the standing server gave no slot, as while it starts again.
    """
    held = ExitStack()
    try:
        held.enter_context(concurrency(LIMIT, lease_duration=_LEASE) if _stands() else _own(number))
    except ConcurrencySlotAcquisitionError as error:
        raise TransientError(
            f"Prefect's server gave no slot of {LIMIT} ({error}): see whether it runs, then "
            "try again."
        ) from error
    try:
        yield
    finally:
        with best_effort("a slot that is free again"):
            held.close()


def _stands() -> bool:
    return bool(PREFECT_API_URL.value())


@functools.cache
def _own(number: int) -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(number)
