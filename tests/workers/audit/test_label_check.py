"""Tables of true and released labels: broken promises, honest mechanisms, and what is refused.

Worlds have 6,000 to 20,000 rows in the slow lane; seeds [r, 7].
"""

import dataclasses
import datetime as dt
import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from flows.learn.demo import recipes
from privcore.attacks import generator
from privcore.lower_bounds.released_labels import Declared, check_counts
from privcore.lower_bounds.verdicts import ReasonCode
from privcore.mechanisms import (
    LaplaceOneHot,
    NoisyMax,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    count_votes,
)
from workers.audit.label_check import AskedLabels, JudgedLabels, judge_labels
from workers.datasets.flights import read_flights, write_day
from workers.exceptions import NotEvaluableError
from workers.lake.layout import Lake
from workers.sources.tables.table_files import read_rows
from workers.training.jobs import read_training_data

Labels = NDArray[np.int64]
DAY = np.datetime64("2026-03-02")
KEEP = RandomizedResponse(1.0, 2).keep_probability


def honest(random, rows):
    """Return a day of honest randomized response at 1: features predict labels."""
    x = random.normal(size=rows)
    true = (random.random(rows) < 1.0 / (1.0 + np.exp(-x))).astype(np.int64)
    seconds = np.sort(random.random(rows)) * 86_400
    return pl.DataFrame(
        {
            "id": np.arange(rows) + 10_000,
            "x": x,
            "segment": [f"s{one}" for one in random.integers(0, 50, rows)],
            "time": DAY + (seconds * 1e6).astype("timedelta64[us]"),
            "y": true,
            "z": RandomizedResponse(1.0, 2).sample(true, random),
        }
    )


def judge(table, **changes):
    """Return the answer about `honest`'s columns."""
    given = {"true": "y", "released": "z", "declared": Declared(1.0), "record": "id"}
    return judge_labels(table, AskedLabels(**{**given, "time": "time", **changes}))  # type: ignore[arg-type]


def verdict(told, **changes):
    """Return verdict and reason code of a table, or of what was said of it."""
    judged = told if isinstance(told, JudgedLabels) else judge(told, **changes)
    return f"{judged.verdict} {judged.code}"


def with_coins(day, keep):
    """Return a day whose labels are kept where a coin says so."""
    return day.with_columns(z=pl.when(pl.Series(keep)).then("y").otherwise(1 - pl.col("y")))


def hashed(day, how):
    """Return a day whose coins are a hash of the record below a thousand."""
    coins = [how(str(one).encode()) % 1_000 < 1_000 * KEEP for one in day["id"]]
    return with_coins(day, np.array(coins))


def shared(day, random, rows):
    """Return a day on which so many neighbours share a coin."""
    coins = random.random(day.height // rows + 1) < KEEP
    return with_coins(day, np.repeat(coins, rows)[: day.height])


def off(day, minutes):
    """Return a day on which the mechanism did not run for some minutes."""
    begin = dt.datetime(2026, 3, 2, 9)  # noqa: DTZ001  # as the column has it
    stopped = pl.col("time").is_between(begin, begin + dt.timedelta(minutes=minutes))
    return day.with_columns(z=pl.when(stopped).then("y").otherwise("z"))


def same_seed(day, random):
    """Return two days whose first, second, ... rows have the same coins."""
    half = day.height // 2
    coins = random.random(half) < KEEP
    first, second = day[:half], day[half : 2 * half]
    later = second.with_columns(time=pl.col("time") + dt.timedelta(days=1))
    return with_coins(pl.concat([first, later]), np.append(coins, coins))


def unflipped(day):
    """Return a day on which one segment of 2% is not privatised."""
    return day.with_columns(z=pl.when(pl.col("segment") == "s7").then("y").otherwise("z"))


def with_prior(day, random):
    """Return a day of RRWithPrior, and the set of its top labels as `top`."""
    one = 1.0 / (1.0 + np.exp(-2.0 * day["x"].to_numpy()))
    prior = np.stack([1.0 - one, one], axis=1)
    mechanism = RandomizedResponseWithPrior(1.0, 2)
    top = np.where(mechanism.top(prior) == 2, 2, prior.argmax(axis=1))
    released = mechanism.sample(day["y"].to_numpy(), prior, random)
    return day.with_columns(z=pl.Series(released), top=pl.Series(top))


def md5(name):
    return int(hashlib.md5(name, usedforsecurity=False).hexdigest(), 16)


def keyed(name):
    return int(hmac.new(b"secret", name, "sha256").hexdigest(), 16)


BROKEN: dict[str, Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]] = {
    "hash of the record": lambda day, _: hashed(day, md5),
    "residue of the record": lambda day, _: hashed(day, lambda name: int(name) % 100 * 10),
    "one coin for 100": lambda day, random: shared(day, random, 100),
    "one coin for 3": lambda day, random: shared(day, random, 3),
    "off for an hour": lambda day, _: off(day, 60),
    "same seed on both days": same_seed,
}


