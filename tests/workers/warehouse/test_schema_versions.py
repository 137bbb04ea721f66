"""Every released version's warehouse, and today's, is read in full and written on."""

import json
import pathlib
import shutil
from typing import Any

import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated
from workers.audit.verify import Finding, verify_all_stored
from workers.warehouse.maintenance import compact
from workers.warehouse.sql import RELATIONS, query
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "warehouse"
VERSIONS = sorted((path.name for path in FIXTURES.iterdir()), key=int)
NEWEST = VERSIONS[-1]


def expected(version: str) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads(
        (FIXTURES / version / "expected.json").read_text(encoding="utf-8")
    )
    return content


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.fixture
def warehouse(tmp_path: pathlib.Path, version: str) -> Warehouse:
    shutil.copytree(FIXTURES / version, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


def test_there_is_a_fixture_of_every_version() -> None:
    assert [str(number + 1) for number in range(len(VERSIONS))] == VERSIONS


def test_the_newest_fixture_has_todays_columns() -> None:
    written = {table: set(rows[0]) for table, rows in expected(NEWEST).items()}
    today = {name: set(table.row.model_fields) for name, table in TABLES.items()}
    assert written == today, (
        "run python -m tests.support.warehouse_fixture tests/fixtures/warehouse/N"
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_value_is_read_as_it_was_written_and_later_columns_as_null(
    warehouse: Warehouse, version: str
) -> None:
    then = expected(version)
    assert sum(map(len, then.values())) > 100
    for name, table in TABLES.items():
        rows = then.get(name, [])
        columns = list(rows[0]) if rows else []
        frame = warehouse.scan(name).collect()
        assert frame.columns == list(table.row.model_fields)
        assert plain(frame.select(columns).to_dicts()) == plain(rows)
        later = frame.drop(columns)
        assert all(later[column].null_count() == later.height for column in later.columns)
        by_sql = query(warehouse, f"from {name}")
        assert plain(by_sql.to_dicts()) == plain(frame.to_dicts())


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_view_answers_and_every_record_is_whole(warehouse: Warehouse, version: str) -> None:
    assert warehouse.current()["reason"].to_list()[0] == "The disk was full."
    assert warehouse.current()["status"].to_list() == ["error", "evaluated"]
    heights = {name: query(warehouse, f"from {name}").height for name in RELATIONS}
    assert heights["coverage"] == heights["epsilon_trend"] == 1
    assert heights["epsilon_windows"] == 1
    (good,) = warehouse.current().filter(pl.col("status") == "evaluated")["audit_id"]
    record = warehouse.record(good)
    assert len(record.bounds) == len(expected(version)["audit_bounds"])
    found = {one.finding for one in verify_all_stored(warehouse)}
    assert found == {Finding.INTACT}


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_todays_records_are_written_beside_it_and_compacted_with_it(
    warehouse: Warehouse, version: str
) -> None:
    record = evaluated("new", DAY)
    warehouse.commit(record)
    compact(warehouse)
    then = expected(version)
    for name in ("audits", "audit_bounds", "audit_wealth", "audit_promises"):
        frame = warehouse.scan(name).collect()
        columns = list(then[name][0])
        old = frame.filter(pl.col("audit_id") != record.audit.audit_id)
        assert plain(old.select(columns).to_dicts()) == plain(then[name])
        assert frame.height > old.height
    assert query(warehouse, "from latest_audits").height == 3
