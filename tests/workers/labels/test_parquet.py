"""Row groups of one Parquet file, read one by one."""

import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.labels.parquet import read_footer, read_row_group
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
