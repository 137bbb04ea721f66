"""Labels that a model's file gives away, beside what its declaration says of them."""

import contextlib
import datetime as dt
import math
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from privcore.attacks.label_sums import conditions, label_sums, trees_read
from privcore.attacks.solved_labels import single_labels
from privcore.exceptions import AuditError, TerminalError, TransientError, is_failure
from privcore.guarantees.accounts import (
    RandomizedResponseAccount,
    RandomizedResponseWithPriorAccount,
    mechanism_from_manifest,
)
from privcore.lower_bounds.applied_response import AppliedResponse, applied_response
from privcore.lower_bounds.verdicts import ReasonCode
from privcore.rounding import down, exact, percent_up, up
from workers.audit.declaration import covers, label_column_holds, names_holder, said_of_labels_in
from workers.audit.proving import Proved
from workers.audit.request import Inputs
from workers.executors import Executor
from workers.labels.columns import batches_of
from workers.labels.parquet import read_footer
from workers.labels.shards import Partition
from workers.lake.checkpoints import as_inputs
from workers.lake.formats import NAMES
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.layout import Lake
from workers.lake.manifest import OF_LABELS, LabelState, Privacy, PrivatisedBy, looked_up
from workers.lake.model_sandbox import read_leaves
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.in_place import InPlace, find_in_place
from workers.sources.join_context import JoinContext
from workers.warehouse.schema import AuditRecord, AuditRow, LabelColumnHolds, Status

_ROWS = 1 << 18
_MOST_VALUES = 40_000_000
"""Features of all training records: 20 bytes of memory for each (2026-11-30)."""


@dataclass(frozen=True, slots=True)
class FileLabels:
    """Labels of training records as a model's file holds them.

    Attributes:
        response: the randomized responses that may have been applied; None if not evaluated.
        are_the_tables: whether every leaf holds the sum of the table's labels.
        trees: whose sums were read.
        why: completes "labels cannot be read from the file: ..."; "" where they can.
        refuted: the epsilon of the declared randomized response, if training read labels that it
            would have changed more.
        holds: which labels the table holds, as its owner says; None where nobody does.
        state: where the owner says it.
        labels: for each training record the features, `true`, which the table has, and `released`,
            which training read; None where the sums leave a label open.
    """

    response: AppliedResponse | None = None
    are_the_tables: bool = False
    trees: int = 0
    why: str = ""
    refuted: float | None = None
    holds: LabelColumnHolds | None = None
    state: str = ""
    labels: pl.DataFrame | None = None

    @property
    def code(self) -> ReasonCode | None:
        """`mechanism_not_applied` where the declared mechanism changed none of the secret labels.

        Too few changes are no proof: responses may have been processed further.
        """
        refuted = self.refuted is not None and self.are_the_tables
        secret = self.holds is LabelColumnHolds.SECRET
        return ReasonCode.MECHANISM_NOT_APPLIED if refuted and secret else None

    @property
    def sentence(self) -> str:
        """What the file gives away, and what follows for the declaration."""
        response = self.response
        if response is None:
            return (
                f"Labels cannot be read from the file by sums of its leaves, because {self.why}. "
                "That does not show that it gives none away."
            )
        said = (
            f"The file gives the exact sum of the training labels in every leaf of {self.trees} "
            f"trees, and {response.read:,} of {response.records:,} single labels."
        )
        if self.are_the_tables:
            said += " All sums are those of the table's labels: the file holds them unchanged."
        elif math.isnan(response.epsilon_low):
            said += (
                " No randomized response of the table's labels explains the sums: training read "
                "other ones, such as another model's answers, or responses that were processed."
            )
        else:
            low, high = response.epsilon_low, response.epsilon_high
            most = "no limit" if math.isinf(high) else up(high)
            said += (
                f" They are of changed labels: randomized response at {down(low)} to {most} (95% "
                f"confidence), which changes at most {percent_up(response.most_changed)} of them."
            )
        return said + self._of_the_declaration

    @property
    def _of_the_declaration(self) -> str:
        """What follows for the declared mechanism, and for which labels the table holds."""
        if not self.are_the_tables and self.holds is LabelColumnHolds.PRIVATISED:
            return f" So training did not read the table's labels: see {self.state}."
        if self.refuted is None:
            return ""
        declared = f"randomized response at the declared {exact(self.refuted)}"
        if not self.are_the_tables:
            return (
                f" That is less than {declared} changes: a weaker one was applied, or its "
                "responses were processed further."
            )
        if self.code is None:
            return (
                f" So {declared} was not applied, or it had made the table's labels before: say "
                f"in {self.state} whether it had."
            )
        return (
            f" So {declared} was not applied. This refutes the declared mechanism, not epsilon-DP "
            "as such."
        )


