"""The newest day of a table, by what stands beside its rows."""

import datetime as dt
import pathlib

import deltalake
import polars as pl
import pytest

from workers.sources.newest_day import newest_day
from workers.sources.score_tables import TablePlace

DAY = dt.date(2026, 3, 2)
ROWS = pl.DataFrame({"ds": [DAY, DAY - dt.timedelta(days=3)], "p": [0.5, 0.25]})


@pytest.mark.parametrize("words", [("2026-03-01", "2026-03-02"), ("20260301", "20260302")])
def test_folders_name_their_days(tmp_path: pathlib.Path, words: tuple[str, str]) -> None:
    for word in words:
        folder = tmp_path / f"ds={word}" / "country=DE"
        folder.mkdir(parents=True)
        ROWS.write_parquet(folder / "part.parquet")
    (tmp_path / "ds=later").mkdir()
    assert newest_day(TablePlace(table=str(tmp_path), day="ds")) == DAY
    assert newest_day(TablePlace(table=str(tmp_path), day="day")) is None


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_delta_table_names_them_by_partition_or_by_statistics(
    tmp_path: pathlib.Path, partitioned: bool
) -> None:
    by = ["ds"] if partitioned else None
    deltalake.write_deltalake(str(tmp_path), ROWS.to_arrow(), partition_by=by)
    assert newest_day(TablePlace(table=str(tmp_path), day="ds")) == DAY
    assert newest_day(TablePlace(table=str(tmp_path), day="p")) is None


def test_where_nothing_says_a_day_there_is_none(tmp_path: pathlib.Path) -> None:
    assert newest_day(TablePlace(table=str(tmp_path), day="ds")) is None
    assert newest_day(TablePlace(table="n.t", catalog="prod", day="ds")) is None
