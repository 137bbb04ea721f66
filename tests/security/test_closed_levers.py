"""Levers that stayed after the independent round of 2026-11-25, and were closed or told later."""

import datetime as dt
import pathlib

import numpy as np
import polars as pl
import pytest

from tests.security.test_independent_round import predictions, scored
from tests.support.lake import DAY, PLAN, declared, edit_manifest, small_lake
from workers.audit.declaration import covers
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import TrainingSampling
from workers.sources.tables.table_rows import known_by, of_day

ZONE = "Europe/Amsterdam"
SPRING, AUTUMN = dt.date(2026, 3, 29), dt.date(2026, 10, 25)


@pytest.mark.parametrize("kind", [pl.Int32, pl.String])
def test_a_hash_rule_over_text_and_integers_is_refused(
    tmp_path: pathlib.Path, kind: type[pl.DataType]
) -> None:
    """7 and '7' have other hashes: rows that training saw counted as held out, 2.62 became 1.08."""
    frame = predictions().with_columns(pl.col("record") % 500)
    folder = tmp_path / f"day={DAY}"
    folder.mkdir()
    frame.tail(400).with_columns(pl.col("record").cast(kind)).write_parquet(folder / "two.parquet")
    row = scored(tmp_path, frame.head(400), holdout="bucket(record, 3) = 0")
    if kind is pl.String:
        assert (row.status, row.reason_code) == ("not_evaluable", "label_invalid"), row.reason
        assert "as integers and others as text" in row.reason
    else:
        assert row.status == "evaluated", row.reason


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_each_time_of_the_clock_is_of_one_day(day: dt.date) -> None:
    """Rows of the hour that a zone skips were of no day, without a remark: 2.30 became 2.16."""
    start = dt.datetime.combine(day, dt.time())
    times = [start + dt.timedelta(minutes=10 * step - 60) for step in range(24 * 6 + 12)]
    column = pl.Series("at", times)
    found = of_day(column, day, ZONE, "p", said="day")
    assert np.array_equal(found, [time.date() == day for time in times])


def test_a_label_of_a_time_that_is_skipped_is_known_by_the_clock() -> None:
    cutoff = dt.datetime(2026, 3, 29, 6, tzinfo=dt.UTC)
    times = [dt.datetime.combine(SPRING, dt.time(*clock)) for clock in ((2, 30), (8, 1))]
    column = pl.Series("at", [*times, None])
    assert known_by(column, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]
    aware = column.dt.replace_time_zone("UTC")
    assert known_by(aware, cutoff, ZONE, "p", said="known_at").tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("unit", "answer"),
    [
        ("record", None),
        ("\u0441ustomer", "Cyrillic"),
        ("cust\u03bfmer", "Greek"),
        ("cust\u0254mer", "Phonetic"),
        ("cus\u00adtomer", "unseen"),
        ("cus\u200dtomer", "unseen"),
        ("customer\u3164", "unseen"),
        ("kullan\u0131c\u0131", None),
        ("客户 user", None),
    ],
)
def test_a_unit_in_look_alike_letters_is_refused(
    tmp_path: pathlib.Path, unit: str, answer: str | None
) -> None:
    """It is another unit than the audited one: undeclared, with exit code 0."""
    lake = small_lake(tmp_path / "lake")
    edit_manifest(lake, "good", DAY, privacy=declared(unit=unit))
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.reason_code == (answer and "manifest_invalid"), row.reason
    told = "no reader sees" if answer == "unseen" else "mixes letters of "
    told += "" if answer in {None, "unseen"} else min(str(answer), "Latin")
    assert answer is None or told in row.reason


def test_letters_of_another_width_are_the_same_unit() -> None:
    assert covers("\uff43ustomer", "customer_id")
    assert not covers("flight", "customer_id")


def sampled(rows: int, weight: pl.Expr) -> pl.DataFrame:
    """Return rows of which training kept those of weight 4 with probability 1/4."""
    four = pl.when(pl.col("record") % 2 == 0).then(4.0).otherwise(1.0)
    frame = predictions(rows).with_columns(weight=four)
    drawn = pl.Series(np.random.default_rng(3).random(rows)) < 1.0 / frame["weight"]
    return frame.filter((pl.col("split") == "holdout") | drawn).with_columns(weight=weight)


@pytest.mark.parametrize("huge", [False, True])
def test_weights_that_leave_holdout_rows_out_are_told(tmp_path: pathlib.Path, huge: bool) -> None:
    """Weights of 10^9 for holdout rows that the target predicts wrong: 4.30 became 3.42."""
    wrong = (pl.col("split") == "holdout") & ((pl.col("new") > 0.5) != (pl.col("late") == 1))
    weight = pl.when(wrong).then(1e9).otherwise("weight") if huge else pl.col("weight")
    plan = PLAN.model_copy(update={"sampling": TrainingSampling(weight="weight")})
    row = scored(tmp_path, sampled(3_000, weight), plan)
    assert row.status == "evaluated", row.reason
    assert ("say that training kept" in row.reason) == huge, row.reason
