"""PATE-FM: disjoint teachers, votes, noisy answers, and a student that sees these alone."""

import math

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import mechanism_from_manifest
from workers.training import pate_fixmatch
from workers.training.fixmatch import FixMatch
from workers.training.pate_fixmatch import PateFixMatch

PATE = PateFixMatch(teachers=4, queries=15, teaching=FixMatch(1), learning=FixMatch(2))
PIXELS = np.arange(40, dtype=np.float32).reshape(40, 1, 1, 1)
LABELS = np.arange(40) % 10


class Told:
    """Stand in for trainings: what each was given, and answers that its first label decides."""

    def __init__(self, monkeypatch):
        self.given = []
        monkeypatch.setattr(pate_fixmatch, "fixmatch_trainer", self.trainer)

    def trainer(self, _network, settings, _classes):
        def train(pixels, labels, unlabelled, *, seed):
            self.given.append((settings, pixels, labels, unlabelled, seed))
            return type("Fitted", (), {"log_odds": lambda _, asked: np.tile(
                np.eye(10)[labels[0]], (len(asked), 1))})()  # fmt: skip

        return train


def vote(seed=1):
    random = np.random.default_rng(seed)
    return PATE.vote(None, PIXELS, LABELS, classes=10, seed=5, random=random)


def test_teachers_have_disjoint_labels_all_images_and_one_vote_each(monkeypatch):
    told = Told(monkeypatch)
    asked, votes = vote()
    rows = [pixels.ravel().astype(int) for _, pixels, *_ in told.given]
    assert sorted(np.concatenate(rows)) == list(range(40))
    assert all((labels == LABELS[own]).all() for own, (*_, labels, _, _) in zip(
        rows, told.given, strict=True))  # fmt: skip
    assert all(unlabelled is PIXELS for *_, unlabelled, _ in told.given)
    assert len({seed for *_, seed in told.given}) == 4
    assert len(set(asked)) == 15
    expected = np.bincount([LABELS[own[0]] for own in rows], minlength=10)
    assert (votes == expected).all()


def test_a_replaced_label_moves_one_vote_of_each_answer_at_most(monkeypatch):
    """The accounted sensitivity: sqrt(2) for each query, over 40 neighbours."""
    Told(monkeypatch)
    asked, votes = vote()
    for row in range(40):
        monkeypatch.setitem(globals(), "LABELS", np.where(np.arange(40) == row, 9, LABELS))
        again, other = vote()
        assert (again == asked).all()
        assert (np.abs(other - votes).sum(axis=1) <= 2.0).all()
        monkeypatch.undo()
        Told(monkeypatch)


@pytest.mark.parametrize("epsilon", [1.0, 10.0, math.inf])
def test_the_student_learns_noisy_answers_alone_at_the_accounted_epsilon(monkeypatch, epsilon):
    told = Told(monkeypatch)
    votes = np.tile([10.0, 5.0], (15, 1))
    asked = np.arange(3, 18)
    random = np.random.default_rng(2)
    PATE.graduate(None, PIXELS, (asked, votes), epsilon=epsilon, seed=1, random=random)
    ((settings, pixels, labels, unlabelled, _),) = told.given
    assert settings == FixMatch(2)
    assert (pixels.ravel() == asked).all()
    assert unlabelled is PIXELS
    expected = PATE.mechanism(epsilon).sample(votes, np.random.default_rng(2))
    assert (labels == expected).all()
    entry = PATE.manifest_entry(epsilon)
    if math.isinf(epsilon):
        assert entry is None
        assert not labels.any()
    else:
        assert entry["name"] == "pate_gaussian"
        assert mechanism_from_manifest(**entry).epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_more_queries_than_images_are_refused():
    many = PateFixMatch(2, 41, FixMatch(1), FixMatch(1))
    with pytest.raises(InvalidInputError, match="there are only 40 images"):
        many.vote(None, PIXELS, LABELS, classes=10, seed=1, random=np.random.default_rng(1))
