"""Description of a model file by itself, and features of rows as the model takes them.

Nothing foreign runs here. A framework's file keeps categories as values: text, numbers, or true and
false. A column is compared by value, so that 10, 10.0 and a decimal 10.00 are one category, and
true is 1. Text stands for a number only where the whole list leaves no doubt.
"""

import contextlib
import fcntl
import mmap
import os
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from workers.lake import limits
from workers.lake.formats import NUMBERS
from workers.lake.formats.contract import TENSORS, Categories, Category, ModelRefusedError
from workers.lake.manifest import Manifest
from workers.strict_model import StrictModel

_WRITTEN_MISSING = ("nan", "NaN", "None", "<NA>", "NaT")
"""Words as which pandas and Python write a missing value as text."""
_MISSING_WORDS = (*_WRITTEN_MISSING, "none", "NA", "N/A", "NULL", "null", "missing", "Missing",
                  "MISSING", "unknown", "Unknown", "UNKNOWN", "-1", "-999", "")  # fmt: skip
"""Words by which training often stands in for a missing category."""
_TRUTH_WORDS = ("False", "True", "false", "true")
_TRUTH = {"True": True, "true": True, "False": False, "false": False}
_SEEN = 8
"""Whole numbers that are looked for with ".0" behind them, as pandas writes floats."""
_REAL, _WHOLE = {"tensor(float)", "tensor(double)"}, {"tensor(int64)", "tensor(int32)"}
_EXACT = 2.0**53
"""The largest number up to which doubles are all whole numbers."""
_SEALS = (
    fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    if hasattr(fcntl, "F_SEAL_SEAL")
    else 0
)


MOST = 1 << 20
"""Features, classes and rounds that a model has at most."""
_FEW = Field(max_length=MOST)


class CountedRows(StrictModel):
    """The number of rows that trained a model, as a framework's trees keep it.

    A file that was changed on purpose may say anything: no accusation rests on it. Where training
    may have drawn a sample of its rows for the trees, `exact` is false: there were at least as
    many.
    """

    count: int = Field(ge=0, le=1 << 53)
    exact: bool


class ModelDescription(StrictModel):
    """Description of a model file by itself, which may have taken its reader over."""

    kinds: Annotated[tuple[Literal["numeric", "categorical"] | None, ...], _FEW]
    """Kind of each feature, in the model's order; None where the file does not say."""
    names: Annotated[tuple[str, ...] | None, _FEW]
    """Names of the features; None where the file has none."""
    classes: Annotated[tuple[str, ...] | None, _FEW]
    """Classes as text, in the order of the probabilities; None where the file names none."""
    class_count: int = Field(ge=0, le=MOST)
    rows: CountedRows | None = None
    """Rows that trained it; None where the file does not say."""
    unserved_rounds: int = Field(default=0, ge=0, le=MOST)
    """Rounds of boosting that it holds and does not predict with."""
    categories: Annotated[Categories, _FEW] = Field(default=(), repr=False)
    """Of each feature, the categories as the framework wrote them, and the model's codes of them;
    None for a numeric feature, and where the file names none. Models of the same features, the same
    categories and the same `takes` take the same inputs."""
    takes: Annotated[tuple[tuple[str, str], ...], _FEW] = ()
    """What a file itself calls its inputs, and their types; empty where all models of the framework
    take the same."""
    row_seconds: float = Field(default=0.0, ge=0.0, le=limits.MODEL_ROW_SECONDS)
    """Processor time that a trial row took."""


class InputsRefusedError(ModelRefusedError):
    """The features are not what the model takes; `why` completes "the feature ..."."""