@pytest.mark.parametrize("name", ["hash of the record", "one coin for 3"])
def test_a_broken_promise_that_counts_do_not_show_is_found(name):
    random = np.random.default_rng([0, 7])
    judged = judge(BROKEN[name](honest(random, 6_000), random))
    assert verdict(judged) == "violated this_night"
    assert judged.found.refuted_by == "column"
    assert "tells which labels were released as they are" in judged.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_promise_is_found_ten_times_of_ten(name):
    for run in range(10):
        random = np.random.default_rng([run, 7])
        assert verdict(BROKEN[name](honest(random, 6_000), random)) == "violated this_night"


@pytest.mark.slow
def test_a_keyed_hash_is_no_breach_and_is_not_seen():
    accused = 0
    for run in range(10):
        table = hashed(honest(np.random.default_rng([run, 7]), 20_000), keyed)
        accused += verdict(table) == "violated this_night"
    assert accused <= 1


@pytest.mark.slow
def test_an_unflipped_segment_is_a_doubt_until_it_is_named():
    for run in range(10):
        table = unflipped(honest(np.random.default_rng([run, 7]), 20_000))
        assert verdict(table) == "inconclusive reads_more"
        assert verdict(table, reads=("segment",)) == "violated this_night"


@pytest.mark.slow
def test_a_prior_is_a_doubt_until_its_top_labels_are_named():
    """R = 40: undeclared, 3,000 rows suffice for a doubt; declared, 20,000 accuse as is allowed."""
    accused = 0
    for run in range(40):
        small, large = (
            with_prior(honest(random, rows), random)
            for rows in (3_000, 20_000)
            for random in [np.random.default_rng([run, 7])]
        )
        assert verdict(small.drop("top")) == "inconclusive reads_more"
        accused += verdict(large, reads=("top",)) == "violated this_night"
    assert accused <= binom.isf(1e-3, 40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.7, 0.2, 0.07, 0.03)])
def test_honest_tables_are_accused_as_often_as_allowed(shares):
    """R = 200 whole checks of 3,000 rows at 0.05."""
    accused = doubted = 0
    for run in range(200):
        random = np.random.default_rng([run, 7])
        true = random.choice(len(shares), 3_000, p=shares)
        released = RandomizedResponse(1.0, len(shares)).sample(true, random)
        table = honest(random, 3_000).with_columns(y=pl.Series(true), z=pl.Series(released))
        found = verdict(table)
        accused += found == "violated this_night"
        doubted += found == "inconclusive reads_more"
    assert accused <= binom.isf(1e-3, 200, 0.05)
    assert doubted <= binom.isf(1e-3, 200, 0.001)


def test_mechanisms_of_the_papers_are_said_right():
    random = np.random.default_rng([3, 7])
    day = honest(random, 4_000)
    true = day["y"].to_numpy()
    assert verdict(day) == "not_refuted None"
    # ALIBI hands out noisy numbers. Their largest entry is a class, and post-processing.
    noisy = LaplaceOneHot.from_epsilon(1.0, 2).sample(true, random)
    with pytest.raises(NotEvaluableError, match="fractions"):
        judge(day.with_columns(z=pl.Series(noisy[:, 0])))
    largest = day.with_columns(z=pl.Series(noisy.argmax(axis=1)))
    assert verdict(largest) == "not_refuted None"
    # PATE's answers are made of features alone, which its teachers read: say so.
    answers = (day["x"].to_numpy() + random.normal(size=(9, 4_000)) > 0.0).astype(int)
    votes = count_votes(answers, 2)
    winner = NoisyMax("laplace", 1.0, queries=4_000).sample(votes, random)
    pate = day.with_columns(z=pl.Series(winner), votes=pl.Series(votes[:, 1].astype(int)))
    assert verdict(pate) == "inconclusive reads_more"
    assert verdict(pate, reads=("votes",)) != "violated this_night"


