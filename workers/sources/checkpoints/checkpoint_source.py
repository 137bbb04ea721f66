"""Checkpoints: both models score the day's labelled rows."""

import datetime as dt
import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.lower_bounds.verdicts import Trust
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch, NeededColumns
from workers.labels.shards import BadRecords, Partition
from workers.lake.checkpoints import (
    Checkpoint,
    DeclaredManifest,
    aligned,
    as_inputs,
    predict,
    read_checkpoint,
)
from workers.lake.layout import Lake, check_name, checkpoint_folder, labels_folder
from workers.lake.manifest import Feature, Label, LabelColumn, Manifest, class_word, named_twice
from workers.plan import Plan
from workers.sources.checkpoints.label_places import LabelPlace, LakeLabels
from workers.sources.join_context import JoinContext
from workers.sources.source import Digests, Same, SharedScores


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """The day's checkpoint, an earlier one as proxy, and the labelled rows that both score.

    Attributes:
        place: where the rows lie.
        target: the audited model.
        proxy: the earlier one.
        settings: what the settings say of where checkpoints or rows lie, as the record keeps it;
            None where all is in the lake.
        declared: whether the settings stand for manifests.
        trust: who supplied the evidence.
    """

    place: LabelPlace
    target: Checkpoint
    proxy: Checkpoint
    settings: str | None = None
    declared: bool = False
    trust: Trust = Trust.SELF

    model = Same("target.manifest")
    day = Same("target.manifest")
    privacy = Same("target.manifest")
    label_state = Same("target.manifest", "label.state")
    days = Same("place")
    version = Same("place")
    arms = Same("place")
    hashed_kind = Same("place")
    where_rows_are = Same("place")
    present = Same("place", "today")
    labels_key = Same("place", "key")

    @property
    def label(self) -> LabelColumn:
        """The label with the classes of both models: those of the target first.

        A class that was absent from the days of one of them is one that it holds impossible.
        """
        target, proxy = self.target.manifest.label, self.proxy.manifest.label
        column = self.place.label or target.column
        return LabelColumn(column=column, classes=_classes_of_both(target, proxy))

    @property
    def proxy_is_earlier(self) -> bool:
        """The proxy's manifest says so; a path that names an earlier day does not."""
        return not self.declared

    @property
    def declared_in(self) -> str:
        """The target's manifest, or the settings."""
        if self.declared:
            return f"The settings of {self.model}, [models.privacy],"
        return f"The manifest of {self.model} for {self.day}"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of either model, each once, under the names of their columns."""
        both = (*self.proxy.manifest.features, *self.target.manifest.features)
        return tuple(dict.fromkeys(map(self.place.stored, both)))

    @property
    def model_bytes(self) -> int:
        """Size of both model files."""
        return len(self.target.content) + len(self.proxy.content)

    def without_models(self) -> "CheckpointSource":
        """Return it with checkpoints that have no content."""
        target, proxy = (replace(each, content=b"") for each in (self.target, self.proxy))
        return replace(self, target=target, proxy=proxy)

    @property
    def context(self) -> tuple[str, ...]:
        """The features of both models."""
        return tuple(feature.name for feature in self.features)

    def recognised_by(self, batch: Batch) -> tuple[Feature, ...]:
        """Return the features of both models."""
        del batch
        return self.features

    @property
    def columns(self) -> tuple[str, ...]:
        """The label, what says the arm, and the features of both models."""
        return (self.label.column, *self.place.columns, *self.context)

    @property
    def facts(self) -> dict[str, Any]:
        """Labels, the proxy's day, since when training read, and places outside of the lake."""
        found = {
            "dataset": self.place.name,
            "proxy_day": self.proxy.manifest.day,
            "trust": self.trust,
        }
        first = self.target.manifest.trained_on.first
        if first < self.day:
            found["trained_since"] = first
        return found if self.settings is None else found | {"source": self.settings}

    def digests(self) -> Digests:
        """Return the digests of both model files and manifests.

        What settings say of a table's columns goes into the first manifest's: not where it lies.
        """
        meaning = self.place.meaning()
        declared = self.target.manifest_sha256
        if meaning is not None:
            content = {"manifest": declared, "labels": meaning}
            declared = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return Digests(
            self.target.manifest.sha256,
            declared,
            self.proxy.manifest.sha256,
            self.proxy.manifest_sha256,
        )

    def find_partition(
        self,
        *,
        joining: JoinContext,  # noqa: ARG002  # its files are there
        also: tuple[str, ...] = (),  # noqa: ARG002  # and have all columns
    ) -> tuple[Lake, Partition]:
        """Return the day's label files, and below which root they lie."""
        return self.place.find_partition()

    def check_columns(self, names: Sequence[str], path: str, of_plan: NeededColumns) -> None:
        """Raise `NotEvaluableError` unless a file has the columns, and those `of_plan`."""
        self.place.check_columns(names, path, (self.label.column, *self.context), of_plan)

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a bad record or another day's, and what is bad."""
        return self.place.labels(batch, self.label)

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what both models predict."""
        return self.predicted(self.target, batch, shared), self.predicted(self.proxy, batch, shared)

    def predicted(
        self,
        checkpoint: Checkpoint,
        batch: Batch,
        shared: SharedScores,
        *,
        instead: tuple[str, str] | None = None,
    ) -> NDArray[np.float64]:
        """Return what one of the two models says of the classes of both.

        Checkpoints of the same features share inputs, and games a checkpoint.

        Args:
            checkpoint: the model.
            batch: the records; those of another day have equal probabilities of all classes.
            shared: what was computed of them already, and which of them are asked for.
            instead: a categorical feature, and the value that every record has of it instead.
        """
        asked = (checkpoint, instead, self.place.reading)
        if asked not in shared.made:
            shared.made[asked] = _scored(checkpoint, batch, shared, self.place, instead)
        return aligned(shared.made[asked], checkpoint.manifest.label.words, self.label.words)


def find_checkpoints(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    dataset: str | None = None,
    declared: DeclaredManifest | None = None,
    days: tuple[dt.date, ...] | None = None,
) -> CheckpointSource:
    """Return a model's checkpoint of the day with its proxy, read and checked.

    `dataset` is the only one that its manifest may name; `declared` its manifest, where that was
    read before; `days` those whose labels play, where that was found before.

    Raises:
        NotEvaluableError: a checkpoint is missing or not what its manifest says, target and proxy
            do not fit each other or the day, or a feature tells which records take part.
        TransientError: storage kept failing.
    """
    target, proxy = lake_checkpoints(
        lake, model, day, plan=plan, declared=declared, dataset=dataset
    )
    found = days or _label_days(lake, target.manifest, proxy.manifest, day, plan)
    place = LakeLabels(lake, target.manifest.dataset, found)
    return fitting(CheckpointSource(place, target, proxy), plan)


def lake_checkpoints(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    dataset: str | None = None,
    declared: DeclaredManifest | None = None,
) -> tuple[Checkpoint, Checkpoint]:
    """Return the checkpoint of the day and an earlier one, by their manifests in the lake.

    Earlier than all days that are to play; where none is, the first of these days that has one.

    Raises:
        NotEvaluableError: one is missing or not what its manifest says, or the target never saw the
            day.
        TransientError: storage kept failing.
    """
    check_name("model", model)
    target = read_checkpoint(lake, model, day, declared=declared)
    if dataset not in {None, target.manifest.dataset}:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The manifest of {model} for {day} names the dataset {target.manifest.dataset}, the "
            f"settings allow {dataset} alone: change one of them.",
        )
    trained = target.manifest.trained_on
    if not trained.first <= day <= trained.last:
        raise NotEvaluableError(
            Reason.TARGET_MISSED_THE_DAY,
            f"The checkpoint of {model} for {day} was trained on {trained.first} to "
            f"{trained.last}, so it never saw the labels of {day}.",
        )
    first = _first_day(target.manifest, day, plan)
    earlier = (first - dt.timedelta(days=back) for back in range(1, plan.proxy_within_days + 1))
    later = (first + dt.timedelta(days=step) for step in range((day - first).days))
    for proxy_day in itertools.chain(earlier, later):
        if lake.exists(checkpoint_folder(model, proxy_day)):
            return target, read_checkpoint(lake, model, proxy_day)
    raise no_proxy(model, first, plan)


def _first_day(target: Manifest, day: dt.date, plan: Plan) -> dt.date:
    """Return the first of the plan's days that the target was trained on."""
    return max(day - dt.timedelta(days=plan.days - 1), target.trained_on.first)


