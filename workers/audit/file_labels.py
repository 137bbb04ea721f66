"""Labels that a model's file gives away, beside what its declaration says of them."""

import contextlib
import datetime as dt
import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from privcore.attacks.label_sums import conditions, label_sums, single_labels, trees_read
from privcore.exceptions import TerminalError
from privcore.lower_bounds.applied_response import AppliedResponse, applied_response
from privcore.lower_bounds.verdicts import ReasonCode
from privcore.rounding import down, exact, percent_up, up
from workers.audit.request import stored_request
from workers.audit.run import find_inputs
from workers.executors import Executor
from workers.labels.columns import batches_of
from workers.labels.parquet import read_footer
from workers.lake.checkpoints import as_inputs
from workers.lake.formats import NAMES
from workers.lake.layout import Lake
from workers.lake.manifest import PrivatisedBy, looked_up
from workers.lake.model_sandbox import UnreadableModelError, read_leaves
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.in_place import InPlace, find_in_place
from workers.sources.join_context import JoinContext
from workers.warehouse.schema import AuditRecord

_ROWS = 1 << 18
_BINARY = 2


@dataclass(frozen=True, slots=True)
class FileLabels:
    """Labels of training records as a model's file holds them.

    Attributes:
        response: the randomized responses that may have been applied; None if not evaluated.
        are_the_tables: whether every leaf holds the sum of the table's labels.
        trees: whose sums were read.
        why: completes "labels cannot be read from the file: ..."; "" where they can.
        refuted: the epsilon of the declared randomized response where the file refutes it.
        labels: for each training record the features, `true`, which the table has, and `released`,
            which training read; None where the sums leave a label open.
    """

    response: AppliedResponse | None
    are_the_tables: bool
    trees: int
    why: str
    refuted: float | None = None
    labels: pl.DataFrame | None = None

    @property
    def code(self) -> ReasonCode | None:
        """`mechanism_not_applied` where the declared mechanism is refuted."""
        return None if self.refuted is None else ReasonCode.MECHANISM_NOT_APPLIED

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
            said += " No randomized response of the table's labels explains the sums."
        else:
            low, high = response.epsilon_low, response.epsilon_high
            most = "no limit" if math.isinf(high) else up(high)
            said += (
                f" They are of changed labels: randomized response at {down(low)} to {most}, which "
                f"changes at most {percent_up(1.0 / (1.0 + math.exp(low)))} of them."
            )
        if self.refuted is not None:
            said += (
                f" So randomized response at the declared {exact(self.refuted)} was not applied. "
                "This refutes the declared mechanism, not epsilon-DP as such."
            )
        return said


def read_stored(record: AuditRecord, lake: Lake, executor: Executor, key: bytes) -> FileLabels:
    """Return what an audited model's file gives away, by the audit's own inputs.

    Raises:
        NotEvaluableError: an input is missing, or is not what the model takes.
        TerminalError: the audit scored no model file, or another one; or no training record has a
            label.
    """
    request = stored_request(record.audit, key)
    source = find_inputs(lake, record.audit.day, request).source
    if not isinstance(source, CheckpointSource):
        raise TerminalError(
            "The audit asked no model file, but a table of scores or another secret."
        )
    if source.digests().target != record.audit.target_sha256:
        raise TerminalError("The model's file has changed since the audit: audit it again.")
    return _asked(source, request.plan, executor)


def _of_persons(found: FileLabels) -> FileLabels:
    """Return what holds where a person's labels may share one coin: that none was thrown."""
    if found.response is None or found.are_the_tables:
        return found
    why = "a person's labels may share one coin, and the test takes each to have its own"
    return FileLabels(None, are_the_tables=False, trees=found.trees, why=why)


