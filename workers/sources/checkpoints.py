"""Checkpoints and labels in the lake: both models are loaded and scored here."""

import datetime as dt
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.bad_records import BadRecords
from workers.labels.columns import SPLIT, Batch, check_columns
from workers.labels.parquet import Footer
from workers.labels.shards import Partition, find_partition
from workers.lake.checkpoints import (
    Checkpoint,
    DeclaredManifest,
    aligned,
    as_inputs,
    load,
    predict,
    read_checkpoint,
)
from workers.lake.formats.contract import LoadedModel
from workers.lake.layout import Lake, check_name
from workers.lake.manifest import (
    DecoyLabels,
    Feature,
    LabelColumn,
    LabelState,
    Manifest,
    Privacy,
)
from workers.plan import Plan
from workers.sources.source import Digests, SharedScores

_COMMON_CLASSES = 2
"""Two models with fewer classes in common predict different things."""


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """The day's checkpoint, an earlier one as proxy, and the label partition that both score."""

    lake: Lake
    target: Checkpoint
    proxy: Checkpoint

    @property
    def model(self) -> str:
        """Name of the audited model."""
        return self.target.manifest.model

    @property
    def day(self) -> dt.date:
        """The audited day."""
        return self.target.manifest.day

    @property
    def label(self) -> LabelColumn:
        """The label with the classes of both models: those of the target first.

        A class that was absent from the days of one of them is one that it holds impossible.
        """
        target, proxy = self.target.manifest.label, self.proxy.manifest.label
        more = tuple(one for one in proxy.classes if str(one) not in target.words)
        return LabelColumn(column=target.column, classes=target.classes + more)

    @property
    def label_state(self) -> LabelState:
        """What the target's manifest says."""
        return self.target.manifest.label.state

    @property
    def decoys(self) -> DecoyLabels | None:
        """The decoys of the target's manifest."""
        return self.target.manifest.decoys

    @property
    def privacy(self) -> Privacy | None:
        """The declaration of the target's manifest."""
        return self.target.manifest.privacy

    @property
    def proxy_is_earlier(self) -> bool:
        """The proxy's manifest says so."""
        return True

    @property
    def declared_in(self) -> str:
        """The target's manifest."""
        return f"The manifest of {self.model} for {self.day}"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of either model, each once."""
        both = (*self.proxy.manifest.features, *self.target.manifest.features)
        return tuple(dict.fromkeys(both))

    @property
    def columns(self) -> tuple[str, ...]:
        """The label, `split`, the features of both models, and the decoys."""
        decoys = () if self.decoys is None else (self.decoys.column,)
        return (self.label.column, SPLIT, *(feature.name for feature in self.features), *decoys)

    @property
    def facts(self) -> dict[str, Any]:
        """The label dataset, and the proxy's day."""
        return {
            "dataset": self.target.manifest.dataset,
            "proxy_day": self.proxy.manifest.day,
            "scores": "computed",
        }

    def digests(self) -> Digests:
        """Return the digests of both model files and manifests."""
        return Digests(
            self.target.manifest.sha256,
            self.target.manifest_sha256,
            self.proxy.manifest.sha256,
            self.proxy.manifest_sha256,
        )

    def labels_key(self) -> str:
        """Return the label dataset."""
        return f"lake {self.target.manifest.dataset}"

    def find_partition(
        self,
        *,
        work_unit_bytes: int,
        also: tuple[str, ...] = (),  # noqa: ARG002  # its files have all columns
    ) -> tuple[Lake, Partition]:
        """Return the dataset's label partition of the day.

        Raises:
            NotEvaluableError: it is missing or has no file.
            TransientError: storage kept failing.
        """
        dataset = self.target.manifest.dataset
        return self.lake, find_partition(
            self.lake, dataset, self.day, work_unit_bytes=work_unit_bytes
        )

    def where_rows_are(self, left_out: int) -> str:
        """Return what `split` has to say."""
        if left_out:
            return f"{left_out:,} rows say neither train nor holdout in {SPLIT!r}: write which."
        return f"Write 'train' or 'holdout' in {SPLIT!r} for each row of the day."

    def forget(self) -> None:
        """Nothing was made."""

    def check_columns(
        self, footer: Footer, path: str, *, slices: tuple[str, ...], unit: str | None
    ) -> None:
        """Raise `NotEvaluableError` unless a file has the columns."""
        check_columns(
            footer,
            path,
            label=self.label,
            features=self.features,
            slices=slices,
            unit=unit,
            decoy=self.decoys.column if self.decoys else None,
        )

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a bad record, and what is bad."""
        return batch.labels(self.label)

    def others(self, batch: Batch) -> NDArray[np.int64] | None:
        """Return what the manifest's column of decoys says."""
        return None if self.decoys is None else batch.others(self.label, self.decoys.column)

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what the column `split` says."""
        return batch.arms()

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what both models predict.

        Raises:
            NotEvaluableError: a model cannot score, or gives NaN.
        """
        return self.predicted(self.target, batch, shared), self.predicted(self.proxy, batch, shared)

    def predicted(
        self,
        checkpoint: Checkpoint,
        batch: Batch,
        shared: SharedScores,
        *,
        instead: tuple[str, str] | None = None,
    ) -> NDArray[np.float64]:
        """Return what one of the two models says of the classes of both; as `predicted`."""
        found = predicted(checkpoint, batch, shared, instead=instead)
        return aligned(found, checkpoint.manifest.label.words, self.label.words)