def _label_days(
    lake: Lake, target: Manifest, proxy: Manifest, day: dt.date, plan: Plan
) -> tuple[dt.date, ...]:
    """Return the days whose labels play: those that the proxy never saw and that have labels.

    What the labels say decides nothing. The audited day is among them whatever there is of it.
    """
    first = max(_first_day(target, day, plan), proxy.trained_on.last + dt.timedelta(days=1))
    earlier = (first + dt.timedelta(days=step) for step in range((day - first).days))
    there = (one for one in earlier if lake.exists(labels_folder(target.dataset, one)))
    return (*(one for one in there if lake.label_files(target.dataset, one)), day)


def no_proxy(
    model: str, day: dt.date, plan: Plan, *, registered_before: dt.datetime | None = None
) -> NotEvaluableError:
    """Return that no earlier checkpoint is there."""
    before = f", and was registered before {day} began," if registered_before else ""
    return NotEvaluableError(
        Reason.MISSING_PROXY,
        f"There is no checkpoint of {model} in the {plan.proxy_within_days} days before {day} that "
        f"could be its earlier model (proxy){before.rstrip(',')}.",
    )


def fitting(source: CheckpointSource, plan: Plan) -> CheckpointSource:
    """Return a source whose checkpoints fit each other and the day.

    Raises:
        NotEvaluableError: they do not, or a feature tells which records take part.
    """
    _check_proxy(source.target.manifest, source.proxy.manifest, source.day)
    for checkpoint in (source.target, source.proxy):
        _check_features(checkpoint.manifest, source.place, plan, label=source.label.column)
    return source


