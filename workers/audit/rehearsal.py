"""An audit tried before it counts: the same readers and the same rules, and no record."""

import contextlib
import dataclasses
import datetime as dt
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from workers.audit.declaration import other_unit
from workers.audit.request import Request
from workers.audit.run import find_inputs, run_batches
from workers.audit.scanned_night import ScannedNight
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.labels.columns import other_words
from workers.labels.parquet import read_footer
from workers.labels.shards import Partition, Piece, WorkUnit
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.scan.label_pass import scan_labels
from workers.scan.partial_results import Game, LabelPass
from workers.sources.join_context import JoinContext
from workers.sources.source import Source
from workers.warehouse.schema import Status

_SMALL = 1 << 24
"""Bytes up to which a day is read whole: a sample would not be quicker."""
_FILES = 3
"""Number of files that a sample is taken of: the first, the last and those between."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Result of a rehearsal.

    Attributes:
        training: records that training saw, of those that were read.
        whole: whether all of the day was read.
        units_in_both_splits: of the privacy units that were sampled, those in the holdout that have
            training rows too, and so are no control.
        other_unit: why the declaration is not held against the bound; "" where it is.
    """

    training: int
    holdout: int
    whole: bool
    source: Source
    units_in_both_splits: int
    other_unit: str


def rehearse(lake: Lake, day: dt.date, request: Request, *, whole: bool = False) -> Rehearsal:
    """Do what an audit does, on a sample of the day's row groups or on all of them.

    On a sample, what needs a minimum of records or compares means is not judged: an audit may still
    be refused for these. A small day is read whole. Nothing is committed.

    Raises:
        NotEvaluableError: the audit would be refused; the reason and the sentence are its own.
    """
    found = _on_a_sample(find_inputs(lake, day, request).source, request.plan)
    if not whole:
        return found
    ((record,),) = run_batches(lake, day, [request], executor=InProcess())
    audit = record.audit
    if audit.status is not Status.EVALUATED:
        raise NotEvaluableError(Reason(audit.detail or Reason.DEADLINE), audit.reason)
    training, holdout = audit.records or 0, audit.control_records or 0
    return dataclasses.replace(found, training=training, holdout=holdout, whole=True)


def _on_a_sample(source: Source, plan: Plan) -> Rehearsal:
    with contextlib.ExitStack() as made:
        joining = JoinContext(InProcess(), made)
        also = Game(source, plan).plan_columns
        root, partition = source.find_partition(joining=joining, also=also)
        all_of_it = partition.bytes <= _SMALL
        if not all_of_it:
            partition = dataclasses.replace(partition, work_units=tuple(_sample(root, partition)))
            plan = plan.model_copy(update={"minimum_records": 1, "minimum_control_records": 1})
        shared = LabelPass(root, partition, {0: Game(source, plan)})
        game, result = scan_labels(shared, executor=InProcess()).of_one_game()
        tallies = ScannedNight(
            game, result, functools.partial(other_words, root, partition)
        ).checked()
    training, holdout = (
        sum(tally.records for tally in odds) for odds in (tallies.odds, tallies.control_odds)
    )
    both, unit = game.units_in_both_splits(result), other_unit(source, plan, result)
    return Rehearsal(training, holdout, all_of_it, source, both, unit)


def _sample(root: Lake, partition: Partition) -> Iterator[WorkUnit]:
    """Yield the first and the last row group of some files."""
    files = partition.files
    places = {round(step * (len(files) - 1) / max(1, _FILES - 1)) for step in range(_FILES)}
    for place in sorted(places):
        name = files[place].name
        try:
            last = len(read_footer(root, partition.path(name)).groups) - 1
        except NotEvaluableError:
            last = 0  # the scan says what is wrong
        yield tuple(Piece(name, first, first + 1) for first in sorted({0, max(0, last)}))
