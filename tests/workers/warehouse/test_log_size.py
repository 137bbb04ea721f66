"""A warehouse's log is measured before deltalake reads it into the command's own memory."""

import datetime as dt
import json
import pathlib
import shutil

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.warehouse import failed
from workers.warehouse import log_size
from workers.warehouse.log_size import check_log, checkpoint_size
from workers.warehouse.store import Warehouse


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a table of two commits whose log is one checkpoint."""
    place = tmp_path_factory.mktemp("made")
    for night in range(2):
        Warehouse(str(place)).commit(failed("good", DAY + dt.timedelta(days=night)))
    deltalake.DeltaTable(place / "audits").create_checkpoint()
    for commit in (place / "audits" / "_delta_log").glob("0*.json"):
        commit.unlink()
    return place / "audits"


@pytest.fixture
def table(made: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a copy of it that somebody else may write."""
    return shutil.copytree(made, tmp_path / "audits")


def checkpoint(table: pathlib.Path) -> pathlib.Path:
    """Return the one checkpoint of a table."""
    (found,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    return found


def with_more(table: pathlib.Path, count: int, stats: pa.Array | None = None) -> None:
    """Have the checkpoint name so many files more, with words about them that may be given."""
    rows = pl.read_parquet(checkpoint(table))
    added = rows.filter(pl.col("add").is_not_null()).head(1)
    more = pl.concat([added] * count).to_arrow()
    if stats is not None:
        add = more["add"].combine_chunks()
        kids = {add.type.field(place).name: add.field(place) for place in range(len(add.type))}
        kids["stats"] = stats
        struct = pa.StructArray.from_arrays(list(kids.values()), list(kids))
        more = more.set_column(more.column_names.index("add"), "add", struct)
    given = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 1 << 24}
    pq.write_table(more, checkpoint(table), **given)


def test_what_audits_leave_in_a_log_is_far_below_the_bounds(table: pathlib.Path) -> None:
    content = checkpoint(table).read_bytes()
    size = checkpoint_size(content)
    assert size.actions == pl.read_parquet(content).height + 1  # a map has two values in one
    assert len(content) > 40 * size.actions
    assert 0.5 * len(content) < size.bytes < len(content)
    check_log(str(table))


def test_a_checkpoint_has_no_more_names_than_its_bytes_can_hold(table: pathlib.Path) -> None:
    """100 kB that named 300,000 files took 1.4 GB and 8 seconds of each command."""
    with_more(table, 100_000)
    with pytest.raises(TerminalError, match=r"has 100,000 entries, and is \d\d?\d?,\d{3} bytes"):
        check_log(str(table))
    with pytest.raises(TerminalError, match="Restore it from a backup"):
        Warehouse(str(table.parent)).current()


@pytest.mark.parametrize(
    ("count", "length", "what"),
    [(1, 8 << 20, "bytes in its pages"), (800, 1 << 20, "bytes of text")],
)
def test_text_that_repeats_itself_is_counted(
    table: pathlib.Path, count: int, length: int, what: str
) -> None:
    words = pa.array(["x" * length])
    with_more(table, count, pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), words))
    with pytest.raises(TerminalError, match=what):
        check_log(str(table))


def test_text_by_differences_may_unpack_to_any_size(table: pathlib.Path) -> None:
    rows = pl.read_parquet(checkpoint(table)).to_arrow()
    how = {"txn.appId": "DELTA_BYTE_ARRAY"}
    pq.write_table(rows, checkpoint(table), use_dictionary=False, column_encoding=how)
    with pytest.raises(TerminalError, match="text by differences"):
        check_log(str(table))


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000009.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000009.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
        "00000000000000000009.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
        "99999999999999999999.checkpoint.parquet",
        "\u0669" * 20 + ".checkpoint.parquet",  # digits to Python, and none to deltalake
        "_sidecars",
    ],
)
def test_checkpoints_of_other_kinds_are_refused(table: pathlib.Path, name: str) -> None:
    (table / "_delta_log" / name).write_bytes(b"PAR1")
    with pytest.raises(TerminalError, match="a checkpoint of another kind"):
        check_log(str(table))


def test_a_checkpoint_names_no_further_files(table: pathlib.Path) -> None:
    rows = pl.read_parquet(checkpoint(table))
    one = pl.struct(path=pl.lit("file:///x.parquet"), sizeInBytes=1, modificationTime=1)
    named = rows.with_columns(sidecar=one)
    named.write_parquet(checkpoint(table))
    with pytest.raises(TerminalError, match=r"names \d+ files of further entries"):
        check_log(str(table))


def test_an_empty_checkpoint_hides_no_older_one(table: pathlib.Path) -> None:
    """deltalake passes over it, and reads the one before."""
    with_more(table, 100_000)
    (table / "_delta_log" / f"{9:020}.checkpoint.parquet").write_bytes(b"")
    with pytest.raises(TerminalError, match="100,000 entries"):
        check_log(str(table))


def hole(file: pathlib.Path) -> None:
    """Write a file of 8 TiB that takes no disk."""
    with file.open("wb") as stream:
        stream.truncate(1 << 43)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (f"{3:020}.json", "GB of memory to open"),
        (f"{3:020}.{4:020}.compacted.json", "GB of memory to open"),
        (f"{2:020}.crc", "GB of memory to open"),
        ("_last_checkpoint", "_last_checkpoint has"),
        (f"{3:020}.checkpoint.parquet", "GB of memory to open"),
    ],
)
def test_a_file_of_the_log_that_is_larger_than_memory_is_not_read(
    table: pathlib.Path, name: str, what: str
) -> None:
    hole(table / "_delta_log" / name)
    with pytest.raises(TerminalError, match=what):
        check_log(str(table))


def test_lines_of_large_commits_are_counted(
    table: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = json.dumps({"txn": {"appId": "x", "version": 1}}) + "\n"
    (table / "_delta_log" / f"{3:020}.json").write_text(line * 250_000, "utf-8")
    monkeypatch.setattr(log_size, "memory_left", lambda: 4 << 30)
    check_log(str(table))
    monkeypatch.setattr(log_size, "memory_left", lambda: 1 << 30)
    with pytest.raises(TerminalError, match=r"250,00\d entries and .* 1.1 GB are left"):
        check_log(str(table))


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\xff" * 999 + b"\1\0\0\0PAR1"])
def test_other_bytes_are_no_checkpoint(table: pathlib.Path, content: bytes) -> None:
    checkpoint(table).write_bytes(content)
    with pytest.raises(TerminalError, match="is no checkpoint"):
        check_log(str(table))


def test_random_damage_is_a_sentence_or_no_harm(table: pathlib.Path) -> None:
    content, random = checkpoint(table).read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        bytes_ = bytearray(content)
        for place in random.integers(len(content) - 9_000, len(content), 3):
            bytes_[place] = random.integers(256)
        try:
            assert checkpoint_size(bytes(bytes_)).actions >= 0
        except ValueError:
            continue
