"""A model and its manifest, verified; in its framework's own format, never by pickle."""

import datetime as dt
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore import mechanisms  # loaded where an output is corrected: settings come by here
from privcore.exceptions import InvalidInputError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.formats import FILES
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.inputs import InputsRefusedError, ModelDescription, ModelInputs, inputs_of
from workers.lake.layout import Lake, checkpoint_folder
from workers.lake.manifest import Manifest, looked_up, named_twice, parse_manifest
from workers.lake.model_sandbox import describe_model, known_words, score_rows


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint: what Ray carries to the workers.

    Its manifest's digest stands for all of it, since the manifest names that of the file.

    Attributes:
        manifest: of the model; its digest is of the file.
        manifest_sha256: of the manifest's bytes.
        content: the file.
        described: what it says of itself.
    """

    manifest: Manifest = field(compare=False)
    manifest_sha256: str
    content: bytes = field(compare=False)
    described: ModelDescription = field(compare=False)


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
            the model differs from the manifest in features or classes, or is none to score with.
    """
    if declared is None:
        declared = read_manifest(lake, model, day)
    manifest, folder = declared.manifest, checkpoint_folder(model, day)
    content = _verified(lake, folder, manifest)
    described = describe_checkpoint(content, model, day, form=manifest.format)
    check_described(described, manifest)
    return Checkpoint(manifest, declared.sha256, content, described)


def describe_checkpoint(content: bytes, model: str, day: dt.date, *, form: str) -> ModelDescription:
    """Return what a model's file of a day says of itself.

    Raises:
        NotEvaluableError: it is no model of the format, or none to score with.
    """
    try:
        return describe_model(content, form=form, model=model)
    except ModelRefusedError as error:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID, f"The checkpoint of {model} for {day} {error.why}."
        ) from None


def as_inputs(checkpoint: Checkpoint, features: pl.DataFrame) -> ModelInputs:
    """Return features as the model's framework takes them; models that share them can share it.

    `features` are as `Batch.features` gives them.

    Raises:
        NotEvaluableError: it does not take them, or there would be too many probabilities.
    """
    manifest = checkpoint.manifest
    if features.height * len(manifest.label.classes) > limits.PROBABILITIES:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"{features.height:,} rows of {len(manifest.label.classes):,} classes are more than "
            f"{limits.PROBABILITIES:,} probabilities: write smaller row groups.",
        )
    try:
        return inputs_of(checkpoint.described, manifest, features)
    except InputsRefusedError as error:
        raise _feature_refused(manifest, error.why) from None


def predict(checkpoint: Checkpoint, inputs: ModelInputs) -> NDArray[np.float64]:
    """Return the model's probabilities, after its output correction if it has one.

    Their shape is (records, classes), in the manifest's class order.

    Raises:
        NotEvaluableError: a probability is NaN, or the model ends the process that it is asked in.
    """
    manifest = checkpoint.manifest
    predicted = _predicted(checkpoint, inputs)
    if not np.all(np.isfinite(predicted)):
        why = "gives NaN probabilities: train it again"
        raise _refused(manifest, why, Reason.PROBABILITIES_INVALID)
    return predicted if manifest.output_correction is None else _corrected(predicted, manifest)


def _predicted(checkpoint: Checkpoint, inputs: ModelInputs) -> NDArray[np.float64]:
    manifest, described, content = checkpoint.manifest, checkpoint.described, checkpoint.content
    model = manifest.model
    try:
        for guess in inputs.guessed:
            words = (*guess.words, *guess.others)
            known = known_words(content, guess.place, words, about=guess.said, model=model)
            if instead := known.isdisjoint(guess.words) and sorted(known):
                told = f"{guess.said}{' or '.join(map(repr, instead))}: write it so"
                raise _feature_refused(manifest, told)
        found = score_rows(content, described, inputs, form=manifest.format, model=model)
    except ModelRefusedError as error:
        raise _refused(manifest, error.why) from None
    if described.classes is None:
        return found
    return aligned(found, tuple(looked_up(described.classes)), manifest.label.words)


