"""Probabilities that say less of the labels than the share of each class are told."""

import pathlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from privcore.attacks import Tallies
from privcore.attacks.odds import odds_tally
from tests.support.audits import audited
from tests.support.lake import DAY, copied, label_path, put_labels
from tests.support.verdicts import nothing_wrong
from workers.audit.hints import worse_than_shares
from workers.lake.layout import Lake


@pytest.fixture
def lake(remembered: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_features_that_are_exchanged_among_rows_are_told(lake: Lake) -> None:
    """Both models answer about rows that they never saw: a bound of 1.70 became 0."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    order = np.random.default_rng(1).permutation(frame.height)
    features = [frame[name].gather(order) for name in ("delay", "hour", "city")]
    put_labels(lake, DAY, frame.with_columns(features))
    row = audited(lake)
    assert (nothing_wrong(row), row.epsilon_lower) == (True, 0.0)
    assert "further from the labels than the share of each class is" in row.reason


@pytest.mark.slow
def test_honest_models_are_not_said_to_be_further_from_the_labels_than_shares() -> None:
    """Neither one that knows labels by their features, nor one that knows nothing: 300 of each."""
    random = np.random.default_rng(7)
    for known in (0.0, 1.0):
        for _ in range(300):
            arms = []
            for records in (600, 200):
                chance = expit(known * random.normal(size=records))
                labels = (random.random(records) < chance).astype(np.int64)
                said = np.column_stack([1.0 - chance, chance])
                arms.append((odds_tally(said, said, labels),))
            tallies = replace(Tallies.zero(repetitions=1, classes=2), odds=arms[0])
            assert worse_than_shares(replace(tallies, control_odds=arms[1])) == ""
