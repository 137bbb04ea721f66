import datetime as dt

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE, PLAN
from tests.support.tiers import rest_slow
from tests.support.warehouse import commit_night, evaluated, failed, put_rows
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.sql import RELATIONS, query
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS, TABLES, as_stored


@pytest.fixture(scope="module")
def record(template):
    return run_audit(template, "good", DAY, plan=PLAN, executor=InProcess())


def sealed(record: AuditRecord) -> AuditRow:
    """Return the row in `audits` of a record that was committed first."""
    numbered = record.audit.model_copy(update={"revision": 1})
    return seal(record.model_copy(update={"audit": numbered})).audit


def test_a_warehouse_is_there_when_something_was_committed(warehouse, tmp_path):
    """An empty one has every table with every column."""
    for name, table in TABLES.items():
        frame = warehouse.scan(name).collect()
        assert (frame.height, frame.columns) == (0, list(table.row.model_fields))
    assert warehouse.current().height == 0
    with pytest.raises(TerminalError, match=r"There is no warehouse at .*: privaudit run or night"):
        warehouse.check_exists()
    warehouse.check_place()
    assert warehouse.commit([]) == ()
    assert list((tmp_path / "warehouse").iterdir()) == []
    warehouse.commit([failed("good", DAY)])
    warehouse.check_exists()


def test_what_is_committed_is_read_back_as_it_was(warehouse, record):
    assert warehouse.commit([record]) == (True,)
    (row,) = warehouse.scan("audits").collect().to_dicts()
    assert AuditRow(**row) == sealed(record)
    back = warehouse.record(record.audit.audit_id)
    assert back.audit == sealed(record)
    for part in PARTS.values():
        assert sorted(getattr(back, part), key=str) == sorted(getattr(record, part), key=str)
    assert all((back.bounds, back.wealth, back.promises))


def test_an_audit_is_found_by_the_beginning_of_its_id(warehouse, record):
    whole = record.audit.audit_id
    other = whole[:9] + ("1" if whole[9] == "0" else "0") + whole[10:]
    for audit_id in (whole, other):
        row = record.audit.model_copy(update={"audit_id": audit_id})
        warehouse.commit([AuditRecord(audit=row)])
    assert warehouse.whole_id(whole) == warehouse.whole_id(whole[:10]) == whole
    assert warehouse.whole_id(other[:10]) == other
    with pytest.raises(TerminalError, match=f"2 audit ids begin with '{whole[:9]}', for example"):
        warehouse.whole_id(whole[:9])
    with pytest.raises(TerminalError, match="has no audit whose id begins with 'zzzz'"):
        warehouse.whole_id("zzzz")
    for short in ("", whole[:3]):
        with pytest.raises(TerminalError, match="give at least 4 characters"):
            warehouse.whole_id(short)


def test_current_is_the_latest_record_of_every_model_and_day(warehouse):
    """Asked for a day, a model or some columns, the answer is the same with the others left out."""
    of_a = [failed("a", DAY, hour=1, reason="First."), failed("a", DAY, hour=2, reason="Second.")]
    warehouse.commit([*of_a, failed("b", DAY, hour=1), failed("a", EVE, hour=3)])
    current = warehouse.current()
    assert current.select("day", "model", "reason").rows() == [
        (EVE, "a", "None."), (DAY, "a", "Second."), (DAY, "b", "None."),
    ]  # fmt: skip
    assert warehouse.scan("audits").collect().height == 4
    for day in (EVE, DAY):
        of_day = warehouse.current(days=[day], columns=("model", "audit_id"))
        assert of_day.equals(current.filter(day=day).select("model", "audit_id"))
    mine = warehouse.current(models=pl.Series(["a"]))
    assert mine.equals(current.filter(model="a"))


def test_each_model_has_a_last_audit_of_its_own(warehouse):
    assert warehouse.last_audits().is_empty()
    later = evaluated("one", DAY + dt.timedelta(days=1))
    put_rows(warehouse, [evaluated("one", DAY), later])
    assert warehouse.last_audits()["day"].to_list() == [later.audit.day]
    warehouse.withdraw(later.audit.audit_id, "A mistake.")
    before = DAY - dt.timedelta(days=9)
    put_rows(warehouse, [evaluated("two", before)])
    last = warehouse.last_audits().select("model", "day").rows()
    assert last == [("two", before), ("one", DAY)]


