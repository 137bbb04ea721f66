"""Which rows of a table are of a day, and which labels were known by the cutoff."""

import datetime as dt

import polars as pl
import pytest

from workers.sources.tables.table_rows import days_of, known_by

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
