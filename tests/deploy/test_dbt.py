"""The dbt package: it names relations and columns that there are, and its test tells violations."""

import pathlib
from typing import Any

import jinja2
import pytest
import yaml

from tests.support.lake import DAY, EVE
from tests.support.warehouse import evaluated
from workers.warehouse.sql import RELATIONS, query
from workers.warehouse.store import Warehouse

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "dbt"


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(evaluated("credit", EVE))
    return warehouse


def tables() -> list[dict[str, Any]]:
    (source,) = yaml.safe_load((PACKAGE / "models" / "sources.yml").read_text())["sources"]
    assert source["name"] == "privaudit"
    found: list[dict[str, Any]] = source["tables"]
    return found


@pytest.mark.slow
def test_sources_are_relations_and_columns_of_the_warehouse(warehouse: Warehouse) -> None:
    assert {table["name"] for table in tables()} <= set(RELATIONS)
    named = 0
    for table in tables():
        columns = query(warehouse, f"from {table['name']}").columns
        asked = [column["name"] for column in table.get("columns", [])]
        asked += [table["config"]["loaded_at_field"]] if "config" in table else []
        assert set(asked) <= set(columns), table["name"]
        named += len(asked)
    assert named >= 4


@pytest.mark.slow
def test_only_a_violation_that_counts_fails(warehouse: Warehouse) -> None:
    asked: list[tuple[str, str]] = []

    def source(package: str, table: str) -> str:
        asked.append((package, table))
        return table

    text = (PACKAGE / "tests" / "no_violated_verdict.sql").read_text()
    sql = jinja2.Template(text).render(source=source)
    assert asked == [("privaudit", "latest_audits")]
    assert query(warehouse, sql).is_empty()
    broken = evaluated("credit", DAY, verdict="violated", epsilon_lower=0.75)
    warehouse.commit(broken)
    assert query(warehouse, sql)["audit_id"].to_list() == [broken.audit.audit_id]
    warehouse.withdraw(broken.audit.audit_id, "The wrong lake.")
    assert query(warehouse, sql).is_empty()
