"""The columns of labels, batch by batch, validated: features, classes, arms, groups."""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privcore.exceptions import is_failure
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import Footer, folder_word, read_footer, read_row_group
from workers.labels.shards import READERS, BadRecords, Partition, Piece
from workers.lake.formats import NUMBERS
from workers.lake.layout import LabelFile, Lake
from workers.lake.manifest import Feature, LabelColumn, Manifest, class_word, looked_up

Made = TypeVar("Made")

SPLIT = "split"
TRAIN, HOLDOUT = "train", "holdout"
TRAINED = {TRAIN, "training"}
HELD_OUT = (HOLDOUT, "hold-out", "hold_out", "test", "testing", "valid", "validation", "val", "dev",
            "eval", "evaluation")  # fmt: skip
"""Words that people use for splits, in small letters; of those held out, the likelier first."""
_TABLE = 1 << 16  # values of a label that are looked up in a table
_SHOWN = 10
"""Classes that a sentence shows."""
_OF_A_NUMBER = 10
"""Values for each class, from more than which on labels are taken for numbers."""
_NAME_CHARACTERS = 256  # of a privacy unit or a slice: 250 MiB of a batch's


NeededColumns = Iterable[tuple[str, str]]
"""Columns, and what names each of them."""


def check_columns(
    names: Sequence[str],
    path: str,
    needed: NeededColumns,
    *,
    arm: str | None = None,
    reason: Reason = Reason.LABEL_INVALID,
) -> None:
    """Raise `NotEvaluableError`, for the `reason`, unless a file's `names` hold each column once.

    A folder may say the column of the `arm`.
    """
    for name, said in needed:
        if name not in names:
            word = folder_word(path, name)
            if name == arm and word:
                continue
            why = f": correct {said}; it has {', '.join(names[:20])}"
            if word is not None:
                why = f": the value in the folder name {name}={word} is not read. Write it into "
                why += "the files"
            raise NotEvaluableError(reason, f"{path} has no column {name!r}{why}.")
        if names.count(name) > 1:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID, f"{path} has several columns {name!r}: write one."
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive rows of one shard, as they lie in the file; each column is converted once.

    What reads a column raises NotEvaluableError where that is stored as a kind that is not asked
    for, or holds values that polars does not know, or text that is not UTF-8.
    """

    table: pa.Table
    path: str
    place: tuple[str, int, int]
    _made: dict[Any, Any] = field(default_factory=dict)

    def column(self, name: str) -> pl.Series:
        """Return a column as it is stored."""

        def made() -> pl.Series:
            # polars panics at these, with words and a trace on the terminal.
            if pa.types.is_decimal256(self.table[name].type):
                raise TypeError
            # Arrow hands on text that is no UTF-8, and a reader of it panics.
            self.table[name].validate(full=True)
            return pl.Series(name, pl.from_arrow(self.table[name]))

        return self.once(name, name, made)

    def once(self, key: Any, name: str, make: Callable[[], Made]) -> Made:
        """Return what is made of a column, once."""
        if key not in self._made:
            with self._readable(name):
                self._made[key] = make()
        found: Made = self._made[key]
        return found

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        """Values that polars fails or panics at are bad input of one audit alone."""
        try:
            yield
        except (NotEvaluableError, MemoryError):
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            raise NotEvaluableError(
                Reason.LABELS_UNREADABLE,
                f"{self.path} holds values in {name!r}, stored as {self.table[name].type!s:.100}, "
                f"that cannot be read ({type(error).__name__}): write them as plain numbers or "
                "text.",
            ) from None

    def feature(
        self, feature: Feature, *, numbers: type[pl.DataType] = pl.Float32, as_text: bool = True
    ) -> pl.Series:
        """Return a feature: numbers of a kind, and categories as text, or else by their values.

        A framework compares values (`workers.lake.formats`); text, "" where one is missing, tells
        categories apart, and no more.
        """

        def made() -> pl.Series:
            found = _feature(self.column(feature.name), feature, self.path, numbers)
            if as_text and feature.kind == "categorical":
                if found.dtype.is_float() and (found % 1 != 0).any():
                    raise _not_taken(self.path, feature, found.dtype)  # no word of a category
                found = found.cast(pl.String).fill_null("")
            return found

        return self.once((feature, numbers, as_text), feature.name, made)

    def features(
        self, manifest: Manifest, *, stored: Callable[[Feature], Feature] = lambda same: same
    ) -> pl.DataFrame:
        """Return a model's features as its framework takes them, under the model's names.

        `stored` gives each the name of the column that holds it.
        """
        numbers = NUMBERS[manifest.format]
        return pl.DataFrame(
            [
                self.feature(stored(feature), numbers=numbers, as_text=False).alias(feature.name)
                for feature in manifest.features
            ]
        )

    def labels(
        self,
        label: LabelColumn,
        *,
        said: str = "the manifest",
        among: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a bad record, and what is bad, `among` some rows or all.

        `said` is where the classes are listed.
        """
        column = self.column(label.column)
        if not _is_plain(column.dtype):
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{self.path} stores the label {label.column!r} as {column.dtype}: store classes "
                "as text, numbers or booleans.",
            )
        labels = self.once(
            (label.column, label.words),
            label.column,
            lambda: _places(column, looked_up(label.classes)),
        )
        bad = labels < 0 if among is None else (labels < 0) & among
        if not bad.any():
            return labels, BadRecords.none()
        found = _unknown_label(column, label, labels, int(np.argmax(bad)), said)
        return labels, self.bad_rows(bad, Reason.LABEL_INVALID, found)

    def arms(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each row was trained on, and whether it was held out."""

        def made() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
            split = self.column(SPLIT)
            if not _is_plain(split.dtype):
                raise NotEvaluableError(
                    Reason.LABEL_INVALID,
                    f"{self.path} stores {SPLIT!r} as {split.dtype}: store it as text.",
                )
            if split.dtype != pl.Categorical:
                split = split.cast(pl.String)
            train, holdout = (
                (split == word).fill_null(value=False).to_numpy() for word in (TRAIN, HOLDOUT)
            )
            return train, holdout

        return self.once(("arms",), SPLIT, made)

    def groups(self, column: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Return a slice column's values, ascending, and each row's index among them."""

        def made() -> tuple[tuple[str, ...], NDArray[np.int64]]:
            words = self._words(column, "slice", Reason.FEATURE_INVALID)
            values = words.unique().sort()
            if (values.str.len_chars() > _NAME_CHARACTERS).any():
                raise NotEvaluableError(
                    Reason.FEATURE_INVALID,
                    f"{self.path} has in the slice column {column!r} a value of over "
                    f"{_NAME_CHARACTERS} characters: slices are for columns of short names.",
                )
            codes = words.cast(pl.Enum(values)).to_physical().cast(pl.Int64).to_numpy()
            return tuple(values), codes

        return self.once(("groups", column), column, made)

    def groups_together(self, columns: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Return some columns' values together, ascending, and each row's index among them."""
        names, codes = self.groups(columns[0])
        for column in columns[1:]:
            others, found = self.groups(column)
            pairs, codes = np.unique(codes * len(others) + found, return_inverse=True)
            both = (divmod(int(pair), len(others)) for pair in pairs)
            # No value's character comes before the NUL, so that these are ascending, too.
            names = tuple(f"{names[one]}\0{others[other]}" for one, other in both)
        return names, codes

    def units(
        self, column: str, *, among: NDArray[np.bool_]
    ) -> tuple[NDArray[np.str_], BadRecords]:
        """Return each record's person, empty where there is none, and what is bad `among` all."""

        def made() -> NDArray[np.str_]:
            words = self._words(column, "privacy unit", Reason.UNIT_INVALID)
            # numpy gives each word the room of the longest, and passes over NULs at the end.
            strange = (words.str.len_chars() > _NAME_CHARACTERS) | words.str.contains(
                "\0", literal=True
            )
            return words.set(strange, "").to_numpy().astype(np.str_)

        people = self.once(("units", column), column, made)
        bad = among & (people == "")
        found = (
            f"no value in {column!r} that names a privacy unit: every record needs one of 1 to "
            f"{_NAME_CHARACTERS} characters, without a NUL"
        )
        return people, self.bad_rows(bad, Reason.UNIT_INVALID, found)

    def _words(self, column: str, what: str, reason: Reason) -> pl.Series:
        series = self.column(column)
        if not _is_plain(series.dtype) or series.dtype.is_float():
            raise NotEvaluableError(
                reason,
                f"{self.path} stores the {what} {column!r} as {series.dtype}: store it as text or "
                "as an integer.",
            )
        with self._readable(column):
            return series.cast(pl.String).fill_null("")

    def bad_rows(self, bad: NDArray[np.bool_], reason: Reason, found: str) -> BadRecords:
        """Return these rows as bad, if any is; the sentence says what was `found` in the first."""
        if not bad.any():
            return BadRecords.none()
        file, group, start = self.place
        row = start + int(np.argmax(bad))
        sentence = f"{self.path} has in row {row} of row group {group} {found}."
        return BadRecords.at((file, group, row), int(bad.sum()), reason, sentence)


def _unknown_label(
    column: pl.Series, label: LabelColumn, labels: NDArray[np.int64], first: int, said: str
) -> str:
    """Say of the first bad label what is wrong.

    Whose label it is and which can be looked up there: the warehouse holds no label of a row. Where
    a batch holds not one of the classes, the count and the kind of its values are told.
    """
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column[first] is None:
        return f"no label in {label.column!r}: drop such rows before they reach the table"
    classes = ", ".join(f"{one!r:.20}" for one in label.classes[:_SHOWN])
    classes += ", ..." if len(label.classes) > _SHOWN else ""
    held, values = "", column.unique().drop_nulls()
    if column.dtype.is_numeric() and values.len() > _OF_A_NUMBER * len(label.classes):
        return (
            f"a label in {label.column!r} that has many values and is a number, and none of the "
            f"model's {len(label.classes)} classes {classes}: write whether it is above a "
            "threshold fixed before training, and audit that column"
        )
    if not (labels >= 0).any():
        others = "1 other value" if values.len() == 1 else f"{values.len()} other values"
        held = f" (the column holds {others}, stored as {column.dtype})"
    return (
        f"a label in {label.column!r} that is none of the model's {len(label.classes)} classes "
        f"{classes}{held}: correct the labels, or {said}"
    )


def _places(column: pl.Series, known: list[str]) -> NDArray[np.int64]:
    """Return where each value's word is among `known`; -1 where it is not."""
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    if column.dtype.is_integer() and column.len() and column.null_count() == 0:
        least, greatest = int(column.min()), int(column.max())  # type: ignore[arg-type]
        if greatest - least < _TABLE and greatest < 1 << 63:
            # A table of all values between is many times as fast as comparing text.
            places = {word: place for place, word in enumerate(known)}
            table = [places.get(str(value), -1) for value in range(least, greatest + 1)]
            rows = np.asarray(column.cast(pl.Int64).to_numpy(), dtype=np.int64) - least
            return np.array(table, dtype=np.int64)[rows]
    column, words = class_words(column)
    places = {word: one for one, word in enumerate(known)}
    told = [places.get(word, -1) for word in words.values()]
    found = column.replace_strict(list(words), told, default=-1, return_dtype=pl.Int64)
    return np.asarray(found.fill_null(-1), dtype=np.int64)


def class_words(column: pl.Series) -> tuple[pl.Series, dict[Any, str]]:
    """Return a column of classes as numbers or text, null where none is, and each value's word."""
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    if not column.dtype.is_numeric():
        column = column.cast(pl.String)
    elif column.dtype.is_float():
        column = column.fill_nan(None)
    return column, {value: class_word(value) for value in column.unique().drop_nulls()}


def _feature(
    column: pl.Series, feature: Feature, path: str, numbers: type[pl.DataType]
) -> pl.Series:
    """Return numbers as one kind; categories as they are stored, text as text, without NaN."""
    if column.dtype == pl.Null:  # a file in which every value is missing
        column = column.cast(numbers if feature.kind == "numeric" else pl.String)
    numeric = column.dtype.is_numeric() or column.dtype == pl.Boolean
    if feature.kind == "numeric" and numeric:
        # A double does not hold all digits of 64 bits: ONNX may take them as they are.
        whole = column.dtype in {pl.Int64, pl.UInt64} and numbers == pl.Float64
        return column if whole else column.cast(numbers)
    if feature.kind == "categorical" and _is_plain(column.dtype):
        if isinstance(column.dtype, pl.Categorical | pl.Enum):
            return column.cast(pl.String)
        return column.fill_nan(None) if column.dtype.is_float() else column
    raise _not_taken(path, feature, column.dtype)


def _not_taken(path: str, feature: Feature, stored: pl.DataType) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.FEATURE_INVALID,
        f"{path} stores the feature {feature.name!r} as {stored}, but it is taken as "
        f"{feature.kind}: write it as one kind in all files.",
    )


def _is_plain(dtype: pl.DataType) -> bool:
    """Return whether each value has exactly one form as text."""
    return not dtype.is_nested() and dtype not in {pl.Binary, pl.Object}


_SPLIT_ROWS = 100_000
_COMMON = {"null", "hold out", *TRAINED, *HELD_OUT}
"""Words of which a sentence tells. What else stands there may be of a person (a column under the
wrong name), so the sentence, which is stored, only counts it."""


def other_words(root: Lake, partition: Partition) -> str:
    """Return " They say ..." of rows of neither split, by the first rows; "" where none says so.

    Whatever goes wrong in reading them says nothing, since another sentence is under way.
    """
    try:
        path = partition.path(partition.files[0].name)
        group = read_row_group(root, path, read_footer(root, path, [SPLIT]), 0, [SPLIT])
        table = next(iter(group.batches([SPLIT], rows=_SPLIT_ROWS)))
        column = Batch(table, path, (path, 0, 0)).column(SPLIT)
        found = sorted({"null" if word is None else str(word) for word in column.unique()})
    except BaseException as error:
        if not is_failure(error):
            raise
        return ""
    others = [word for word in found if word not in {TRAIN, HOLDOUT}]
    if not others:
        return ""
    named = [repr(word) for word in others if word.lower() in _COMMON]
    rest = len(others) - len(named)
    if rest:
        named.append(f"{rest} other value{'s' if rest > 1 else ''}")
    return f" They say {', '.join(named)}."


def batches_of(
    lake: Lake,
    partition: Partition,
    piece: Piece,
    footer: Footer,
    columns: Sequence[str],
    *,
    rows: int,
) -> Iterator[Batch]:
    """Yield the rows of a piece in the order of the file."""
    path = partition.path(piece.file)
    for index in piece.row_groups(len(footer.groups)):
        group, start = read_row_group(lake, path, footer, index, columns), 0
        for table in group.batches(columns, rows=rows):
            yield Batch(table, path, (piece.file, index, start))
            start += table.num_rows


def with_missing(
    lake: Lake, partition: Partition, names: tuple[str, ...], features: Collection[str]
) -> tuple[str, ...]:
    """Return a file's columns, and features that only others of the day's files have.

    A file from before a feature was added holds missing values of it. One that no file has is
    another column's name, and stays an error.
    """
    folder, files = partition.folder, partition.files
    lacking = [name for name in features if name not in names]
    return (*names, *(name for name in lacking if _some_has(lake, folder, files, name)))


@functools.lru_cache(maxsize=256)
def _some_has(lake: Lake, folder: str, files: tuple[LabelFile, ...], column: str) -> bool:
    """Return whether some file has a column, the newest first."""

    def has(file: LabelFile) -> bool:
        try:
            return column in read_footer(lake, f"{folder}/{file.name}".lstrip("/")).names
        except NotEvaluableError:  # its own reader says why
            return False

    newest = sorted(files, key=lambda file: file.changed_ns, reverse=True)
    with ThreadPoolExecutor(READERS) as pool:
        return any(
            any(pool.map(has, newest[start : start + READERS]))
            for start in range(0, len(newest), READERS)
        )
