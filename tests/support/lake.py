"""Builders of small lakes: labelled rows, tiny CatBoost models, settings around them."""

import contextlib
import datetime as dt
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from workers.executors import Executor, InProcess, Total
from workers.labels.shards import write_labels
from workers.lake.checkpoints import Checkpoint
from workers.lake.formats.inputs import ModelDescription
from workers.lake.layout import Lake, checkpoint_folder
from workers.lake.manifest import Feature, LabelColumn, Manifest, Privacy, TrainedOn
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.label_places import LakeLabels
from workers.sources.join_context import JoinContext
from workers.training.jobs import Recipe, TrainingJob, train
from workers.warehouse.schema import AuditRecord

DAY = dt.date(2026, 3, 2)
EVE = DAY - dt.timedelta(days=1)
FEATURES = (
    Feature(name="delay", kind="numeric"),
    Feature(name="hour", kind="numeric"),
    Feature(name="city", kind="categorical"),
)
BINARY = LabelColumn(column="late", classes=(0, 1))
THREE = LabelColumn(column="late", classes=("early", "late", "punctual"))
PLAN = Plan(repetitions=4)
MEMORISE = {"iterations": 60, "depth": 8, "learning_rate": 0.5, "l2_leaf_reg": 0.1}
NO_JOIN_NEEDED = JoinContext(InProcess(), contextlib.ExitStack())
"""For sources whose rows lie there already."""
REMOVED = object()


def label_rows(
    rows: int,
    *,
    seed: int,
    label: LabelColumn = BINARY,
    holdout: float = 0.25,
    chances: tuple[float, ...] | None = None,
) -> pl.DataFrame:
    """Return rows whose label says nothing about the features; `chances` of the classes."""
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "delay": random.normal(size=rows).round(4),
            "hour": random.integers(0, 24, rows),
            "city": random.choice(["AMS", "BER", "CDG"], rows),
            label.column: random.choice(np.array(label.classes), rows, p=chances),
            "split": np.where(random.random(rows) < holdout, "holdout", "train"),
        }
    )


