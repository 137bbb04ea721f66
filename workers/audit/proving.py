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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from privcore.attacks import generator
from privcore.exceptions import TransientError, is_failure
from privcore.lower_bounds import Grid, read_evidence
from workers.audit.declaration import claim_of, held_against
from workers.audit.exact_statement import statement_row
from workers.audit.judge import Grounds
from workers.audit.record import evaluated_record, failed_record, known_without_labels
from workers.audit.request import Inputs, Request
from workers.audit.scanned_night import ScannedNight
from workers.exceptions import NotEvaluableError
from workers.labels.columns import other_words
from workers.labels.shards import Partition
from workers.lake.layout import Lake
from workers.scan.label_pass import Scan
from workers.scan.partial_results import ByGame, PartialResult
from workers.sources.secrets import without_models
from workers.warehouse.schema import AuditRecord, Status

_TOGETHER = 4
"""Audits of one task: fewer cost more for tasks, more leave workers idle at the end."""


@dataclass(frozen=True, slots=True)
class Proved:
    """The record of one audit, and what its caller logs of errors that are not the input's."""

    record: AuditRecord
    unexpected: tuple[str, ...]


def prove(audits: Sequence[Inputs], scan: Scan) -> Iterator[Proved]:
    """Yield the records of audits that shared one pass, in their order.

    They are made where the pass left what it counted, and model files stay here. A record depends
    on its own audit alone: not on who computes it, or beside which others.

    Raises:
        TransientError: storage or workers kept failing.
    """
    items = [
        (number, dataclasses.replace(inputs, source=without_models(inputs.source)))
        for number, inputs in enumerate(audits)
    ]
    tasks = [items[first : first + _TOGETHER] for first in range(0, len(items), _TOGETHER)]
    found = scan.total.map(_prove_some, (scan.shared.lake, scan.shared.partition), tasks)
    made = sorted(itertools.chain.from_iterable(found), key=operator.itemgetter(0))
    return (proved for _, proved in made)


def _prove_some(
    place: tuple[Lake, Partition],
    results: ByGame[PartialResult],
    some: Sequence[tuple[int, Inputs]],
) -> list[tuple[int, Proved]]:
    words = functools.partial(other_words, *place)
    proved = []
    for number, inputs in some:
        result = results.parts[number].beside(place[1].left_out)
        proved.append((number, _proved(inputs, ScannedNight(inputs.game, result, words))))
    return proved


def _proved(inputs: Inputs, night: ScannedNight) -> Proved:
    """Return the record of what was scanned, whatever it came to, and its statement."""
    unexpected: list[str] = []
    request, day = inputs.request, inputs.source.day

    def told(sentence: str, error: BaseException) -> None:
        unexpected.append("\n".join([sentence, *traceback.format_exception(error)]).strip())

    try:
        record = evaluated_record(_grounds(inputs, night))
    except BaseException as error:  # noqa: BLE001  # a failed audit is a record too
        record = failure_record(request, day, error)
        if record.audit.status is Status.ERROR:
            told(f"The audit of {request.model} for {day} failed.", error)
    if record.audit.status is not Status.EVALUATED:
        known = known_without_labels(inputs, night.result, record.audit.audit_id)
        record = record.model_copy(update={"audit": record.audit.model_copy(update=known)})
    try:
        row = statement_row(record.audit.audit_id, inputs, night)
    except NotEvaluableError:
        row = None
    except Exception as error:  # the exact record is there, and says what failed in it
        if not is_failure(error):
            raise
        told(f"The statement of {request.model} for {day} failed.", error)
        row = None
    if row is not None:
        record = record.model_copy(update={"statements": (row,)})
    return Proved(record, tuple(unexpected))


def _grounds(inputs: Inputs, night: ScannedNight) -> Grounds:
    source, plan = inputs.source, inputs.plan
    tallies, arms = night.compared()
    privacy = held_against(source, plan, night.result)
    evidence = read_evidence(
        tallies,
        claim=claim_of(privacy, plan),
        choice=Grid(plan.fractions),
        paper_delta=plan.delta,
        random=generator(plan.seed, source.model, str(source.day), "border"),
        proxy_doubtful=arms is not None and arms.doubtful,
        with_power=True,
    )
    return Grounds(inputs, night.result, tallies, privacy, evidence, arms)


def failure_record(request: Request, day: dt.date, error: BaseException) -> AuditRecord:
    """Return the record of a failure; what may go away, and a request to stop, are raised again."""
    if isinstance(error, TransientError) or not is_failure(error):
        raise error
    given = request.external_inputs
    return failed_record(
        request.model,
        day,
        plan=request.plan,
        error=error,
        source=None if given is None else given.to_json(),
        trust=request.trust,
    )