def _check_features(manifest: Manifest, place: LabelPlace, plan: Plan, *, label: str) -> None:
    """Refuse features that tell the model which records take part, or how.

    With `split` among its features a model can answer at random exactly where it is asked.
    """
    revealing = {
        place.arm_column: "says which records take part",
        label: "is the label itself",
        plan.privacy_unit: "is the privacy unit, by which records are held out",
    }
    for column in (place.stored(feature).name for feature in manifest.features):
        if column in revealing:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID,
                f"The model {manifest.model} of {manifest.day} takes {column!r} as a feature, "
                f"which {revealing[column]}: train it without.",
            )


def _classes_of_both(target: LabelColumn, proxy: LabelColumn) -> tuple[Label, ...]:
    """Return the classes of both models, those of the target first."""
    return target.classes + tuple(
        one for one in proxy.classes if class_word(one) not in target.words
    )


def _check_proxy(target: Manifest, proxy: Manifest, day: dt.date) -> None:
    if proxy.trained_on.last >= day:
        raise NotEvaluableError(
            Reason.PROXY_SAW_THE_DAY,
            f"The earlier model, {proxy.model} of {proxy.day}, was trained up to "
            f"{proxy.trained_on.last}: it saw labels of {day}, so it cannot be the proxy of that "
            "day. Use a model that was trained before.",
        )
    if proxy.sha256 == target.sha256:
        raise NotEvaluableError(
            Reason.PROXY_IS_TARGET,
            f"The earlier model, {proxy.model} of {proxy.day}, is the target's own file: put the "
            f"model that was trained up to {proxy.trained_on.last} back in its place.",
        )
    # Two models with fewer than two classes in common predict different things.
    common = set(proxy.label.words) & set(target.label.words)
    apart = not named_twice(_classes_of_both(target.label, proxy.label))
    if proxy.label.column != target.label.column or len(common) < 2 or not apart:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The earlier model, {proxy.model} of {proxy.day}, predicts {proxy.label.column} in "
            f"{list(proxy.label.classes)}, the target {target.label.column} in "
            f"{list(target.label.classes)}: they cannot be compared.",
        )


def _scored(
    checkpoint: Checkpoint,
    batch: Batch,
    shared: SharedScores,
    place: LabelPlace,
    instead: tuple[str, str] | None,
) -> NDArray[np.float64]:
    """Return what a model says of the day's rows, and equal probabilities of all others."""
    manifest, made, today = checkpoint.manifest, shared.made, place.today(batch)
    if shared.asked is not None:
        today = today & shared.asked
    classes = len(manifest.label.classes)
    scored = np.empty((0, classes))
    if today.any():
        reads = (checkpoint.described.categories, checkpoint.described.takes)
        features = (manifest.format, manifest.features, reads, instead, place.reading)
        with shared.stage("pool"):
            if features not in made:
                frame = batch.features(manifest, stored=place.stored)
                frame = _instead(frame if today.all() else frame.filter(today), instead)
                made[features] = as_inputs(checkpoint, frame)
        with shared.stage("predict"):
            scored = predict(checkpoint, made[features])
    if today.all():
        return scored
    every = np.full((today.size, classes), 1.0 / classes)
    every[today] = scored
    return every


def _instead(frame: pl.DataFrame, instead: tuple[str, str] | None) -> pl.DataFrame:
    """Return features with one of them set to a value."""
    if instead is None or instead[0] not in frame.columns:
        return frame
    name, value = instead
    kind = frame.schema[name]
    told = pl.lit(value == "true") if kind == pl.Boolean else pl.lit(value).cast(kind)
    return frame.with_columns(told.alias(name))
