"""SQL of one table of a join: whose rows, which bucket."""

import datetime as dt
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from tests.support.lake import DAY
from workers.exceptions import NotEvaluableError
from workers.lake.layout import Lake
from workers.sources.scores.join_parts import JoinPart, check_names, moment, of_day, quoted
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import TableDay

TABLES = ScoreTables.model_validate(
    {"table": "t", "record": "id", "label": "y", "target": "p", "proxy": "q"}
)


def part(name: str, kind: pa.DataType, *, day_in_files: bool = False) -> JoinPart:
    found = TableDay(Lake("/t"), "parquet", None, (), day_in_files)
    kinds = pa.schema([("id", kind), ("y", pa.int64()), ("day", pa.date32())])
    return JoinPart(name, found, "id", "day", {"y": f"{name}: y"}, kinds)


@pytest.mark.parametrize(
    ("kind", "stored", "others"),
    [
        (pa.date32(), DAY, [DAY - dt.timedelta(days=1), DAY + dt.timedelta(days=1)]),
        (pa.int32(), int(f"{DAY:%Y%m%d}"), [int(f"{DAY:%Y%m%d}") + 1]),
        (pa.string(), str(DAY), ["2026", ""]),
        (pa.string(), f"{DAY:%Y%m%d}", [f"{DAY:%d%m%Y}"]),
    ],
)
def test_a_row_is_of_the_day_by_the_columns_kind(
    kind: pa.DataType, stored: object, others: list[object]
) -> None:
    rows = pa.table({"d": pa.array([stored, *others, None], kind)})
    with duckdb.connect() as database:
        said = database.from_arrow(rows).select(of_day("d", kind, DAY, "UTC")).fetchall()
    assert [found for (found,) in said] == [True, *[False] * len(others), None]


def test_a_time_is_of_the_day_of_its_zone() -> None:
    """Midnight in Amsterdam is 23:00 or 22:00 of the day before in UTC."""
    zone = "Europe/Amsterdam"
    first = dt.datetime(DAY.year, DAY.month, DAY.day, tzinfo=dt.UTC) - dt.timedelta(hours=1)
    times = [first, first - dt.timedelta(seconds=1), first + dt.timedelta(hours=23, minutes=59),
             first + dt.timedelta(hours=24)]  # fmt: skip
    with_zone, without = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    local = [time.astimezone(dt.UTC).replace(tzinfo=None) + dt.timedelta(hours=1) for time in times]
    for kind, values in ((with_zone, times), (without, local)):
        with duckdb.connect() as database:
            rows = database.from_arrow(pa.table({"d": pa.array(values, kind)}))
            said = rows.select(of_day("d", kind, DAY, zone)).fetchall()
        assert [found for (found,) in said] == [True, False, True, False]


def test_kinds_that_hold_no_days_or_times_are_refused() -> None:
    with pytest.raises(NotEvaluableError, match=r"'d', scores\.day, is stored as double"):
        of_day("d", pa.float64(), DAY, "UTC")
    with pytest.raises(NotEvaluableError, match="known_at is stored as string: store it as a time"):
        moment(pa.string(), dt.datetime(2026, 3, 2, tzinfo=dt.UTC), "UTC")


def test_what_is_read_of_a_file_is_what_is_asked_for() -> None:
    assert part("first", pa.int64()).needed == ("id", "y")
    assert part("first", pa.int64(), day_in_files=True).needed == ("id", "y", "day")


def test_a_quote_in_a_name_is_doubled() -> None:
    assert quoted('a"b') == '"a""b"'


@pytest.mark.parametrize("names", [("ID", "Id"), ("rowid",), ("privaudit: record",)])
def test_a_join_refuses_columns_that_it_would_confuse(names: tuple[str, ...]) -> None:
    """One called rowid was an unexpected error, and some that differ in case were taken for one."""
    found = cast("Any", SimpleNamespace(day_in_files=False))
    part = JoinPart("first", found, "record", "day", {name: name for name in names})
    with pytest.raises(NotEvaluableError, match="cannot tell the column"):
        check_names([part])


def test_a_column_that_is_called_as_a_joined_one_is_refused() -> None:
    found = cast("Any", SimpleNamespace(day_in_files=False))
    first = JoinPart("first", found, "record", "day", {"label: late": "label: late"})
    label = JoinPart("label", found, "record", "day", {"late": "label: late"})
    with pytest.raises(NotEvaluableError, match="'label: late'"):
        check_names([first, label])
    check_names([JoinPart("first", found, "record", "day", {"late": "late"}), label])
