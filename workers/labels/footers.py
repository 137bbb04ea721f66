"""What a Parquet footer says, read in a contained process: Arrow crashes at some."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.contained import Contained
from workers.lake import limits


def describe(content: bytes, columns: list[str]) -> dict[str, Any]:
    """Return the names of all columns, and of each row group where `columns` lie.

    Raises whatever Arrow raises, or ends the process: call `describe_footer`.
    """
    metadata = pq.read_metadata(pa.BufferReader(content))
    schema, wanted = metadata.schema, set(columns)
    owners = [_owner(schema.column(place).path, wanted) for place in range(len(schema))]
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
                chunks.append([first, chunk.total_compressed_size, owners[place]])
        groups.append([group.num_rows, group.total_byte_size, compressed, chunks])
    text = [
        schema.column(place).path
        for place, owner in enumerate(owners)
        if owner == schema.column(place).path and schema.column(place).physical_type == "BYTE_ARRAY"
    ]
    return {"names": schema.to_arrow_schema().names, "groups": groups, "text": text}


def _owner(path: str, wanted: set[str]) -> str | None:
    """Which of the wanted columns a leaf belongs to."""
    owner = path if path in wanted else path.partition(".")[0]
    return owner if owner in wanted else None


describe_footer = Contained(
    f"{__name__}:{describe.__name__}",
    seconds=limits.FOOTER_SECONDS,
    memory=limits.FOOTER_MEMORY_BYTES,
)
