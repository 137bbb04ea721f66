"""Which record is current: the order of commits counts, now or then, and withdrawn ones do not."""

import datetime as dt
import time

import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE
from tests.support.warehouse import START, evaluated, failed, put_rows
from workers.audit.verify import Finding, verify_all_stored
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import NoteKind
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES


def reasons(warehouse: Warehouse) -> list[str]:
    """Return what the current records say, after asking SQL too."""
    current = warehouse.current()
    by_sql = query(warehouse, "from latest_audits order by day, model")
    assert by_sql["audit_id"].to_list() == current["audit_id"].to_list()
    return current["reason"].to_list()


@pytest.mark.slow
def test_a_confirmation_under_a_clock_that_was_set_back_counts(warehouse):
    first = evaluated("ads", DAY, hour=1, reason="First.")
    warehouse.commit([first])
    warehouse.commit([evaluated("ads", DAY, hour=24 * 9999, reason="Second, far in the future.")])
    assert reasons(warehouse) == ["Second, far in the future."]
    warehouse.commit([first])
    assert reasons(warehouse) == ["First."]
    warehouse.commit([evaluated("ads", DAY, hour=2, reason="Third.")])
    assert reasons(warehouse) == ["Third."]


def test_revisions_count_within_a_model_and_day(warehouse):
    warehouse.commit([failed("ads", DAY), failed("ads", EVE), evaluated("ads", DAY)])
    warehouse.commit([failed("ads", DAY)])
    warehouse.commit([failed("loans", DAY)])
    rows = query(warehouse, "select model, day, revision from audits order by all").rows()
    assert rows == [("ads", EVE, 1), ("ads", DAY, 1), ("ads", DAY, 2), ("loans", DAY, 1)]
    assert query(warehouse, "select revision from audit_notes").rows() == [(3,)]


@pytest.mark.slow
def test_what_was_withdrawn_is_never_current_and_never_gone(warehouse):
    first = evaluated("ads", DAY, hour=1, reason="First.")
    mistake = evaluated("ads", DAY, hour=2, reason="A mistake.")
    warehouse.commit([first])
    warehouse.commit([mistake])
    time.sleep(0.01)
    before = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    warehouse.withdraw(mistake.audit.audit_id, " Audited with the wrong lake. ")
    assert reasons(warehouse) == ["First."]
    withdrawn = warehouse.withdrawn([mistake.audit.audit_id, first.audit.audit_id])
    assert [row.why for row in withdrawn.values()] == ["Audited with the wrong lake."]
    # The same audit again is the same mistake.
    assert warehouse.commit([mistake]) == (False,)
    assert reasons(warehouse) == ["First."]
    assert epsilon_windows(warehouse, warehouse.current()).height == 1
    assert warehouse.record(mistake.audit.audit_id).audit.reason == "A mistake."
    assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}
    warehouse.withdraw(first.audit.audit_id, "This one too.")
    assert reasons(warehouse) == []
    assert reasons(Warehouse(warehouse.uri, as_of=before)) == ["A mistake."]
    assert reasons(Warehouse(warehouse.uri, as_of=dt.datetime.now(dt.UTC))) == []


def test_a_withdrawal_that_makes_no_sense_is_refused_and_the_past_is_only_read(warehouse):
    record = evaluated("ads", DAY)
    warehouse.commit([record])
    audit_id = record.audit.audit_id
    with pytest.raises(TerminalError, match="--why"):
        warehouse.withdraw(audit_id, " ")
    with pytest.raises(TerminalError, match="no audit 'nothing'"):
        warehouse.withdraw("nothing", "Why not.")
    with pytest.raises(TerminalError, match="only read"):
        at(warehouse, 0).withdraw(audit_id, "Why not.")
    with pytest.raises(TerminalError, match="only read"):
        at(warehouse, 0).commit([record])
    warehouse.withdraw(audit_id, "A mistake.")
    with pytest.raises(TerminalError, match=r"was withdrawn on .*: A mistake\."):
        warehouse.withdraw(audit_id, "Again.")
    assert warehouse.notes(NoteKind.WITHDRAWN).collect().height == 1


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York"])
def test_a_moment_without_a_zone_is_utc_on_every_machine(warehouse, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        naive = dt.datetime(2026, 3, 1, 12)  # noqa: DTZ001  # that is the point
        record = evaluated("ads", DAY, declared_at=naive)
        warehouse.commit([record])
        assert warehouse.current()["declared_at"].to_list() == [naive.replace(tzinfo=dt.UTC)]
        assert [one.finding for one in verify_all_stored(warehouse)] == [Finding.INTACT]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [one.finding for one in verify_all_stored(warehouse)] == [Finding.INTACT]


def at(warehouse: Warehouse, hour: float) -> Warehouse:
    return Warehouse(warehouse.uri, as_of=START + dt.timedelta(hours=hour))


@pytest.mark.slow
def test_what_was_known_at_any_past_time_is_read_from_the_rows(warehouse):
    records = [
        failed("ads", DAY, hour=1, reason="No labels."),
        evaluated("ads", DAY, hour=2, reason="Fine."),
        evaluated("ads", DAY, hour=4, reason="Other labels."),
    ]
    put_rows(warehouse, records, confirmed=[(records[1].audit.audit_id, 6)])
    assert reasons(at(warehouse, 0)) == []
    assert reasons(at(warehouse, 1)) == ["No labels."]
    assert reasons(at(warehouse, 2)) == ["Fine."]
    assert reasons(at(warehouse, 3.9)) == ["Fine."]
    assert reasons(at(warehouse, 5)) == ["Other labels."]
    assert reasons(at(warehouse, 6)) == reasons(warehouse) == ["Fine."]


@pytest.mark.slow
def test_the_other_tables_hold_what_belongs_to_the_records_of_then(warehouse):
    put_rows(warehouse, [evaluated("ads", DAY, hour=1), evaluated("ads", DAY, hour=2)])
    rows = {}
    for hour in (0, 1, 2):
        then = at(warehouse, hour)
        rows[hour] = [then.scan(table).collect().height for table in TABLES]
        asked = [query(then, f"from {table}").height for table in TABLES]
        assert asked == rows[hour]
    now = [warehouse.scan(table).collect().height for table in TABLES]
    assert any(now)
    assert (rows[0], rows[1], rows[2]) == ([0] * len(now), [many / 2 for many in now], now)
    assert query(at(warehouse, 1), "from promises").height == 2
