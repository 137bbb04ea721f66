"""Days as tables spell them, which rows are of one, and who was held out."""

import datetime as dt
import hmac
import re

import numpy as np
import polars as pl
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType

from tests.support.lake import DAY, EVE
from tests.support.score_tables import audited_scores, predictions
from workers.sources.tables.day_tables import (
    HoldoutRule,
    bucket,
    days_of,
    keyed,
    known_by,
    parse_holdout,
)
from workers.sources.tables.table_days import as_day, days_among, days_named, may_hold


def test_buckets_are_icebergs():
    words = pl.Series(["iceberg", "", "é-1", "2026-03-02-17", *map(str, range(500))])
    numbers = pl.Series([34, 0, -1, 2**62, *range(500)])
    for values, kind in ((words, StringType()), (numbers, LongType())):
        expected = [BucketTransform(7).transform(kind)(value) for value in values.to_list()]
        assert bucket(values, 7).tolist() == expected
    # The specification's own example: 34 hashes to 2017239379, "iceberg" to 1210000089.
    assert bucket(pl.Series([34]), 1_000_000)[0] == 2017239379 % 1_000_000
    assert bucket(pl.Series(["iceberg"]), 1_000_000)[0] == 1210000089 % 1_000_000


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bucket(event_id, 5) = 0", HoldoutRule("event_id", "0", 5)),
        (" bucket( event_id ,10 )=9", HoldoutRule("event_id", "9", 10)),
        ("region = 'NL'", HoldoutRule("region", "NL")),
        ("is_holdout = true", HoldoutRule("is_holdout", "true")),
        ("fold = 4", HoldoutRule("fold", "4")),
        ("keyed(record, 0.25)", HoldoutRule("record", "", keyed_share=0.25)),
    ],
)
def test_a_rule_is_read(text, rule):
    assert parse_holdout(text) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bucket(x, 5) = 5", "would hold out no rows or all rows"),
        ("bucket(x, 1) = 0", "would hold out no rows"),
        ("x > 5", "write column = 'value'"),
        ("", "write column = 'value'"),
        ("x = 'a' or 1 = 1", "write column = 'value'"),
        ("keyed(x, 0.0)", "or keyed(column, 0.2)"),
        ("keyed(x, 1)", "or keyed(column, 0.2)"),
        ("keyed(x, 0.2) = 1", "or keyed(column, 0.2)"),
        ("keyed(a = 1, 0.2)", "or keyed(column, 0.2)"),
        ("bucket(x, 5) = 'a'", "or keyed(column, 0.2)"),
    ],
)
def test_what_is_no_rule_is_refused(text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_holdout(text)


def test_a_key_divides_records_as_the_how_to_says():
    """The platform's own line of Python and this rule agree on every record, as text or number."""
    key, share, count = bytes(range(32)), 0.2, 20_000
    names = [f"r{number}" for number in range(count)]
    limit = int(share * 2**64).to_bytes(8)

    def held(record: object) -> bool:
        return hmac.digest(key, str(record).encode(), "sha256")[:8] < limit

    rule = parse_holdout("keyed(record, 0.2)")
    train, holdout = rule.arms(pl.Series("record", [*names, None]), key)
    assert holdout.tolist() == [*map(held, names), False]
    assert (train ^ holdout).tolist() == [True] * count + [False]
    # 20,000 coins of 0.2: four standard deviations are 226.
    assert abs(holdout.sum() - 4_000) < 226
    numbers = pl.Series("record", range(-5, 1_000))
    assert keyed(numbers, share, key).tolist() == [held(number) for number in range(-5, 1_000)]
    assert (keyed(numbers, share, key) == keyed(numbers.cast(pl.String), share, key)).all()
    # Another key is another split, as often alike as two coins are.
    other = keyed(pl.Series(names), share, bytes(32))
    assert abs((other & holdout[:count]).sum() - 800) < 4 * 28


def test_no_split_is_made_without_a_key_or_of_what_has_no_one_text():
    with pytest.raises(ValueError, match="needs its key"):
        keyed(pl.Series([1]), 0.2, b"")
    for values in (pl.Series([0.5]), pl.Series([True])):
        with pytest.raises(TypeError):
            keyed(values, 0.2, bytes(32))


def test_every_row_that_says_something_is_in_one_arm():
    names = pl.Series("id", [f"r{number}" for number in range(5_000)] + [None])
    train, holdout = HoldoutRule("id", "0", 5).arms(names)
    assert not (train & holdout).any()
    assert (train | holdout).sum() == 5_000
    assert 850 < holdout.sum() < 1_150
    truth = pl.Series("held", [True, False, None])
    for value, held in (("true", [True, False, False]), ("False", [False, True, False])):
        assert HoldoutRule("held", value).arms(truth)[1].tolist() == held
    split = pl.Series("split", ["train", "holdout", "test", None])
    both = np.array(HoldoutRule("split").arms(split))
    assert both.tolist() == [[True, False, False, False], [False, True, False, False]]
    for numbers in (pl.Series([0.5]), pl.Series([2**63], dtype=pl.UInt64)):
        with pytest.raises(TypeError):
            HoldoutRule("x", "0", 5).arms(numbers)
    with pytest.raises(TypeError):
        HoldoutRule("x", "0.5").arms(pl.Series([0.5]))


@pytest.mark.parametrize("kind", [pl.Int32, pl.String])
def test_a_hash_rule_over_text_and_integers_is_refused(tmp_path, kind):
    """7 and '7' have other hashes: rows that training saw counted as held out, 2.62 became 1.08."""
    frame = predictions().with_columns(pl.col("record") % 500)
    folder = tmp_path / f"day={DAY}"
    folder.mkdir()
    frame.tail(400).with_columns(pl.col("record").cast(kind)).write_parquet(folder / "two.parquet")
    row = audited_scores(tmp_path, frame.head(400), holdout="bucket(record, 3) = 0")
    if kind is pl.String:
        assert (row.status, row.detail) == ("not_evaluable", "label_invalid"), row.reason
        assert "as integers and others as text" in row.reason
    else:
        assert row.status == "evaluated", row.reason


NOON = dt.datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("value", [DAY, NOON, str(DAY), f"{DAY:%Y%m%d}", int(f"{DAY:%Y%m%d}")])
def test_a_day_is_read_in_each_spelling(value):
    assert as_day(value) == DAY
    assert days_among([("ds", value), ("x", 1.5), ("y", None), ("z", "soon")]) == [("ds", DAY)]


@pytest.mark.parametrize(
    "value",
    [None, 1.5, b"2026-03-02", "", "2026", 20261399, "2026-03-02x", "2026-03-02 ", "2026-W10-1"],
)
def test_all_else_is_no_day(value):
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
def test_statistics_leave_out_only_what_they_exclude(least, greatest, *, there):
    assert may_hold(least, greatest, DAY) is there


def test_year_month_and_day_say_a_day_together():
    parts = [("year", "2026"), ("month", "3"), ("day", "02"), ("hour", "04")]
    assert days_named(parts) == [("day", DAY)]
    assert days_named([("day", "02"), ("ds", "2026-03-01 05:00:00")]) == [("ds", EVE)]


ZONE = "Europe/Amsterdam"


SPRING, AUTUMN = dt.date(2026, 3, 29), dt.date(2026, 10, 25)


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_each_time_of_the_clock_is_of_one_day(day):
    """Rows of the hour that a zone skips were of no day, without a remark: 2.30 became 2.16."""
    start = dt.datetime.combine(day, dt.time())
    times = [start + dt.timedelta(minutes=10 * step - 60) for step in range(24 * 6 + 12)]
    column = pl.Series("at", times)
    found = days_of(column, day, ZONE, "p", said="day")
    assert found.to_list() == [time.date() for time in times]


def test_a_label_of_a_time_that_is_skipped_is_known_by_the_clock():
    cutoff = dt.datetime(2026, 3, 29, 6, tzinfo=dt.UTC)
    times = [dt.datetime.combine(SPRING, dt.time(*clock)) for clock in ((2, 30), (8, 1))]
    column = pl.Series("at", [*times, None])
    assert known_by(column, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]
    aware = column.dt.replace_time_zone("UTC")
    assert known_by(aware, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]
