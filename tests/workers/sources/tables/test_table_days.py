"""Days as tables spell them, statistics that may hold one, and labels known by the cutoff."""

import datetime as dt
from typing import Any

import polars as pl
import pytest

from tests.support.lake import DAY, EVE
from workers.sources.tables.day_tables import days_of, known_by
from workers.sources.tables.table_days import as_day, days_among, days_named, may_hold

NOON = dt.datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("value", [DAY, NOON, str(DAY), f"{DAY:%Y%m%d}", int(f"{DAY:%Y%m%d}")])
def test_a_day_is_read_in_each_spelling(value: Any) -> None:
    assert as_day(value) == DAY
    assert days_among([("ds", value), ("x", 1.5), ("y", None), ("z", "soon")]) == [("ds", DAY)]


@pytest.mark.parametrize(
    "value",
    [None, 1.5, b"2026-03-02", "", "2026", 20261399, "2026-03-02x", "2026-03-02 ", "2026-W10-1"],
)
def test_all_else_is_no_day(value: Any) -> None:
    assert as_day(value) is None


@pytest.mark.parametrize(
    ("least", "greatest", "there"),
    [
        (EVE, DAY, True),
        (EVE, EVE, False),
        (str(EVE), str(DAY), True),
        (str(EVE), str(EVE), False),
        (int(f"{EVE:%Y%m%d}"), int(f"{EVE:%Y%m%d}"), False),
        (int(f"{EVE:%Y%m%d}"), int(f"{DAY:%Y%m%d}"), True),
        (NOON - dt.timedelta(days=9), NOON - dt.timedelta(days=2), False),
        (NOON - dt.timedelta(days=1), NOON - dt.timedelta(days=1), True),  # of some zone
        (None, EVE, True),
        (EVE, None, True),
        (1.5, 2.5, True),
    ],
)
def test_statistics_leave_out_only_what_they_exclude(
    least: Any, greatest: Any, *, there: bool
) -> None:
    assert may_hold(least, greatest, DAY) is there


def test_year_month_and_day_say_a_day_together() -> None:
    parts = [("year", "2026"), ("month", "3"), ("day", "02"), ("hour", "04")]
    assert days_named(parts) == [("day", DAY)]
    assert days_named([("day", "02"), ("ds", "2026-03-01 05:00:00")]) == [("ds", EVE)]


ZONE = "Europe/Amsterdam"


SPRING, AUTUMN = dt.date(2026, 3, 29), dt.date(2026, 10, 25)


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_each_time_of_the_clock_is_of_one_day(day: dt.date) -> None:
    """Rows of the hour that a zone skips were of no day, without a remark: 2.30 became 2.16."""
    start = dt.datetime.combine(day, dt.time())
    times = [start + dt.timedelta(minutes=10 * step - 60) for step in range(24 * 6 + 12)]
    column = pl.Series("at", times)
    found = days_of(column, day, ZONE, "p", said="day")
    assert found.to_list() == [time.date() for time in times]


def test_a_label_of_a_time_that_is_skipped_is_known_by_the_clock() -> None:
    cutoff = dt.datetime(2026, 3, 29, 6, tzinfo=dt.UTC)
    times = [dt.datetime.combine(SPRING, dt.time(*clock)) for clock in ((2, 30), (8, 1))]
    column = pl.Series("at", [*times, None])
    assert known_by(column, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]
    aware = column.dt.replace_time_zone("UTC")
    assert known_by(aware, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]
