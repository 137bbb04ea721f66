"""Decoys play as what they were committed to be, and only where coins drew them."""

import pathlib

import numpy as np
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    copied,
    declared,
    edit_manifest,
    label_path,
    put_labels,
    put_model,
)
from workers.labels.columns import Batch
from workers.labels.decoy_commitment import commitment
from workers.lake.checkpoints import load, probabilities, read_checkpoint
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn


@pytest.fixture
def lake(remembered: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def with_decoys(lake: Lake, frame: pl.DataFrame, others: list[int | None]) -> None:
    """Put labels with a column of decoys of the owner's own, and commit to it."""
    put_labels(lake, DAY, frame.with_columns(other=pl.Series(others, dtype=pl.Int64)))
    column = LabelColumn(column="late", classes=(0, 1))
    digest = commitment(lake, "flights", DAY, label=column, column="other")
    edit_manifest(lake, "good", DAY, decoys={"column": "other", "commitment": digest})


def test_one_decoy_does_not_end_the_audit_of_all_other_records(lake: Lake) -> None:
    frame = pl.read_parquet(label_path(lake, "flights"))
    first = int((frame["split"] == "train").arg_max() or 0)
    others: list[int | None] = [None] * frame.height
    others[first] = 1 - int(frame["late"][first])
    with_decoys(lake, frame, others)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "too_few_held_out"), row.reason


def test_decoys_that_follow_the_proxy_in_place_of_a_coin_are_refused(lake: Lake) -> None:
    """Trained on what yesterday's model holds more probable: 0.69 of a coin's was 0."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    yesterday = read_checkpoint(lake, "good", EVE)
    batch = Batch(frame.to_arrow(), "part", ("part", 0, 0))
    features = batch.features(yesterday.manifest)
    believed = probabilities(load(yesterday), yesterday.manifest, features, threads=1)
    drawn = (frame["split"] == "train").to_numpy() & (np.arange(frame.height) % 2 == 0)
    likely = believed.argmax(axis=1)
    late = np.where(drawn, likely, frame["late"].to_numpy())
    others = [int(other) if held else None for held, other in zip(drawn, 1 - likely, strict=True)]
    with_decoys(lake, frame.with_columns(late=pl.Series(late)), others)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "decoys_changed"), row.reason
    assert "No fair coin chose between the labels of" in row.reason


def rows_of(lake: Lake) -> pl.DataFrame:
    return pl.read_parquet(label_path(lake, "flights"))


@pytest.mark.slow
def test_true_decoys_are_counted_as_the_rows_that_they_are(lake: Lake) -> None:
    rows = rows_of(lake)
    train = (rows["split"] == "train").to_numpy()
    drawn = np.flatnonzero(train)[::4]
    coin = np.random.default_rng(3).integers(0, 2, drawn.size)
    late = rows["late"].to_numpy().copy()
    late[drawn] = coin
    others: list[int | None] = [None] * rows.height
    for place, label in zip(drawn.tolist(), coin.tolist(), strict=True):
        others[place] = 1 - label
    put_labels(lake, DAY, rows.with_columns(late=pl.Series(late)))
    put_model(lake, DAY, privacy=declared(0.5), parameters=MEMORISE)
    with_decoys(lake, rows.with_columns(late=pl.Series(late)), others)
    row = audited(lake)
    assert row.method == "decoys", row.reason
    assert "The target's file counts" not in row.reason
