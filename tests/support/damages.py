"""Every bad input: what breaks it, and the word and sentence that it must end in."""

import contextlib
import os
import pathlib
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import catboost
import numpy as np
import polars as pl

from tests.support.lake import (
    DAY,
    EVE,
    REMOVED,
    declared,
    edit_manifest,
    label_path,
    manifest_of,
    model_path,
    put_labels,
    replace_model,
)
from workers.exceptions import Reason
from workers.lake.layout import Lake


class MaliciousFile:
    """Its pickle writes a file for whoever loads it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return pathlib.Path.touch, (self.path,)


def with_bytes_changed(content: bytes, seed: int) -> bytes:
    """Return a file with one to eight of its bytes changed."""
    chance, changed = random.Random(seed), bytearray(content)  # noqa: S311
    for _ in range(chance.choice([1, 1, 2, 8])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


@dataclass(frozen=True)
class Damage:
    """One way in which the model `model`, with the dataset `<model>-labels`, can be broken."""

    name: str
    apply: Callable[[Lake, str], Any]
    reason: Reason
    words: tuple[str, ...]


def witness(lake: Lake) -> pathlib.Path:
    """Return the file that appears when a checkpoint is unpickled."""
    return pathlib.Path(lake.uri).parent / "unpickled"


def malicious_pickle(lake: Lake) -> bytes:
    """Return a pickle that leaves `witness` behind."""
    return pickle.dumps(MaliciousFile(witness(lake)))


def _relabel(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Lake, str], None]:
    def apply(lake: Lake, model: str) -> None:
        dataset = f"{model}-labels"
        frame = change(pl.read_parquet(label_path(lake, dataset)))
        label_path(lake, dataset).unlink()
        put_labels(lake, DAY, frame, dataset=dataset)

    return apply


def _columns(**columns: pl.Expr) -> Callable[[Lake, str], None]:
    return _relabel(lambda frame: frame.with_columns(**columns))


def _third(expression: pl.Expr, other: Any) -> pl.Expr:
    return pl.when(pl.int_range(pl.len()) == 2).then(other).otherwise(expression)


def _manifest(on: Any = DAY, /, **changes: Any) -> Callable[[Lake, str], None]:
    return lambda lake, model: edit_manifest(lake, model, on, **changes)


def _trained(first: Any, last: Any) -> dict[str, str]:
    return {"first": str(first), "last": str(last), "split": "train"}


def _reversed_features(lake: Lake, model: str) -> None:
    features = manifest_of(lake, model, DAY)["features"]
    edit_manifest(lake, model, DAY, features=features[::-1])


def _forget_model(day: Any) -> Callable[[Lake, str], None]:
    def apply(lake: Lake, model: str) -> None:
        folder = model_path(lake, model, day)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    return apply


def _old_proxy(lake: Lake, model: str) -> None:
    old = DAY - timedelta(days=8)
    model_path(lake, model, EVE).rename(model_path(lake, model, old))
    edit_manifest(lake, model, old, day=str(old), trained_on=_trained(old, old))


def _overwrite(offset: int, length: int, whence: int = os.SEEK_SET) -> Callable[[Lake, str], None]:
    def apply(lake: Lake, model: str) -> None:
        with label_path(lake, f"{model}-labels").open("r+b") as file:
            file.seek(offset, whence)
            file.write(b"\xff" * length)

    return apply


def _truncated(lake: Lake, model: str) -> None:
    path = label_path(lake, f"{model}-labels")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _append(day: Any) -> Callable[[Lake, str], None]:
    def apply(lake: Lake, model: str) -> None:
        with (model_path(lake, model, day) / "model.cbm").open("ab") as file:
            file.write(b"\0")

    return apply


def _nan_leaves(day: Any) -> Callable[[Lake, str], None]:
    """CatBoost takes a NaN from no caller, so the bytes of its leaves are overwritten."""

    def apply(lake: Lake, model: str) -> None:
        content = (model_path(lake, model, day) / "model.cbm").read_bytes()
        leaves = catboost.CatBoost().load_model(blob=content).get_leaf_values()
        assert content.count(leaves.tobytes()) == 1
        nan = np.full_like(leaves, np.nan)
        replace_model(lake, model, day, content.replace(leaves.tobytes(), nan.tobytes()))

    return apply


def _classes_swapped(lake: Lake, model: str) -> None:
    for day in (EVE, DAY):
        edit_manifest(lake, model, day, label={"column": "late", "classes": [1, 0]})


def _without(file: str) -> Callable[[Lake, str], None]:
    return lambda lake, model: (model_path(lake, model) / file).unlink()


def _no_json(lake: Lake, model: str) -> None:
    (model_path(lake, model) / "manifest.json").write_text("model: good", encoding="utf-8")


def _pickled(lake: Lake, model: str) -> None:
    replace_model(lake, model, DAY, malicious_pickle(lake))


def _unfinished_labels(lake: Lake, model: str) -> None:
    (label_path(lake, f"{model}-labels").parent / "_SUCCESS").unlink()


def _no_label_files(lake: Lake, model: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        label_path(lake, f"{model}-labels").unlink()


def _few(frame: pl.DataFrame) -> pl.DataFrame:
    train = frame.filter(pl.col("split") == "train").head(199)
    return pl.concat([train, frame.filter(pl.col("split") == "holdout")])


_LATE = pl.col("late")
_CITY = pl.col("city")

DAMAGES = (
    Damage("target-unfinished", _without("_SUCCESS"), Reason.MISSING_TARGET,
           (str(DAY), "_SUCCESS")),
    Damage("target-missing", _forget_model(DAY), Reason.MISSING_TARGET, (str(DAY),)),
    Damage("target-missed-day", _manifest(trained_on=_trained(EVE, EVE)),
           Reason.TARGET_MISSED_THE_DAY, (str(EVE), "never saw")),
    Damage("proxy-missing", _forget_model(EVE), Reason.MISSING_PROXY, ("7 days before",)),
    Damage("proxy-8-days-old", _old_proxy, Reason.MISSING_PROXY, ("7 days before",)),
    Damage("proxy-saw-day", _manifest(EVE, trained_on=_trained(EVE, DAY)),
           Reason.PROXY_SAW_THE_DAY, (str(EVE), str(DAY))),
    Damage("proxy-of-other-label",
           _manifest(EVE, label={"column": "delayed", "classes": [0, 1]}),
           Reason.MANIFEST_INVALID, ("delayed", "late")),
    Damage("target-digest", _append(DAY), Reason.DIGEST_MISMATCH, (f"day={DAY}", "SHA-256")),
    Damage("proxy-digest", _append(EVE), Reason.DIGEST_MISMATCH, (f"day={EVE}", "SHA-256")),
    Damage("manifest-version", _manifest(schema_version=2), Reason.MANIFEST_INVALID,
           ("schema_version 2", "version 1")),
    Damage("manifest-without-version", _manifest(schema_version=REMOVED), Reason.MANIFEST_INVALID,
           ("no field schema_version",)),
    Damage("manifest-without-training", _manifest(trained_on=REMOVED), Reason.MANIFEST_INVALID,
           ("no field trained_on",)),
    Damage("manifest-without-privacy", _manifest(privacy=REMOVED), Reason.MANIFEST_INVALID,
           ("no field privacy",)),
    Damage("manifest-without-classes", _manifest(label={"column": "late"}),
           Reason.MANIFEST_INVALID, ("no field label.classes",)),
    Damage("manifest-unknown-field", _manifest(epsilon=1.0), Reason.MANIFEST_INVALID, ("epsilon",)),
    Damage("manifest-no-json", _no_json, Reason.MANIFEST_INVALID, ("the document",)),
    Damage("manifest-missing", _without("manifest.json"), Reason.MANIFEST_INVALID,
           ("no manifest.json",)),
    Damage("manifest-of-other-model", _manifest(model="good"), Reason.MANIFEST_INVALID,
           ("is of good for",)),
    Damage("manifest-of-other-day", _manifest(day=str(EVE)), Reason.MANIFEST_INVALID,
           (f"for {EVE}",)),
    Damage("manifest-other-format", _manifest(format="pickle"), Reason.MANIFEST_INVALID,
           ("format", "catboost")),
    Damage("manifest-file-walks-out", _manifest(file="../day=2026-03-01/model.cbm"),
           Reason.MANIFEST_INVALID, ("file",)),
    Damage("manifest-dataset-walks-out", _manifest(dataset="../labels/good"), Reason.NAME_INVALID,
           ("'../labels/good'",)),
    Damage("manifest-infinite-epsilon", _manifest(privacy={"epsilon": None}),
           Reason.MANIFEST_INVALID, ("privacy.",)),
    Damage("manifest-feature-twice", _manifest(features=[{"name": "delay", "kind": "numeric"}] * 2),
           Reason.MANIFEST_INVALID, ("'delay' twice",)),
    *(Damage(f"manifest-declared-{when}", _manifest(privacy=declared(0.5, declared_at=at)),
             Reason.MANIFEST_INVALID, ("declared_at",))
      for when, at in (("before-utc", "0001-01-01T00:00:00+14:00"),
                       ("after-utc", "9999-12-31T23:59:59-12:00"))),
    Damage("model-file-missing", _without("model.cbm"), Reason.CHECKPOINT_INVALID, ("model.cbm",)),
    Damage("model-is-a-pickle", _pickled, Reason.CHECKPOINT_INVALID, ("CatBoost's format",)),
    Damage("features-in-other-order", _reversed_features, Reason.CHECKPOINT_INVALID,
           ("['delay', 'hour', 'city']", "['city', 'hour', 'delay']")),
    Damage("classes-in-other-order", _classes_swapped, Reason.CHECKPOINT_INVALID, ("[1, 0]",)),
    Damage("target-gives-nan", _nan_leaves(DAY), Reason.PROBABILITIES_INVALID, ("NaN", str(DAY))),
    Damage("proxy-gives-nan", _nan_leaves(EVE), Reason.PROBABILITIES_INVALID, ("NaN", str(EVE))),
    Damage("labels-unfinished", _unfinished_labels, Reason.MISSING_LABELS, (str(DAY), "_SUCCESS")),
    Damage("labels-without-files", _no_label_files, Reason.MISSING_LABELS, ("no rows",)),
    Damage("labels-without-rows", _relabel(lambda frame: frame.head(0)), Reason.TOO_FEW_RECORDS,
           ("0 training records", "200")),
    Damage("labels-damaged-footer", _overwrite(-40, 32, os.SEEK_END), Reason.LABELS_UNREADABLE,
           ("part-00000.parquet", "write it again")),
    Damage("labels-damaged-data", _overwrite(4, 600), Reason.LABELS_UNREADABLE,
           ("part-00000.parquet", "write it again")),
    Damage("labels-cut-off", _truncated, Reason.LABELS_UNREADABLE, ("part-00000.parquet",)),
    Damage("label-column-missing", _relabel(lambda frame: frame.drop("late")),
           Reason.LABEL_INVALID, ("no column 'late'",)),
    Damage("label-null", _columns(late=_third(_LATE, None)),
           Reason.LABEL_INVALID, ("row 2 of row group 0 no label", "'late'", "label_invalid 1")),
    Damage("label-unknown-class",
           _columns(late=_third(_LATE, 7)),
           Reason.LABEL_INVALID, ("'late'", "row 2", "2 classes")),
    Damage("label-nan",
           _columns(late=_third(_LATE.cast(pl.Float64), float("nan"))),
           Reason.LABEL_INVALID, ("'late'",)),
    Damage("label-of-wrong-kind",
           _columns(late=pl.concat_list("late")),
           Reason.LABEL_INVALID, ("'late'",)),
    Damage("split-column-missing", _relabel(lambda frame: frame.drop("split")),
           Reason.LABEL_INVALID, ("no column 'split'",)),
    Damage("feature-missing", _relabel(lambda frame: frame.drop("hour")), Reason.FEATURE_INVALID,
           ("'hour'",)),
    Damage("numeric-feature-as-text",
           _columns(delay=pl.col("delay").cast(pl.String)),
           Reason.FEATURE_INVALID, ("'delay'", "String", "numeric")),
    Damage("categorical-feature-as-fraction",
           _columns(city=pl.lit(0.5)),
           Reason.FEATURE_INVALID, ("'city'", "Float64")),
    Damage("categorical-feature-as-list",
           _columns(city=pl.concat_list(_CITY)),
           Reason.FEATURE_INVALID, ("'city'", "List", "categorical")),
    Damage("too-few-records", _relabel(_few), Reason.TOO_FEW_RECORDS, ("199", "200")),
    Damage("no-holdout", _columns(split=pl.lit("train")),
           Reason.NO_HOLDOUT, ("holdout",)),
)  # fmt: skip
