"""Audits in which a person plays with one record, wherever that person's rows lie."""

import pathlib

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from scipy.special import expit

from tests.support.audits import audited, run_audits
from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    PLAN,
    Shuffled,
    copied,
    declared,
    figures,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.score_tables import audited_scores, predictions
from tests.support.verdicts import nothing_wrong
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan

PERSON = PLAN.model_copy(update={"privacy_unit": "person"})


def lake_of_people(folder, *, people, rows, seed, both_arms=0, parameters=None):
    """Return a lake in which each person's `rows` rows are all alike, over several shards.

    The first `both_arms` people have rows in training and in the holdout.
    """
    lake = Lake(str(folder))
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), rows)
    for day in (EVE, DAY):
        frame = label_rows(people, seed=seed + day.day)[owner]
        held = random.random(people) < 0.4
        split = np.where(held[owner], "holdout", "train")
        split[owner < both_arms] = np.where(np.arange(both_arms * rows) % 2, "train", "holdout")
        frame = frame.with_columns(
            person=pl.Series(owner).cast(pl.String),
            late=pl.Series(random.integers(0, 2, people)[owner]),
            split=pl.Series(split),
        )
        # Rows of one person are scattered over the row groups.
        put_labels(lake, day, frame.sample(fraction=1.0, shuffle=True, seed=seed))
        put_model(lake, day, privacy=declared(), parameters=parameters)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return lake_of_people(tmp_path_factory.mktemp("units") / "lake", people=500, rows=4, seed=1)


@pytest.mark.slow
def test_every_person_plays_once(lake):
    row = audited(lake, PERSON)
    assert row.status == "evaluated", row.reason
    assert row.records + row.control_records == 500
    assert row.privacy_unit == "person"
    # Row by row, in small row groups that hold few rows of a person each.
    assert audited(lake, PLAN).detail == "held_out_together"


def test_a_person_of_both_arms_is_no_control(tmp_path):
    lake = lake_of_people(tmp_path / "lake", people=500, rows=4, seed=2, both_arms=50)
    row = audited(lake, PERSON)
    assert row.records + row.control_records == 500


@pytest.mark.slow
def test_neither_order_nor_division_changes_a_bit(lake):
    whole, *others = (
        [*run_audits(lake, DAY, [Request("good", PERSON)], executor=executor, work_unit_bytes=size)]
        for executor, size in ((InProcess(), 1 << 30), (InProcess(), 1), (Shuffled(seed=3), 1))
    )
    for other in others:
        assert figures(other[0]) == figures(whole[0])


@pytest.mark.slow
def test_labels_repeated_within_persons_prove_nothing_where_nothing_leaks(tmp_path):
    """Size, the whole way through the lake: people of 10 rows each, labels that nobody trained on.

    Played by rows, agreement within people reads as a leak to whoever believes the proxy, or as
    arms that chance did not divide. 8 seeds at significance 0.04: more than 3 positive audits by
    persons have probability 0.0002.
    """
    positive, accused, evaluated, refused = {"persons": 0, "rows": 0}, 0, 0, 0
    for seed in range(8):
        lake = lake_of_people(tmp_path / str(seed), people=420, rows=10, seed=seed)
        fresh(lake, seed)
        for name, plan in (("persons", PERSON), ("rows", PLAN)):
            row = audited(lake, plan)
            positive[name] += (row.epsilon_if_proxy_right or 0.0) > 0.0
            if name == "persons":
                evaluated += row.status == "evaluated"
                accused += (row.epsilon_lower or 0.0) > 0.0
            else:
                refused += row.detail in {"arms_differ", "held_out_together"}
    assert evaluated == 8
    assert accused <= 3
    assert positive["persons"] <= 3
    assert positive["rows"] + refused > 4


def fresh(lake, seed):
    """Draw each person's label anew, so that no model has seen it."""
    random = np.random.default_rng(1000 + seed)
    path = next(pathlib.Path(lake.uri).glob(f"labels/flights/day={DAY}/*.parquet"))
    frame = pl.read_parquet(path)
    people = frame["person"].cast(pl.Int64).to_numpy()
    labels = random.integers(0, 2, people.max() + 1)[people]
    put_labels(lake, DAY, frame.with_columns(late=pl.Series(labels)))


def test_a_memorised_person_is_found(tmp_path):
    """Power: a model that learns each person's label by heart."""
    lake = lake_of_people(tmp_path, people=600, rows=2, seed=4, parameters=MEMORISE)
    assert (audited(lake, PERSON).epsilon_lower or 0.0) > 0.5