def test_a_day_of_the_demo_and_its_broken_day(tmp_path):
    lake, date = Lake(str(tmp_path)), dt.date(2013, 2, 5)
    write_day(lake, read_flights(), date, seed=2013)
    _, private, broken = recipes(broken=True)
    for recipe, claim, said in (
        (private, 2.0, "not_refuted None"),
        (recipes(broken=False)[2], 0.5, "not_refuted None"),
        (broken, 0.5, "violated this_night"),
    ):
        data = read_training_data(lake, recipe, date)
        true = released = data.labels
        if recipe.mechanism is not None:
            # What its training does, with its stream.
            random = generator(2013, recipe.model, str(date), "mechanism")
            released = RandomizedResponse(recipe.mechanism.epsilon, 2).sample(true, random)
        table = data.features.with_columns(y=pl.Series(true), z=pl.Series(released))
        assert verdict(table, record="row", time=None, declared=Declared(claim)) == said


def test_order_names_and_types_change_no_verdict():
    day = honest(np.random.default_rng([8, 7]), 800)
    before = judge(day)
    for other in (
        day.sample(fraction=1.0, shuffle=True, seed=3),
        day.sort("y", "z"),
        day.with_columns(pl.col("y", "z").cast(pl.Float64)),
        day.with_columns(pl.format(" {} ", "y").alias("y"), pl.col("z").cast(pl.String)),
        day.with_columns(pl.col("y").cast(pl.Boolean)),
        day.with_columns(pl.col("y", "z").replace_strict({0: "no", 1: "an"})),
    ):
        after = judge(other)
        assert (after.verdict, after.code) == (before.verdict, before.code)
        assert dataclasses.asdict(after.found) == dataclasses.asdict(before.found)


def test_neither_a_sorted_table_nor_rows_of_few_values_accuse_anybody():
    """Many rows are alike, and which of these are held against each other follows from no coin."""
    day = honest(np.random.default_rng([9, 7]), 3_000).sort("y", "z")
    assert verdict(day, record="row", time=None) == "not_refuted None"
    for run in range(3):
        day = honest(np.random.default_rng([run, 7]), 3_000)
        few = day.select("y", "z", hour=pl.col("time").dt.hour())
        judged = judge(few, record="row", time=None)
        assert judged.code is not ReasonCode.RECORDS_REPEAT


def test_copies_are_no_records_and_repeats_are_said():
    day = honest(np.random.default_rng([1, 7]), 3_000)
    twice = pl.concat([day, day])
    assert verdict(twice.drop("id"), record="row") == "inconclusive records_repeat"
    once = judge(twice)
    assert once.records == 3_000
    assert once.remarks[0].startswith("3,000 records have several rows")
    fresh = pl.concat([day, day.with_columns(z=1 - pl.col("z"))])
    assert "spends epsilon again" in judge(fresh).remarks[0]


