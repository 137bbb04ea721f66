"""Rows that say no day, and files that the audit would read more than once."""

import datetime as dt
import os
import pathlib

import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, copied, label_path, label_rows, small_lake
from tests.support.score_tables import audit, tables
from workers.lake.layout import labels_folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a lake of a model that declares nothing."""
    return small_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(whole, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(whole, tmp_path)


@pytest.mark.slow
def test_rows_in_these_files_are_read(lake):
    folder, before, trained = label_path(lake, "flights").parent, audited(lake), 0
    for seed, name in enumerate(("_x.parquet", ".x.parquet", "sub/x.parquet", "x.PARQUET")):
        (folder / name).parent.mkdir(exist_ok=True)
        more = label_rows(400, seed=seed)
        more.write_parquet(folder / name)
        trained += (more["split"] == "train").sum()
    row = audited(lake)
    assert (row.records or 0) - (before.records or 0) == trained


@pytest.mark.parametrize("kind", ["date", "time", "text", "integer"])
def test_rows_whose_day_is_missing_or_none_are_told(tmp_path, kind):
    """Training saw a third of its rows without a day: 3.65 of all became less, in silence."""
    frame = label_rows(3_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    column, none = {
        "date": (pl.lit(DAY), None),
        "time": (pl.lit(dt.datetime.combine(DAY, dt.time(9)), pl.Datetime("us", "UTC")), None),
        "text": (pl.lit(str(DAY)), f" {DAY}"),
        "integer": (pl.lit(int(f"{DAY:%Y%m%d}")), 20269999),
    }[kind]
    hidden = (pl.int_range(3_000) % 3 == 0) & (pl.col("split") == "train")
    frame = frame.with_columns(day=pl.when(hidden).then(pl.lit(none)).otherwise(column))
    table = tmp_path / "table"
    frame.write_delta(str(table))
    row = audit(tables(table, label="late", target="new", proxy="old", day="day")).audit
    count = frame.select(hidden.sum()).item()
    assert row.records == frame.filter(pl.col("split") == "train").height - count, row.reason
    assert f"{count:,} rows are of neither" in row.reason


def circle(folder: pathlib.Path) -> None:
    (folder / "circle").symlink_to(".")


def other_folder(folder: pathlib.Path) -> None:
    (folder / "other").symlink_to(folder.parent / f"day={EVE}")


@pytest.mark.parametrize("linked", [circle, other_folder])
def test_a_link_in_a_days_folder_lets_no_row_count_twice(lake, linked):
    """A circle gave each file 40 names, and the rows of innocents 40 times their weight."""
    linked(label_path(lake, "flights").parent)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "path_outside"), row.reason
    assert "rows could be read several times" in row.reason


def test_links_that_lead_nowhere_pipes_and_missing_folders_hold_no_file(lake):
    folder = label_path(lake, "flights").parent
    (folder / "nowhere.parquet").symlink_to("/nowhere")
    (folder / "itself.parquet").symlink_to("itself.parquet")
    os.mkfifo(folder / "pipe.parquet")
    names = [file.name for file in lake.files_below(labels_folder("flights", DAY))]
    assert names == ["_SUCCESS", "part-00000.parquet"]
    assert lake.files_below("labels/nothing") == []
