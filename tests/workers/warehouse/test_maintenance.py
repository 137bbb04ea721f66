import datetime as dt
import pathlib
import shutil
from typing import Any

import deltalake
import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.warehouse import age, evaluated, failed
from workers.audit.verify import Finding, verify_all_stored
from workers.warehouse import maintenance
from workers.warehouse.maintenance import KEPT_DAYS, compact, compact_crowded, delete_before
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

MODELS = ("ads", "loans")
DAYS = [DAY + dt.timedelta(days=number) for number in range(3)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a warehouse to be copied and never changed."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("written") / "warehouse"))
    for number, day in enumerate(DAYS):
        for model in MODELS:
            warehouse.commit([evaluated(model, day, hour=number)])
    warehouse.commit([evaluated("ads", DAYS[0])])
    warehouse.commit([failed("ads", DAYS[2], hour=9)])
    return warehouse


@pytest.fixture
def warehouse(written, tmp_path):
    shutil.copytree(written.uri, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


def answers(warehouse: Warehouse) -> dict[str, pl.DataFrame]:
    names = ("audits", "audit_wealth", "coverage", "promises", "epsilon_windows")
    return {name: query(warehouse, f"select * from {name} order by all") for name in names}  # noqa: S608


def assert_same(found: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame]) -> None:
    assert found.keys() == expected.keys()
    for name, frame in expected.items():
        assert found[name].equals(frame), name


def files(warehouse: Warehouse, table: str) -> set[str]:
    return {path.name for path in pathlib.Path(warehouse.path(table)).glob("*.parquet")}


@pytest.mark.slow
@pytest.mark.parametrize("long_ago", [False, True])
def test_compaction_changes_the_files_and_no_answer(warehouse, long_ago):
    """What was replaced stays for readers, as long as is kept since; old files are no exception."""
    before = answers(warehouse)
    if long_ago:
        deltalake.DeltaTable(warehouse.path("audits")).optimize.compact()
    age(warehouse, days=3)
    done = {table.table: table for table in compact(warehouse, kept_days=2)}
    audits = done["audits"]
    assert (audits.files_before, audits.files_after) == (1 if long_ago else 7, 1)
    assert "audit_nights" not in done  # nothing was ever written there
    deleted = sum(table.files_deleted for table in done.values())
    assert (deleted, len(files(warehouse, "audits"))) == ((7, 1) if long_ago else (0, 8))
    assert_same(answers(warehouse), before)
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
def test_only_tables_with_too_many_files_are_compacted_by_a_night(warehouse, monkeypatch, caplog):
    """One that another writer wins is left to the next night."""
    before = answers(warehouse)
    assert compact_crowded(warehouse) == []
    monkeypatch.setattr(maintenance, "MOST_FILES", 6)

    def lost(*_: object) -> None:
        raise CommitFailedError("another one won")

    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "_compact", lost)
        assert compact_crowded(warehouse) == []
    assert "audits was not compacted" in caplog.text
    (done,) = compact_crowded(warehouse)
    assert (done.table, done.files_before, done.files_after) == ("audits", 7, 1)
    assert_same(answers(warehouse), before)


def test_files_that_someone_may_be_reading_are_kept_and_nothing_is_maintained(warehouse, tmp_path):
    for days in (0, -1):
        with pytest.raises(TerminalError, match="1 day or more"):
            compact(warehouse, kept_days=days)
    nothing = Warehouse(str(tmp_path / "nothing"))
    assert (compact(nothing), delete_before(nothing, DAY), KEPT_DAYS) == ([], 0, 30)


@pytest.mark.slow
def test_rows_are_deleted_only_where_asked_and_whole(warehouse):
    before = answers(warehouse)
    assert delete_before(warehouse, DAYS[0]) == 0
    assert_same(answers(warehouse), before)
    assert delete_before(warehouse, DAYS[1]) == 2
    assert delete_before(warehouse, DAYS[1]) == 0
    assert warehouse.current()["day"].unique().sort().to_list() == DAYS[1:]
    ids = set(warehouse.scan("audits").collect()["audit_id"])
    for table in TABLES:
        assert set(warehouse.scan(table).collect()["audit_id"]) <= ids
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
def test_a_deletion_that_was_cut_off_is_completed_by_the_next(warehouse, monkeypatch):
    retry, seen = Warehouse.retry, []

    def cut_off(self: Warehouse, table: str, change: object) -> object:
        seen.append(table)
        if table == "audits":
            raise KeyboardInterrupt
        return retry(self, table, change)

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "retry", cut_off)
        with pytest.raises(KeyboardInterrupt):
            delete_before(warehouse, DAYS[1])
    assert seen[-1] == "audits"
    assert len(seen) > 1
    assert delete_before(warehouse, DAYS[1]) == 2
    assert warehouse.scan("audit_bounds").collect().height == 4


@pytest.mark.slow
@pytest.mark.parametrize("other", ["compaction", "deletion", "commit"])
def test_a_compaction_that_another_overtakes_doubles_loses_and_brings_back_no_row(
    warehouse, monkeypatch, other
):
    """Both have opened the table: `optimize.compact` of deltalake 1.6 doubled its rows here."""
    before = answers(warehouse)
    rewrite, others = maintenance.rewrite, list[Any]()
    overtakes: dict[str, Any] = {
        "compaction": compact,
        "deletion": lambda same: delete_before(same, dt.date(9999, 1, 1)),
        "commit": lambda same: same.commit([evaluated("new", DAY)]),
    }

    def overtaken(table: deltalake.DeltaTable, *how: Any) -> None:
        if not others:
            others.append(())
            others[0] = overtakes[other](Warehouse(warehouse.uri))
        rewrite(table, *how)

    monkeypatch.setattr(maintenance, "rewrite", overtaken)
    compact(warehouse)
    assert others[0]
    if other == "deletion":
        assert all(warehouse.scan(table).collect().is_empty() for table in TABLES)
    elif other == "commit":
        assert warehouse.scan("audits").collect().height == 7 + 1
        assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}
    else:
        assert_same(answers(warehouse), before)


def test_a_large_table_is_compacted_once_it_has_many_files(warehouse, monkeypatch):
    monkeypatch.setattr(maintenance, "_LARGE_BYTES", 1)
    left = {one.table: one for one in compact(warehouse)}["audits"]
    assert left.files_before == left.files_after == 7
    monkeypatch.setattr(maintenance, "MOST_FILES", 6)
    done = {one.table: one for one in compact(warehouse)}["audits"]
    assert (done.files_before, done.files_after) == (7, 1)
