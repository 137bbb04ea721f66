"""A record that was lost is noticed, and what a cut commit left behind can be erased."""

import datetime as dt
import os
import pathlib
import re
import shutil
from typing import Any

import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, failed
from workers.audit.verify import Finding, Verification, verify_all_stored
from workers.lake.layout import open_filesystem
from workers.warehouse import commit
from workers.warehouse.maintenance import Deleted, compact, delete_before
from workers.warehouse.orphans import Orphan, _read_ids, orphans
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import PARTS

TOMORROW = DAY + dt.timedelta(days=1)


class CutOffError(Exception):
    """The commit ends here."""


def cut_off(warehouse: Warehouse, record: AuditRecord, *, at: str) -> None:
    """Commit a record until the table `at` would be written."""
    insert = commit.insert

    def insert_until(stored: Any, table: str, *rows: Any, **how: Any) -> frozenset[str]:
        if table == at:
            raise CutOffError
        return insert(stored, table, *rows, **how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commit, "insert", insert_until)
        with pytest.raises(CutOffError):
            warehouse.commit(record)


def incomplete(warehouse: Warehouse) -> list[Verification]:
    return [one for one in verify_all_stored(warehouse) if one.finding is Finding.INCOMPLETE]


def log_of(warehouse: Warehouse, table: str) -> list[pathlib.Path]:
    return sorted((pathlib.Path(warehouse.path(table)) / "_delta_log").glob("*.json"))


def age(warehouse: Warehouse, *, hours: float) -> None:
    """Let everything that happened to the warehouse have happened hours earlier."""
    times = re.compile(r'(?<=imestamp":)\d{13}|(?<=ionTime":)\d{13}|(?<=lastUpdated":)\d{13}')
    for path in pathlib.Path(warehouse.uri).rglob("*"):
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8")
            earlier = times.sub(lambda found: str(int(found[0]) - int(hours * 3_600_000)), text)
            path.write_text(earlier, encoding="utf-8")
        then = path.stat().st_mtime - hours * 3_600
        os.utime(path, (then, then))


def test_a_whole_warehouse_has_no_orphans(warehouse: Warehouse) -> None:
    assert orphans(warehouse) == []
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["emptied", "gone"])
@pytest.mark.parametrize("figures", rest_slow([True, False]))
def test_a_lost_last_log_entry_is_noticed_also_after_the_next_commit(
    warehouse: Warehouse, lost: str, figures: bool
) -> None:
    make = evaluated if figures else failed
    record = make("lost", DAY)
    warehouse.commit(record)
    last = log_of(warehouse, "audits")[-1]
    if lost == "gone":
        last.unlink()
    else:
        last.write_bytes(b"")
    for _ in range(2):
        (found,) = incomplete(warehouse)
        assert found.audit_id == record.audit.audit_id
        assert "backup" in found.sentence
        warehouse.commit(failed("next", DAY))
    # The same audit run again mends it.
    assert warehouse.commit(record)
    assert incomplete(warehouse) == []
    assert warehouse.scan("audit_bounds").collect().height == 1 + figures


def test_a_lost_audits_folder_is_noticed_also_after_the_next_commit(warehouse: Warehouse) -> None:
    shutil.rmtree(warehouse.path("audits"))
    warehouse.commit(failed("next", DAY))
    (found,) = incomplete(warehouse)
    assert found.audit_id == evaluated("ads", DAY).audit.audit_id
    assert "audit_bounds, audit_wealth, audit_promises" in found.sentence
    assert str(DAY) in found.sentence


@pytest.mark.parametrize("at", rest_slow(["audit_bounds", "audit_promises", "audits"]))
def test_a_commit_that_was_cut_off_is_noticed_and_completed(warehouse: Warehouse, at: str) -> None:
    record = evaluated("cut", DAY)
    cut_off(warehouse, record, at=at)
    (found,) = incomplete(warehouse)
    assert "cut off" in found.sentence
    assert warehouse.commit(record)
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
@pytest.mark.parametrize("at", rest_slow(["audit_bounds", "audit_promises", "audits"]))
def test_a_commit_completed_after_months_leaves_every_row_once(
    warehouse: Warehouse, at: str
) -> None:
    record = evaluated("cut", DAY)
    cut_off(warehouse, record, at=at)
    age(warehouse, hours=24 * 90)
    compact(warehouse)  # the log forgets the names of commits
    assert warehouse.commit(record)
    back = warehouse.record(record.audit.audit_id)
    for part in PARTS.values():
        assert len(getattr(back, part)) == len(getattr(record, part))
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


def test_rows_that_another_version_left_are_replaced_whole(warehouse: Warehouse) -> None:
    record = evaluated("cut", DAY)
    other = record.promises[0].model_copy(update={"quantity": "dropped", "value": 9.0})
    older = record.model_copy(
        update={
            "promises": (*record.promises, other),
            "bounds": (record.bounds[0].model_copy(update={"correct": 1.0}),),
        }
    )
    cut_off(warehouse, older, at="audits")
    assert warehouse.commit(record)
    back = warehouse.record(record.audit.audit_id)
    assert back.bounds == record.bounds
    assert sorted(row.quantity for row in back.promises) == ["leaked_bits", "success_bound"]
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_erasure_reaches_what_a_cut_commit_left(warehouse: Warehouse, compacted: bool) -> None:
    cut_off(warehouse, evaluated("cut", DAY), at="audit_bounds")
    if compacted:
        compact(warehouse)
    assert len(orphans(warehouse)) == 1
    # A commit that may still be going on is left alone.
    assert delete_before(warehouse, TOMORROW) == Deleted(2, 0, 1)
    age(warehouse, hours=2)
    assert delete_before(warehouse, TOMORROW) == Deleted(0, 1, 0)
    assert orphans(warehouse) == []
    assert all(warehouse.scan(table).collect().height == 0 for table in PARTS)


def test_erasure_leaves_what_says_that_it_is_newer(warehouse: Warehouse) -> None:
    record = evaluated("cut", TOMORROW)
    cut_off(warehouse, record, at="audits")
    age(warehouse, hours=2)
    assert delete_before(warehouse, TOMORROW) == Deleted(2, 0, 0)
    assert orphans(warehouse) == [
        Orphan(record.audit.audit_id, ("audit_bounds", "audit_wealth", "audit_promises"), TOMORROW)
    ]


def test_ids_that_no_audit_has_are_left_out(tmp_path: pathlib.Path) -> None:
    """7 kB that unpacked to 60 GB of ids took two minutes."""
    pl.DataFrame({"audit_id": ["a" * 32, "x" * 20_000]}).write_parquet(tmp_path / "a.parquet")
    assert _read_ids(open_filesystem(str(tmp_path)), "a.parquet") == {"a" * 32}
