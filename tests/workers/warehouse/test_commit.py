"""A batch of audits is committed record by record: each is there whole or not at all, and once."""

import concurrent.futures
import datetime as dt
import multiprocessing
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import deltalake
import polars as pl
import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed
from workers.audit.verify import Finding, verify_all_stored
from workers.warehouse.delta import TornAnswerError
from workers.warehouse.maintenance import compact
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import PARTS


def batch(*names: str, day: dt.date = DAY) -> list[AuditRecord]:
    return [evaluated(name, day) for name in names]


def check_whole(warehouse: Warehouse, records: Sequence[AuditRecord]) -> None:
    """Assert that the warehouse holds these records, each whole and once, and nothing else."""
    stored = warehouse.scan("audits").collect()["audit_id"].to_list()
    assert sorted(stored) == sorted(record.audit.audit_id for record in records)
    for table, part in PARTS.items():
        rows = warehouse.scan(table).collect().height
        assert rows == sum(len(getattr(record, part)) for record in records), table
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}


@pytest.mark.slow
def test_a_batch_is_what_single_commits_are(warehouse, tmp_path):
    records = [*batch("ads", "loans"), failed("late", DAY), evaluated("ads", DAY, hour=3)]
    assert warehouse.commit(records) == (True,) * 4
    check_whole(warehouse, records)
    alone = Warehouse(str(tmp_path / "alone"))
    for record in records:
        assert alone.commit([record]) == (True,)
    for record in records:
        one, other = (each.record(record.audit.audit_id) for each in (warehouse, alone))
        assert one == other
    assert warehouse.record(records[3].audit.audit_id).audit.revision == 2


def test_a_batch_is_one_commit_of_one_table(warehouse):
    warehouse.commit(batch("first"))
    warehouse.commit(batch(*(f"model-{number}" for number in range(40))))
    assert [path.name for path in pathlib.Path(warehouse.uri).iterdir()] == ["audits"]
    log = pathlib.Path(warehouse.uri, "audits", "_delta_log")
    assert len(list(log.glob("*.json"))) == 3  # its making, and the two batches


def test_what_is_there_already_is_confirmed(warehouse):
    first, second = batch("ads", "loans")
    warehouse.commit([first])
    # The second is in the batch twice.
    assert warehouse.commit([first, second, second]) == (False, True, False)
    check_whole(warehouse, [first, second])
    confirmed = warehouse.scan("audit_notes").collect()
    assert sorted(confirmed.select("audit_id", "revision").rows()) == sorted(
        [(first.audit.audit_id, 2), (second.audit.audit_id, 2)]
    )


def commit_until(uri: str, records: list[AuditRecord], *, after: bool) -> None:
    """Commit a batch in this process, and be killed before or after it is written."""
    write = deltalake.write_deltalake

    def dying(*rows: Any, **how: Any) -> None:
        if after:
            write(*rows, **how)
        os._exit(9)

    deltalake.write_deltalake = dying
    Warehouse(uri).commit(records)
    sys.exit("The commit ended.")


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_leaves_whole_records_or_none(warehouse, after):
    (old,) = batch("old")
    warehouse.commit([old])
    records = batch("ads", "loans", "late")
    context = multiprocessing.get_context("spawn")
    how = {"after": after}
    child = context.Process(target=commit_until, args=(warehouse.uri, records), kwargs=how)
    child.start()
    child.join()
    assert child.exitcode == 9
    check_whole(warehouse, [old, *records] if after else [old])
    assert warehouse.commit(records) == (not after,) * 3
    check_whole(warehouse, [old, *records])


def test_another_writer_of_the_same_audits_between_look_and_write(warehouse, monkeypatch):
    (old,) = batch("old")
    warehouse.commit([old])
    records = batch("ads", "loans", "late")
    write, answers = deltalake.write_deltalake, []

    def overtaken(*rows: Any, **how: Any) -> None:
        if not answers:
            answers.append(())  # only once
            answers[0] = Warehouse(warehouse.uri).commit([*batch("other"), *records[1:]])
        write(*rows, **how)  # the log itself refuses the later one

    monkeypatch.setattr(deltalake, "write_deltalake", overtaken)
    assert warehouse.commit(records) == (True, False, False)
    assert answers == [(True, True, True)]
    check_whole(warehouse, [old, *records, *batch("other")])


def test_a_later_row_is_there_once_though_the_answer_to_its_commit_was_torn(warehouse, monkeypatch):
    (record,) = batch("ads")
    assert warehouse.commit([record, record]) == (True, False)
    write, torn = deltalake.write_deltalake, []

    def answered(*rows: Any, **how: Any) -> None:
        torn.append(1)
        if len(torn) != 2:
            write(*rows, **how)
        if len(torn) < 3:  # of the first the commit is there, of the second it is not
            raise TornAnswerError("The answer ended early.")

    monkeypatch.setattr(deltalake, "write_deltalake", answered)
    for known in (2, 3):
        assert warehouse.commit([record]) == (False,)
        assert warehouse.scan("audit_notes").collect().height == known
    check_whole(warehouse, [record])


@pytest.mark.slow
def test_a_compaction_in_between_changes_nothing(warehouse, monkeypatch):
    for name in ("one", "two", "three"):
        warehouse.commit(batch(name))
    insert = Warehouse.insert

    def compacted(*table: Any, **how: Any) -> frozenset[str]:
        compact(Warehouse(warehouse.uri))
        return insert(*table, **how)

    monkeypatch.setattr(Warehouse, "insert", compacted)
    assert warehouse.commit(batch("ads", "loans")) == (True, True)
    check_whole(warehouse, batch("one", "two", "three", "ads", "loans"))


def commit_batches(uri: str, batches: list[list[AuditRecord]]) -> list[Any]:
    """Commit batches; importable, so that another process can be told to do it."""
    return [Warehouse(uri).commit(each) for each in batches]


@pytest.mark.slow
def test_several_processes_commit_batches_that_overlap(warehouse):
    names = [f"model-{number}" for number in range(12)]
    shares = [
        [batch(*names[start : start + 6]), batch(*names[start + 3 : start + 9])]
        for start in (0, 1, 2, 3)
    ]
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=spawned) as pool:
        answers = list(pool.map(commit_batches, [warehouse.uri] * 4, shares))
    check_whole(warehouse, batch(*names))
    new = [new for answer in answers for part in answer for new in part]
    assert sum(new) == len(names)
    confirmed = warehouse.scan("audit_notes").select(pl.len()).collect().item()
    assert confirmed <= len(new) - len(names)