def _refused(
    manifest: Manifest, why: str, reason: Reason = Reason.CHECKPOINT_INVALID
) -> NotEvaluableError:
    return NotEvaluableError(reason, f"The model {manifest.model} of {manifest.day} {why}.")


def _feature_refused(manifest: Manifest, why: str) -> NotEvaluableError:
    return _refused(manifest, f"cannot score these rows, because {why}", Reason.FEATURE_INVALID)


def aligned(
    found: NDArray[np.float64], known: tuple[str, ...], wanted: tuple[str, ...]
) -> NDArray[np.float64]:
    """Return probabilities of the classes `known` as those of the classes `wanted`, in their order.

    A class that a model does not know has the probability zero: no record of it was there to learn.
    """
    if known == wanted:
        return found
    every = np.zeros((len(found), len(wanted)))
    every[:, [wanted.index(word) for word in known]] = found
    return every


def write_checkpoint(
    lake: Lake,
    manifest: dict[str, Any],
    content: bytes,
    *,
    format: str = "catboost",  # noqa: A002  # as the manifest has it
) -> None:
    """Write a checkpoint as the lake wants it: file, manifest, `_SUCCESS` last.

    `manifest` holds all of the manifest's fields but `file`, `format`, `sha256` and
    `schema_version`, which are written here.
    """
    complete = manifest | {
        "schema_version": 1,
        "format": format,
        "file": FILES[format],
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    parsed = Manifest.model_validate(complete)
    folder = checkpoint_folder(parsed.model, parsed.day)
    lake.write(f"{folder}/{parsed.file}", content)
    lake.write(f"{folder}/manifest.json", parsed.model_dump_json(indent=2).encode())
    lake.complete(folder)


def _corrected(predicted: NDArray[np.float64], manifest: Manifest) -> NDArray[np.float64]:
    correction, classes = manifest.output_correction, len(manifest.label.classes)
    assert correction is not None  # noqa: S101  # by its caller
    try:
        flip = mechanisms.RandomizedResponse(correction.epsilon, classes).distribution()
        return mechanisms.correct_probabilities(predicted, flip, floor=correction.floor)
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


def check_described(
    model: ModelDescription, manifest: Manifest, *, lists: str = "its manifest lists"
) -> None:
    """Raise `NotEvaluableError` unless a model's file is what its manifest says.

    `lists` is who says so, and the verb.
    """
    names = [feature.name for feature in manifest.features]
    if model.names is not None and list(model.names) != _as_written(names, manifest.format):
        why = f"was trained on the features {list(model.names)}, but {lists} {names}"
        raise _refused(manifest, why)
    if len(model.kinds) != len(names):
        why = f"takes {len(model.kinds)} features, but {lists} {len(names)}"
        raise _refused(manifest, f"{why}: list all of them, in the model's order")
    for feature, kind in zip(manifest.features, model.kinds, strict=True):
        if kind not in {None, feature.kind}:
            why = f"takes {feature.name!r} as {kind}, but its manifest says {feature.kind}"
            raise _refused(manifest, why)
    classes, listed = manifest.label.words, list(manifest.label.classes)
    if model.classes is not None:
        # A class that was absent from the training days is none that the model can know.
        known = looked_up(model.classes)
        if known != [word for word in classes if word in known] or named_twice(known):
            why = f"knows the classes {list(model.classes)}, but {lists} {listed}"
            raise _refused(manifest, f"{why}: list the model's, in its order")
    elif model.class_count != len(classes):
        why = f"tells {model.class_count} classes apart, but {lists} {listed}"
        raise _refused(manifest, why)


def _as_written(names: list[str], form: str) -> list[str]:
    return [name.replace(" ", "_") for name in names] if form == "lightgbm" else names