def find_checkpoints(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    dataset: str | None = None,
    declared: DeclaredManifest | None = None,
) -> CheckpointSource:
    """Return a model's checkpoint of the day with its proxy, read and checked.

    `dataset` is the only one that its manifest may name; `declared` its manifest, where that was
    read before.

    Raises:
        NotEvaluableError: a checkpoint is missing or not what its manifest says, target and proxy
            do not fit each other or the day, or a feature tells which records take part.
        TransientError: storage kept failing.
    """
    check_name("model", model)
    target = read_checkpoint(lake, model, day, declared=declared)
    _check_dataset(target.manifest, dataset)
    trained = target.manifest.trained_on
    if not trained.first <= day <= trained.last:
        raise NotEvaluableError(
            Reason.TARGET_MISSED_THE_DAY,
            f"The checkpoint of {model} for {day} was trained on {trained.first} to "
            f"{trained.last}, so it never saw the labels of {day}.",
        )
    proxy_day = lake.proxy_day(model, day, within_days=plan.proxy_within_days)
    if proxy_day is None:
        raise NotEvaluableError(
            Reason.MISSING_PROXY,
            f"There is no checkpoint of {model} in the {plan.proxy_within_days} days before {day} "
            "that could serve as proxy.",
        )
    proxy = read_checkpoint(lake, model, proxy_day)
    _check_proxy(target.manifest, proxy.manifest, day)
    for manifest in (target.manifest, proxy.manifest):
        _check_features(manifest, plan)
    return CheckpointSource(lake, target, proxy)


def _check_dataset(manifest: Manifest, allowed: str | None) -> None:
    if allowed not in {None, manifest.dataset}:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The manifest of {manifest.model} for {manifest.day} names the dataset "
            f"{manifest.dataset}, the settings allow {allowed} alone: change one of them.",
        )


def _check_features(manifest: Manifest, plan: Plan) -> None:
    """Refuse features that tell the model which records take part, or how.

    With `split` among its features a model can answer at random exactly where it is asked.
    """
    revealing = {
        SPLIT: "says which records take part",
        manifest.label.column: "is the label itself",
        plan.privacy_unit: "is the privacy unit, by which records are held out",
    }
    if manifest.decoys:
        revealing[manifest.decoys.column] = "holds the other label of each decoy"
    for feature in manifest.features:
        if feature.name in revealing:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID,
                f"The model {manifest.model} of {manifest.day} takes {feature.name!r} as a "
                f"feature, which {revealing[feature.name]}: train it without.",
            )


def _check_proxy(target: Manifest, proxy: Manifest, day: dt.date) -> None:
    if proxy.trained_on.last >= day:
        raise NotEvaluableError(
            Reason.PROXY_SAW_THE_DAY,
            f"The proxy, {proxy.model} of {proxy.day}, was trained up to {proxy.trained_on.last}: "
            f"it saw labels of {day}, so its labels are no counterfactuals.",
        )
    common = set(proxy.label.words) & set(target.label.words)
    if proxy.label.column != target.label.column or len(common) < _COMMON_CLASSES:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The proxy, {proxy.model} of {proxy.day}, predicts {proxy.label.column} in "
            f"{list(proxy.label.classes)}, the target {target.label.column} in "
            f"{list(target.label.classes)}: they cannot be compared.",
        )


def predicted(
    checkpoint: Checkpoint,
    batch: Batch,
    shared: SharedScores,
    *,
    instead: tuple[str, str] | None = None,
) -> NDArray[np.float64]:
    """Predict a batch; checkpoints of the same features share inputs, and games a checkpoint.

    Args:
        checkpoint: the model.
        batch: the records.
        shared: what was computed of them already.
        instead: a categorical feature, and the value that every record has of it instead.

    Raises:
        NotEvaluableError: the model cannot score, or gives NaN.
    """
    manifest, made = checkpoint.manifest, shared.made
    asked = (checkpoint, instead)
    if asked not in made:
        model = _loaded(checkpoint)
        features = (manifest.format, manifest.features, model.categories, instead)
        with shared.stage("pool"):
            if features not in made:
                made[features] = as_inputs(model, manifest, _frame(manifest, batch, instead))
        with shared.stage("predict"):
            made[asked] = predict(model, manifest, made[features], threads=1)
    found: NDArray[np.float64] = made[asked]
    return found


def _frame(manifest: Manifest, batch: Batch, instead: tuple[str, str] | None) -> pl.DataFrame:
    """Return the features as the model takes them."""
    frame = batch.features(manifest)
    if instead is None or instead[0] not in frame.columns:
        return frame
    name, value = instead
    return frame.with_columns(pl.lit(value, frame.schema[name]).alias(name))


@functools.lru_cache(maxsize=32)
def _loaded(checkpoint: Checkpoint) -> LoadedModel:
    return load(checkpoint)
