"""Bugs planted in mechanisms are found by the audit; without them the same audit accuses nobody.

Learners and networks are replaced by one that remembers each key's labels, so nothing but the
mechanism stands between a label and the model. Records have keys, and half of each arm have the
label 1. No model knows the holdout's keys. Three seeds each.
"""

from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit

import workers.training.methods
from privcore.lower_bounds import Arm, audit_probabilities
from privcore.mechanisms import RandomizedResponse
from privcore.mechanisms.noisy_max import NoisyMax
from tests.support.verdicts import nothing_wrong
from workers.training import fixmatch, image_methods
from workers.training.fixmatch import FixMatch, PateFixMatch
from workers.training.image_methods import ImageMethod
from workers.training.methods import MultiStage, Pate, TrainingData
from workers.training.networks import Schedule

SEEDS = range(3)
IMAGES = 1_500
PATE_FM = PateFixMatch(1_300, IMAGES, FixMatch(1), FixMatch(1))


class Remembers:
    """Gives a key the shares of the labels that it was trained on, and others about 1/2."""

    classes = 2

    def fit(self, features, labels):
        return self.of(features["key"].to_numpy(), np.eye(2)[labels])

    def predict(self, model, features):
        return model.probabilities(features["key"].to_numpy())

    @classmethod
    def of(cls, keys, known):
        model = cls()
        model.counts = np.ones((int(keys.max()) + 1, 2))
        np.add.at(model.counts, keys.ravel().astype(int), 20.0 * known)
        return model

    def probabilities(self, keys):
        keys = keys.ravel().astype(int)
        known = keys < len(self.counts)
        shares = self.counts[:, 1] / self.counts.sum(axis=1)
        chance = np.where(known, shares[np.where(known, keys, 0)], 0.5)
        # What a model makes of features, whatever the label is.
        guess = np.random.default_rng(3).normal(0.0, 0.1, keys.max() + 1)[keys]
        chance = expit(logit(chance) + guess)
        return np.stack([1.0 - chance, chance], axis=1)

    def log_odds(self, keys):
        return np.log(self.probabilities(keys))


def of_table(method, keys, labels, random):
    """Train a method on a table of keys."""
    data, learner = TrainingData(pl.DataFrame({"key": keys}), labels), Remembers()
    if isinstance(method, Pate):
        asked, votes = method.vote(data, learner, random=random)
        return method.graduate(data.features[asked], votes, learner, random=random).fitted
    return method.fit(data, learner, random=random).fitted


def of_images(name, keys, labels, random):
    """Train a method on an image for each key."""
    pixels = keys.astype(np.float32).reshape(-1, 1, 1, 1)
    about = {"classes": 2, "seed": 1, "random": random}
    if name == "pate-fm":
        ballot = PATE_FM.vote(None, pixels, labels, **about)
        return PATE_FM.graduate(None, pixels, ballot, epsilon=1.0, seed=1, random=random)
    return ImageMethod(name, 1.0).fit(None, pixels, labels, Schedule(1, 1, 0.1), **about)


def verdicts(fit, keys, declared, delta=0.0):
    """Return the verdicts on models of records of these keys; as many new keys are held out."""
    found = set()
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        labels, others = (random.permutation(np.arange(len(keys)) % 2) for _ in range(2))
        model = fit(keys, labels, random)
        arms = [
            Arm(model.probabilities(rows), np.full((len(keys), 2), 0.5), answers)
            for rows, answers in ((keys, labels), (keys + keys.max() + 1, others))
        ]
        answer = audit_probabilities(*arms, epsilon_declared=declared, delta=delta, seed=seed)
        found.add("kept" if nothing_wrong(answer) else str(answer.verdict))
    return found


def _keeps_too_often():
    """Labels are kept with 0.97 instead of 0.88, which is 3.4."""
    sample = RandomizedResponse.sample

    def planted(self, labels, random):
        kept = 1.1 * self.distribution()[0, 0]
        return sample(RandomizedResponse(float(np.log(kept / (1.0 - kept))), 2), labels, random)

    return RandomizedResponse, "sample", planted


def _augments_with_labels():
    """Each record comes a second time, with its own label."""
    fit = MultiStage.fit

    def planted(self, data, _, *, random):
        class Sees(Remembers):
            def fit(self, features, labels):
                both = np.concatenate([labels, data.labels])
                return super().fit(pl.concat([features, data.features]), both)

        return fit(self, data, Sees(), random=random)

    return MultiStage, "fit", planted


def _votes_without_noise():
    """The one teacher votes for the label of a query's other record 20 times in 21."""
    return NoisyMax, "sample_in_proportion", lambda _, votes, __: votes.argmax(axis=1)


def _teachers_share_records():
    """One vote moves an answer by at most 1/600; where every teacher has all records, one label
    moves all votes on its own query.
    """
    teach = workers.training.methods.teach

    def planted(data, learner, _, asked):
        return teach(data, learner, np.arange(data.records), asked)

    return workers.training.methods, "teach", planted


ONE_TEACHER = Pate(0.2, teachers=1, queries=2_000)


@pytest.mark.parametrize(
    ("method", "keys", "declared", "bug"),
    [
        (MultiStage(2.0), np.arange(4_000), 2.0, _keeps_too_often),
        (MultiStage(1.0), np.arange(4_000), 1.0, _augments_with_labels),
        # Records in pairs of a key.
        (ONE_TEACHER, np.repeat(np.arange(2_000), 2), 0.2, _votes_without_noise),
        pytest.param(
            Pate(1.0, teachers=6_000, queries=600),
            np.arange(6_600),
            1.0,
            _teachers_share_records,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_planted_bug_is_found_and_without_it_nobody_is_accused(
    monkeypatch, method, keys, declared, bug
):
    fit = partial(of_table, method)
    assert verdicts(fit, keys, declared) == {"kept"}
    monkeypatch.setattr(*bug())
    assert verdicts(fit, keys, declared) == {"violated"}


@pytest.mark.parametrize("declared", [0.2, 1.0])
def test_the_same_audit_of_what_is_remembered_whole_is_violated(declared):
    fit = partial(of_table, MultiStage(float("inf")))
    assert verdicts(fit, np.arange(1_000), declared) == {"violated"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lp-1st", "pate-fm"])
@pytest.mark.parametrize(("sees", "verdict"), [(True, "violated"), (False, "kept")])
def test_an_augmentation_is_found_if_it_sees_labels(monkeypatch, method, sees, verdict):
    """Declared 1: each image is shown a second time, with its own label or with the answer."""
    true = {}

    def fit(keys, labels, random):
        true.update(labels=labels)
        return of_images(method, keys, labels, random)

    def augmented(pixels, known):
        own = np.eye(2)[true["labels"]]
        again, labelled = (np.arange(len(own)), own) if sees else (pixels.ravel(), known)
        return Remembers.of(
            np.concatenate([pixels.ravel(), again]), np.concatenate([known, labelled])
        )

    def student(pixels, labels, _unlabelled, *, seed):  # noqa: ARG001  # no chance in remembering
        known = np.eye(2)[labels]
        return augmented(pixels, known) if len(labels) == IMAGES else Remembers.of(pixels, known)

    monkeypatch.setattr(
        image_methods, "fit_network", lambda _, pixels, known, *__, **___: augmented(pixels, known)
    )
    monkeypatch.setattr(fixmatch, "fixmatch_trainer", lambda *_: student)
    delta = 1e-5 if method == "pate-fm" else 0.0
    assert verdicts(fit, np.arange(IMAGES), 1.0, delta) == {verdict}
