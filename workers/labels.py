"""One shard (file x row group) of one day's labels, read by column projection and validated."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from workers import limits
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import READ_ERRORS, Lake, labels_folder
from workers.manifest import Feature, LabelColumn

SPLIT = "split"
TRAIN, HOLDOUT = "train", "holdout"


@dataclass(frozen=True, slots=True)
class Shard:
    """Where a shard is: its identity keys its random stream."""

    dataset: str
    day: dt.date
    file: str
    row_group: int
    rows: int


@dataclass(frozen=True, slots=True)
class Rows:
    """A shard's content.

    Attributes:
        features: every asked feature, numeric as Float32, categorical as String without nulls.
        labels: shape (records,), class indices.
        train: shape (records,), whether the row was trained on.
        holdout: shape (records,), whether the row was held out.
    """

    features: pl.DataFrame
    labels: NDArray[np.int64]
    train: NDArray[np.bool_]
    holdout: NDArray[np.bool_]


def list_shards(lake: Lake, dataset: str, day: dt.date) -> list[Shard]:
    """Return the day's shards, in a fixed order.

    Raises:
        NotEvaluableError: the partition is missing, empty or has a damaged file.
    """
    folder = labels_folder(dataset, day)
    if not lake.exists(folder):
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"There are no complete labels of {dataset} for {day}: {folder}/_SUCCESS is missing.",
        )
    shards = []
    for name in lake.label_files(dataset, day):
        metadata = _open(lake, f"{folder}/{name}").metadata
        shards += [
            Shard(dataset, day, name, group, metadata.row_group(group).num_rows)
            for group in range(metadata.num_row_groups)
        ]
    if not shards:
        raise NotEvaluableError(
            Reason.MISSING_LABELS, f"The labels of {dataset} for {day} hold no rows: {folder}."
        )
    return shards


def read_shard(
    lake: Lake, shard: Shard, *, label: LabelColumn, features: tuple[Feature, ...]
) -> Rows:
    """Read the label, `split` and the asked features of one shard.

    Raises:
        NotEvaluableError: a column is missing or of the wrong kind, a label is null or of a class
            that the model does not know, or the file is damaged.
    """
    folder = labels_folder(shard.dataset, shard.day)
    path = f"{folder}/{shard.file}"
    file = _open(lake, path)
    available = set(file.schema_arrow.names)
    for column in (label.column, SPLIT):
        if column not in available:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{path} has no column {column!r}: write it, or mend the manifest.",
            )
    for feature in features:
        if feature.name not in available:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID, f"{path} has no column for the feature {feature.name!r}."
            )
    columns = list(dict.fromkeys([label.column, SPLIT, *(feature.name for feature in features)]))
    try:
        frame = pl.DataFrame(_decoded(file.read_row_group(shard.row_group, columns=columns), path))
    except READ_ERRORS as error:
        raise _unreadable(path, error) from None
    split = frame[SPLIT].cast(pl.String)
    return Rows(
        features=pl.DataFrame([_feature(frame[f.name], f, path) for f in features]),
        labels=_class_indices(frame[label.column], label, path),
        train=(split == TRAIN).fill_null(value=False).to_numpy(),
        holdout=(split == HOLDOUT).fill_null(value=False).to_numpy(),
    )


def _open(lake: Lake, path: str) -> pq.ParquetFile:
    try:
        source = lake.open(path)
        file = pq.ParquetFile(source)
        # Repeated text stays encoded until its true size is known.
        names = set(file.schema_arrow.names)
        text = [
            column.path
            for column in map(file.schema.column, range(len(file.schema)))
            if column.physical_type == "BYTE_ARRAY" and column.path in names
        ]
        file = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=text)
    except READ_ERRORS as error:
        raise _unreadable(path, error) from None
    for group in range(file.metadata.num_row_groups):
        metadata = file.metadata.row_group(group)
        if metadata.num_rows > limits.SHARD_ROWS or metadata.total_byte_size > limits.SHARD_BYTES:
            raise _too_large(
                path, f"declares {metadata.num_rows:,} rows in {metadata.total_byte_size:,} bytes"
            )
    return file


def _decoded(table: pa.Table, path: str) -> pa.Table:
    """Return `table` with repeated text spelled out, unless that is too much."""
    encoded = [name for name in table.column_names if _is_encoded_text(table[name].type)]
    size = table.nbytes
    for chunk in (chunk for name in encoded for chunk in table[name].chunks):
        lengths = pc.binary_length(chunk.dictionary)
        size += pc.sum(pc.take(lengths, chunk.indices), min_count=0).as_py()
    if size > limits.SHARD_BYTES:
        raise _too_large(path, f"unpacks to {size:,} bytes")
    for name in encoded:
        column = table[name]
        plain = column.cast(column.type.value_type)
        table = table.set_column(table.column_names.index(name), name, plain)
    return table


def _is_encoded_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and kind.value_type in {pa.string(), pa.large_string()}


def _too_large(path: str, what: str) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.TOO_LARGE,
        f"A row group of {path} {what}, more than the {limits.SHARD_ROWS:,} rows and "
        f"{limits.SHARD_BYTES:,} bytes that are read: write smaller row groups.",
    )


def _unreadable(path: str, error: Exception) -> NotEvaluableError:
    kind = type(error).__name__
    return NotEvaluableError(
        Reason.LABELS_UNREADABLE, f"{path} cannot be read as Parquet ({kind}): write it again."
    )


def _class_indices(column: pl.Series, label: LabelColumn, path: str) -> NDArray[np.int64]:
    if column.null_count():
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} has {column.null_count()} rows without a label in {label.column!r}: drop them "
            "before they reach the lake.",
        )
    if not _is_plain(column.dtype):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores the label {label.column!r} as {column.dtype}, which is no class.",
        )
    words = column.cast(pl.String)
    if column.dtype == pl.Boolean:
        words = column.cast(pl.Int8).cast(pl.String)
    known = [str(int(value)) if isinstance(value, bool) else str(value) for value in label.classes]
    indices = words.replace_strict(known, range(len(known)), default=None, return_dtype=pl.Int64)
    if indices.null_count():
        stranger = words.filter(indices.is_null())[0]
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} has the label {stranger!r} in {label.column!r}, a class that the model does "
            f"not know (it knows {', '.join(known)}).",
        )
    return indices.to_numpy()


def _feature(column: pl.Series, feature: Feature, path: str) -> pl.Series:
    numeric = column.dtype.is_numeric() or column.dtype == pl.Boolean
    if feature.kind == "numeric" and numeric:
        return column.cast(pl.Float32)
    # A code may be stored as an integer, but a fraction is no category.
    if feature.kind == "categorical" and _is_plain(column.dtype) and not column.dtype.is_float():
        return column.cast(pl.String).fill_null("")
    raise NotEvaluableError(
        Reason.FEATURE_INVALID,
        f"{path} stores the feature {feature.name!r} as {column.dtype}, but the model takes it as "
        f"{feature.kind}.",
    )


def _is_plain(dtype: pl.DataType) -> bool:
    """Whether a value has one unmistakable way to be written as text."""
    return not dtype.is_nested() and dtype not in {pl.Binary, pl.Object}


def write_labels(
    lake: Lake, dataset: str, day: dt.date, table: pa.Table, *, row_group_size: int
) -> None:
    """Write one day's labels as the lake wants them, `_SUCCESS` last."""
    folder = labels_folder(dataset, day)
    files = lake.files
    files.create_dir(folder, recursive=True)
    pq.write_table(
        table, f"{folder}/part-00000.parquet", filesystem=files, row_group_size=row_group_size
    )
    lake.complete(folder)
