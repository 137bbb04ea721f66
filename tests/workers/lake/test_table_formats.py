"""Folders of table formats are refused by name, wherever one is named, and plain ones are read."""

import contextlib
import pathlib

import deltalake
import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.lake import DAY
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.shards import find_partition
from workers.lake.layout import Lake
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day
from workers.sources.tables.table_look import look

ROWS = pl.DataFrame({"x": [1, 2]})


def refused(table: object, words: str) -> None:
    """See that an audit and `attach` refuse a folder in one sentence with these words."""
    place = TablePlace.model_validate({"table": str(table), "day": "ds"})
    for door in (lambda: find_day(place, DAY), lambda: look(str(table))):
        with pytest.raises(NotEvaluableError) as caught:
            door()
        assert caught.value.reason is Reason.TABLE_UNSUPPORTED
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("form", "mark"),
    [
        ("Hudi", ".hoodie/hoodie.properties"),
        ("Hudi", f"ds={DAY}/.hoodie_partition_metadata"),
        ("Iceberg", "metadata/version-hint.text"),
        ("Iceberg", "metadata/00001-5f.metadata.json"),
        ("Delta", f"ds={DAY}/_delta_log/{0:020d}.json"),
        ("Paimon", "snapshot/snapshot-1"),
        ("DuckLake", f"ds={DAY}/ducklake-5f.parquet"),
        ("Hive ACID", f"ds={DAY}/delta_0000002_0000002_0000/000000_0"),
        ("Hive ACID", f"ds={DAY}/base_0000003/000000_0"),
        ("Spark streaming", "_spark_metadata/0"),
    ],
)
def test_a_folder_of_a_table_format_is_refused_by_its_name(
    tmp_path: pathlib.Path, form: str, mark: str
) -> None:
    table = tmp_path / "table"
    (table / f"ds={DAY}").mkdir(parents=True)
    ROWS.write_parquet(table / f"ds={DAY}" / "part.parquet")
    assert look(str(table)).sample.equals(ROWS)
    (table / mark).parent.mkdir(parents=True, exist_ok=True)
    (table / mark).write_bytes(b"")
    refused(table, f"{table} is the folder of a table in the {form} format (")
    if "ds=" not in mark:
        refused(table / f"ds={DAY}", f"ds={DAY} lies in {table}, a table in the {form} format (")


def test_a_part_of_a_table_and_a_folder_of_tables_are_refused(
    tmp_path: pathlib.Path,
) -> None:
    rows = ROWS.with_columns(ds=pl.lit(DAY), hour=pl.lit(3))
    for _ in range(2):
        deltalake.write_deltalake(
            str(tmp_path / "all" / "t"), rows, mode="overwrite", partition_by=["ds", "hour"]
        )
    refused(
        tmp_path / "all" / "t" / f"ds={DAY}" / "hour=3",
        "all/t, a table in the Delta format (_delta_log/), where",
    )
    refused(
        tmp_path / "all", "all is the folder of a table in the Delta format (t/_delta_log/), where"
    )
    with contextlib.closing(
        SqlCatalog("here", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/ice")
    ) as catalog:
        catalog.create_namespace("ads")
        table = catalog.create_table("ads.rows", schema=rows.to_arrow().schema)
        table.append(rows.to_arrow())
    folder = pathlib.Path(table.location().removeprefix("file://"))
    refused(folder, "is the folder of a table in the Iceberg format (metadata/0")
    refused(folder / "data", "catalog in the settings, --catalog")


def test_a_day_of_the_lakes_own_labels_is_refused_alike(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "labels" / "ads" / f"day={DAY}"
    deltalake.write_deltalake(str(folder), ROWS)
    (folder / "_SUCCESS").write_bytes(b"")
    with pytest.raises(
        NotEvaluableError, match=f"labels/ads/day={DAY} is the folder of a table in the Del"
    ):
        find_partition(Lake(str(tmp_path)), "ads", DAY)


def test_folders_of_other_uses_are_no_tables(tmp_path: pathlib.Path) -> None:
    for name in ("metadata/notes.json", "snapshot/x.parquet", "delta_20260302/base_20260302/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for folder in (tmp_path / "rows", tmp_path / "delta_20260302"):
        folder.mkdir(exist_ok=True)
        ROWS.write_parquet(folder / "part.parquet")
        assert look(str(folder)).sample.equals(ROWS)