def put_labels(
    lake: Lake,
    day: dt.date,
    frame: pl.DataFrame,
    *,
    dataset: str = "flights",
    row_group_size: int | None = None,
) -> None:
    """Write a day's labels, in two row groups unless their size is given."""
    size = row_group_size or max(1, -(-frame.height // 2))
    write_labels(lake, dataset, day, frame.to_arrow(), row_group_size=size)


def declared(epsilon: float = 0.5, **changes: Any) -> dict[str, Any]:
    """Return a declaration as the manifest holds it."""
    return {
        "definition": "label_dp",
        "neighbors": "replace",
        "unit": "flight",
        "epsilon": epsilon,
        "delta": 0.0,
        "mechanism": None,
        "declared_by": "a test",
        "declared_at": "2026-01-01T00:00:00Z",
    } | changes


def manifest_for(**changes: Any) -> Manifest:
    """Return a valid manifest of a model that nowhere lies."""
    day: dt.date = changes.get("day", DAY)
    given: dict[str, Any] = {
        "schema_version": 1, "model": "ads", "day": day, "format": "catboost", "file": "model.cbm",
        "sha256": "a" * 64, "dataset": "flights", "label": BINARY, "features": FEATURES[:1],
        "trained_on": TrainedOn(first=day, last=day, split="train"), "privacy": None,
    }  # fmt: skip
    return Manifest.model_validate(given | changes)


def without_files(
    *,
    model: str = "ads",
    classes: int = 3,
    features: tuple[str, ...] = ("age",),
    privacy: Privacy | None = None,
) -> CheckpointSource:
    """Return a source of two days whose checkpoints and labels lie nowhere."""
    label = LabelColumn(column="label", classes=tuple(range(classes)))
    manifests = (
        manifest_for(
            model=model,
            day=day,
            sha256=digit * 64,
            label=label,
            privacy=privacy,
            features=tuple(Feature(name=name, kind="numeric") for name in features),
        )
        for day, digit in ((DAY, "a"), (EVE, "b"))
    )
    nothing = ModelDescription(kinds=(), names=None, classes=None, class_count=2)
    models = (Checkpoint(manifest, manifest.sha256, b"", nothing) for manifest in manifests)
    return CheckpointSource(LakeLabels(Lake("/nowhere"), "flights", (EVE, DAY)), *models)


def put_model(
    lake: Lake,
    day: dt.date,
    *,
    model: str = "good",
    dataset: str = "flights",
    label: LabelColumn = BINARY,
    features: tuple[Feature, ...] = FEATURES,
    privacy: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
) -> None:
    """Train on the day's labels and write the checkpoint; `manifest` overrides its fields."""
    few = {"iterations": 5, "depth": 2} if parameters is None else parameters
    recipe = Recipe(model, dataset, label, features, privacy=privacy, parameters=few)
    train(lake, TrainingJob(recipe, day, seed=1))
    if manifest:
        edit_manifest(lake, model, day, **manifest)


def small_lake(
    folder: pathlib.Path,
    *,
    label: LabelColumn = BINARY,
    rows: int = 400,
    days: Iterable[dt.date] = (EVE, DAY),
    privacy: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    row_group_size: int | None = None,
    features: tuple[Feature, ...] = FEATURES,
) -> Lake:
    """Return a lake with nothing wrong with it: the model `good` and its labels on every day."""
    lake = Lake(str(folder))
    for seed, day in enumerate(days):
        frame = label_rows(rows, seed=seed, label=label)
        put_labels(lake, day, frame, row_group_size=row_group_size)
        put_model(lake, day, label=label, privacy=privacy, parameters=parameters, features=features)
    return lake


def remembering_lake(folder: pathlib.Path, rows: int = 2_000) -> Lake:
    """Return a lake whose model remembers each day's labels, against a declared 0.5."""
    return small_lake(folder, rows=rows, privacy=declared(0.5), parameters=MEMORISE)


def copied(lake: Lake, folder: pathlib.Path) -> Lake:
    """Return a copy of a lake in this folder, which may be changed."""
    return Lake(shutil.copytree(lake.uri, folder / "lake", dirs_exist_ok=True).as_posix())


def clone_model(lake: Lake, model: str, *, of: str = "good") -> None:
    """Copy the checkpoints of `of` and their labels; the copy has a dataset of its own."""
    root = pathlib.Path(lake.uri)
    shutil.copytree(root / "models" / of, root / "models" / model)
    shutil.copytree(root / "labels" / "flights", root / "labels" / f"{model}-labels")
    for folder in (root / "models" / model).iterdir():
        day = dt.date.fromisoformat(folder.name.removeprefix("day="))
        edit_manifest(lake, model, day, model=model, dataset=f"{model}-labels")


def manifest_of(lake: Lake, model: str, day: dt.date) -> dict[str, Any]:
    """Return a manifest as it stands in the lake."""
    content: dict[str, Any] = json.loads(
        lake.read(f"{checkpoint_folder(model, day)}/manifest.json")
    )
    return content


def edit_manifest(lake: Lake, model: str, day: dt.date, /, **changes: Any) -> None:
    """Set fields of a manifest in the lake, whatever they are; `REMOVED` takes one out."""
    content = manifest_of(lake, model, day) | changes
    kept = {name: value for name, value in content.items() if value is not REMOVED}
    lake.write(f"{checkpoint_folder(model, day)}/manifest.json", json.dumps(kept).encode())


def replace_model(lake: Lake, model: str, day: dt.date, content: bytes) -> None:
    """Put other bytes in the place of a model, with the digest that fits them."""
    lake.write(f"{checkpoint_folder(model, day)}/model.cbm", content)
    edit_manifest(lake, model, day, sha256=hashlib.sha256(content).hexdigest())


def label_path(lake: Lake, dataset: str, day: dt.date = DAY) -> pathlib.Path:
    """Return the path of a day's only label file."""
    return pathlib.Path(lake.uri) / "labels" / dataset / f"day={day}" / "part-00000.parquet"


def model_path(lake: Lake, model: str, day: dt.date = DAY) -> pathlib.Path:
    """Return the folder of a checkpoint."""
    return pathlib.Path(lake.uri) / "models" / model / f"day={day}"


def figures(record: AuditRecord) -> dict[str, Any]:
    """Return all that a record says but when it was made."""
    dumped = record.model_dump()
    del dumped["audit"]["recorded_at"]
    return dumped


def write_settings(folder: pathlib.Path, models: Iterable[str], *, more: str = "") -> pathlib.Path:
    """Write settings for a lake in `folder`/lake, with few repetitions."""
    path = folder / "privaudit.toml"
    named = "".join(f'[[models]]\nname = "{model}"\n' for model in models)
    path.write_text(
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n'
        f"{named}[plan]\nrepetitions = 4\n{more}",
        encoding="utf-8",
    )
    return path


@dataclass(frozen=True)
class Shuffled(Executor):
    """An executor that takes the items in an order of its own."""

    seed: int

    def map(self, function: Any, shared: Any, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in a shuffled order."""
        listed = list(items)
        for position in np.random.default_rng(self.seed).permutation(len(listed)):
            yield function(shared, listed[position])

    def total(
        self,
        function: Any,
        shared: Any,
        items: Iterable[Any],
        *,
        on_done: Any,
        deadline: Any = None,
    ) -> Any:
        """Return the sum of the results, added in another shuffled order."""
        assert deadline is None
        told = list(self.map(function, shared, items))
        for words, _ in told:
            on_done(words)
        results = [result for _, result in told]
        order = np.random.default_rng(self.seed + 1)
        while len(results) > 1:
            place = int(order.integers(len(results) - 1))
            results[place : place + 2] = [results[place + 1] + results[place]]
        return Total(results[0])
