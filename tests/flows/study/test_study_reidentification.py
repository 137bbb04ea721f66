"""`privaudit study reidentification`: resumed, within 1/2 + eta, and an excess is said aloud."""

import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest

from flows.commands.printing import Form
from flows.commands.printing_studies import print_study
from flows.study import reidentification
from flows.study.reidentification import LEAVES, LOGISTIC, MEAN, population, study_reidentification
from flows.study.reidentification_results import accuracies, sentences, write_reidentification
from workers.executors import InProcess


@pytest.fixture
def few(monkeypatch):
    """Make the settings few."""
    monkeypatch.setattr(reidentification, "STATISTICS", (MEAN, LEAVES))
    monkeypatch.setattr(reidentification, "ETAS", (0.1, 0.4))
    monkeypatch.setattr(reidentification, "PLAYS", 100)


@pytest.mark.paper("reidentification", "Algorithm 1")
def test_it_is_resumed_and_within_eta(few, tmp_path, capsys):  # noqa: ARG001
    one = study_reidentification(tmp_path, scale=1.0, executor=InProcess())
    assert one.plays.height == 2 * 3 * 2 * 2 * 12
    assert accuracies(one.plays)["p_value"].min() > 1e-6
    next((tmp_path / "cells").glob("*")).unlink()
    again = study_reidentification(tmp_path, scale=1.0, executor=InProcess())
    assert again.resumed[0].startswith("11 of 12 parts were finished")
    assert again.plays.equals(one.plays)
    assert "No record is told with more than 1/2 + eta" in " ".join(sentences(one))
    worse = reidentification.Findings(one.plays.with_columns(right=pl.lit(100)), 1.0, [])
    assert "MORE THAN 1/2 + ETA: mean" in " ".join(sentences(worse))
    print_study(write_reidentification(one, tmp_path), Form.TABLE)
    assert "told right" in capsys.readouterr().out
    drawn = tmp_path / "reidentification.svg"
    assert ET.parse(drawn).getroot().tag.endswith("svg")  # noqa: S314  # our own file


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