def test_records_privatised_afresh_are_counted_and_voted():
    """Of n answers at epsilon 1 the most frequent one is right as often as at a larger epsilon."""
    random, nights = np.random.default_rng([3, 7]), 7
    day = honest(random, 4_000)
    true = day["y"].to_numpy()
    made = [
        day.with_columns(z=pl.Series(RandomizedResponse(1.0, 2).sample(true, random)))
        for _ in range(nights)
    ]
    judged = judge(pl.concat(made))
    assert (judged.records, verdict(judged)) == (4_000, "not_refuted None")
    lost = re.findall(r"at least ([0-9.]+) is lost", " ".join(judged.remarks))
    right = float(binom.sf(nights // 2, nights, math.e / (1 + math.e)))
    assert 1.6 < float(lost[0]) < math.log(right / (1 - right))


def test_no_coin_decides_which_rows_are_searched(monkeypatch):
    monkeypatch.setattr("workers.audit.label_check.SEARCHED", 1_500)
    day = with_hours(np.random.default_rng([5, 7]), 6_000)
    few = day.select("y", "z", hour=pl.col("time").dt.hour())
    assert verdict(few, record="row", time="hour") == "not_refuted None"


def test_missing_labels_and_columns_that_are_the_label_are_said():
    """A missing released label can leak."""
    day = honest(np.random.default_rng([2, 7]), 3_000)
    holes = day.with_columns(
        copy=pl.col("y"),
        y=pl.when(pl.col("id") % 10 == 0).then(None).otherwise("y"),
        z=pl.when(pl.col("id") % 3 == 0).then(None).otherwise("z"),
    )
    judged = judge(holes)
    assert judged.records == 2_700
    assert judged.remarks == (
        "300 rows without a true label, or a record, are left out.",
        (
            "'copy' tells the true label of every row: see that nobody gets it with the released "
            "labels."
        ),
    )
    only = pl.when((pl.col("y") == 1) & (pl.col("id") % 10 == 0)).then(None).otherwise("z")
    assert verdict(day.with_columns(z=only)) == "violated this_night"


def with_hours(random, rows):
    """Return an honest day on which the share of ones depends on the hour, as everywhere."""
    day = honest(random, rows)
    share = np.where(day["time"].dt.hour().to_numpy() < 3, 0.03, 0.4)
    true = (random.random(rows) < share).astype(np.int64)
    released = RandomizedResponse(1.0, 2).sample(true, random)
    return day.with_columns(y=pl.Series(true), z=pl.Series(released))


def test_a_job_that_released_nothing_for_some_hours_is_a_doubt():
    """Then missing labels are more often of one class, which a bet on them alone would accuse."""
    stopped = pl.when(pl.col("time").dt.hour() < 3).then(None)
    for run in range(2):
        random = np.random.default_rng([run, 7])
        day = with_hours(random, 6_000)
        gaps = day.with_columns(z=stopped.otherwise("z"))
        judged = judge(gaps)
        assert verdict(judged) == "inconclusive reads_more"
        assert "'time' tells which" in judged.reason
        silent = judge(gaps.drop("time"), time=None)
        assert verdict(silent) == "inconclusive reads_more"
        assert "name it (time)" in silent.reason
        assert verdict(gaps.drop_nulls("z")) == "not_refuted None"
        assert verdict(off(gaps, 300)) == "violated this_night"


def test_few_labels_and_one_class_are_inconclusive():
    day = honest(np.random.default_rng([2, 7]), 3_000)
    assert verdict(day.head(30)) == "inconclusive too_small"
    one = judge(day.filter(pl.col("y") == 1))
    assert (verdict(one), one.found) == ("inconclusive too_small", None)
    assert "Every true label" in one.reason


def test_what_cannot_be_compared_is_refused():
    day = honest(np.random.default_rng([2, 7]), 3_000)
    for change, question, words in (
        ({}, {"true": "w"}, "there is no column 'w'"),
        ({}, {"record": "w"}, "there is no column 'w'"),
        ({}, {"released": "y"}, "'y' is named twice"),
        ({"z": pl.col("x")}, {}, "'z' holds fractions"),
        ({"z": pl.lit("0.5")}, {}, "'z' holds fractions"),
        ({"y": pl.lit(None, dtype=pl.Int64)}, {}, "no row has a true label"),
        ({"y": pl.col("id")}, {}, "3,000 classes"),
        ({}, {"reads": ("x",)}, "3,000 strata"),
        ({"z": pl.concat_list("z")}, {}, "stored as List"),
    ):
        with pytest.raises(NotEvaluableError, match=words):
            judge(day.with_columns(**change), **question)


def test_parquet_csv_and_delta_are_read_alike(tmp_path):
    day = honest(np.random.default_rng([5, 7]), 500)
    day.write_parquet(tmp_path / "day.parquet", row_group_size=200)
    day.write_csv(tmp_path / "day.csv")
    day.write_delta(tmp_path / "delta")
    for name in ("day=2026-03-02", "day=2026-03-03"):
        (tmp_path / "folders" / name).mkdir(parents=True)
        day.write_parquet(tmp_path / "folders" / name / "part.parquet")
    answers = {
        judge(read_rows(str(tmp_path / name))).digest
        for name in ("day.parquet", "day.csv", "delta")
    }
    assert len(answers) == 1
    folders = read_rows(str(tmp_path / "folders"))
    assert folders["day"].value_counts().rows() in (
        [("2026-03-02", 500), ("2026-03-03", 500)],
        [("2026-03-03", 500), ("2026-03-02", 500)],
    )


@pytest.mark.slow
def test_ten_million_labels_are_counted_in_two_seconds():
    """`kept` alone, from counts; the bound is loose for loaded cores."""
    random = np.random.default_rng(6)
    true = random.integers(0, 2, 10_000_000)
    released = RandomizedResponse(1.0, 2).sample(true, random)
    begun = time.process_time()
    counts = np.bincount(2 * true + released, minlength=4).reshape(1, 2, 2)
    check = check_counts(counts, same=np.arange(2), declared=Declared(1.0), seed=1)
    assert time.process_time() - begun < 4.0
    assert check.rows == 10_000_000
