"""One audit, from lake to record: find the inputs, fan out, merge, read the evidence."""

import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from privcore.lower_bounds.question import Secret
from workers.audit.accounting import accounted_epsilon
from workers.audit.file_labels import with_files
from workers.audit.proving import failure_record, prove
from workers.audit.released_night import released_night
from workers.audit.request import Inputs, Request
from workers.exceptions import NotEvaluableError, Reason, too_late
from workers.executors import DeadlinePassedError, Executor, Result, before_deadline
from workers.labels.shards import Partition
from workers.lake.layout import Lake
from workers.lake.manifest import guarantee_of
from workers.lake.places import check_uri, local_path
from workers.plan import Plan
from workers.scan.label_pass import log_event, scan_labels
from workers.scan.partial_results import LabelPass
from workers.sources.checkpoints.checkpoint_source import find_checkpoints
from workers.sources.checkpoints.in_place import InPlace, find_in_place
from workers.sources.join_context import JoinContext
from workers.sources.scores.supplied import ExternalInputs, SuppliedScores, find_scores
from workers.sources.secrets import checkpoints_of, source_of
from workers.sources.source import Source
from workers.warehouse.schema import AuditRecord, Status

_MANY_BYTES, _FEWEST_MODELS, _MOST_MODELS = 24 << 20, 8, 16
"""Models that share one read of the labels: as many as have files of so many bytes together, but
never fewer or more. Each file is in memory several times: here, twice in Ray's store, and in
workers, which also hold 8 MB of counts for each model."""
_log = logging.getLogger(__name__)


def run_batches(
    lake: Lake,
    day: dt.date,
    requests: Iterable[Request],
    *,
    executor: Executor,
    staging: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    deadline: dt.datetime | None = None,
) -> Iterator[list[AuditRecord]]:
    """Audit several models on one day; those on the same labels share one read of them.

    Labels whose audits take longest come first. A model's record does not depend on the others.
    Many models are audited group by group, and the labels are read once for each group: memory
    follows the largest group, whatever the number of models.

    Args:
        lake: where checkpoints and labels are.
        day: the audited day.
        requests: the models and their plans.
        executor: that does the work; no number depends on it.
        staging: path or URI where rows of joined tables lie until all is done.
        progress: called after each work unit of a partition with how many are done, and how many
            there are.
        deadline: after it, what is not done is not evaluable.

    Yields:
        The records to commit together, those of one read of labels; in all one for each request.
        Bad input does not raise: it gives a record with the status `not_evaluable` and the reason.
        Nor does an unexpected error in reading one model's evidence, which gives a record with the
        status `error`.
    """
    if local_path(lake.uri) is None:
        check_uri(lake.uri)  # no one model's fault
    requests = list(requests)
    released = [one for one in requests if one.plan.secret is Secret.RELEASED]
    requests = [one for one in requests if one.plan.secret is not Secret.RELEASED]
    if released:
        yield list(_logged(_released_nights(day, released, executor, deadline)))
    for unread, group in _groups(lake, day, requests, deadline):
        if unread:
            yield unread
        with contextlib.ExitStack() as made:
            joining = JoinContext(executor, made, staging, deadline)
            yield from _audit_group(group, day, joining, progress)
        del group  # its model files, before those of the next one are read


def _released_nights(
    day: dt.date, requests: Sequence[Request], executor: Executor, deadline: dt.datetime | None
) -> Iterator[AuditRecord]:
    """Yield the records of released labels; of those that are not done at the deadline, too."""
    done: list[AuditRecord] = []
    try:
        executor.fold(_told, day, requests, on_done=done.append, deadline=deadline)
    except DeadlinePassedError:
        known = {record.audit.model for record in done}
        for request in (one for one in requests if one.model not in known):
            before = (
                f"the released labels of {request.model} were compared: see whether their storage "
                "is slow, or begin earlier"
            )
            done.append(_failed(request, day, too_late(deadline, before)))
    yield from done


def _told(day: dt.date, request: Request) -> tuple[AuditRecord, int]:
    """Return a record as what is told of an item, and nothing to add."""
    return released_night(day, request), 0


def _audit_group(
    group: Sequence[Inputs],
    day: dt.date,
    joining: JoinContext,
    progress: Callable[[int, int], None] | None,
) -> Iterator[list[AuditRecord]]:
    """Yield the records of a group's models, those of one read of labels together."""
    listed, failures = _locate(group, day, joining)
    if failures:
        yield failures
    listed.sort(key=lambda found: (-found[1].bytes * len(found[2]), found[1].dataset))
    for root, partition, audits in listed:
        games = {number: inputs.game for number, inputs in enumerate(audits)}
        try:
            scan = scan_labels(
                LabelPass(root, partition, games),
                executor=joining.executor,
                progress=progress,
                deadline=joining.deadline,
            )
        except NotEvaluableError as error:
            failed = (_failed(inputs.request, day, error) for inputs in audits)
            yield list(_logged(failed))
            continue
        where = (root, partition)
        proved = list(with_files(prove(audits, scan), audits, where, joining.executor))
        for sentence in (each for one in proved for each in one.unexpected):
            _log.error("%s", sentence)  # the log of the worker that met it is not the run's
        yield list(_logged(one.record for one in proved))


