"""One audit, from lake to record: find the inputs, fan out, merge, read the evidence."""

import contextlib
import dataclasses
import datetime as dt
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from privcore.attacks import ArmsComparison, LabelFit, Tallies, generator
from privcore.attacks.known_labels import advantage
from privcore.exceptions import TransientError, is_failure
from privcore.lower_bounds import Grid, Secret, read_evidence
from workers.audit.accounting import accounted_epsilon
from workers.audit.declaration import claim_of, held_against
from workers.audit.enough import check_scanned, countable
from workers.audit.hints import hint_of
from workers.audit.label_state import check_privatised, label_column_holds
from workers.audit.record import Inputs, error_record, evaluated_record, failed_record
from workers.audit.statement import with_statement
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor
from workers.labels.columns import SPLIT
from workers.labels.shards import WORK_UNIT_BYTES, Partition
from workers.labels.split_words import other_words
from workers.lake.checkpoints import DeclaredManifest
from workers.lake.layout import Lake
from workers.lake.manifest import guarantee_of
from workers.lake.places import check_uri, local_path
from workers.logs import log_event
from workers.plan import Plan
from workers.scan.label_pass import pass_key, scan_labels
from workers.scan.partial_results import Game, LabelPass, PartialResult
from workers.scan.staging import Staging
from workers.sources.checkpoints.checkpoint_source import find_checkpoints
from workers.sources.checkpoints.in_place import InPlace, find_in_place
from workers.sources.external_inputs import ExternalInputs
from workers.sources.join_context import JoinContext
from workers.sources.scores.supplied import SuppliedScores, find_scores
from workers.sources.secrets import source_of
from workers.sources.source import Source
from workers.warehouse.schema import AuditRecord, Status

PROXY_ADVANTAGE = 3.0
"""Standard errors by which a supplied proxy may fit training labels better than the holdout's; by
chance more is seen in one of 740 audits."""

