"""Records from a pass's counts, made in workers, so that the caller holds records alone.

What is counted of one model takes 8 MB (of 877 rows 0.5 MB where it is pickled), its record 32 kB
(2026-11-25). So each task reads the counts of some models where the pass left them, and answers
with records.
"""

import dataclasses
import datetime as dt
import functools
import itertools
import operator
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from privcore.attacks import ArmsComparison, LabelFit, Tallies, generator
from privcore.attacks.known_labels import proxy_sentence
from privcore.exceptions import TransientError, is_failure
from privcore.lower_bounds import Grid, Secret, read_evidence
from workers.audit.declaration import claim_of, held_against
from workers.audit.exact_statement import with_statement
from workers.audit.judge import Grounds
from workers.audit.record import (
    Inputs,
    error_record,
    evaluated_record,
    failed_record,
    known_without_labels,
)
from workers.audit.request import Request
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import SPLIT, other_words
from workers.labels.shards import Partition
from workers.lake.layout import Lake
from workers.looks.listed import check_looks
from workers.plan import Plan
from workers.scan.label_pass import Scan
from workers.scan.partial_results import Game, PartialResult, PartialResults
from workers.sources.secrets import without_models
from workers.sources.source import Source
from workers.warehouse.schema import AuditRecord, Status

_TOGETHER = 4
"""Audits of one task: fewer cost more for tasks, more leave workers idle at the end."""


@dataclass(frozen=True, slots=True)
class Proved:
    """The record of one audit.

    Attributes:
        record: whatever the audit came to.
        unexpected: what the caller logs of errors that are not the input's, with their traceback.
    """

    record: AuditRecord
    unexpected: tuple[str, ...]


_Item = tuple[int, Request, Inputs]
"""One audit: the number of its game in the pass, what was asked for, and what was read."""


def prove(
    audits: Sequence[tuple[Request, Inputs]], scan: Scan, *, root: Lake, partition: Partition
) -> Iterator[Proved]:
    """Yield the records of audits that shared one pass, in their order.

    They are made where the pass left what it counted, and model files stay here. A record depends
    on its own audit alone: not on who computes it, or beside which others.

    Raises:
        TransientError: storage or workers kept failing.
    """
    items: list[_Item] = []
    for number, (request, inputs) in enumerate(audits):
        without = dataclasses.replace(inputs, source=without_models(inputs.source))
        items.append((number, request, without))
    tasks = [items[first : first + _TOGETHER] for first in range(0, len(items), _TOGETHER)]
    found = scan.total.map(_prove_some, (root, partition), tasks)
    made = sorted(itertools.chain.from_iterable(found), key=operator.itemgetter(0))
    return (proved for _, proved in made)


def _prove_some(
    counted: tuple[tuple[Lake, Partition], PartialResults], some: Sequence[_Item]
) -> list[tuple[int, Proved]]:
    """Return records with their numbers."""
    (root, partition), results = counted
    words = functools.partial(other_words, root, partition)
    proved = []
    for number, request, inputs in some:
        result = results.parts[number].beside(partition.left_out)
        proved.append((number, _proved(request, inputs, result, partition, words=words)))
    return proved


def _proved(
    request: Request,
    inputs: Inputs,
    result: PartialResult,
    partition: Partition,
    *,
    words: Callable[[], str],
) -> Proved:
    """Return the record of what was scanned, whatever it came to, and its statement."""
    unexpected: list[str] = []
    day = partition.day

    def told(sentence: str, error: BaseException) -> None:
        unexpected.append("\n".join([sentence, *traceback.format_exception(error)]).strip())

    game = Game(inputs.source, request.plan)
    counted = functools.cache(functools.partial(countable, game, result, day))
    try:
        record = _evaluated(game, request, day, inputs, result, counted=counted, words=words)
    except BaseException as error:  # noqa: BLE001  # a failed audit is a record too
        record = failure_record(request, day, error)
        if record.audit.status is Status.ERROR:
            told(f"The audit of {request.model} for {day} failed.", error)
    if record.audit.status is not Status.EVALUATED:
        known = known_without_labels(inputs, request.plan, result, record.audit.audit_id)
        record = record.model_copy(update={"audit": record.audit.model_copy(update=known)})
    if result.unread_labels:
        counted = functools.cache(functools.partial(countable, game, result.in_public(), day))
    record = with_statement(record, inputs, result, request, counted=counted, told=told)
    return Proved(record, tuple(unexpected))


def failure_record(request: Request, day: dt.date, error: BaseException) -> AuditRecord:
    """Return the record of a failure; what may go away, and a request to stop, are raised again."""
    if isinstance(error, TransientError) or not is_failure(error):
        raise error
    if not isinstance(error, NotEvaluableError):
        return error_record(request.model, day, plan=request.plan, error=error, trust=request.trust)
    return failed_record(
        request.model,
        day,
        plan=request.plan,
        why=error.reason,
        reason=str(error),
        source=None if request.external_inputs is None else request.external_inputs.to_json(),
        trust=request.trust,
    )


