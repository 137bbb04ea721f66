"""The files of one day of a table: folders, Delta versions, Iceberg snapshots."""

import datetime as dt
import pathlib
from typing import Any

import deltalake
import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.lake import DAY, EVE
from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day

BOTH = pl.DataFrame({"day": [EVE] * 3 + [DAY] * 2, "x": range(5)})


def place(table: object, **more: Any) -> TablePlace:
    return TablePlace.model_validate({"table": str(table), "day": "day"} | more)


@pytest.mark.parametrize("word", [f"day={DAY}", f"day={DAY:%Y%m%d}", f"day={DAY}/region=NL"])
def test_a_folder_of_the_day_is_found(tmp_path: pathlib.Path, word: str) -> None:
    for folder in (word, f"day={EVE}", "_temporary/day=2026-03-02", f"other={DAY}"):
        (tmp_path / folder).mkdir(parents=True)
        BOTH.write_parquet(tmp_path / folder / "part.parquet")
    found = find_day(place(tmp_path), DAY)
    assert [file.name for file in found.files] == [f"{word}/part.parquet"]
    assert (found.kind, found.version, found.day_in_files) == ("parquet", None, False)


def test_files_without_such_folders_are_read_and_each_row_is_asked(tmp_path: pathlib.Path) -> None:
    BOTH.write_parquet(tmp_path / "all.parquet")
    found = find_day(place(tmp_path), DAY)
    assert found.day_in_files
    assert len(found.files) == 1


def test_a_delta_table_gives_the_files_that_may_hold_the_day(tmp_path: pathlib.Path) -> None:
    for number, frame in enumerate((BOTH[:3], BOTH[3:], BOTH[2:4])):
        deltalake.write_deltalake(str(tmp_path / "t"), frame, mode="append")
        found = find_day(place(tmp_path / "t"), EVE)
        assert (found.version, len(found.files)) == (number, [1, 1, 2][number])
        assert found.pinned == ""
    pinned = find_day(place(tmp_path / "t", version=0), EVE)
    assert len(pinned.files) == 1
    assert "read at version 0, which the settings name, and its newest is 2" in pinned.pinned
    with pytest.raises(NotEvaluableError, match="has no day = 2026-03-02"):
        find_day(place(tmp_path / "t", version=0), DAY)
    (tmp_path / "t" / "_delta_log" / f"{3:020d}.json").write_text("{x")
    assert "newest cannot be opened" in find_day(place(tmp_path / "t", version=0), EVE).pinned


def test_deleted_rows_of_a_delta_table_are_not_read_back(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), BOTH)
    deltalake.DeltaTable(str(table)).delete("x = 4")
    found = find_day(place(table), DAY)
    (file,) = found.files
    assert pl.read_parquet(table / file.name)["x"].to_list() == [0, 1, 2, 3]


def test_a_delta_table_with_deletion_vectors_is_refused(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(
        str(table), BOTH, configuration={"delta.enableDeletionVectors": "true"}
    )
    find_day(place(table), DAY)  # it may have some, and has none
    log = table / "_delta_log" / "00000000000000000000.json"
    added = '"deletionVector":{"storageType":"u","pathOrInlineDv":"ab","sizeInBytes":1}'
    log.write_text(log.read_text().replace('"add":{', f'"add":{{{added},'))
    with pytest.raises(NotEvaluableError) as caught:
        find_day(place(table), DAY)
    assert caught.value.reason in {Reason.TABLE_UNSUPPORTED, Reason.PATH_UNREADABLE}


def test_an_iceberg_snapshot_is_read_and_a_later_one_is_not(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema)
    with pytest.raises(NotEvaluableError, match="no snapshot yet"):
        find_day(place("ads.scores", catalog="here"), DAY)
    table.append(BOTH.to_arrow())
    first = find_day(place("ads.scores", catalog="here"), DAY)
    table.append(BOTH[4:].to_arrow())
    assert len(find_day(place("ads.scores", catalog="here"), DAY).files) == 2
    again = find_day(place("ads.scores", catalog="here", version=first.version), DAY)
    assert again == first
    assert "which the settings name, and its newest is" in again.pinned
    assert len(find_day(place("ads.scores", catalog="here"), EVE).files) == 1
    with pytest.raises(NotEvaluableError, match="has no day"):
        find_day(place("ads.scores", catalog="here"), DAY + dt.timedelta(days=5))


def test_an_iceberg_table_that_renamed_a_column_is_refused(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema)
    table.append(BOTH.to_arrow())
    with table.update_schema() as update:
        update.rename_column("x", "y")
    with pytest.raises(NotEvaluableError, match="renamed the column") as caught:
        find_day(place("ads.scores", catalog="here"), DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table": "ads.none", "catalog": "here"}, "has no table ads.none"),
        ({"table": "ads.scores", "catalog": "nobody"}, "PYICEBERG_CATALOG__NOBODY__URI"),
        ({"table": "ads.scores", "catalog": "here", "day": "ds"}, "no column 'ds'"),
        ({"table": "ads.scores", "catalog": "here", "version": 7}, "no snapshot 7"),
    ],
)
def test_what_an_iceberg_catalogue_does_not_have_is_said(
    catalog: SqlCatalog, given: dict[str, Any], words: str
) -> None:
    catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema).append(BOTH.to_arrow())
    with pytest.raises(NotEvaluableError, match=words):
        find_day(TablePlace.model_validate({"day": "day"} | given), DAY)


def test_a_file_that_a_version_lists_and_is_gone_is_said(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), BOTH)
    next(table.glob("*.parquet")).unlink()
    with pytest.raises(NotEvaluableError, match="which is gone"):
        find_day(place(table), DAY)
