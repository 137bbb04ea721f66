"""A table's columns are those of its newest version, whatever folder holds its files."""

import datetime as dt
import pathlib

import deltalake
import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.lake import DAY, EVE
from workers.exceptions import NotEvaluableError
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_look import look, newest_day

OLD = EVE - dt.timedelta(days=30)


def rows(day: object, mark: int, *, name: str = "ds") -> pl.DataFrame:
    return pl.DataFrame({name: [day] * 50, "x": [mark] * 50})


def marks(seen: object) -> set[int]:
    return set(seen.sample["x"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("text", [True, False])
def test_the_newest_day_of_a_delta_table_is_looked_at(
    tmp_path: pathlib.Path, *, partitioned: bool, text: bool
) -> None:
    for mark, day in enumerate((EVE, DAY, OLD)):
        frame = rows(str(day) if text else day, mark)
        by = ["ds"] if partitioned else None
        deltalake.write_deltalake(str(tmp_path), frame, mode="append", partition_by=by)
    seen = look(str(tmp_path))
    assert seen.newest["ds"] == DAY
    assert marks(seen) == {1}
    assert seen.folders == (("ds",) if partitioned else ())
    assert ("ds" in seen.sample.columns) != partitioned


def test_files_that_a_delta_table_no_longer_has_are_not_looked_at(tmp_path: pathlib.Path) -> None:
    deltalake.write_deltalake(str(tmp_path), rows(DAY, 0))
    deltalake.write_deltalake(str(tmp_path), rows(EVE, 1), mode="overwrite")
    rows(DAY + dt.timedelta(days=9), 2).write_parquet(tmp_path / "zz-stray.parquet")
    seen = look(str(tmp_path))
    assert (marks(seen), seen.newest["ds"]) == ({1}, EVE)
    deltalake.DeltaTable(str(tmp_path)).delete()
    with pytest.raises(NotEvaluableError, match="has no files yet"):
        look(str(tmp_path))


def test_the_day_that_was_named_decides_which_file_is_looked_at(tmp_path: pathlib.Path) -> None:
    for mark, (sent, day) in enumerate(((DAY, EVE), (EVE, DAY))):
        frame = rows(day, mark).with_columns(sent=pl.lit(sent))
        deltalake.write_deltalake(str(tmp_path), frame, mode="append")
    assert marks(look(str(tmp_path), day="sent")) == {0}
    assert marks(look(str(tmp_path), day="ds")) == {1}


@pytest.mark.parametrize("text", [True, False])
def test_the_newest_day_of_an_iceberg_table_is_looked_at(
    catalog: SqlCatalog, *, text: bool
) -> None:
    table = None
    for mark, day in enumerate((EVE, DAY, OLD)):
        content = rows(str(day) if text else day, mark).to_arrow()
        table = table or catalog.create_table("ads.scores", schema=content.schema)
        table.append(content)
    seen = look("ads.scores", catalog="here")
    assert (seen.newest["ds"], marks(seen), seen.folders) == (DAY, {1}, ())
    with pytest.raises(NotEvaluableError, match=r"has no table ads\.others"):
        look("ads.others", catalog="here")
    place = TablePlace(table="ads.scores", catalog="here", day="ds")
    assert newest_day(place) == DAY
    assert table is not None
    pinned = place.model_copy(update={"version": table.metadata.snapshots[0].snapshot_id})
    assert newest_day(pinned) == EVE
    assert newest_day(place.model_copy(update={"day": "x"})) is None


@pytest.mark.parametrize("words", [("2026-03-01", "2026-03-02"), ("20260301", "20260302")])
def test_folders_name_their_newest_day(tmp_path: pathlib.Path, words: tuple[str, str]) -> None:
    for word in words:
        folder = tmp_path / f"ds={word}" / "country=DE"
        folder.mkdir(parents=True)
        rows(DAY, 0).write_parquet(folder / "part.parquet")
    (tmp_path / "ds=later").mkdir()
    assert newest_day(TablePlace(table=str(tmp_path), day="ds")) == DAY
    assert newest_day(TablePlace(table=str(tmp_path), day="day")) is None


@pytest.mark.parametrize("day", [DAY, str(DAY), int(f"{DAY:%Y%m%d}")])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_delta_tables_newest_day_is_told_by_partition_or_by_statistics(
    tmp_path: pathlib.Path, day: object, *, partitioned: bool
) -> None:
    by = ["ds"] if partitioned else None
    for version, each in enumerate((day, EVE)):
        deltalake.write_deltalake(
            str(tmp_path),
            rows(each, version),
            mode="overwrite",
            partition_by=by,
            schema_mode="overwrite",
        )
    place = TablePlace(table=str(tmp_path), day="ds", version=0)
    assert newest_day(place) == DAY
    assert newest_day(place.model_copy(update={"day": "x"})) is None


def test_where_there_is_no_table_the_newest_day_is_no_guess(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotEvaluableError, match="and holds no file: check the address"):
        newest_day(TablePlace(table=str(tmp_path), day="ds"))
