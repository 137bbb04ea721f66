"""`privaudit study reidentification`: resumed, within 1/2 + eta, and an excess is said aloud."""

import dataclasses

import numpy as np
import pytest

from flows.study import reidentification
from flows.study.reidentification import LEAVES, LOGISTIC, MEAN, accuracies, population, study
from tests.support.studies import played


@pytest.fixture
def few(smaller):
    """Make the settings few."""
    smaller(reidentification, STATISTICS=(MEAN, LEAVES), ETAS=(0.1, 0.4), PLAYS=100)


@pytest.mark.slow
@pytest.mark.paper("reidentification", "Algorithm 1")
def test_it_is_resumed_and_within_eta(few, tmp_path):  # noqa: ARG001
    one, said = played(study(scale=1.0), tmp_path)
    assert one.rows.height == 2 * 3 * 2 * 2 * 12
    assert accuracies(one.rows)["p_value"].min() > 1e-6
    next((tmp_path / "cells").glob("*")).unlink()
    again, _ = played(study(scale=1.0), tmp_path)
    assert again.resumed[0].startswith("11 of 12 parts were finished")
    assert again.rows.equals(one.rows)
    assert "No record is told with more than 1/2 + eta" in " ".join(said.sentences)
    rows = [{**row, "right": 100} for row in one.cell_rows]
    worse = study(scale=1.0).show(0, dataclasses.replace(one, cell_rows=rows))
    assert "MORE THAN 1/2 + ETA: mean" in " ".join(worse.sentences)
    (table,) = worse.tables
    assert {row[-2] for row in table.rows} == {"1.000 ± 0.000"}


@pytest.mark.slow  # some thousand fits
def test_the_statistics_are_what_they_say():
    mean = population(MEAN, 1)
    assert mean.halves.shape == (924, 12)
    assert len(mean.known) == 924 + 220
    half = np.flatnonzero(mean.halves[5])
    assert mean.outputs[5].tolist() == mean.known[tuple(half)].tolist()
    for name in (LOGISTIC, LEAVES):
        people = population(name, 1)
        # Trained on it, a half is fitted better than by what was trained on others.
        own = np.mean([people.loss(people.outputs[i])[people.halves[i]].mean() for i in range(924)])
        rest = np.mean(
            [people.loss(people.outputs[i])[~people.halves[i]].mean() for i in range(924)]
        )
        assert own < rest
    assert population(LOGISTIC, 1).outputs.shape == (924, 3)
    assert population(LEAVES, 1).outputs.shape == (924, 8)