def read_given(
    given: InPlace, model: str, day: dt.date, *, plan: Plan, executor: Executor
) -> FileLabels:
    """Return what a model file gives away of the rows of a table, before any audit is stored.

    Raises:
        NotEvaluableError: an input is missing, or is not what the model takes.
        TerminalError: no training record has a label.
    """
    source = find_in_place(Lake("."), given, model, day, plan=plan)
    return read_asked(source, plan, executor)


def read_asked(source: CheckpointSource, plan: Plan, executor: Executor) -> FileLabels:
    """Return what the target's file gives away, by the unit of the audit's plan.

    Raises:
        NotEvaluableError: the rows are missing, or are not what the model takes.
        TerminalError: no training record has a label.
    """
    with contextlib.ExitStack() as made:
        where = source.find_partition(joining=JoinContext(executor, made, None, None))
        return _asked(source, plan, *where, one_by_one=True)


def _asked(
    source: CheckpointSource, plan: Plan, root: Lake, partition: Partition, *, one_by_one: bool
) -> FileLabels:
    found = _read(source, plan.privacy_unit, root, partition, one_by_one=one_by_one)
    by_row = plan.privacy_unit is None and not _of_holder(source)
    if by_row or found.response is None or found.are_the_tables:
        return found  # labels that nothing changed are unchanged whoever shares a coin
    why = "a person's labels may share one coin, and the test takes each to have its own"
    return FileLabels(trees=found.trees, why=why)


def with_files(
    proved: Iterable[Proved],
    audits: Sequence[Inputs],
    where: tuple[Lake, Partition],
    executor: Executor,
) -> Iterator[Proved]:
    """Yield records with what their models' files give away, where that tests a declaration.

    So it is where two checkpoints came to figures of labels whose declared mechanism is randomized
    response. A file that cannot be read costs no audit: its record says why.

    Args:
        proved: records, in the order of `audits`.
        audits: what was read, with model files.
        where: the labels' root and partition.
        executor: that does the work; no figure depends on it.

    Raises:
        TransientError: storage or workers kept failing.
    """
    some = list(proved)
    asked = [
        (number, replace(source, proxy=replace(source.proxy, content=b"")), inputs.plan)
        for number, (one, inputs) in enumerate(zip(some, audits, strict=True))
        if one.record.audit.status is Status.EVALUATED
        and isinstance(source := inputs.source, CheckpointSource)
        and _declared_response(source.privacy, source.label_state, len(source.label.classes))
        is not None
    ]
    for number, found, unexpected in executor.map(_read_night, where, asked):
        one = some[number]
        told = (*one.unexpected, *filter(None, [unexpected]))
        some[number] = Proved(_beside_answers(one.record, found), told)
    yield from some


def _read_night(
    where: tuple[Lake, Partition], item: tuple[int, CheckpointSource, Plan]
) -> tuple[int, FileLabels, str]:
    """Return the number of an audit, what the file gives away, and what is logged of an error."""
    number, source, plan = item
    try:
        return number, _asked(source, plan, *where, one_by_one=False), ""
    except BaseException as error:
        if isinstance(error, TransientError) or not is_failure(error):
            raise
        known = isinstance(error, AuditError)
        said = str(error).rstrip(".") if known else f"it ended with {type(error).__name__}"
        why = f"the reading failed: {said}"
        found = FileLabels(why=why)
        return number, found, "" if known else "".join(traceback.format_exception(error))


def _beside_answers(record: AuditRecord, found: FileLabels) -> AuditRecord:
    """Return a record with what the file gives away, which may refute the declared mechanism."""
    row, response = record.audit, found.response
    said: dict[str, Any] = {"file_unread": found.why or None}
    if response is not None:
        low, high = response.epsilon_low, response.epsilon_high
        said |= {
            "file_records": response.records,
            "file_labels_read": response.read,
            "file_epsilon_low": low if math.isfinite(low) else None,
            "file_epsilon_high": high if math.isfinite(high) else None,
        }
    if found.refuted is not None or (response is not None and math.isnan(response.epsilon_low)):
        said["reason"] = f"{row.reason} With the file itself: {found.sentence}"
    if found.code is not None:
        reason = f"{found.sentence} With the model's answers: {row.reason}"
        said |= {"verdict": found.code.verdict, "reason_code": found.code, "detail": None}
        said["reason"] = reason
    return record.model_copy(update={"audit": AuditRow(**dict(row) | said)})