def _evaluated(
    game: Game,
    request: Request,
    day: dt.date,
    inputs: Inputs,
    result: PartialResult,
    *,
    counted: Callable[[], Tallies],
    words: Callable[[], str],
) -> AuditRecord:
    """Return the record of an audit that came to figures.

    Raises:
        NotEvaluableError: what was scanned allows none.
    """
    source, plan = game.source, game.plan
    tallies, arms = check_result(game, result, day, counted=counted, words=words)
    privacy = held_against(source, plan, result)
    evidence = read_evidence(
        tallies,
        claim=claim_of(privacy, plan),
        choice=Grid(plan.fractions),
        paper_delta=plan.delta,
        random=generator(plan.seed, source.model, str(source.day), "border"),
        proxy_doubtful=arms is not None and arms.doubtful,
        with_power=True,
    )
    read = dataclasses.replace(inputs, labels_digest=result.content.hexdigest(request.digest_key))
    return evaluated_record(read, Grounds(source, plan, result, tallies, privacy, evidence, arms))


def check_scanned(
    game: Game, result: PartialResult, counted: Callable[[], Tallies], *, words: Callable[[], str]
) -> Tallies:
    """Return what was scanned, once it is enough to be read; else `words` may say why it is not.

    `counted` returns what `countable` does.

    Raises:
        NotEvaluableError: too many records are bad, or too few are good, in either arm; or a look
            says that no figure would be right.
    """
    result.bad.check(game.plan.max_bad_records)
    try:
        tallies = counted()
    except NotEvaluableError as error:
        left_out = words() if result.excluded_records and SPLIT in game.source.columns else ""
        raise NotEvaluableError(error.reason, f"{error.sentence}{left_out}") from None
    check_looks(result.findings(game.source, game.plan))
    return tallies


def countable(game: Game, result: PartialResult, day: dt.date) -> Tallies:
    """Return what was scanned, once there are enough records, whatever their labels are.

    Raises:
        NotEvaluableError: too few records are good, in either arm, or a look says that none count.
    """
    check_looks(result.findings(game.source, game.plan), before_counting=True)
    tallies = game.tallies(result, day)
    _check_units_in_both_splits(tallies, game, result)
    _check_records(tallies, game.plan, game.source.where_rows_are(result.excluded_records))
    return tallies


def _check_units_in_both_splits(tallies: Tallies, game: Game, result: PartialResult) -> None:
    """Refuse a holdout of too few persons, where those who are missing have training rows too."""
    plan, control, both = game.plan, tallies.control_game.records, game.units_in_both_splits(result)
    if not both or control >= plan.minimum_control_records:
        return
    advice = f"hold out all rows of a person in {plan.privacy_unit!r}, or none."
    if control == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT,
            f"All of the holdout's {both:,} persons have rows in training too, so no person is "
            f"left to compare with: {advice}",
        )
    raise NotEvaluableError(
        Reason.TOO_FEW_HELD_OUT,
        f"{both:,} of the holdout's {both + control:,} persons have rows in training too, which "
        f"leaves {control:,}, fewer than minimum_control_records, {plan.minimum_control_records}: "
        f"{advice}",
    )


def _check_records(tallies: Tallies, plan: Plan, advice: str) -> None:
    training, control = tallies.game.records, tallies.control_game.records
    if plan.secret is Secret.MEMBERSHIP:  # its games are of pairs
        training, control = tallies.odds[0].records, tallies.control_odds[0].records
    if training < plan.minimum_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{training} training records are fewer than minimum_records, {plan.minimum_records}. "
            f"{advice}",
        )
    if control == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT, f"No row was held out: hold some rows out of training. {advice}"
        )
    if control < plan.minimum_control_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_HELD_OUT,
            f"{control} holdout records are fewer than minimum_control_records, "
            f"{plan.minimum_control_records}. {advice}",
        )
    if not (tallies.game.records and tallies.control_game.records):
        raise NotEvaluableError(
            Reason.TOO_FEW_HELD_OUT,
            "No training record has a holdout record whose label is about as likely under the "
            "earlier model, so no pair can be made: hold out more records.",
        )


def check_result(
    game: Game,
    result: PartialResult,
    day: dt.date,
    *,
    counted: Callable[[], Tallies],
    words: Callable[[], str] = lambda: "",
) -> tuple[Tallies, ArmsComparison | None]:
    """Return what was counted of one model, once it may be read, and how its arms compare.

    The comparison is None where nothing rests on it.

    Raises:
        NotEvaluableError: too few records, a proxy that knows the labels, or arms that
            chance did not divide.
    """
    source, plan = game.source, game.plan
    tallies = check_scanned(game, result, counted, words=words)
    arms = _compare_arms(source, tallies, plan)
    # Sampling by labels looks like a proxy that knows those of training: base rates come first.
    if not source.proxy_is_earlier and not (arms is not None and arms.differ and not arms.leans):
        _check_proxy(game.proxy_fits(result), day)
    if arms is not None and arms.differ:
        place = arms.place if tallies.labels is not None else 1
        raise NotEvaluableError(
            Reason.ARMS_DIFFER, arms.sentence(repr(source.label.classes[place]))
        )
    return tallies, arms


def _check_proxy(fits: Sequence[tuple[LabelFit, LabelFit]], day: dt.date) -> None:
    """Refuse a proxy that knows training labels: what it knows would be taken for the target's."""
    if sentence := proxy_sentence(fits, str(day)):
        raise NotEvaluableError(Reason.PROXY_SAW_THE_DAY, sentence)


def _compare_arms(source: Source, tallies: Tallies, plan: Plan) -> ArmsComparison | None:
    """Return how the arms compare (E1); None where nothing rests on it."""
    if plan.secret is Secret.MEMBERSHIP:
        return None
    return tallies.compare_arms(generator(plan.seed, source.model, str(source.day), "arms"))
