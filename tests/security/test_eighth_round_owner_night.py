"""The eighth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from privcore.attacks import Tallies, label_inference, stream_key
from privcore.attacks.scores import PaperScore
from tests.support.lake import PLAN, declared
from workers.audit.beside_game import beside_game
from workers.audit.remarks import _persons
from workers.audit.trained_rows import trained_rows
from workers.lake.manifest import Privacy
from workers.sources.checkpoints.checkpoint_source import CheckpointSource


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([2] * 95 + [1] * 5, "1.9 training rows on average, of which one plays, and 49% of"),
        ([1] * 500 + [20] * 25, "1.9 training rows on average, of which one plays, and 48% of"),
        ([1] * 95 + [2] * 5, ""),
    ],
)
def test_rows_that_do_not_play_beside_their_persons_are_told(rows: list[int], told: str) -> None:
    """Below two rows a person nothing was said: 4.4 became 0.00 where the others are remembered."""
    none = SimpleNamespace(streams=np.arange(0), rows=np.arange(0))
    persons = SimpleNamespace(streams=np.arange(len(rows)), rows=np.array(rows))
    for one in (none, persons):
        one.without = lambda _, one=one: one
        one.matched_within = lambda _: ()
    result = cast("Any", SimpleNamespace(units=(persons, none)))
    found = _persons(result, PLAN.model_copy(update={"privacy_unit": "who"}))
    assert (told in found) if told else found == ""


@pytest.mark.parametrize("second", [True, False])
def test_labels_that_are_always_second_are_told(second: bool) -> None:
    """Of ten classes another was raised a little more: 0.00, and nothing was said."""
    random, records, classes = np.random.default_rng(0), 1_000, 10
    rows, labels = np.arange(records), random.integers(0, classes, records)
    train, first = random.random(records) < 0.6, random.integers(0, classes, records)
    known = np.where(train & second, labels, random.integers(0, classes, records))
    target = np.full((records, classes), 0.08)
    target[rows, known], target[rows, first] = 0.17, 0.18
    target /= target.sum(axis=1, keepdims=True)
    proxy = np.full((records, classes), 1.0 / classes)
    score, key = PaperScore(2.0), stream_key(0, "game")
    arms = (
        label_inference(target[arm], proxy[arm], labels[arm], score=score, repetitions=2, key=key)
        for arm in (train, ~train)
    )
    tallies = Tallies(*arms, (), (), classes=classes)
    privacy = Privacy.model_validate(declared(0.5))
    found = beside_game(tallies, privacy)
    assert ("The game shows more than this bound" in found) if second else found == ""


def test_a_file_that_counts_no_rows_is_told() -> None:
    """Class weights of 1.000001 beside rounded features: 1.69 became 0.00, and nothing was said."""
    nothing = cast("Any", None)
    target = cast("Any", SimpleNamespace(trained_rows=None))
    source = CheckpointSource(nothing, target, nothing)
    assert "does not tell which rows" in trained_rows(source, 1_000, nothing, PLAN)
    assert trained_rows(source, 1_000, nothing, PLAN, violated=True) == ""
