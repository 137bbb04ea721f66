import datetime as dt

import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.warehouse import START, evaluated, failed, put_rows
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES


def reasons(warehouse: Warehouse) -> list[str]:
    current = warehouse.current()["reason"].to_list()
    by_view = query(warehouse, "select reason from latest_audits order by day, model")
    assert by_view["reason"].to_list() == current
    return current


def at(warehouse: Warehouse, hour: float) -> Warehouse:
    return Warehouse(warehouse.uri, as_of=START + dt.timedelta(hours=hour))


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
        asked = [query(then, f"from {table}").height for table in TABLES]
        assert asked == rows[hour]
    now = [warehouse.scan(table).collect().height for table in TABLES]
    assert any(now)
    assert (rows[0], rows[1], rows[2]) == ([0] * len(now), [many / 2 for many in now], now)
    assert query(at(warehouse, 1), "from promises").height == 2


def test_the_past_is_only_read(warehouse: Warehouse) -> None:
    with pytest.raises(TerminalError, match="only read"):
        at(warehouse, 0).commit(evaluated("ads", DAY))


def test_a_confirmed_failure_takes_no_verdict_back(warehouse: Warehouse) -> None:
    no_labels = failed("ads", DAY, hour=1, reason="No labels.")
    warehouse.commit(no_labels)
    warehouse.commit(evaluated("ads", DAY, hour=2, reason="Fine."))
    warehouse.commit(no_labels)
    assert reasons(warehouse) == ["Fine."]
