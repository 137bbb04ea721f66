"""Statistics that a footer gives of a row group's values, compared with these values.

A reader that asks for the rows of `split = 'train'` passes over a row group whose statistics say
that no such value is there. So false statistics make training read other rows than an audit counts.
Numbers of floats and decimals are not compared, since writers differ in what they say of these, nor
are page indexes and Bloom filters.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ORDERED = {"INT32", "INT64", "BOOLEAN", "BYTE_ARRAY"}
_OTHERWISE = {"UINT_8", "UINT_16", "UINT_32", "UINT_64", "DECIMAL", "INTERVAL", "JSON", "BSON"}
"""Kinds whose stored values have another order, or none that all writers agree on."""


class Said(NamedTuple):
    """Statistics of a column: its least and greatest value as they are stored; None where unsaid.

    `missing` says that it has no values at all.
    """

    least: Any
    greatest: Any
    missing: bool


def said_of(group: pq.RowGroupMetaData, names: Iterable[str]) -> dict[str, Said]:
    """Return what a footer says of columns that are no lists or structs."""
    wanted, said = set(names), {}
    for place in range(group.num_columns):
        column = group.column(place)
        known = column.statistics if column.path_in_schema in wanted else None
        if known is None or column.physical_type not in _ORDERED:
            continue
        ordered = known.has_min_max and known.converted_type not in _OTHERWISE
        said[column.path_in_schema] = Said(
            known.min_raw if ordered else None,
            known.max_raw if ordered else None,
            known.has_null_count and known.null_count == group.num_rows,
        )
    return said


def contradicted(table: pa.Table, said: Mapping[str, Said]) -> str | None:
    """Return the first column with values that its statistics say are not there; None of none."""
    for name, known in said.items():
        values = table[name]
        if values.null_count == len(values):
            continue
        if known.missing:
            return name
        found = None if known.least is None else _ends(values)
        if found is not None and (found[0] < known.least or found[1] > known.greatest):
            return name
    return None


def _ends(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and greatest value as Parquet stores them; None of a kind not compared."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        parts = [(each.dictionary, pc.unique(each.indices).drop_null()) for each in values.chunks]
        kind = kind.value_type
        values = pa.chunked_array([words.take(places) for words, places in parts], kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.cast(pa.large_binary())
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif not (pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind)):
        return None
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()
