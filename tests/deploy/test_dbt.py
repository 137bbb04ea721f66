"""The dbt package: it names relations and columns that there are, and its test tells violations."""

import datetime as dt
import pathlib
from typing import Any

import jinja2
import pytest
import yaml

from tests.support.lake import DAY, EVE
from tests.support.warehouse import evaluated, failed, night
from workers.warehouse.sql import RELATIONS, query
from workers.warehouse.store import Warehouse

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "dbt"


@pytest.fixture
def warehouse(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit([evaluated("credit", EVE)])
    return warehouse


def tables() -> list[dict[str, Any]]:
    (source,) = yaml.safe_load((PACKAGE / "models" / "sources.yml").read_text())["sources"]
    assert source["name"] == "privaudit"
    found: list[dict[str, Any]] = source["tables"]
    return found


@pytest.mark.slow
def test_sources_are_relations_and_columns_of_the_warehouse(warehouse):
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
def test_only_a_violation_that_counts_fails(warehouse):
    sql, asked = rendered("no_violated_verdict.sql")
    assert asked == [("privaudit", "latest_audits")]
    assert query(warehouse, sql).is_empty()
    broken = evaluated(
        "credit", DAY, verdict="violated", reason_code="this_night", epsilon_lower=0.75
    )
    warehouse.commit([broken])
    assert query(warehouse, sql)["audit_id"].to_list() == [broken.audit.audit_id]
    warehouse.withdraw(broken.audit.audit_id, "The wrong lake.")
    assert query(warehouse, sql).is_empty()


@pytest.mark.slow
def test_a_violated_model_fails_though_its_last_night_is_not(tmp_path):
    """A leak that each night leaves below its declaration passed."""
    warehouse = Warehouse(str(tmp_path / "together"))
    sql, asked = rendered("no_violated_model.sql")
    assert {table for _, table in asked} == {"latest_audits", "epsilon_windows"}
    records = [night(at, 3.0, hour=24 * at) for at in range(3)]
    warehouse.commit([records[0]])
    assert query(warehouse, sql).is_empty()
    warehouse.commit(records[1:])
    warehouse.commit([failed("ads", DAY + dt.timedelta(days=3))])
    found = query(warehouse, sql)
    assert found.select("audit_id", "reason_code_together").rows() == [
        (records[-1].audit.audit_id, "nights_together")
    ]


def rendered(test: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the SQL of a test of the package, and the tables that it asks for."""
    asked: list[tuple[str, str]] = []

    def source(package: str, table: str) -> str:
        asked.append((package, table))
        return table

    text = (PACKAGE / "tests" / test).read_text()
    return jinja2.Template(text).render(source=source), asked
