"""Tagged files: read in parts as they were written, and by no one else's hand."""

import pathlib
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.exceptions import NotEvaluableError, Reason
from workers.lake.tagged import BLOCK_BYTES, TAG_BYTES, TaggedLake, tag, untagged

SIZES = (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES)
STORED = BLOCK_BYTES + TAG_BYTES


def content(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> TaggedLake:
    return TaggedLake(str(tmp_path))


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_read_as_it_was_written(lake: TaggedLake, size: int) -> None:
    lake.write("folder/a", content(size))
    assert lake.read("folder/a", at_most=1 << 24) == content(size)
    with lake.open("folder/a") as file:
        assert file.size() == size
        for first, length in ((0, 9), (BLOCK_BYTES - 4, 8), (size - 5, 5), (size, 3)):
            expected = content(size)[max(0, first) : max(0, first) + length]
            assert file.read_at(length, max(0, first)) == expected


def test_parquet_is_written_and_read_through_it(lake: TaggedLake) -> None:
    table = pa.table({"a": np.arange(200_000), "b": np.arange(200_000) % 7})
    with lake.create("rows") as stream, pq.ParquetWriter(stream, table.schema) as writer:
        writer.write_table(table, row_group_size=30_000)
    with lake.open("rows") as file:
        assert pq.read_table(file) == table
    with lake.open("rows") as file:
        group = pq.ParquetFile(file).read_row_group(3, columns=["b"])
    assert group == table.slice(90_000, 30_000).select(["b"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:STORED],
        lambda stored: stored[: STORED + 40],
        lambda stored: stored[:-1],
        lambda stored: stored + b"more",
        lambda stored: stored[STORED : 2 * STORED] + stored[:STORED] + stored[2 * STORED :],
        lambda stored: stored[:100] + bytes([stored[100] ^ 1]) + stored[101:],
        lambda stored: content(len(stored)),
    ],
    ids=["cut at a block", "cut in a block", "cut at the end", "longer", "reordered", "changed",
         "another"],
)  # fmt: skip
def test_a_file_that_another_changed_is_refused(
    lake: TaggedLake, tmp_path: pathlib.Path, damage: object
) -> None:
    lake.write("a", content(2 * BLOCK_BYTES + 100))
    assert callable(damage)
    (tmp_path / "a").write_bytes(damage((tmp_path / "a").read_bytes()))
    with pytest.raises(NotEvaluableError, match="a in the staging area is not as this") as raised:
        lake.read("a", at_most=1 << 24)
    assert raised.value.reason == Reason.LABELS_CHANGED


def test_a_part_that_another_changed_is_refused_where_it_is_read(
    lake: TaggedLake, tmp_path: pathlib.Path
) -> None:
    lake.write("a", content(3 * BLOCK_BYTES))
    stored = bytearray((tmp_path / "a").read_bytes())
    stored[STORED + 50] ^= 1
    (tmp_path / "a").write_bytes(stored)
    with lake.open("a") as file:
        assert file.read_at(10, 0) == content(3 * BLOCK_BYTES)[:10]
        with pytest.raises(NotEvaluableError):
            file.read_at(10, BLOCK_BYTES)
        with pytest.raises(NotEvaluableError):
            file.read_at(10, BLOCK_BYTES - 5)


def test_a_file_of_another_name_folder_or_secret_is_refused(
    lake: TaggedLake, tmp_path: pathlib.Path
) -> None:
    lake.write("a", b"rows")
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes((tmp_path / "a").read_bytes())
    for other, path in (
        (lake, "b"),
        (TaggedLake(str(tmp_path / "folder")), "a"),
        (TaggedLake(str(tmp_path), b"another" * 5), "a"),
    ):
        with pytest.raises(NotEvaluableError):
            other.read(path)


def test_an_emptied_file_is_refused(lake: TaggedLake, tmp_path: pathlib.Path) -> None:
    lake.write("a", b"rows")
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(NotEvaluableError):
        lake.read("a")


def test_workers_have_the_secret_and_no_log_shows_it(lake: TaggedLake) -> None:
    lake.write("a", b"rows")
    there = pickle.loads(pickle.dumps(lake))  # noqa: S301  # its own
    assert there.read("a") == b"rows"
    assert lake.secret.hex() not in repr(lake)
    assert repr(lake.secret) not in repr(lake)


def test_a_tag_is_of_one_secret_place_and_content() -> None:
    stored = tag(b"key", "a", b"rows") + b"rows"
    assert untagged(b"key", "a", stored) == b"rows"
    assert untagged(b"yek", "a", stored) is None
    assert untagged(b"key", "b", stored) is None
    assert untagged(b"key", "a", stored + b"!") is None
    assert untagged(b"key", "a", b"") is None
