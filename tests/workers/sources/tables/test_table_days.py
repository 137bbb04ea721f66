"""Days as tables spell them, and statistics that may hold one."""

import datetime as dt
from typing import Any

import pytest

from tests.support.lake import DAY, EVE
from workers.sources.tables.table_days import as_day, days_among, may_hold, says_day

NOON = dt.datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("value", [DAY, NOON, str(DAY), f"{DAY:%Y%m%d}", int(f"{DAY:%Y%m%d}")])
def test_a_day_is_read_in_each_spelling(value: Any) -> None:
    assert as_day(value) == DAY
    assert days_among([("ds", value), ("x", 1.5), ("y", None), ("z", "soon")]) == [("ds", DAY)]


@pytest.mark.parametrize("value", [None, 1.5, b"2026-03-02", "", "2026", 20261399, "2026-03-02x"])
def test_all_else_is_no_day(value: Any) -> None:
    assert as_day(value) is None


def test_a_word_says_one_day_alone() -> None:
    assert says_day(str(DAY), DAY)
    assert says_day(f"{DAY:%Y%m%d}", DAY)
    assert not says_day(str(EVE), DAY)
    assert not says_day(f"{DAY} ", DAY)


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