def read_given(
    given: InPlace, model: str, day: dt.date, *, plan: Plan, executor: Executor
) -> FileLabels:
    """Return what a model file gives away of the rows of a table, before any audit is stored.

    Raises:
        NotEvaluableError: an input is missing, or is not what the model takes.
        TerminalError: no training record has a label.
    """
    source = find_in_place(Lake("."), given, model, day, plan=plan)
    return _asked(source, plan, executor)


def _asked(source: CheckpointSource, plan: Plan, executor: Executor) -> FileLabels:
    """Return what the target's file gives away, by the unit of the audit's plan."""
    with contextlib.ExitStack() as made:
        found = _read(source, JoinContext(executor, made, None, None))
    return found if plan.privacy_unit is None else _of_persons(found)


def _read(source: CheckpointSource, joining: JoinContext) -> FileLabels:
    """Return what the target's file gives away of its training records' labels."""
    manifest = source.target.manifest
    kinds = {feature.kind for feature in manifest.features}
    why = (
        f"{NAMES[manifest.format]} files hold no leaves" if manifest.format == "onnx" else
        "the label has more than two classes" if len(source.label.classes) > _BINARY else
        "it has categorical features, which training orders by labels"
        if "categorical" in kinds else ""
    )  # fmt: skip
    if why:
        return FileLabels(None, are_the_tables=False, trees=0, why=why)
    features, labels = _training_rows(source, joining)
    described = source.target.described
    words = tuple(looked_up(described.classes)) if described.classes else manifest.label.words
    label = (labels == source.label.words.index(words[-1])).astype(np.int64)
    try:
        ensemble, leaves = read_leaves(
            source.target.content,
            as_inputs(source.target, features),
            format=manifest.format,
            model=manifest.model,
            most=trees_read(len(label)),
        )
    except UnreadableModelError as error:
        return FileLabels(None, are_the_tables=False, trees=0, why=f"it {error.why}")
    found = label_sums(ensemble, leaves, label)
    if found.why:
        return FileLabels(None, are_the_tables=False, trees=found.trees, why=found.why)
    columns = [features[name].cast(pl.Float64).fill_null(math.nan).to_numpy()
               for name in features.columns]  # fmt: skip
    response = applied_response(found, label, conditions=conditions(columns))
    refuted, single, read = _refuted(source, response.epsilon_low), single_labels(found), None
    if (single >= 0).all():
        read = features.with_columns(true=pl.Series(label), released=pl.Series(single))
    return FileLabels(response, found.are_the_tables, found.trees, "", refuted, read)


def _training_rows(
    source: CheckpointSource, joining: JoinContext
) -> tuple[pl.DataFrame, np.ndarray]:
    """Return features and class indices of all training records."""
    root, partition = source.find_partition(joining=joining)
    manifest, frames, labels = source.target.manifest, [], []
    for unit in partition.work_units:
        for piece in unit:
            path = partition.path(piece.file)
            footer = read_footer(
                root, path, list(source.columns), listed=partition.file(piece.file)
            )
            for batch in batches_of(root, partition, piece, footer, source.columns, rows=_ROWS):
                found, _ = source.labels(batch)
                trained = source.arms(batch)[0] & source.present(batch) & (found >= 0)
                frames.append(batch.features(manifest, stored=source.place.stored).filter(trained))
                labels.append(found[trained])
    if not sum(map(len, labels)):
        raise TerminalError("No training record has a label: check the split of the table.")
    return pl.concat(frames), np.concatenate(labels)


def _refuted(source: CheckpointSource, low: float) -> float | None:
    """Return the epsilon of the declared randomized response, if fewer labels were changed.

    Labels that a mechanism had made before them are the table's, and nothing is applied to them.
    """
    privacy = source.privacy
    mechanism = None if privacy is None else privacy.mechanism
    released = isinstance(source.label_state, PrivatisedBy)
    if mechanism is None or mechanism.name != "randomized_response" or released:
        return None
    epsilon = float(mechanism.parameters["epsilon"])
    return epsilon if low > epsilon else None
