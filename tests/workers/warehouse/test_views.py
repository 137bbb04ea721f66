import datetime as dt

import polars as pl
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed, put_rows
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord
from workers.warehouse.sql import RELATIONS, VIEWS, export, query, view_sql
from workers.warehouse.store import Warehouse

# What every database has, by sqlglot's names.
PLAIN = {"Max", "RowNumber", "Case", "If", "Cast", "Coalesce", "DateDiff", "Lag", "Lead", "Nullif"}
MODELS = ("ads", "loans")
START = dt.datetime(2026, 4, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """Two models, a gap, a failure, a violation, a rerun that superseded and one that failed."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("views") / "warehouse"))
    day = lambda number: DAY + dt.timedelta(days=number)  # noqa: E731
    put_rows(
        warehouse,
        [
            evaluated("ads", day(0), hour=1, epsilon_lower=0.25),
            evaluated("ads", day(1), hour=2, epsilon_lower=1.5, verdict="violated"),
            failed("ads", day(2), hour=3),
            evaluated("ads", day(6), hour=7, epsilon_lower=0.5),
            evaluated("ads", day(6), hour=8, epsilon_lower=0.75),
            failed("ads", day(6), hour=9),
            evaluated("loans", day(1), hour=2, epsilon_lower=0.0),
            failed("loans", day(3), hour=4),
            failed("loans", day(3), hour=5, reason="Still none."),
        ],
    )
    return warehouse


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(MODELS),
            st.integers(0, 1),
            st.integers(0, 2),
            st.booleans(),
            st.lists(st.integers(0, 2), max_size=2),
        ),
        max_size=8,
    )
)
def test_latest_audits_agree_with_current_whatever_was_committed_when(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[str, int, int, bool, list[int]]]
) -> None:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("any") / "warehouse"))
    records = []
    confirmed = []
    for number, (model, day, hour, good, again) in enumerate(commits):
        make = evaluated if good else failed
        record = make(model, DAY + dt.timedelta(days=day), hour=hour, reason=f"No. {number}.")
        records.append(record)
        confirmed += [(record.audit.audit_id, hour) for hour in again]
    put_rows(warehouse, records, confirmed=confirmed)
    found = query(warehouse, "select * from latest_audits order by day, model")
    assert found.to_dicts() == warehouse.current().to_dicts()
    assert warehouse.current().to_dicts() == naive_current(records, confirmed)


def naive_current(
    records: list[AuditRecord], confirmed: list[tuple[str, int]]
) -> list[dict[str, object]]:
    """The current records by going through all of them, one by one."""
    best: dict[object, tuple[object, dict[str, object]]] = {}
    for audit in (seal(record).audit for record in records):
        seen = [audit.recorded_at] + [
            START + dt.timedelta(hours=hour) for name, hour in confirmed if name == audit.audit_id
        ]
        rank = (audit.status == "evaluated", max(seen), audit.audit_id)
        key = (audit.day, audit.model)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, audit.model_dump())
    return [best[key][1] for key in sorted(best)]


def test_epsilon_trend_and_violations_are_of_current_records(warehouse):
    current = warehouse.current().filter(pl.col("status") == "evaluated").sort("model", "day")
    found = query(warehouse, "select * from epsilon_trend order by model, day")
    change = pl.col("epsilon_lower").diff().over("model")
    assert found.equals(current.with_columns(change=change).select(found.columns))
    assert found["change"].to_list() == [None, 1.25, -0.75, None]
    found = query(warehouse, "select * from violations")
    excess = pl.col("epsilon_lower") - pl.col("epsilon_declared")
    violated = current.filter(verdict="violated").with_columns(excess=excess)
    assert found.equals(violated.select(found.columns))
    assert found.select("model", "epsilon_lower", "excess").rows() == [("ads", 1.5, 1.0)]


def test_coverage_names_every_day_without_a_figure_and_why(warehouse):
    found = query(warehouse, "select * from coverage order by model, first_day").to_dicts()
    day = [DAY + dt.timedelta(days=number) for number in range(7)]
    told = [
        tuple(row[name] for name in ("model", "first_day", "last_day", "days", "reason_code"))
        for row in found
    ]
    assert told == [
        ("ads", day[2], day[2], 1, "labels_missing"),
        ("ads", day[3], day[5], 3, "no_record"),
        ("loans", day[2], day[2], 1, "no_record"),
        ("loans", day[3], day[3], 1, "labels_missing"),
        ("loans", day[4], day[6], 3, "no_record"),
    ]
    assert [row["reason"] for row in found if row["model"] == "loans"][1] == "Still none."


def test_promises_are_those_of_the_current_records(warehouse):
    found = query(warehouse, "select * from promises order by all")
    promised = warehouse.scan("audit_promises").collect()
    share = pl.when(pl.col("value") != 0.0).then(pl.col("achieved") / pl.col("value"))
    current = warehouse.current().select("model", "day", "audit_id")
    twin = current.join(promised, on="audit_id").with_columns(share=share).select(found.columns)
    assert (found.height, promised.height) == (8, 10)
    assert found.sort(found.columns).equals(twin.sort(found.columns))


def functions(tree: sqlglot.Expr) -> set[str]:
    return {type(node).__name__ for node in tree.find_all(sqlglot.exp.Func)}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_plain_enough_for_other_databases(view):
    assert functions(sqlglot.parse_one("select to_days(1), strip_accents('a')")) - PLAIN
    assert functions(sqlglot.parse_one(view_sql(view), read="duckdb")) <= PLAIN
    for dialect in ("duckdb", "trino", "snowflake", "bigquery"):
        (written,) = sqlglot.transpile(
            view_sql(view), read="duckdb", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE
        )
        read = sqlglot.parse_one(written, read=dialect)
        tables = {table.name for table in read.find_all(sqlglot.exp.Table)}
        named = {cte.alias for cte in read.find_all(sqlglot.exp.CTE)}
        assert tables - named <= set(RELATIONS)


def test_a_query_sees_the_files_and_nothing_is_left_behind(warehouse, tmp_path):
    assert query(warehouse, "from audits").height == 9
    with pytest.raises(TerminalError, match="drop"):
        query(warehouse, "drop table audits")
    assert query(warehouse, "from audits").height == 9
    for relation in RELATIONS:
        empty = query(Warehouse(str(tmp_path)), f"select * from {relation}")  # noqa: S608
        assert empty.height == 0, relation


@pytest.mark.slow
def test_every_table_and_view_is_a_file_with_the_same_rows(tmp_path):
    warehouse, folder = Warehouse(str(tmp_path / "warehouse")), tmp_path / "new" / "out"
    put_rows(warehouse, [failed("late", DAY), evaluated("good", DAY, epsilon_lower=0.1 + 0.2)])
    files = export(warehouse, folder)
    assert [file.stem for file in files] == list(RELATIONS)
    assert {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in RELATIONS}
    for file in files:
        expected = query(warehouse, f"select * from {file.stem} order by all")  # noqa: S608
        assert pl.read_parquet(file).equals(expected), file.stem
    assert export(warehouse, folder) == files