_MANY_BYTES, _FEWEST_MODELS, _MOST_MODELS = 64 << 20, 8, 64
"""Models that share one read of the labels: as many as have files of so many bytes together, but
never fewer or more. Each file is in memory several times: here, in Ray's store and in workers."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """One model to audit, and the plan to audit it by.

    Attributes:
        model: name of its folder in the lake.
        plan: how the game is played.
        dataset: the only label dataset that its manifest may name; any where None.
        declared: its manifest, where that was read before.
        external_inputs: where its night lies, as the settings say; None where all is in the lake.
        days: those whose labels play, where a record says which; else they are looked for.
    """

    model: str
    plan: Plan
    dataset: str | None = None
    declared: DeclaredManifest | None = None
    external_inputs: ExternalInputs | None = None
    days: tuple[dt.date, ...] | None = None


def run_audits(
    lake: Lake,
    day: dt.date,
    requests: Iterable[Request],
    *,
    executor: Executor,
    staging: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    deadline: dt.datetime | None = None,
    work_unit_bytes: int = WORK_UNIT_BYTES,
) -> Iterator[AuditRecord]:
    """Audit several models on one day, and yield their records one by one: see `run_batches`."""
    for batch in run_batches(
        lake,
        day,
        requests,
        executor=executor,
        staging=staging,
        progress=progress,
        deadline=deadline,
        work_unit_bytes=work_unit_bytes,
    ):
        yield from batch


def run_batches(
    lake: Lake,
    day: dt.date,
    requests: Iterable[Request],
    *,
    executor: Executor,
    staging: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    deadline: dt.datetime | None = None,
    work_unit_bytes: int = WORK_UNIT_BYTES,
) -> Iterator[list[AuditRecord]]:
    """Audit several models on one day; those on the same labels share one read of them.

    Labels whose audits take longest come first. A model's record does not depend on the others.
    Many models are audited group by group, and the labels are read once for each group: memory
    follows the largest group, whatever the number of models.

    Args:
        lake: where checkpoints and labels are.
        day: the audited day.
        requests: the models and their plans.
        executor: who does the work; no number depends on it.
        staging: path or URI where finished work units are kept until the caller has committed the
            records, so that a driver that starts again does not repeat them. It is swept when the
            caller asks for the batch after that of one label partition. A pass in which privacy
            units play keeps nothing. Rows of joined tables lie there until all is done.
        progress: called after each work unit of a partition with how many are done, and how many
            there are.
        deadline: after it, what is not done is not evaluable.
        work_unit_bytes: how much of the labels one task takes; no number depends on it.

    Yields:
        The records to commit together, those of one read of labels; in all one for each request.
        Bad input does not raise: it gives a record with the status `not_evaluable` and the reason.
        Nor does an unexpected error in reading one model's evidence, which gives a record with the
        status `error`.

    Raises:
        TransientError: storage or a worker failed in a way that may go away.
        TerminalError: the lake's URI holds a credential.
    """
    if local_path(lake.uri) is None:
        check_uri(lake.uri)  # no one model's fault
    for unread, group in _groups(lake, day, requests):
        if unread:
            yield unread
        with contextlib.ExitStack() as made:
            joining = JoinContext(executor, made, staging, deadline)
            listed, failures = _locate(_together(group), day, work_unit_bytes, joining)
            if failures:
                yield failures
            listed.sort(key=lambda found: (-found[1].bytes * len(found[2]), found[1].dataset))
            for root, partition, audits in listed:
                games = tuple(Game(one.source, request.plan) for request, one in audits)
                shared = LabelPass(root, partition, games)
                # What is kept of a privacy unit is one of its records: nothing to write down.
                personal = any(game.plan.privacy_unit is not None for game in games)
                key = pass_key(shared)
                area = None if staging is None or personal else Staging(staging, key)
                try:
                    results = scan_labels(
                        shared,
                        executor=executor,
                        staging=area,
                        progress=progress,
                        deadline=deadline,
                    )
                except NotEvaluableError as error:
                    # What is staged stays, for whoever goes on after the deadline.
                    records = (_failed(request, day, error) for request, _ in audits)
                    yield list(_logged(key, records, in_public=shared.in_public))
                    continue
                words = functools.partial(other_words, root, partition)
                records = (
                    _record(request, day, inputs, result, words=words)
                    for (request, inputs), result in zip(audits, results.parts, strict=True)
                )
                yield list(_logged(key, records, in_public=shared.in_public))
                if area is not None:
                    area.sweep()


def _groups(
    lake: Lake, day: dt.date, requests: Iterable[Request]
) -> Iterator[tuple[list[AuditRecord], list[tuple[Request, Inputs]]]]:
    """Yield the failures and the inputs of groups of requests; each group is read when asked for.

    Models whose night lies in tables are one group, since joining tables again costs more.
    """
    supplied: list[Request] = []
    in_lake: list[Request] = []
    for request in requests:
        (in_lake if request.external_inputs is None else supplied).append(request)
    failures: list[AuditRecord] = []
    group: list[tuple[Request, Inputs]] = []
    size = 0
    for request in (*supplied, *in_lake):
        full = len(group) >= _MOST_MODELS or (size >= _MANY_BYTES and len(group) >= _FEWEST_MODELS)
        if full and request.external_inputs is None:
            yield failures, group
            failures, group, size = [], [], 0
        try:
            inputs = find_inputs(lake, day, request)
        except BaseException as error:  # noqa: BLE001  # a failed audit is a record too
            failures.append(_failed(request, day, error))
        else:
            group.append((request, inputs))
            size += inputs.source.model_bytes
    yield failures, group


def _together(group: Sequence[tuple[Request, Inputs]]) -> list[list[tuple[Request, Inputs]]]:
    """Return requests by the labels that they share."""
    together: dict[str, list[tuple[Request, Inputs]]] = {}
    for request, inputs in group:
        together.setdefault(inputs.source.labels_key(), []).append((request, inputs))
    return list(together.values())


def run_audit(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    executor: Executor,
    external_inputs: ExternalInputs | None = None,
    days: tuple[dt.date, ...] | None = None,
) -> AuditRecord:
    """Audit one model on one day: the simple form of `run_audits`, with the same record."""
    request = Request(model, plan, external_inputs=external_inputs, days=days)
    (record,) = run_audits(lake, day, [request], executor=executor)
    return record


def _locate(
    together: Iterable[list[tuple[Request, Inputs]]],
    day: dt.date,
    work_unit_bytes: int,
    joining: JoinContext,
) -> tuple[list[tuple[Lake, Partition, list[tuple[Request, Inputs]]]], list[AuditRecord]]:
    """Return the label partitions with the audits that share them, and the records of failures."""
    listed, failures = [], []
    for audits in together:
        request, inputs = audits[0]
        also = Game(inputs.source, request.plan).plan_columns
        try:
            found = inputs.source.find_partition(
                work_unit_bytes=work_unit_bytes, joining=joining, also=also
            )
        except BaseException as error:  # noqa: BLE001
            failures += [_failed(request, day, error) for request, _ in audits]
        else:
            listed.append((*found, audits))
    return listed, failures


def _logged(key: str, records: Iterable[AuditRecord], *, in_public: bool) -> Iterator[AuditRecord]:
    """Log what a pass came to; in public nothing that labels change: no id or verdict."""
    for record in records:
        audit = record.audit
        fields = {
            "event": "audit_done",
            "model": audit.model,
            "day": str(audit.day),
        }
        if not in_public:
            fields |= {
                "pass": key,
                "audit_id": audit.audit_id,
                "status": str(audit.status),
                "verdict": str(audit.verdict),
            }
        log_event(_log, fields)
        yield record


def _record(
    request: Request,
    day: dt.date,
    inputs: Inputs,
    result: PartialResult,
    *,
    words: Callable[[], str],
) -> AuditRecord:
    """Return the record of what was scanned, whatever it came to, and its statement."""
    game = Game(inputs.source, request.plan)
    counted = functools.cache(functools.partial(countable, game, result, day))
    record = _exact_record(request, day, inputs, result, counted=counted, words=words)
    return with_statement(record, inputs, result, request.plan, counted=counted)


def _exact_record(
    request: Request,
    day: dt.date,
    inputs: Inputs,
    result: PartialResult,
    *,
    counted: Callable[[], Tallies],
    words: Callable[[], str],
) -> AuditRecord:
    plan = request.plan
    try:
        game = Game(inputs.source, plan)
        tallies = check_scanned(game, result, counted, words=words)
        if not inputs.source.proxy_is_earlier:
            _check_proxy(game.proxy_fits(result), day)
        _check_decoys(inputs.source, tallies, result, plan)
        arms = _check_arms(inputs.source, tallies, plan)
        privacy = held_against(inputs.source, plan, result)
        evidence = read_evidence(
            tallies,
            claim=claim_of(privacy, plan),
            choice=Grid(plan.fractions),
            paper_delta=plan.delta,
            random=generator(plan.seed, request.model, str(day), "border"),
            standing_significance=plan.standing_significance,
            proxy_doubtful=arms is not None and arms.doubtful,
            with_power=True,
        )
        read = dataclasses.replace(inputs, labels_digest=result.content.hexdigest())
        if plan.secret is Secret.LABEL:
            check_privatised(inputs.source, tallies, plan)
        holds = label_column_holds(inputs.source, tallies, plan)
        hint = hint_of(inputs.source, tallies, evidence, holds, privacy=privacy, plan=plan)
        return evaluated_record(
            read, evidence, result, plan=plan, arms=arms, label_column_holds=holds, hint=hint
        )
    except BaseException as error:  # noqa: BLE001
        return _failed(request, day, error)


def _failed(request: Request, day: dt.date, error: BaseException) -> AuditRecord:
    """Return the record of a failure; what may go away, and a request to stop, are raised again."""
    if isinstance(error, TransientError) or not is_failure(error):
        raise error
    if not isinstance(error, NotEvaluableError):
        _log.error("The audit of %s for %s failed.", request.model, day, exc_info=error)
        return error_record(request.model, day, plan=request.plan, error=error)
    return failed_record(
        request.model,
        day,
        plan=request.plan,
        status=Status.NOT_EVALUABLE,
        reason_code=error.reason,
        reason=str(error),
        source=None if request.external_inputs is None else request.external_inputs.to_json(),
    )


def find_inputs(lake: Lake, day: dt.date, request: Request) -> Inputs:
    """Return all that an audit reads but the labels, checked.

    Raises:
        NotEvaluableError: something is missing, does not fit, or declares less than it accounts
            for.
        TransientError: storage kept failing.
    """
    source = source_of(_found(lake, day, request), request.plan)
    accounted = accounted_epsilon(guarantee_of(source.privacy), where=source.declared_in)
    return Inputs(source, None, accounted)


def _found(lake: Lake, day: dt.date, request: Request) -> Source:
    """Return where a model's night comes from."""
    external_inputs, plan = request.external_inputs, request.plan
    if external_inputs is not None and plan.days > 1:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The plan of {request.model} has days {plan.days}, which is for labels in the lake: "
            "of a table's rows the audited day alone plays, so leave days out.",
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