def _of_holder(source: CheckpointSource) -> bool:
    return source.privacy is not None and names_holder(source.privacy.unit)


def _read(
    source: CheckpointSource,
    unit: str | None,
    root: Lake,
    partition: Partition,
    *,
    one_by_one: bool,
) -> FileLabels:
    """Return what the target's file gives away of its training records, and their labels if asked.

    No night stores single labels, and finding them takes a fifth of the reading.
    """
    manifest = source.target.manifest
    if manifest.format == "onnx":
        return FileLabels(why=f"{NAMES[manifest.format]} files hold no leaves")
    rows = _training_rows(source, unit, root, partition)
    if rows is None:
        why = f"the features of its training rows are more than {_MOST_VALUES:,} values"
        return FileLabels(why=why)
    features, labels, together = rows
    described = source.target.described
    words = tuple(looked_up(described.classes)) if described.classes else manifest.label.words
    classes = len(words)
    label = np.array([words.index(word) for word in source.label.words], dtype=np.int64)[labels]
    try:
        ensemble, leaves = read_leaves(
            source.target.content,
            as_inputs(source.target, features),
            form=manifest.format,
            model=manifest.model,
            most=trees_read(len(label), classes),
        )
    except ModelRefusedError as error:
        return FileLabels(why=f"it {error.why}")
    found = label_sums(ensemble, leaves, label)
    if found.why:
        return FileLabels(trees=found.trees, why=found.why)
    columns = [features[each.name].cast(pl.Float64).fill_null(math.nan).to_numpy()
               for each in manifest.features if each.kind != "categorical"]  # fmt: skip
    read = None
    response = applied_response(found, label, conditions=conditions(columns), together=together)
    epsilon = _declared_response(source.privacy, source.label_state, classes)
    refuted = epsilon is not None and response.epsilon_low > epsilon
    if one_by_one and response.read == len(label):
        single = single_labels(*found.by_class)
        read = features.with_columns(true=pl.Series(label), released=pl.Series(single))
    return FileLabels(
        response, found.are_the_tables, found.trees, "", epsilon if refuted else None,
        label_column_holds(source), said_of_labels_in(source.facts.get("source")), read,
    )  # fmt: skip


def _training_rows(
    source: CheckpointSource, unit: str | None, root: Lake, partition: Partition
) -> tuple[pl.DataFrame, np.ndarray, int] | None:
    """Return features and class indices of all training records, and how many may share a coin.

    None where they are too many: sums are of all records of a leaf, so no sample of rows has them.
    """
    manifest, frames, labels, people = source.target.manifest, [], [], []
    shared = unit is not None and source.privacy is not None and covers(source.privacy.unit, unit)
    columns = dict.fromkeys([*source.columns, *([unit] if shared and unit else [])])
    for pieces in partition.work_units:
        for piece in pieces:
            path = partition.path(piece.file)
            footer = read_footer(root, path, list(columns), listed=partition.file(piece.file))
            for batch in batches_of(root, partition, piece, footer, list(columns), rows=_ROWS):
                found, _ = source.labels(batch)
                trained = source.arms(batch)[0] & source.present(batch) & (found >= 0)
                frames.append(batch.features(manifest, stored=source.place.stored).filter(trained))
                labels.append(found[trained])
                if sum(map(len, labels)) * len(manifest.features) > _MOST_VALUES:
                    return None
                if shared and unit:
                    people.append(batch.units(unit, among=trained)[0][trained])
    if not sum(map(len, labels)):
        raise TerminalError("No training record has a label: check the split of the table.")
    rows = np.concatenate(labels)
    most = len(rows) if _of_holder(source) else 1
    if people:
        most = int(np.unique(np.concatenate(people), return_counts=True)[1].max())
    return pl.concat(frames), rows, most


def _declared_response(
    privacy: Privacy | None, state: LabelState, classes: int = 2
) -> float | None:
    """Return the epsilon at which all classes are declared to be exchanged alike; None if at none.

    Where each record has a prior of its own, the file says nothing; one prior of all leaves labels
    exchanged as without one, or constant, if no class is left out. Labels that a mechanism made
    before are the table's.
    """
    mechanism = None if privacy is None else privacy.mechanism
    if mechanism is None or isinstance(state, PrivatisedBy) or mechanism.name not in OF_LABELS:
        return None
    found = mechanism_from_manifest(mechanism.name, mechanism.parameters)
    if isinstance(found, RandomizedResponseWithPriorAccount) and found.prior_from_outside:
        found = found.accounted_as
    if isinstance(found, RandomizedResponseAccount) and found.classes == classes:
        return found.pure_epsilon
    return None