def test_a_record_of_nobody_is_bad_and_a_few_may_be_left_out(lake, tmp_path):
    lake = copied(lake, tmp_path)
    path = next(pathlib.Path(lake.uri).glob(f"labels/flights/day={DAY}/*.parquet"))
    rows, first = pl.read_parquet(path), pl.int_range(pl.len()) < 3
    for values, says in (
        (pl.lit(None, pl.String), "no value in 'person'"),
        (pl.lit(0.5), "stores the privacy unit 'person' as Float64"),
    ):
        put_labels(lake, DAY, rows.with_columns(person=values))
        row = audited(lake, PERSON)
        assert (row.status, row.detail) == ("not_evaluable", "unit_invalid")
        assert says in row.reason
    put_labels(lake, DAY, rows.with_columns(person=pl.when(~first).then("person")))
    row = audited(lake, PERSON, max_bad_records=3)
    assert (row.status, row.excluded_records) == ("evaluated", 3)
    row = audited(lake, PLAN, privacy_unit="household")
    assert row.detail == "feature_invalid"
    assert "no column 'household': correct plan.privacy_unit" in row.reason
    with pytest.raises(ValidationError, match="exclude each other"):
        Plan(slices=("city",), privacy_unit="person")


@pytest.mark.parametrize("name", ["x" * 300, "a\0"], ids=["long", "nul"])
def test_a_unit_that_numpy_would_keep_otherwise_is_a_bad_record(tmp_path, name):
    """One name of 8 MB gave each row of a batch 32 MB, and names with NULs behind were one name."""
    who = pl.when(pl.col("record") == 7).then(pl.lit(name)).otherwise(pl.col("record").cast(str))
    plan = Plan(repetitions=4, privacy_unit="who")
    row = audited_scores(tmp_path / "t", predictions().with_columns(who=who), plan)
    assert (row.status, row.detail) == ("not_evaluable", "unit_invalid"), row.reason


@pytest.mark.slow
def test_persons_in_both_arms_are_told(tmp_path):
    """A holdout row for each person whose labels are remembered: 3.5 became 0, unsaid."""
    random = np.random.default_rng(4)
    who = np.repeat(np.arange(1_200), 2)
    known = random.normal(size=who.size)
    label, train = random.random(who.size) < expit(known), (random.random(1_200) < 0.6)[who]
    moved = known + random.normal(0.0, 0.3, who.size) + 2.0 * train * (2.0 * label - 1.0)
    rows = pl.DataFrame({
        "late": label.astype(np.int64),
        "new": expit(moved),
        "old": expit(known + random.normal(0.0, 0.2, who.size)),
        "split": np.where(train, "train", "holdout"),
        "x": known,
        "who": who,
    })  # fmt: skip
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    before = audited_scores(tmp_path / "before", rows, plan, unit="who")
    assert "compared with nobody" not in before.reason
    more = rows.filter(pl.col("split") == "train").unique("who").sample(fraction=0.85, seed=1)
    more = more.with_columns(split=pl.lit("holdout"), new=pl.col("old"))
    row = audited_scores(tmp_path / "after", pl.concat([rows, more]), plan, unit="who")
    assert (row.epsilon_lower or 0.0) < (before.epsilon_lower or 0.0)
    assert "persons in training have rows in the holdout, too" in row.reason


@pytest.mark.slow
def test_persons_of_other_numbers_of_rows_than_the_holdouts_are_told(tmp_path):
    """Persons are compared where they have as many rows: one each beside two each, 1.7 became 0."""
    lake = Lake(str(tmp_path))
    for seed, day in enumerate((EVE, DAY)):
        held = pl.col("split") == "holdout"
        pairs = 10_000 + held.cum_sum() // 2
        rows = label_rows(2_000, seed=seed).with_columns(
            who=pl.when(held).then(pairs).otherwise(pl.int_range(pl.len()))
        )
        put_labels(lake, day, rows)
        put_model(lake, day, privacy=declared(0.5, unit="who"), parameters=MEMORISE)
    row = audited(lake, PLAN.model_copy(update={"privacy_unit": "who"}))
    assert (nothing_wrong(row), row.epsilon_lower) == (True, 0.0), row.reason
    assert "persons in training have numbers of rows that fewer than ten persons" in row.reason