def _check_proxy(fits: Sequence[tuple[LabelFit, LabelFit]], day: dt.date) -> None:
    """Refuse a proxy that knows training labels: what it knows would be taken for the target's."""
    found = advantage(fits)
    if found > PROXY_ADVANTAGE:
        training, control = (sum(side, start=LabelFit()) for side in zip(*fits, strict=True))
        raise NotEvaluableError(
            Reason.PROXY_SAW_THE_DAY,
            f"The proxy knows labels of {day}: it gives those of training records the mean "
            f"probability {training.mean:.4f}, those of holdout records {control.mean:.4f}, "
            f"{found:.1f} standard errors apart. The proxy must be a model that was trained before "
            "that day; and hold records out at random.",
        )


def _check_arms(source: Source, tallies: Tallies, plan: Plan) -> ArmsComparison | None:
    """Refuse arms that chance did not divide: no comparison of them says anything (E1).

    Returns how the arms compare; None where nothing rests on it.
    """
    if tallies.decoys is not None or plan.secret is Secret.MEMBERSHIP:
        return None
    found = tallies.compare_arms(generator(plan.seed, source.model, str(source.day), "arms"))
    if found.differ:
        place = found.place if tallies.labels is not None else 1
        sentence = found.sentence(repr(source.label.classes[place]))
        raise NotEvaluableError(Reason.ARMS_DIFFER, sentence)
    return found


def _check_decoys(source: Source, tallies: Tallies, result: PartialResult, plan: Plan) -> None:
    """Refuse decoys that are not those of the commitment, or too few.

    Where there are decoys no other record decides: a single one would end every other test.
    """
    if source.decoys is None or tallies.decoys is None:
        return
    if result.committed.hexdigest() != source.decoys.commitment:
        raise NotEvaluableError(
            Reason.DECOYS_CHANGED,
            f"The decoys that {source.model} was trained with for {source.day} are not those of "
            f"the manifest's commitment: labels, {source.decoys.column!r} and {SPLIT!r} must stay "
            "as privaudit decoys wrote them.",
        )
    if not tallies.decoys.records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"No training record has two different labels in {source.label.column!r} and "
            f"{source.decoys.column!r}: draw more decoys.",
        )
    if tallies.decoys.records < plan.minimum_control_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{tallies.decoys.records} decoys with two different labels are fewer than "
            f"minimum_control_records, {plan.minimum_control_records}: draw more decoys, or leave "
            "them out of the manifest.",
        )
