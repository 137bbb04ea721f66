"""Other secrets than the label, as sources of their own: what follows is the same audit.

An attribute is a label by another name: its values are the classes, and what a model says of each
is its belief in the value given the record's own label. Membership has no classes: both models'
probabilities of the record's own label are what is compared.
"""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import attribute_posterior, own_label
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason, refusing_probabilities
from workers.labels.columns import Batch
from workers.labels.shards import BadRecords
from workers.lake.manifest import Feature, LabelColumn, LabelState, OutputCorrection, Privacy
from workers.plan import Attribute, Plan
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.source import Same, SharedScores, Source


def source_of(source: Source, plan: Plan) -> Source:
    """Return the source of what the plan's secret is played with.

    Raises:
        NotEvaluableError: the attribute is not a categorical feature of the audited model, or there
            is no model to ask about it.
    """
    if plan.secret is Secret.MEMBERSHIP:
        return MembershipSource(source)
    if plan.attribute is None:
        return source
    if not isinstance(source, CheckpointSource):
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"An attribute audit needs the models themselves, because each value of "
            f"{plan.attribute.column!r} has to be scored. {source.model} on {source.day} has only "
            "stored probabilities: configure [models.checkpoints].",
        )
    feature = Feature(name=plan.attribute.column, kind="categorical")
    if feature not in source.target.manifest.features:
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"{feature.name!r} is not a categorical feature of {source.model} on {source.day}, so "
            "the model says nothing about its values: set attribute.column to a categorical "
            "feature.",
        )
    return AttributeSource(source, plan.attribute)


def without_models(source: Source) -> Source:
    """Return a source without what is only needed to ask models: their files."""
    if isinstance(source, _Whole):
        return dataclasses.replace(source, source=without_models(source.source))
    return source.without_models() if isinstance(source, CheckpointSource) else source


def correction_of(source: Source) -> OutputCorrection | None:
    """Return the correction of the target's probabilities before anyone sees them.

    None where no manifest says of one, or where the secret is none that it is about: a label.
    """
    if not isinstance(source, CheckpointSource):
        return None
    return source.target.manifest.output_correction


def checkpoints_of(source: Source) -> CheckpointSource | None:
    """Return the two models that are asked, whatever is asked about; None of supplied scores."""
    inner = source.source if isinstance(source, _Whole) else source
    return inner if isinstance(inner, CheckpointSource) else None


@dataclass(frozen=True, slots=True)
class _Whole:
    """Parts that every secret's source has in common with the label's source.

    They are listed one by one: a member that is added to `Source` may be true of labels alone.
    """

    source: Source

    model = Same("source")
    day = Same("source")
    days = Same("source")
    features = Same("source")
    proxy_is_earlier = Same("source")
    version = Same("source")
    declared_in = Same("source")
    columns = Same("source")
    facts = Same("source")
    digests = Same("source")
    labels_key = Same("source")
    find_partition = Same("source")
    where_rows_are = Same("source")
    check_columns = Same("source")
    present = Same("source")
    arms = Same("source")
    hashed_kind = Same("source")
    recognised_by = Same("source")

    @property
    def privacy(self) -> Privacy | None:
        """The declaration; None where it speaks of labels alone."""
        declared = self.source.privacy
        return None if declared and declared.definition == "label_dp" else declared

    label_state: ClassVar[LabelState] = None  # the secret is another one

    context: ClassVar[tuple[str, ...]] = ()  # a student learns what is said of labels


@dataclass(frozen=True, slots=True)
class AttributeSource(_Whole):
    """A column as the secret: the label game with its values in place of classes.

    Both models are scored with the column set to each value in turn; prior times the probability of
    the record's own label is each one's belief (`attribute_posterior`), the earlier model's the
    proxy distribution. The record's true value is read last, to see which belief was right.

    *Assumption E for an attribute*: had a training record's value been replaced, before training,
    by a fresh draw given the rest of the record and its label, its prediction would have been right
    no more often than those of matched holdout records. The reasoning is the label's, word for
    word: prediction and match read the rest, the label and the models, never the value, and of
    holdout records training has seen none. A guarantee for whole records at epsilon bounds the odds
    by e^epsilon, since replacing one column replaces the record.
    """

    source: CheckpointSource
    attribute: Attribute

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of either model but the column, which is no copy of itself."""
        return tuple(each for each in self.source.features if each.name != self._stored.name)

    def recognised_by(self, batch: Batch) -> tuple[Feature, ...]:
        """Return the features of either model but the column, which is the secret."""
        del batch
        return self.features

    @property
    def _stored(self) -> Feature:
        """The attribute, under the name of the column that holds it."""
        return self.source.place.stored(Feature(name=self.attribute.column, kind="categorical"))

    @property
    def label(self) -> LabelColumn:
        """The column and its values."""
        return LabelColumn(column=self.attribute.column, classes=self.attribute.values)

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return each record's value as an index, -1 for a bad record, and what is bad."""
        labels, bad = self.source.labels(batch)
        feature = batch.feature(self._stored)
        places = {value: place for place, value in enumerate(self.attribute.values)}
        values = np.array([places.get(value, -1) for value in feature.to_list()], dtype=np.int64)
        unlisted = (values < 0) & (labels >= 0)
        values[labels < 0] = -1
        found = f"a value in {self.attribute.column!r} that is none of attribute.values"
        found += ": list it there"
        return values, bad + batch.bad_rows(unlisted, Reason.FEATURE_INVALID, found)

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' beliefs in each value, shape (records, values)."""
        labels, _ = self.source.labels(batch)
        rows, known = np.arange(len(labels)), np.maximum(labels, 0)
        values = self.attribute.values
        prior = np.array(self.attribute.prior or [1.0 / len(values)] * len(values))
        beliefs = []
        for checkpoint in (self.source.target, self.source.proxy):
            of_label = [
                self.source.predicted(
                    checkpoint, batch, shared, instead=(self.attribute.column, value)
                )
                for value in values
            ]
            likelihood = np.stack([found[rows, known] for found in of_label], axis=1)
            with refusing_probabilities():
                beliefs.append(attribute_posterior(prior, likelihood))
        return beliefs[0], beliefs[1]


@dataclass(frozen=True, slots=True)
class MembershipSource(_Whole):
    """Source for membership: members beside holdout records as fresh draws (`pair`)."""

    @property
    def label(self) -> LabelColumn:
        """Two classes: the second is each record's own label, the first every other."""
        return LabelColumn(column=self.source.label.column, classes=("another", "its own"))

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return 1 for each record, -1 for a bad one, and what is bad."""
        labels, bad = self.source.labels(batch)
        return np.where(labels < 0, -1, 1), bad

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' probabilities of each record's own label, shape (records, 2)."""
        labels, _ = self.source.labels(batch)
        target, proxy = self.source.probabilities(batch, shared)
        with refusing_probabilities():
            return own_label(target, proxy, np.maximum(labels, 0))[:2]
