"""A table of other rows than the model was trained on: a remark, and never another verdict."""

import datetime as dt
import shutil

import deltalake
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.in_place import ROWS as IN_PLACE
from tests.support.in_place import audit, delta, labels, paths, put_file, stored, train
from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    PLAN,
    copied,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    put_labels,
    put_model,
    remembering_lake,
)
from tests.support.tiers import rest_slow
from workers.lake.layout import Lake
from workers.sources.checkpoints.in_place import InPlace

ROWS = label_rows(1_000, seed=1)
TRAINED = int((ROWS["split"] == "train").sum())


def of_hours(some):
    """Return the rows of training of some hours, beside the holdout."""
    return ROWS.filter((pl.col("split") == "holdout") | some)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a lake of a model that was trained on the rows of its table."""
    return remembering_lake(tmp_path_factory.mktemp("lake"), rows=1_000)


@pytest.fixture
def lake(honest, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(honest, tmp_path)


@pytest.mark.slow
def test_rows_of_persons_that_training_never_saw_are_told(lake):
    """One row of each person, on which the earlier model is least sure."""
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    named = ROWS.with_columns(who=pl.int_range(pl.len()) // 2)
    firsts = named.with_columns(pl.col("split").first().over("who"))
    put_labels(lake, DAY, firsts)
    put_model(lake, DAY, privacy=declared(0.5), parameters=MEMORISE)
    assert "rows that trained it" not in audited(lake, plan).reason
    more = label_rows(500, seed=9).with_columns(who=pl.int_range(pl.len()), split=pl.lit("train"))
    held = firsts.filter(pl.col("split") == "holdout")["who"].unique()
    put_labels(lake, DAY, pl.concat([firsts, more.filter(~pl.col("who").is_in(held.implode()))]))
    row = audited(lake, plan)
    assert row.status == "evaluated", row.reason
    assert "training records are in the table. Records that training never saw" in row.reason


def test_rows_left_out_of_the_table_are_told_but_not_a_tenth(lake):
    """Rows are set aside to stop training early, and near duplicates are dropped."""
    more = label_rows(100, seed=9)
    for rows, counted in (
        (ROWS, False),
        (pl.concat([of_hours(pl.col("hour") > 2), more.filter(pl.col("hour") > 2)]), False),
        (pl.concat([ROWS, more]), False),
        (pl.concat([ROWS, label_rows(400, seed=9)]), True),
        (of_hours(pl.col("hour") > 6), True),
    ):
        put_labels(lake, DAY, rows)
        row = audited(lake)
        assert row.status == "evaluated", row.reason
        assert ("rows_miscounted" in row.remarks) is counted, row.reason
        assert ("make the bound smaller" in row.reason) is (rows.height > 1_300)
    assert f"counts {TRAINED} rows that trained it, and {row.records} training" in row.reason
    assert "the table does not have, nothing is known" in row.reason


BOTH = PLAN.model_copy(update={"days": 2})


@pytest.mark.parametrize("first", rest_slow([str(EVE), "2026-02-01"]))
def test_days_that_training_never_saw_are_told(lake, first):
    """The manifest names two days and more, and training saw one: the bound was 0.17 of 0.5."""
    put_labels(lake, EVE - dt.timedelta(days=1), ROWS)
    put_model(lake, EVE - dt.timedelta(days=1), privacy=declared(0.5))
    lied = {"first": first, "last": str(DAY), "split": "train"}
    edit_manifest(lake, "good", DAY, trained_on=lied)
    row = audited(lake, BOTH)
    assert (row.status, row.label_days) == ("evaluated", (EVE, DAY)), row.reason
    assert f"counts {TRAINED} rows" in row.reason
    assert f"{row.records:,} training" in row.reason


def test_nothing_is_said_of_days_that_training_saw(lake):
    """Two days that both play are counted together."""
    before = EVE - dt.timedelta(days=1)
    put_labels(lake, before, ROWS)
    put_model(lake, before, privacy=declared(0.5))
    rows = pl.concat([pl.read_parquet(label_path(lake, "flights", day)) for day in (EVE, DAY)])
    other = Lake(f"{lake.uri}-both")
    put_labels(other, DAY, rows)
    put_model(other, DAY, privacy=declared(0.5), parameters=MEMORISE)
    shutil.rmtree(f"{lake.uri}/models/good/day={DAY}")
    shutil.copytree(f"{other.uri}/models/good/day={DAY}", f"{lake.uri}/models/good/day={DAY}")
    trained = {"first": str(EVE), "last": str(DAY), "split": "train"}
    edit_manifest(lake, "good", DAY, trained_on=trained)
    row = audited(lake, BOTH)
    assert row.label_days == (EVE, DAY)
    assert row.verdict == "violated", row.reason
    assert "rows that trained it" not in row.reason


def test_nothing_is_said_of_a_model_of_several_days(lake):
    """Training began a month before, so its file counts more rows than one day has."""
    for day, first, last in ((DAY, "2026-02-01", DAY), (EVE, "2026-01-01", "2026-01-02")):
        trained = {"first": first, "last": str(last), "split": "train"}
        edit_manifest(lake, "good", day, trained_on=trained)
    for table in (ROWS, of_hours(pl.col("hour") > 4)):
        put_labels(lake, DAY, table)
        row = audited(lake)
        assert row.status == "evaluated", row.reason
        assert "rows that trained it" not in row.reason


@pytest.mark.parametrize("sampled", [1.0, 0.5])
def test_a_drawn_sample_of_rows_is_no_remark(tmp_path, sampled):
    """XGBoost's files do not say that rows were drawn for each tree: only more rows are told."""
    for day in (EVE, DAY):
        put_file(tmp_path / f"ads/{day:%Y/%m/%d}/model.json", train(day, subsample=sampled).content)
    given = InPlace(labels(delta(tmp_path / "table")), paths(tmp_path))
    row = audit(given).audit
    assert row.status == "evaluated", row.reason
    assert "rows that trained it" not in row.reason


def test_rows_of_no_day_are_told_by_the_models_count(tmp_path):
    """Rows whose day is empty are of no day; nothing else shows them."""
    for day in (EVE, DAY):
        put_file(tmp_path / f"ads/{day:%Y/%m/%d}/model.json", train(day).content)
        rows = stored(day)
        hidden = (pl.col("arm") == "train") & (pl.col("dep_hour") > 11)
        rows = rows.with_columns(ds=pl.when(~hidden).then(pl.col("ds")))
        deltalake.write_deltalake(str(tmp_path / "table"), rows, mode="append")
    row = audit(InPlace(labels(tmp_path / "table"), paths(tmp_path))).audit
    assert row.status == "evaluated", row.reason
    trained = int((IN_PLACE[DAY]["split"] == "train").sum())
    assert f"counts at least {trained} rows" in row.reason
