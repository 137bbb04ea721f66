import csv
import pathlib

import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed, put_rows
from workers.plain_text import plain_text
from workers.warehouse.sql import RELATIONS, export, query
from workers.warehouse.store import Warehouse

FORMULAS = ["=1+1", "+1", "-1", "@sum(a1)", "\tx", "\rx", '=cmd|" /C calc"!A0']
HARMLESS = ["a=1", "1-2", " =1", "'=1", "", 'Ünïcode, "quoted"\nand broken']


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    texts = [*FORMULAS, *HARMLESS]
    records = [failed(f"model-{n:02d}", DAY, reason=text) for n, text in enumerate(texts)]
    put_rows(warehouse, [*records, evaluated("good", DAY, epsilon_lower=0.1 + 0.2)])
    return warehouse


@pytest.mark.slow
def test_every_table_and_view_is_a_file_with_the_same_rows(
    warehouse: Warehouse, tmp_path: pathlib.Path
) -> None:
    files = export(warehouse, tmp_path / "new" / "out", kind="parquet")
    assert [file.stem for file in files] == list(RELATIONS)
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == sorted(
        f"{name}.parquet" for name in RELATIONS
    )
    for file in files:
        expected = query(warehouse, f"select * from {file.stem} order by all")  # noqa: S608
        assert pl.read_parquet(file).equals(expected), file.stem
    again = export(warehouse, tmp_path / "new" / "out", kind="parquet")
    assert again == files


@pytest.mark.slow
def test_no_cell_of_a_csv_file_is_a_formula(warehouse: Warehouse, tmp_path: pathlib.Path) -> None:
    files = export(warehouse, tmp_path / "out", kind="csv")
    cells = 0
    for file in files:
        with file.open(newline="", encoding="utf-8") as opened:
            for row in csv.reader(opened):
                cells += len(row)
                for cell in row:
                    number = cell.lstrip("-").replace(".", "", 1).replace("e-", "", 1).isdigit()
                    assert number or not cell.startswith(tuple("=+-@\t\r")), (file.name, cell)
    assert cells > 500


@pytest.mark.slow
def test_a_csv_file_keeps_every_text_and_every_bit(
    warehouse: Warehouse, tmp_path: pathlib.Path
) -> None:
    files = {file.stem: file for file in export(warehouse, tmp_path / "out", kind="csv")}
    with files["latest_audits"].open(newline="", encoding="utf-8") as opened:
        rows = {row["model"]: row for row in csv.DictReader(opened)}
    reasons = [rows[f"model-{n:02d}"]["reason"] for n in range(len(FORMULAS + HARMLESS))]
    # Characters that a terminal obeys were spelled out when the record was made.
    born = [plain_text(text) for text in FORMULAS + HARMLESS]
    assert reasons == [f"'{text}" if text.startswith(tuple("=+-@")) else text for text in born]
    assert float(rows["good"]["epsilon_lower"]) == 0.1 + 0.2
    assert rows["good"]["recorded_at"] == "2026-04-01 00:00:00+00"
    assert rows["model-00"]["epsilon_lower"] == ""
