"""A manifest made from a model file and a file of the day's labels: what both say of themselves."""

import datetime as dt
import hashlib
import pathlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from privcore.exceptions import TerminalError
from workers.labels.batches import distinct_values
from workers.labels.parquet import read_footer
from workers.lake import limits
from workers.lake.formats import ENDINGS
from workers.lake.layout import Lake, read_named
from workers.lake.manifest import SCHEMA_VERSION, Manifest, class_word, looked_up
from workers.lake.model_sandbox import ModelDescription, UnreadableModelError, describe_model

_CLASSES = 1_000
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


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
        TerminalError: the model or the table cannot be read, the table lacks a column, or the
            values break a rule of manifests.
    """
    form = ENDINGS.get(model_file.suffix)
    if form is None:
        known = ", ".join(ENDINGS)
        raise TerminalError(f"{model_file} ends in none of {known}: give a model file of these.")
    content, kinds = _content(model_file), _kinds(table)
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
        "label": {"column": label, "classes": _classes(described, kinds, label, table)},
        "features": _features(described, kinds, label, table),
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


def _kinds(table: pathlib.Path) -> pa.Schema:
    if not table.is_file():  # of a pipe no beginning would come
        raise TerminalError(f"{table} cannot be read as Parquet.")
    return read_footer(*_place(table)).schema()


def _place(table: pathlib.Path) -> tuple[Lake, str]:
    """Return the folder in which a file lies, and its name there; links are followed."""
    real = table.resolve()
    return Lake(str(real.parent)), real.name


def _classes(
    described: ModelDescription, kinds: pa.Schema, label: str, table: pathlib.Path
) -> list[Any]:
    """Return the model's classes, or the column's values where it names none, as the table has."""
    if label not in kinds.names:
        raise TerminalError(f"{table} has no column {label!r}: it has {', '.join(kinds.names)}.")
    values = distinct_values(*_place(table), label, most=_CLASSES)
    if len(values) > _CLASSES and not described.classes:
        raise TerminalError(
            f"{table} has more than {_CLASSES:,} values in {label!r}, which are no classes: "
            "name the column of the classes that the model predicts."
        )
    by_word = {class_word(one): one for one in sorted(values) if class_word(one) != "nan"}
    plain = {word: value for word, value in by_word.items() if isinstance(value, bool | int | str)}
    whole = not plain or pa.types.is_integer(kinds.field(label).type)  # 1.0 is 1
    words = looked_up(described.classes or by_word)
    return [plain.get(word, int(word) if whole and word.isdecimal() else word) for word in words]


def _features(
    described: ModelDescription, kinds: pa.Schema, label: str, table: pathlib.Path
) -> list[dict[str, str]]:
    """Return the model's features, with the table's kinds where the model says none."""
    others = [name for name in kinds.names if name not in {label, "split"}]
    names = described.names or tuple(others[: len(described.kinds)])
    features = []
    for name, kind in zip(names, described.kinds, strict=True):
        if name not in kinds.names:
            raise TerminalError(
                f"The model takes the feature {name!r}, which {table} lacks: write it there under "
                "that name."
            )
        number = any(is_one(kinds.field(name).type) for is_one in _NUMBERS)
        features.append({"name": name, "kind": kind or ("numeric" if number else "categorical")})
    return features
