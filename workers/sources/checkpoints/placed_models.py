"""Model files outside of the lake: found, and read as checkpoints.

The settings and the model's own file say together what a manifest says in the lake.
"""

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pydantic import ValidationError

from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.checkpoints import Checkpoint, check_described, describe_checkpoint
from workers.lake.formats import FILES
from workers.lake.layout import Lake, check_name
from workers.lake.manifest import SCHEMA_VERSION, Manifest, Privacy
from workers.lake.mlflow_registry import RegisteredFile, find_registered, read_artifact
from workers.lake.places import day_path, split_day_path
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedModel(RegisteredFile):
    """A day's model file that was found."""

    day: dt.date

    def read(self, model: str) -> bytes:
        """Return its bytes.

        Raises:
            NotEvaluableError: it is gone, too large, or cannot be read.
        """
        try:
            return read_artifact(self.folder, self.name, at_most=limits.CHECKPOINT_BYTES)
        except FileNotFoundError:
            raise NotEvaluableError(
                Reason.MISSING_TARGET,
                f"The checkpoint of {model} for {self.day}, {self.folder}/{self.name}, is gone: "
                "keep model files for as long as they are audited.",
            ) from None


def find_model_file(paths: CheckpointPaths, model: str, day: dt.date) -> PlacedModel:
    """Return a day's model file, once it is complete.

    Raises:
        NotEvaluableError: there is none, or no mark that it is complete.
    """
    check_name("model", model)
    if paths.registered:
        address = day_path(paths.path, model, day)
        found = find_registered(address, paths.artifacts or ())
        if found is None:
            raise NotEvaluableError(
                Reason.MISSING_TARGET,
                f"There is no complete checkpoint of {model} for {day}: the MLflow registry has no "
                f"{address} that is ready; set the alias when the day's model is registered.",
            )
        return PlacedModel(**dataclasses.asdict(found), day=day)
    for template in (paths.path, paths.ready):
        if template is None:
            continue
        folder, name = split_day_path(template, model, day)
        if not Lake(folder).has(name):
            raise NotEvaluableError(
                Reason.MISSING_TARGET,
                f"There is no complete checkpoint of {model} for {day}: {folder}/{name} is "
                "missing.",
            )
    return PlacedModel(*split_day_path(paths.path, model, day), day=day)


def find_earlier(
    paths: CheckpointPaths,
    model: str,
    day: dt.date,
    *,
    within_days: int,
    registered_before: dt.datetime | None = None,
) -> PlacedModel | None:
    """Return the model file of the latest day before `day`; None where no day so near has one.

    One that was not registered before `registered_before`, where that is given, is passed over.
    """
    for back in range(1, within_days + 1):
        try:
            found = find_model_file(paths, model, day - dt.timedelta(days=back))
        except NotEvaluableError as error:
            if error.reason is not Reason.MISSING_TARGET:
                raise
            continue
        at = found.registered_at
        if registered_before is None or (at is not None and at < registered_before):
            return found
    return None


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def stored_kind(kind: pa.DataType) -> str:
    """Return the kind of a feature by how its column is stored."""
    return "numeric" if any(is_one(kind) for is_one in _NUMBERS) else "categorical"


def read_model_file(
    file: PlacedModel,
    paths: CheckpointPaths,
    labels: LabelTable,
    *,
    model: str,
    privacy: Privacy | None,
    kind_of: Callable[[str], str | None],
) -> Checkpoint:
    """Return a model file as a checkpoint, with the manifest that settings and file come to.

    It is taken to have been trained on its day. Where the file does not say what kind a feature is
    of, `kind_of` says it of the column of that name.

    Raises:
        NotEvaluableError: it is no model of the format, or none to score with, or is not what the
            settings say.
    """
    content = file.read(model)
    form = file.format or paths.known_format
    described = describe_checkpoint(content, model, file.day, form=form)
    unnamed, count = "Column_" if form == "lightgbm" else "f", len(described.kinds)
    names = paths.features or described.names or [f"{unnamed}{place}" for place in range(count)]
    if len(names) != count:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {model} of {file.day} takes {count} features, but checkpoints.features "
            f"lists {len(names)}: list each, in the order of training.",
        )
    classes = labels.classes or described.classes or tuple(range(described.class_count))
    said = {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "day": file.day,
        "format": form,
        "file": FILES[form],
        "sha256": hashlib.sha256(content).hexdigest(),
        "dataset": labels.table,
        "label": {"column": labels.label, "classes": classes, "state": labels.label_state},
        "features": [
            {"name": name, "kind": kind or kind_of(name) or "numeric"}
            for name, kind in zip(names, described.kinds, strict=True)
        ],
        "trained_on": {"first": file.day, "last": file.day, "split": "train"},
        "privacy": privacy,
    }
    try:
        manifest = Manifest.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {model} of {file.day} cannot be described by its file and the settings: "
            f"{field} is wrong ({first['msg']}).",
        ) from None
    check_described(described, manifest, lists="the settings list")
    # Not where the labels lie: the same model of the same rows in another place is the same audit.
    plain = manifest.model_dump(mode="json", exclude={"dataset", "file"})
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return Checkpoint(manifest, digest, content, described)
