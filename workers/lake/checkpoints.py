"""A model and its manifest, loaded and verified; by CatBoost's own format only, never by pickle."""

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import RandomizedResponse, correct_probabilities
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import Lake, checkpoint_folder
from workers.lake.manifest import Manifest, parse_manifest
from workers.lake.model_sandbox import ModelDescription, UnreadableModelError, describe_model


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A verified checkpoint as bytes: what Ray carries to the workers."""

    manifest: Manifest
    manifest_sha256: str
    content: bytes

    def __hash__(self) -> int:
        """Hash the digests, which stand for the content."""
        return hash((self.manifest.sha256, self.manifest_sha256))

    def __eq__(self, other: object) -> bool:
        """Whether the digests, which stand for the content, are the same."""
        return isinstance(other, Checkpoint) and (
            (self.manifest.sha256, self.manifest_sha256)
            == (other.manifest.sha256, other.manifest_sha256)
        )


@dataclass(frozen=True, slots=True)
class DeclaredManifest:
    """A manifest as it was read once, and the digest of its bytes."""

    manifest: Manifest
    sha256: str


def read_manifest(lake: Lake, model: str, day: dt.date) -> DeclaredManifest:
    """Read one checkpoint's manifest.

    Raises:
        NotEvaluableError: the day has no complete checkpoint, its manifest is not valid or is
            another model's or day's; it is too large, or a link that leads out of the lake.
        TransientError: storage kept failing.
    """
    folder = checkpoint_folder(model, day)
    if not lake.exists(folder):
        raise NotEvaluableError(
            Reason.MISSING_TARGET,
            f"There is no complete checkpoint of {model} for {day}: {folder}/_SUCCESS is missing.",
        )
    try:
        text = lake.read(f"{folder}/manifest.json")
    except FileNotFoundError:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID, f"{folder} has no manifest.json: write one."
        ) from None
    manifest = parse_manifest(text, where=f"{folder}/manifest.json")
    if (manifest.model, manifest.day) != (model, day):
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The manifest in {folder} is of {manifest.model} for {manifest.day}: "
            "it belongs to another checkpoint.",
        )
    return DeclaredManifest(manifest, hashlib.sha256(text).hexdigest())


def read_checkpoint(
    lake: Lake, model: str, day: dt.date, *, declared: DeclaredManifest | None = None
) -> Checkpoint:
    """Read and verify one checkpoint; `declared` is its manifest, where that was read before.

    Raises:
        NotEvaluableError: as `read_manifest`; or the digest of the model's file differs, or
            CatBoost's model differs from the manifest in features or classes.
        TransientError: storage kept failing, or the process that reads model files went away.
    """
    if declared is None:
        declared = read_manifest(lake, model, day)
    manifest, folder = declared.manifest, checkpoint_folder(model, day)
    checkpoint = Checkpoint(manifest, declared.sha256, _verified(lake, folder, manifest))
    try:
        described = describe_model(checkpoint.content)
    except UnreadableModelError as error:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID, f"The checkpoint of {model} for {day} {error.why}."
        ) from None
    _check_against_manifest(described, manifest)
    return checkpoint


def load(checkpoint: Checkpoint) -> Any:
    """Return CatBoost's model, of a checkpoint that `read_checkpoint` has verified.

    Raises:
        NotEvaluableError: the bytes are not a CatBoost model.
    """
    model = catboost.CatBoost()
    try:
        model.load_model(blob=checkpoint.content, format="cbm")
    except catboost.CatBoostError:
        manifest = checkpoint.manifest
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The checkpoint of {manifest.model} for {manifest.day} is not in CatBoost's format.",
        ) from None
    return model


def probabilities(
    model: Any, manifest: Manifest, features: pl.DataFrame, *, threads: int
) -> NDArray[np.float64]:
    """Return the model's probabilities, shape (records, classes), in the manifest's class order.

    Raises:
        NotEvaluableError: a probability is NaN, or there would be too many of them.
    """
    return predict(model, manifest, as_pool(manifest, features), threads=threads)


def as_pool(manifest: Manifest, features: pl.DataFrame) -> Any:
    """Return the features as CatBoost takes them; models of the same features can share it.

    Raises:
        NotEvaluableError: it does not take them.
    """
    inputs = features.select(feature.name for feature in manifest.features)
    categorical = [f.name for f in manifest.features if f.kind == "categorical"]
    try:
        return catboost.Pool(inputs, cat_features=categorical)
    except catboost.CatBoostError:
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"CatBoost does not take the features of {manifest.model} for {manifest.day} as the "
            "labels hold them: write them as at training.",
        ) from None


def predict(model: Any, manifest: Manifest, pool: Any, *, threads: int) -> NDArray[np.float64]:
    """Return the model's probabilities for a pool, after its output correction if it has one.

    Raises:
        NotEvaluableError: as `probabilities`.
    """
    if pool.num_row() * len(manifest.label.classes) > limits.PROBABILITIES:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"{pool.num_row():,} rows of {len(manifest.label.classes):,} classes are more than "
            f"{limits.PROBABILITIES:,} probabilities: write smaller row groups.",
        )
    try:
        found = model.predict(pool, prediction_type="Probability", thread_count=threads)
    except catboost.CatBoostError:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"CatBoost cannot score with the model {manifest.model} of {manifest.day}: mend it.",
        ) from None
    predicted = np.asarray(found, dtype=np.float64)
    if not np.all(np.isfinite(predicted)):
        raise NotEvaluableError(
            Reason.PROBABILITIES_INVALID,
            f"The model {manifest.model} of {manifest.day} gives NaN probabilities: train it "
            "again.",
        )
    return predicted if manifest.output_correction is None else _corrected(predicted, manifest)


def write_checkpoint(lake: Lake, manifest: dict[str, Any], content: bytes) -> None:
    """Write a checkpoint as the lake wants it: file, manifest, `_SUCCESS` last.

    `manifest` holds all of the manifest's fields but `file`, `format`, `sha256` and
    `schema_version`, which are written here.
    """
    complete = manifest | {
        "schema_version": 1,
        "format": "catboost",
        "file": "model.cbm",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    parsed = Manifest.model_validate(complete)
    # Without one the field is left out, so that earlier versions can read the manifest, too.
    left_out = set() if parsed.output_correction else {"output_correction"}
    folder = checkpoint_folder(parsed.model, parsed.day)
    lake.write(f"{folder}/{parsed.file}", content)
    lake.write(
        f"{folder}/manifest.json",
        json.dumps(parsed.model_dump(mode="json", exclude=left_out), indent=2).encode(),
    )
    lake.complete(folder)


def _corrected(predicted: NDArray[np.float64], manifest: Manifest) -> NDArray[np.float64]:
    """What the model answers to whoever asks it."""
    correction, classes = manifest.output_correction, len(manifest.label.classes)
    assert correction is not None  # noqa: S101  # by its caller
    try:
        flip = RandomizedResponse(correction.epsilon, classes).distribution()
        return correct_probabilities(predicted, flip, floor=correction.floor)
    except InvalidInputError as error:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The output_correction of {manifest.model} of {manifest.day} does not fit: {error}",
        ) from None


def _verified(lake: Lake, folder: str, manifest: Manifest) -> bytes:
    try:
        content = lake.read(f"{folder}/{manifest.file}", at_most=limits.CHECKPOINT_BYTES)
    except FileNotFoundError:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID, f"{folder} has no file {manifest.file}."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.sha256:
        raise NotEvaluableError(
            Reason.DIGEST_MISMATCH,
            f"{folder}/{manifest.file} has the SHA-256 digest {found[:12]}..., but its manifest "
            f"says {manifest.sha256[:12]}...: the file is not the one that was declared.",
        )
    return content


def _check_against_manifest(model: ModelDescription, manifest: Manifest) -> None:
    names = [feature.name for feature in manifest.features]
    if list(model.features) != names:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {manifest.model} of {manifest.day} was trained on the features "
            f"{list(model.features)}, but its manifest lists {names}.",
        )
    categorical = [i for i, f in enumerate(manifest.features) if f.kind == "categorical"]
    if sorted(model.categorical) != categorical:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {manifest.model} of {manifest.day} has the categorical features "
            f"{list(model.categorical)} (positions), but its manifest says {categorical}.",
        )
    classes = list(model.classes)
    if classes != [str(value) for value in manifest.label.classes]:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {manifest.model} of {manifest.day} knows the classes {classes}, but its "
            f"manifest lists {list(manifest.label.classes)}.",
        )
