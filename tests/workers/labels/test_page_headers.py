"""Pages' headers, as Arrow writes them and as nobody does."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.labels.page_headers import unpacked_sizes


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("more", [{}, {"use_dictionary": False, "write_page_checksum": True}])
def test_pages_say_what_the_footer_says(version: str, more: dict[str, Any]) -> None:
    rows, sink = 5_000, io.BytesIO()
    numbers = np.arange(rows)
    table = pa.table(
        {
            "n": pa.array(numbers, mask=numbers % 7 == 0),
            "t": numbers.astype(str),
            "l": [[1.0] * int(n % 3) for n in numbers],
        }
    )
    given: dict[str, Any] = {"data_page_version": version, "data_page_size": 1_000, **more}
    pq.write_table(table, sink, compression="zstd", **given)
    group = pq.read_metadata(sink).row_group(0)
    for place in range(group.num_columns):
        column = group.column(place)
        first = column.dictionary_page_offset or column.data_page_offset
        chunk = memoryview(sink.getvalue())[first : first + column.total_compressed_size]
        size, values = unpacked_sizes(chunk, column.num_values)
        assert values == column.num_values
        # The footer counts the headers as well.
        assert 0.75 * column.total_uncompressed_size < size < column.total_uncompressed_size


def test_other_bytes_are_no_pages() -> None:
    random = np.random.default_rng(0)
    refused = 0
    for length in range(300):
        try:
            unpacked_sizes(memoryview(random.bytes(length)), 1 << 40)
        except ValueError:
            refused += 1
    assert refused > 290
    for content in (b"\x15\x00\x15\x01\x15\x00\x00", b"\x1c" * 100, b"\x18" + b"\xff" * 20):
        with pytest.raises(ValueError, match=r"a page|number"):
            unpacked_sizes(memoryview(content), 1)