def _groups(
    lake: Lake, day: dt.date, requests: Iterable[Request], deadline: dt.datetime | None
) -> Iterator[tuple[list[AuditRecord], list[Inputs]]]:
    """Yield the failures and the inputs of groups of requests; each group is read when asked for.

    Models whose night lies in tables are one group, since joining tables again costs more.
    """
    failures: list[AuditRecord] = []
    group: list[Inputs] = []
    size = 0
    for request in sorted(requests, key=lambda one: one.external_inputs is None):
        full = len(group) >= _MOST_MODELS or (size >= _MANY_BYTES and len(group) >= _FEWEST_MODELS)
        if full and request.external_inputs is None:
            yield failures, group
            failures, group, size = [], [], 0
        try:
            group.append(_in_time(request, deadline, partial(find_inputs, lake, day, request)))
        except BaseException as error:  # noqa: BLE001  # a failed audit is a record too
            failures.append(_failed(request, day, error))
        else:
            models = checkpoints_of(group[-1].source)
            size += 0 if models is None else models.model_bytes
    yield failures, group


def run_audit(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    executor: Executor,
    external_inputs: ExternalInputs | None = None,
    digest_key: bytes = b"",
) -> AuditRecord:
    """Audit one model on one day: the simple form of `run_batches`, with the same record."""
    request = Request(model, plan, external_inputs=external_inputs, digest_key=digest_key)
    ((record,),) = run_batches(lake, day, [request], executor=executor)
    return record


def _locate(
    group: Iterable[Inputs], day: dt.date, joining: JoinContext
) -> tuple[list[tuple[Lake, Partition, list[Inputs]]], list[AuditRecord]]:
    """Return the label partitions with the audits that share them, and the records of failures."""
    together: dict[str, list[Inputs]] = {}
    for inputs in group:
        together.setdefault(inputs.source.labels_key(), []).append(inputs)
    listed, failures = [], []
    for audits in together.values():
        request, source, also = audits[0].request, audits[0].source, audits[0].game.plan_columns
        try:
            find = partial(source.find_partition, joining=joining, also=also)
            # Joining tables is the executor's work, which ends at the deadline itself.
            in_lake = request.external_inputs is None
            found = _in_time(request, joining.deadline, find) if in_lake else find()
        except BaseException as error:  # noqa: BLE001
            failures += [_failed(inputs.request, day, error) for inputs in audits]
        else:
            listed.append((*found, audits))
    return listed, failures


def _in_time(
    request: Request, deadline: dt.datetime | None, action: Callable[[], Result]
) -> Result:
    """Return what storage answers before the deadline."""
    try:
        return before_deadline(deadline, action)
    except DeadlinePassedError:
        before = (
            f"the model files of {request.model} were read and its labels listed: see whether its "
            "storage is slow, or begin earlier"
        )
        raise too_late(deadline, before) from None


def _logged(records: Iterable[AuditRecord]) -> Iterator[AuditRecord]:
    for record in records:
        audit = record.audit
        fields = {
            "event": "audit_done",
            "model": audit.model,
            "day": str(audit.day),
            "audit_id": audit.audit_id,
            "status": str(audit.status),
            "verdict": str(audit.verdict),
        }
        log_event(_log, fields)
        yield record


def _failed(request: Request, day: dt.date, error: BaseException) -> AuditRecord:
    """Return the record of a failure; what may go away, and a request to stop, are raised again."""
    record = failure_record(request, day, error)
    if record.audit.status is Status.ERROR:
        _log.error("The audit of %s for %s failed.", request.model, day, exc_info=error)
    return record


def find_inputs(lake: Lake, day: dt.date, request: Request) -> Inputs:
    """Return all that an audit reads but the labels, checked.

    Raises:
        NotEvaluableError: something is missing, does not fit, or declares less than it accounts
            for.
    """
    source = source_of(_found(lake, day, request), request.plan)
    accounted = accounted_epsilon(guarantee_of(source.privacy), where=source.declared_in)
    return Inputs(request, source, accounted)


def _found(lake: Lake, day: dt.date, request: Request) -> Source:
    external_inputs, plan = request.external_inputs, request.plan
    if external_inputs is not None and plan.days > 1:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The plan of {request.model} has days = {plan.days}, which works only with labels in "
            "the lake. The audit of a table uses the rows of one day: leave days out.",
        )
    if isinstance(external_inputs, SuppliedScores):
        return find_scores(request.model, day, external_inputs)
    if isinstance(external_inputs, InPlace):
        return find_in_place(
            lake, external_inputs, request.model, day, plan=plan, declared=request.declared
        )
    return find_checkpoints(
        lake,
        request.model,
        day,
        plan=plan,
        dataset=request.dataset,
        declared=request.declared,
        days=request.days,
    )