@pytest.mark.slow
def test_a_query_opens_the_tables_that_it_names_and_no_others(warehouse, monkeypatch):
    put_rows(warehouse, [evaluated("one", DAY)])
    opened: list[str] = []
    whole = Warehouse.delta
    monkeypatch.setattr(
        Warehouse, "delta", lambda self, table: opened.append(table) or whole(self, table)
    )
    assert query(warehouse, 'select count(*) from "AUDITS"').item() == 1
    assert opened == ["audits"]
    opened.clear()
    assert query(warehouse, "from promises").height == 2
    assert set(opened) == {"audits", "audit_notes"}
    for sql in ("show tables", "select view_name from duckdb_views() where 'audits' <> ''"):
        assert set(query(warehouse, sql).to_series()) >= {*TABLES, "promises"}
    assert set(query(warehouse, "show tables").to_series()) == set(RELATIONS)
    hidden = "select * from query_table('audit_' || 'bounds') -- audits"
    assert query(warehouse, hidden).height == 1


def test_sql_sees_the_tables(warehouse, record):
    warehouse.commit([record])
    warehouse.commit([failed("bad", DAY)])
    verdicts = query(warehouse, "select model, verdict, epsilon_lower from audits order by model")
    assert verdicts.rows() == [
        ("bad", "failed", None),
        ("good", record.audit.verdict, record.audit.epsilon_lower),
    ]
    joined = query(
        warehouse,
        "select count(*) as n from audits join audit_bounds using (audit_id) where arm = 'control'",
    )
    assert joined["n"][0] == len(record.bounds) // 2
    assert query(warehouse, "select count(*) from audit_promises").item() == len(record.promises)
    files = f"{warehouse.path('audits')}/*.parquet"
    unnested = "select audit_id, unnest(bounds, recursive := true)"  # docs/reference/warehouse.md
    bare = duckdb.sql(f"{unnested} from '{files}'").pl()
    named = query(warehouse, "from audit_bounds").select(bare.columns)
    assert bare.sort(bare.columns).equals(named.sort(bare.columns))


def test_a_table_written_before_a_column_existed_is_read_and_grows(warehouse, record):
    """One of `audits`, and one of a part: of old rows they are null."""
    old = evaluated("old", DAY)
    bounds = [one.model_dump(exclude={"guesses", *TableRow.model_fields}) for one in old.bounds]
    rows = as_stored([old]).drop_columns(["epsilon_game", "bounds"])
    rows = rows.append_column("bounds", pa.array([bounds]))
    deltalake.write_deltalake(warehouse.path("audits"), rows)
    assert warehouse.scan("audits").collect()["epsilon_game"].to_list() == [None]
    assert warehouse.scan("audit_bounds").collect()["guesses"].to_list() == [None]
    warehouse.commit([record])
    grown = warehouse.scan("audits").sort("model").collect()
    assert record.audit.epsilon_game is not None
    assert grown["epsilon_game"].to_list() == [record.audit.epsilon_game, None]
    for found in (warehouse.scan("audit_bounds").collect(), query(warehouse, "from audit_bounds")):
        assert found["guesses"].null_count() == len(old.bounds)
        assert found.height == len(old.bounds) + len(record.bounds)


@pytest.mark.parametrize(
    "changes",
    rest_slow(
        [
            {"labels_digest": "x" * 64, "plan": '{"slices": ["city"]}'},
            {"labels_digest": "x" * 64},
            {"target_sha256": "x" * 64},
            {"target_manifest_sha256": "x" * 64, "verdict": "undeclared"},
        ]
    ),
)
def test_later_inputs_take_no_refutation_back(warehouse, changes):
    """Three violated days that were audited again were refuted together no more."""
    first = commit_night(warehouse, "violated")
    commit_night(warehouse, **{"verdict": "not_refuted"} | changes)
    assert warehouse.current()["audit_id"].to_list() == [first]


def test_an_exploratory_refutation_stays_no_nights_verdict(warehouse):
    commit_night(warehouse, "violated", exploratory=True, labels_digest="x" * 64)
    own = commit_night(warehouse, "not_refuted")
    assert warehouse.current()["audit_id"].to_list() == [own]
