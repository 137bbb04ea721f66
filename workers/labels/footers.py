"""Content of a Parquet footer, read in a contained process: Arrow crashes at some."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.contained import Contained
from workers.lake import limits

_BY_DIFFERENCES = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
"""Encodings of text that Arrow cannot read without spelling out every value."""
_OF_BYTES = {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
_FIXED_BYTES = 64
"""Values of a fixed size: decimals have up to 32 bytes, a SHA-512 digest has 64."""


def describe(content: bytes, columns: list[str]) -> dict[str, Any]:
    """Return the names of all columns, where `columns` lie, and which of them are unbounded.

    Raises whatever Arrow raises, or ends the process: call `describe_footer`.
    """
    metadata = pq.read_metadata(pa.BufferReader(content))
    schema = metadata.schema
    owners = _owners(schema, set(columns))
    groups = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        chunks, compressed = [], 0
        for place in range(group.num_columns):
            chunk = group.column(place)
            compressed += chunk.total_compressed_size
            if owners[place] is not None:
                first = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                    first = min(first, chunk.dictionary_page_offset)
                size = chunk.total_compressed_size
                chunks.append([first, size, owners[place], chunk.num_values])
        groups.append([group.num_rows, group.total_byte_size, compressed, chunks])
    text = [
        schema.column(place).path
        for place, owner in enumerate(owners)
        if owner == schema.column(place).path and schema.column(place).physical_type == "BYTE_ARRAY"
    ]
    unbounded = [
        [owner, how]
        for place, owner in enumerate(owners)
        if owner is not None and (how := _unbounded(metadata, place, owner))
    ]
    return {
        "names": schema.to_arrow_schema().names,
        "groups": groups,
        "text": text,
        "unbounded": unbounded,
        "nested_text": sorted(
            {
                owner
                for place, owner in enumerate(owners)
                if owner not in {None, schema.column(place).path}
                and schema.column(place).physical_type in _OF_BYTES
            }
        ),
    }


def _unbounded(metadata: pq.FileMetaData, place: int, owner: str) -> str:
    """Return how a leaf stores bytes that may unpack to any size, in words; "" where it does not.

    Top-level text stays encoded until its size is known (`RowGroup.batches`). Arrow cannot keep
    other bytes encoded, so that some kilobytes of them take all memory.
    """
    column = metadata.schema.column(place)
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return f"as values of {column.length:,} bytes" if column.length > _FIXED_BYTES else ""
    if column.physical_type != "BYTE_ARRAY":
        return ""
    if column.path != owner:
        return ""  # no value is read of it: see `nested_text`
    for index in range(metadata.num_row_groups):
        used = _BY_DIFFERENCES.intersection(metadata.row_group(index).column(place).encodings)
        if used:
            return f"in the encoding {min(used)}"
    return ""


def _owners(schema: pq.ParquetSchema, wanted: set[str]) -> list[str | None]:
    """Return the wanted column that each leaf belongs to; None if it is of none.

    A leaf `late.x` is a column of that name, or `x` of a column `late`: then its own name is `x`.
    """
    leaves = [(leaf.path, leaf.name) for leaf in map(schema.column, range(len(schema)))]
    nested = wanted - {path for path, name in leaves if path == name}
    owners: list[str | None] = []
    for path, name in leaves:
        if path == name:
            owners.append(path if path in wanted else None)
            continue
        above = path
        while above and above not in nested:
            above = above.rpartition(".")[0]
        owners.append(above or None)
    return owners


describe_footer = Contained(
    f"{__name__}:{describe.__name__}",
    seconds=limits.FOOTER_SECONDS,
    memory=limits.FOOTER_MEMORY_BYTES,
)