@dataclass(frozen=True, slots=True)
class Guess:
    """How training wrote a category is a guess, which the model may refute.

    Attributes:
        place: of the feature.
        words: which the guess is.
        others: which a model may know instead.
        said: the sentence where it does.
    """

    place: int
    words: tuple[str, ...]
    others: tuple[str, ...]
    said: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ModelInputs:
    """Features of rows; models that take the same ones share them.

    Attributes:
        frame: the columns.
        guessed: what of their text is a guess.
        matrix: whether the model takes all of them as one matrix.
    """

    frame: pl.DataFrame
    guessed: tuple[Guess, ...] = ()
    matrix: bool = False
    _files: list[int] = field(default_factory=list, repr=False)

    def file(self) -> int:
        """Return an open file of them, which nobody can change any more.

        It is a matrix of numbers, row after row, or a stream of Arrow's.
        """
        if not self._files:
            made = os.memfd_create("features", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
            weakref.finalize(self, os.close, made)
            (_write_matrix if self.matrix else _write_stream)(made, self.frame)
            fcntl.fcntl(made, fcntl.F_ADD_SEALS, _SEALS)
            self._files.append(made)
        return self._files[0]


def _write_matrix(file: int, frame: pl.DataFrame) -> None:
    kind = frame.head(0).to_numpy().dtype
    size = frame.height * frame.width * kind.itemsize
    os.ftruncate(file, size)
    with mmap.mmap(file, size) as memory:
        matrix = np.frombuffer(memory, dtype=kind).reshape(frame.height, frame.width)
        for place, column in enumerate(frame):
            matrix[:, place] = column.to_numpy()
        del matrix  # it would keep the memory


def _write_stream(file: int, frame: pl.DataFrame) -> None:
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    with (
        os.fdopen(file, "wb", buffering=0, closefd=False) as stream,
        pa.ipc.new_stream(stream, table.schema) as writer,
    ):
        writer.write_table(table)


def inputs_of(described: ModelDescription, manifest: Manifest, frame: pl.DataFrame) -> ModelInputs:
    """Return features as a model takes them.

    Args:
        described: what the model's file says of itself.
        manifest: of the model.
        frame: the features by their names, categories by their values.

    Raises:
        InputsRefusedError: a feature holds what the model cannot take, or the model's file does not
            say which code a column's values have.
    """
    if manifest.format == "catboost":
        return _words(manifest, frame)
    if manifest.format == "onnx":
        tensors = pl.DataFrame(_tensors(described, manifest, frame))
        return ModelInputs(tensors, matrix=described.names is None)
    columns = _numbers(manifest, frame, described.categories, NUMBERS[manifest.format])
    if manifest.format == "xgboost":
        _check_not_cut_off(manifest, frame, described.categories, columns)
    return ModelInputs(pl.DataFrame(columns), matrix=True)


def _words(manifest: Manifest, frame: pl.DataFrame) -> ModelInputs:
    """Return CatBoost's: columns by the features' names, categories as text.

    CatBoost takes text, whole numbers and booleans as categories, and writes true as 1. It takes
    none that is missing: training had a word there, the empty one as manifests have it.
    """
    columns, guessed = list[pl.Series](), list[Guess]()
    for place, feature in enumerate(manifest.features):
        column = frame[feature.name]
        if feature.kind == "categorical":
            if not (column.dtype.is_integer() or column.dtype in {pl.String, pl.Boolean}):
                raise _written_otherwise(column, "text, whole numbers or booleans")
            if column.null_count():
                said = f"{feature.name!r} has missing values, which training wrote as "
                guessed.append(Guess(place, ("",), _MISSING_WORDS, said))
            if column.dtype == pl.Boolean:
                column = column.cast(pl.Int8)
                said = f"{feature.name!r} is stored as booleans, which training wrote as "
                guessed.append(Guess(place, ("0", "1"), _TRUTH_WORDS, said))
            elif column.dtype.is_integer():
                seen = column.drop_nulls().value_counts(sort=True)[feature.name].head(_SEEN)
                words = tuple(map(str, seen))
                said = f"{feature.name!r} is stored as whole numbers, which training wrote as "
                guessed.append(Guess(place, words, tuple(f"{word}.0" for word in words), said))
            column = column.cast(pl.String).fill_null("")
        columns.append(column)
    return ModelInputs(pl.DataFrame(columns), tuple(guessed))


def _numbers(
    manifest: Manifest, frame: pl.DataFrame, categories: Categories, kind: type[pl.DataType]
) -> list[pl.Series]:
    """Return a column of numbers for each feature, NaN where a value is missing.

    A category that the model names none of is missing, as in the frameworks' own tables.
    """
    columns = []
    for place, feature in enumerate(manifest.features):
        column = frame[feature.name]
        if feature.kind == "categorical":
            column = _codes(column, categories[place])
        if column.dtype != kind:
            column = column.cast(pl.Float64)
        columns.append(column.fill_null(float("nan")).cast(kind).alias(str(place)))
    return columns


def _check_not_cut_off(
    manifest: Manifest, frame: pl.DataFrame, categories: Categories, columns: list[pl.Series]
) -> None:
    for place, known in enumerate(categories):
        column = frame[manifest.features[place].name]
        if all(str(value).isascii() for value, _ in known or ()):
            continue
        if int(columns[place].is_nan().sum()) > column.null_count():
            raise InputsRefusedError(
                f"{column.name!r} holds words that the model's file does not list, and XGBoost may "
                "have cut off those that it lists: it does so with letters outside of ASCII in "
                "pandas' columns; train it on a polars or a pyarrow table"
            )


def _tensors(
    described: ModelDescription, manifest: Manifest, frame: pl.DataFrame
) -> list[pl.Series]:
    """Return what an ONNX session is fed: columns of one matrix, or one for each input."""
    if described.names is None:
        ((name, kind),) = described.takes
        nothing = (None,) * len(manifest.features)
        numbers = _numbers(manifest, frame, nothing, pl.Float64)
        return [_cast(column, name, kind).alias(column.name) for column in numbers]
    return [
        (_column(frame[name], kind) if known is None else _text(frame[name], known)).alias(name)
        for (name, kind), known in zip(described.takes, described.categories, strict=True)
    ]


def _column(column: pl.Series, kind: str) -> pl.Series:
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise _written_otherwise(column, "numbers")
    if kind in _WHOLE and column.dtype.is_integer() and not column.null_count():
        return pl.Series(column.to_numpy().astype(TENSORS[kind]))
    return _cast(column.cast(pl.Float64).fill_null(float("nan")), column.name, kind)


def _cast(column: pl.Series, name: str, kind: str) -> pl.Series:
    """Return doubles as what an input called `name` takes."""
    values: NDArray[np.float64] = column.to_numpy()
    if kind not in _REAL and np.isnan(values).any():
        raise InputsRefusedError(
            f"{name!r} holds missing values, which the model's {kind} cannot: export it for floats"
        )
    if kind in _WHOLE and values.size and np.abs(values).max() > _EXACT:
        raise InputsRefusedError(
            f"{name!r} holds whole numbers above 2^53, whose last digits a matrix of all "
            "features does not keep: export the model with an input for each feature"
        )
    taken: NDArray[Any] = values.astype(TENSORS[kind])
    if kind not in _REAL and (taken != values).any():
        raise InputsRefusedError(
            f"{name!r} holds numbers that the model's {kind} cuts off, and another model would be "
            "audited than the one that training made: export it for floats"
        )
    return pl.Series(taken)


def _text(column: pl.Series, known: Iterable[tuple[Category, int]]) -> pl.Series:
    """Return a column as the words that the graph knows, "" for a missing value.

    ONNX has no missing text, and the graph says how training wrote what is stored as no text.
    """
    words = {word for word, _ in known}
    values = column.unique().drop_nulls().to_list()
    ways = [values] if column.dtype == pl.String else _written(values, column)
    if len(ways) > 1:
        ways = [way for way in ways if not words.isdisjoint(way)]
    if len(ways) != 1:
        raise _written_otherwise(column, "text")
    others = [word for word in _MISSING_WORDS if word in words]
    if column.null_count() and others and "" not in words:
        raise InputsRefusedError(
            f"{column.name!r} has missing values, which training may have written as "
            f"{others[0]!r}: write in their place what training had"
        )
    text = column.replace_strict(values, ways[0], default=None, return_dtype=pl.String)
    return text.fill_null("")


def _written(values: list[Any], column: pl.Series) -> list[list[str]]:
    """Return the ways in which pandas or Spark may have written booleans or numbers as text."""
    if column.dtype == pl.Boolean:
        return [[str(v) for v in values], [str(v).lower() for v in values],
                [str(int(v)) for v in values]]  # fmt: skip
    if column.dtype.is_integer() or (column.dtype.is_float() and all(v == v // 1 for v in values)):
        return [[str(int(v)) for v in values], [f"{int(v)}.0" for v in values]]
    return []


def _written_otherwise(column: pl.Series, known: str) -> InputsRefusedError:
    """Return that training had a category's column in another form, which the file tells."""
    return InputsRefusedError(
        f"{column.name!r} is stored as {column.dtype}, and the model takes {known}: write the "
        "column as training had it, or give the model's probabilities as a table ([models.scores])"
    )


def _codes(column: pl.Series, known: tuple[tuple[Category, int], ...] | None) -> pl.Series:
    text = column.dtype == pl.String
    if not (text or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise _written_otherwise(column, "text or numbers")
    if known is None:
        if text and column.null_count() < len(column):
            raise InputsRefusedError(
                f"{column.name!r} holds text, and the model's file does not say which codes "
                "training gave its categories: write the codes, or train on a table whose columns "
                "are categorical"
            )
        return column
    _check_missing(column, known)
    codes = dict(known)
    if text and all(isinstance(value, str) for value in codes):
        return column.replace_strict(
            list(codes), list(codes.values()), default=None, return_dtype=pl.Float64
        )
    return _by_value(column, codes)


def _by_value(column: pl.Series, codes: Mapping[Category, int]) -> pl.Series:
    """Return codes of a column of numbers, or of text where the file lists numbers."""
    listed = ", ".join(map(repr, list(codes)[:3]))
    refused = _written_otherwise(column, f"categories like {listed}")
    told = [value for value in codes if value not in _MISSING_WORDS or _number(value) is not None]
    numbers = {_number(value): codes[value] for value in told}
    if None in numbers or len(numbers) < len(told):
        raise refused
    values = column.unique().drop_nulls()
    words = values.to_list()
    if column.dtype == pl.String:
        # Words of truth are no numbers: "True" is not 1.0 in a list of 1.0 and 2.0.
        truth = all(isinstance(value, bool) for value in numbers)
        read = [_number(word) for word in words]
        if any(one is None or isinstance(one, bool) is not truth for one in read):
            raise refused
    else:
        read = [float(word) if column.dtype.is_decimal() else word for word in words]
    found = [None if one is None else numbers.get(one) for one in read]
    coded = all(value == code for value, code in codes.items())
    # Codes, of which the column holds not one; or numbers that LightGBM would cut off.
    if coded and read and (set(found) == {None} or any(one is None or one % 1 for one in read)):
        raise refused
    return column.replace_strict(values, found, default=None, return_dtype=pl.Float64)


def _number(value: Category) -> float | bool | None:
    """Return a category as a number; None of text that Python writes no number, or truth, as."""
    if not isinstance(value, str):
        return value
    if value in _TRUTH:
        return _TRUTH[value]
    for kind in (int, float):
        with contextlib.suppress(ValueError, OverflowError):
            if str(number := kind(value)) == value:
                return number
    return None


def _check_missing(column: pl.Series, known: tuple[tuple[Category, int], ...]) -> None:
    """Refuse missing values of a column that training had as a word, or as a number."""
    told = [value for value, _ in known if str(value) in _MISSING_WORDS]
    if not (told and column.null_count()):
        return
    held = set(column.unique().cast(pl.String)) - set(_WRITTEN_MISSING)
    # A word that stands beside missing values was another category in training as well.
    if others := [value for value in told if str(value) not in held]:
        raise InputsRefusedError(
            f"{column.name!r} has missing values, and training may have had them as "
            f"{others[0]!r}: write in their place what training had"
        )
