"""Rows put where the audit does not look, and files that it would read more than once."""

import datetime as dt
import os
import pathlib
from collections.abc import Callable

import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, copied, declared, label_path, label_rows, small_lake
from tests.support.score_tables import audit, tables
from workers.lake.layout import Lake, labels_folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake of a model that declares nothing."""
    return small_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(whole: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [["_extra/x.parquet", "rows.csv", "x.parquet.gz"], ["_metadata", "x.parquet/part-0"]]
)
def test_rows_beside_the_files_that_are_read_are_told(lake: Lake, names: list[str]) -> None:
    before = audited(lake)
    for name in names:
        hidden = label_path(lake, "flights").parent / name
        hidden.parent.mkdir(exist_ok=True)
        label_rows(400, seed=9).write_parquet(hidden)
    row = audited(lake)
    assert (row.records, row.epsilon_lower) == (before.records, before.epsilon_lower)
    told = row.reason.partition("were not read: ")[2].partition(". If training saw rows in them")[0]
    assert sorted(told.split(", ")) == [repr(name) for name in names]
    assert "were not read" not in before.reason


@pytest.mark.slow
def test_rows_in_these_files_are_read(lake: Lake) -> None:
    folder, before, trained = label_path(lake, "flights").parent, audited(lake), 0
    for seed, name in enumerate(("_x.parquet", ".x.parquet", "sub/x.parquet", "x.PARQUET")):
        (folder / name).parent.mkdir(exist_ok=True)
        more = label_rows(400, seed=seed)
        more.write_parquet(folder / name)
        trained += (more["split"] == "train").sum()
    row = audited(lake)
    assert (row.records or 0) - (before.records or 0) == trained
    assert "were not read" not in row.reason


def test_what_writers_leave_behind_is_not_told(lake: Lake) -> None:
    """Spark leaves checksums and, in other folders, an empty file or a small one."""
    path = label_path(lake, "flights")
    size = path.stat().st_size
    (path.parent / f".{path.name}.crc").write_bytes(b"crc\0" + bytes(4 * (size // 512 + 1)))
    (path.parent / "_started_123").write_bytes(b"")
    assert "were not read" not in audited(lake).reason


def test_names_of_unread_files_are_few_short_and_plain(lake: Lake) -> None:
    folder = label_path(lake, "flights").parent
    for number in range(5):
        name = f"{number}\x1b[2J\nverdict=not_refuted" + "x" * 200
        (folder / name).write_bytes(bytes(50_000 + number))
    said = audited(lake).reason
    assert "\x1b" not in said
    assert "\n" not in said
    assert said.count("verdict=not_refuted") == 3
    assert " and 2 more." in said
    assert "x" * 80 not in said


@pytest.mark.parametrize(
    "name",
    ["loose.parquet", "day=March/x.parquet", f"day={DAY}/_x.parquet", f"day={DAY}/x.csv.gz"],
)
def test_rows_of_a_score_table_that_are_of_no_day_are_told(
    tmp_path: pathlib.Path, name: str
) -> None:
    frame = label_rows(2_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    for place in (f"day={DAY}/a.parquet", f"day={EVE}/b.parquet", f"day={EVE}/_c.parquet", name):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        frame.write_parquet(tmp_path / place)
    scores = tables(tmp_path, label="late", target="new", proxy="old")
    row = audit(scores, privacy=declared(0.5)).audit
    assert f"were not read: {name!r}" in row.reason


@pytest.mark.parametrize("kind", ["date", "time", "text", "integer", "partition"])
def test_rows_whose_day_is_missing_or_none_are_told(tmp_path: pathlib.Path, kind: str) -> None:
    """Training saw a third of its rows without a day: 3.65 of all became less, in silence."""
    frame = label_rows(3_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    column, none = {
        "date": (pl.lit(DAY), None),
        "time": (pl.lit(dt.datetime.combine(DAY, dt.time(9)), pl.Datetime("us", "UTC")), None),
        "text": (pl.lit(str(DAY)), f" {DAY}"),
        "integer": (pl.lit(int(f"{DAY:%Y%m%d}")), 20269999),
        "partition": (pl.lit(str(DAY)), None),
    }[kind]
    hidden = (pl.int_range(3_000) % 3 == 0) & (pl.col("split") == "train")
    frame = frame.with_columns(day=pl.when(hidden).then(pl.lit(none)).otherwise(column))
    table = tmp_path / "table"
    frame.write_delta(
        str(table),
        delta_write_options={"partition_by": ["day"]} if kind == "partition" else {},
    )
    row = audit(tables(table, label="late", target="new", proxy="old", day="day")).audit
    count = frame.select(hidden.sum()).item()
    assert row.records == frame.filter(pl.col("split") == "train").height - count, row.reason
    if kind == "partition":
        assert "were not read: 'day=__HIVE_DEFAULT_PARTITION__/" in row.reason
    else:
        assert f"{count:,} rows are of neither" in row.reason


def circle(folder: pathlib.Path) -> None:
    (folder / "circle").symlink_to(".")


def other_folder(folder: pathlib.Path) -> None:
    (folder / "other").symlink_to(folder.parent / f"day={EVE}")


def hard_link(folder: pathlib.Path) -> None:
    os.link(folder / "part-00000.parquet", folder / "again.parquet")


def soft_link(folder: pathlib.Path) -> None:
    (folder / "again.parquet").symlink_to("part-00000.parquet")


@pytest.mark.parametrize("linked", [circle, other_folder, hard_link, soft_link])
def test_a_link_in_a_days_folder_lets_no_row_count_twice(
    lake: Lake, linked: Callable[[pathlib.Path], None]
) -> None:
    """A circle gave each file 40 names, and the rows of innocents 40 times their weight."""
    linked(label_path(lake, "flights").parent)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "path_outside"), row.reason
    assert "rows could be read several times" in row.reason


def test_links_that_lead_nowhere_pipes_and_missing_folders_hold_no_file(lake: Lake) -> None:
    folder = label_path(lake, "flights").parent
    (folder / "nowhere.parquet").symlink_to("/nowhere")
    (folder / "itself.parquet").symlink_to("itself.parquet")
    os.mkfifo(folder / "pipe.parquet")
    names = [file.name for file in lake.files_below(labels_folder("flights", DAY))]
    assert names == ["_SUCCESS", "part-00000.parquet"]
    assert lake.files_below("labels/nothing") == []
