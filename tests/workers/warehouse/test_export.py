import pathlib

import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed, put_rows
from workers.warehouse.sql import RELATIONS, export, query
from workers.warehouse.store import Warehouse


@pytest.mark.slow
def test_every_table_and_view_is_a_file_with_the_same_rows(
    warehouse: Warehouse, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "new" / "out"
    put_rows(warehouse, [failed("late", DAY), evaluated("good", DAY, epsilon_lower=0.1 + 0.2)])
    files = export(warehouse, folder)
    assert [file.stem for file in files] == list(RELATIONS)
    assert {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in RELATIONS}
    for file in files:
        expected = query(warehouse, f"select * from {file.stem} order by all")  # noqa: S608
        assert pl.read_parquet(file).equals(expected), file.stem
    assert export(warehouse, folder) == files
