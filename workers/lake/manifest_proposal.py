"""A manifest made from a model file and a file of the day's labels: what both say of themselves."""

import datetime as dt
import hashlib
import pathlib
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.exceptions import TerminalError
from workers.lake import limits
from workers.lake.formats import ENDINGS
from workers.lake.layout import read_named
from workers.lake.manifest import SCHEMA_VERSION, Manifest
from workers.lake.model_sandbox import ModelDescription, UnreadableModelError, describe_model
from workers.plain_files import open_plain

_CLASSES = 1_000


@dataclass(frozen=True, slots=True)
class ProposedDeclaration:
    """Label differential privacy under replacement, by no named mechanism."""

    epsilon: float
    delta: float
    unit: str
    declared_by: str

    def as_manifest(self) -> dict[str, Any]:
        """Return the field `privacy` of a manifest."""
        return {
            "definition": "label_dp",
            "neighbors": "replace",
            "unit": self.unit,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mechanism": None,
            "declared_by": self.declared_by or "unknown",
            "declared_at": None,
        }


def proposed_manifest(
    model_file: pathlib.Path,
    table: pathlib.Path,
    *,
    model: str,
    day: dt.date,
    dataset: str,
    label: str,
    declaration: ProposedDeclaration | None = None,
) -> dict[str, Any]:
    """Return a whole manifest as JSON holds it; every field is there, and can be edited.

    Raises:
        TerminalError: the model cannot be read, the table lacks a column, or the values break a
            rule of manifests.
    """
    form = ENDINGS.get(model_file.suffix)
    if form is None:
        known = ", ".join(ENDINGS)
        raise TerminalError(f"{model_file} ends in none of {known}: give a model file of these.")
    content, rows = _content(model_file), _rows(table)
    try:
        described = describe_model(content, format=form)
    except UnreadableModelError as error:
        raise TerminalError(f"{model_file} {error.why}.") from None
    proposed = {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "day": day.isoformat(),
        "format": form,
        "file": model_file.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "dataset": dataset,
        "label": {"column": label, "classes": _classes(described, rows, label, table)},
        "features": _features(described, rows, label, table),
        "trained_on": {"first": day.isoformat(), "last": day.isoformat(), "split": "train"},
        "output_correction": None,
        "decoys": None,
        "privacy": declaration and declaration.as_manifest(),
    }
    try:
        Manifest.model_validate(proposed)
    except ValueError as error:
        raise TerminalError(f"No manifest can say so: {' '.join(str(error).split())}") from None
    return proposed


def _content(model_file: pathlib.Path) -> bytes:
    try:
        return read_named(str(model_file), at_most=limits.CHECKPOINT_BYTES)
    except OSError as error:
        raise TerminalError(f"{model_file} cannot be read: {error.strerror}.") from None


def _rows(table: pathlib.Path) -> pl.LazyFrame:
    try:
        open_plain(table).close()  # of a pipe no beginning would come
        rows = pl.scan_parquet(table)
        rows.collect_schema()
    except (OSError, pl.exceptions.PolarsError):
        raise TerminalError(f"{table} cannot be read as Parquet.") from None
    return rows


def _classes(
    described: ModelDescription, rows: pl.LazyFrame, label: str, table: pathlib.Path
) -> list[Any]:
    """Return the model's classes, or the column's values where it names none, as the table has."""
    schema = rows.collect_schema()
    if label not in schema:
        raise TerminalError(f"{table} has no column {label!r}: it has {', '.join(schema)}.")
    values = rows.select(pl.col(label).drop_nulls().unique().sort()).head(_CLASSES).collect()[label]
    by_word = {str(value): value for value in values.to_list()}
    words = described.classes or tuple(by_word)
    whole = schema[label].is_integer()
    return [by_word.get(word, int(word) if whole else word) for word in words]


def _features(
    described: ModelDescription, rows: pl.LazyFrame, label: str, table: pathlib.Path
) -> list[dict[str, str]]:
    """Return the model's features, with the table's kinds where the model says none."""
    schema = rows.collect_schema()
    others = [name for name in schema if name not in {label, "split"}]
    names = described.names or tuple(others[: len(described.kinds)])
    features = []
    for name, kind in zip(names, described.kinds, strict=True):
        if name not in schema:
            raise TerminalError(
                f"The model takes the feature {name!r}, which {table} lacks: write it there under "
                "that name."
            )
        number = schema[name].is_numeric() or schema[name] == pl.Boolean
        features.append({"name": name, "kind": kind or ("numeric" if number else "categorical")})
    return features
