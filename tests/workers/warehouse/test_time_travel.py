import datetime as dt
import pathlib
import time

import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE
from tests.support.warehouse import START, evaluated, failed, put_rows
from workers.warehouse import store
from workers.warehouse.delta import commit_times
from workers.warehouse.sql import query, registered
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def reasons(warehouse: Warehouse) -> list[str]:
    current = warehouse.current()["reason"].to_list()
    by_view = query(warehouse, "select reason from latest_audits order by day, model")
    assert by_view["reason"].to_list() == current
    return current


def at(warehouse: Warehouse, hour: float, *, by_log: bool = False) -> Warehouse:
    return Warehouse(warehouse.uri, as_of=START + dt.timedelta(hours=hour), by_log=by_log)


@pytest.mark.slow
def test_what_was_known_at_any_past_time_is_read_from_the_rows(warehouse: Warehouse) -> None:
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
def test_the_other_tables_hold_what_belongs_to_the_records_of_then(warehouse: Warehouse) -> None:
    put_rows(warehouse, [evaluated("ads", DAY, hour=1), evaluated("ads", DAY, hour=2)])
    rows = {}
    for hour in (0, 1, 2):
        then = at(warehouse, hour)
        rows[hour] = [then.scan(table).collect().height for table in TABLES]
        with registered(then) as connection:
            asked = [len(connection.sql(f"from {table}")) for table in TABLES]
        assert asked == rows[hour]
    now = [warehouse.scan(table).collect().height for table in TABLES]
    assert any(now)
    assert (rows[0], rows[1], rows[2]) == ([0] * len(now), [many / 2 for many in now], now)
    assert query(at(warehouse, 1), "from promises").height == 2


@pytest.mark.slow
def test_the_commit_logs_tell_it_too_whatever_the_rows_say(warehouse: Warehouse) -> None:
    before = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    warehouse.commit(evaluated("ads", DAY, hour=1, reason="First."))
    time.sleep(0.01)
    between = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    # A row that claims to have been known long ago.
    warehouse.commit(evaluated("ads", EVE, hour=-9, reason="Backdated."))
    by_log = lambda moment: Warehouse(warehouse.uri, as_of=moment, by_log=True)  # noqa: E731
    assert reasons(by_log(before)) == []
    assert reasons(by_log(between)) == ["First."]
    assert reasons(by_log(dt.datetime.now(dt.UTC))) == ["Backdated.", "First."]
    assert reasons(at(warehouse, 0)) == ["Backdated."]


def test_a_log_that_does_not_reach_back_says_so(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.commit(evaluated("ads", DAY))
    monkeypatch.setattr(store, "commit_times", lambda *place: commit_times(*place)[1:])
    with pytest.raises(TerminalError, match="leave out --by-log"):
        at(warehouse, 0, by_log=True).current()


def test_the_past_is_only_read(warehouse: Warehouse) -> None:
    with pytest.raises(TerminalError, match="only read"):
        at(warehouse, 0).commit(evaluated("ads", DAY))


@pytest.mark.slow
def test_inputs_that_change_and_change_back_make_the_first_record_current_again(
    warehouse: Warehouse,
) -> None:
    first = evaluated("ads", DAY, hour=1, reason="First.")
    other = evaluated("ads", DAY, hour=2, reason="Other labels.")
    assert warehouse.commit(first)
    assert warehouse.commit(other)
    assert reasons(warehouse) == ["Other labels."]
    assert not warehouse.commit(first)
    assert reasons(warehouse) == ["First."]
    assert warehouse.scan("audits").collect().height == 2
    assert not warehouse.commit(other)
    assert reasons(warehouse) == ["Other labels."]
    assert warehouse.scan("audit_confirmations").collect().height == 2


def test_a_confirmed_failure_takes_no_verdict_back(warehouse: Warehouse) -> None:
    no_labels = failed("ads", DAY, hour=1, reason="No labels.")
    warehouse.commit(no_labels)
    warehouse.commit(evaluated("ads", DAY, hour=2, reason="Fine."))
    warehouse.commit(no_labels)
    assert reasons(warehouse) == ["Fine."]
