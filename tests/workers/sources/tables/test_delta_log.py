"""Delta logs that were written by somebody who wants the night to end."""

import json
import os
import pathlib
import resource
from collections.abc import Callable
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Limit
from tests.support.lake import DAY
from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables import table_child
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day, look

ROWS = pl.DataFrame({"day": [DAY] * 2, "x": range(2)})


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    deltalake.write_deltalake(str(tmp_path / "t"), ROWS)
    return tmp_path / "t"


def refused(table: pathlib.Path) -> NotEvaluableError:
    with pytest.raises(NotEvaluableError) as caught:
        find_day(TablePlace(table=str(table), day="day"), DAY)
    return caught.value


def make_bomb(table: pathlib.Path, *, copies: int) -> int:
    """Let the log's checkpoint list one file many times, under a long name; return its bytes."""
    deltalake.DeltaTable(str(table)).create_checkpoint()
    checkpoint = table / "_delta_log" / "00000000000000000000.checkpoint.parquet"
    before = pq.read_table(checkpoint)
    added = next(row for row in before.to_pylist() if row["add"])
    added["add"]["path"] = "x" * 2000
    bomb = pa.Table.from_pylist([added], before.schema).take(pa.array([0] * copies))
    pq.write_table(pa.concat_tables([before, bomb]), checkpoint, compression="zstd")
    (table / "_delta_log" / "00000000000000000000.json").unlink()
    told = {"version": 0, "size": before.num_rows + copies}
    (table / "_delta_log" / "_last_checkpoint").write_text(json.dumps(told))
    return checkpoint.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", [lambda table: find_day(TablePlace(table=table, day="day"), DAY), look]
)
def test_a_checkpoint_that_unpacks_to_gigabytes_takes_none_of_this_process(
    table: pathlib.Path, question: Callable[[str], Any]
) -> None:
    assert make_bomb(table, copies=1_000_000) < 1_000_000  # to 2.4 GB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotEvaluableError, match="and 4 GiB of memory") as caught:
        question(str(table))
    assert caught.value.reason is Reason.TOO_LARGE
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 500_000  # kilobytes; making the bomb took what it took


@pytest.mark.slow
def test_a_commit_of_sixty_gigabytes_is_not_read(table: pathlib.Path) -> None:
    with (table / "_delta_log" / "00000000000000000001.json").open("wb") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    assert refused(table).reason in {Reason.TOO_LARGE, Reason.PATH_UNREADABLE}


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b'{"add":{"path":"x"}}', b'{"protocol":{}}'],
    ids=lambda content: ascii(content[:20]),
)
def test_a_damaged_commit_is_said(table: pathlib.Path, content: bytes) -> None:
    (table / "_delta_log" / "00000000000000000000.json").write_bytes(content)
    error = refused(table)
    assert error.reason in {Reason.PATH_UNREADABLE, Reason.MISSING_LABELS}
    assert str(table) in error.sentence


def test_a_log_without_end_is_given_up(table: pathlib.Path, limit: Limit) -> None:
    """A pipe that nobody writes to."""
    limit("TABLE_SECONDS", 2)
    table_child._contained.cache_clear()
    log = table / "_delta_log" / "00000000000000000000.json"
    log.unlink()
    os.mkfifo(log)
    error = refused(table)
    table_child._contained.cache_clear()
    assert error.reason in {Reason.TOO_LARGE, Reason.PATH_UNREADABLE, Reason.MISSING_LABELS}


@pytest.mark.parametrize("spelled", ["part%2D", "./part-", "sub/../part-"])
def test_a_delta_log_that_lists_a_file_twice_is_refused(
    tmp_path: pathlib.Path, spelled: str
) -> None:
    """Each of its rows would count twice, and twice the evidence accuses sooner."""
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pl.DataFrame({"day": [DAY] * 2, "x": range(2)}))
    log = table / "_delta_log" / "00000000000000000000.json"
    lines = log.read_text("utf-8").splitlines()
    (added,) = (line for line in lines if line.startswith('{"add"'))
    log.write_text("\n".join([*lines, added.replace("part-", spelled, 1)]), "utf-8")
    (table / "sub").mkdir()
    with pytest.raises(NotEvaluableError, match="lists a file twice") as caught:
        find_day(TablePlace(table=str(table), day="day"), DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED
