import io
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.labels.parquet import read_footer, read_row_group, unpacked_sizes
from workers.lake.layout import Lake


def test_a_footer_is_unpacked_once_for_all_row_groups(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows with their number: 10,000 groups took 50 ms more for each of them."""
    for name, first in (("one", 0), ("two", 100)):
        pq.write_table(pa.table({"a": range(first, first + 6)}), tmp_path / name, row_group_size=1)
    whole, unpacked = pq.read_metadata, []

    def counted(source: Any) -> pq.FileMetaData:
        unpacked.append(source)
        return whole(source)

    monkeypatch.setattr(pq, "read_metadata", counted)
    lake = Lake(str(tmp_path))
    read = []
    for name in ("one", "two"):
        footer = read_footer(lake, name, ["a"])
        for index in range(6):
            group = read_row_group(lake, name, footer, index, ["a"])
            read += [table["a"].to_pylist() for table in group.batches(["a"], rows=10)]
    assert read == [[value] for value in (*range(6), *range(100, 106))]
    assert len(unpacked) == 2


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
