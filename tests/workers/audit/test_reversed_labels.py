"""A model that remembers labels in another order of the classes is told."""

import pathlib

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from tests.support.score_tables import audited_scores, leaking_scores
from tests.support.verdicts import nothing_wrong


@pytest.mark.parametrize("leak", [-2.0, -0.5])
def test_labels_remembered_the_wrong_way_round_are_told(
    tmp_path: pathlib.Path, leak: float
) -> None:
    """An attacker who inverts the answers reads the labels; the bound is 0."""
    row = audited_scores(tmp_path, leaking_scores(leak=leak))
    assert row.epsilon_lower == 0.0
    assert "classes_exchanged" in (row.remarks or ())
    assert "in the order 1, 0" in row.reason or "labels the wrong way round" in row.reason


def test_an_honest_model_that_remembers_noise_is_not_said_to_know_the_wrong_way_round(
    tmp_path: pathlib.Path,
) -> None:
    """It is right of holdout rows by what it learned of all, of training rows by noise alone."""
    random = np.random.default_rng(5)
    frame = leaking_scores(leak=0.0, seed=1)
    learned = np.log(frame["new"] / (1.0 - frame["new"])) + 2.0 * (frame["x"] > 0.0)
    noise = 4.0 * random.choice([-1.0, 1.0], frame.height) * (frame["split"] == "train").to_numpy()
    row = audited_scores(tmp_path, frame.with_columns(new=pl.Series(expit(learned + noise))))
    assert nothing_wrong(row)
    assert "the wrong way round" not in row.reason
