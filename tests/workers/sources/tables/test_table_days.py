"""Days as tables spell them, and statistics that may hold one."""

import datetime as dt
from typing import Any

import pytest

from tests.support.lake import DAY, EVE
from workers.sources.tables.table_days import (
    as_day,
    days_among,
    days_named,
    may_hold,
    names_day,
    spelled_twice,
)

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


@pytest.mark.parametrize(
    ("word", "zone", "day"),
    [
        ("2026-03-02", "America/New_York", DAY),
        ("20260302", "UTC", DAY),
        ("2026-3-2", "UTC", DAY),
        ("2026-03-02 00:00:00", "America/New_York", DAY),  # its clock
        ("2026-03-02T23:59:59.999999", "Asia/Tokyo", DAY),
        ("2026-03-02T00:00:00.000000Z", "UTC", DAY),
        ("2026-03-02T00:00:00.000000Z", "America/New_York", EVE),
        ("2026-03-01T23:30:00Z", "Europe/Amsterdam", DAY),
        ("2026-03-02 00:30:00+01:00", "UTC", EVE),
        ("2026-03", "UTC", None),
        ("2026-13-02", "UTC", None),
        ("__HIVE_DEFAULT_PARTITION__", "UTC", None),
    ],
)
def test_a_folder_that_is_a_time_is_of_its_day_in_the_zone(
    word: str, zone: str, day: dt.date | None
) -> None:
    assert [each for each in (EVE, DAY) if names_day(word, each, zone)] == ([day] if day else [])


def test_year_month_and_day_say_a_day_together() -> None:
    parts = [("year", "2026"), ("month", "3"), ("day", "02"), ("hour", "04")]
    assert days_named(parts) == [("day", DAY)]
    assert days_named([("day", "02"), ("ds", "2026-03-01 05:00:00")]) == [("ds", EVE)]


@pytest.mark.parametrize(
    ("words", "twice"),
    [
        (["2026-03-02 05:00:00", "2026-03-02 06:00:00.5"], False),
        (["2026-03-02", "20260302"], True),
        (["2026-3-2", "2026-03-02"], True),
        (["2026-03-02", "2026-03-02 05:00:00"], True),
        (["2026-03-02 05:00:00", "2026-03-02 05:00:00.000"], True),
        (["2026-03-02T05:00:00Z", "2026-03-02 05:00:00"], True),
    ],
)
def test_hours_of_a_day_are_its_parts_and_two_spellings_are_not(
    words: list[str], *, twice: bool
) -> None:
    assert spelled_twice(words, "UTC") is twice
