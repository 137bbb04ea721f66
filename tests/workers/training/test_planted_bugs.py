"""Bugs planted in mechanisms are found by the audit; without them the same audit accuses nobody.

The learner remembers each key's labels, so nothing but the mechanism stands between a label and the
model. Records have keys, and half of each arm have the label 1. No model knows the holdout's keys.
"""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit

import workers.training.methods
from privcore.lower_bounds import Arm, audit_probabilities
from privcore.mechanisms import RandomizedResponse
from privcore.mechanisms.noisy_max import NoisyMax
from tests.support.verdicts import nothing_wrong
from workers.training.methods import MultiStage, Pate, TrainingData

SEEDS = range(3)


class Remembers:
    """Gives a key the shares of the labels that it was trained on, and others about 1/2."""

    classes = 2

    def fit(self, features, labels):
        counts = np.ones((int(features["key"].max()) + 1, 2))
        np.add.at(counts, (features["key"].to_numpy(), labels), 20.0)
        return counts / counts.sum(axis=1, keepdims=True)

    def predict(self, model, features):
        keys = features["key"].to_numpy()
        known = keys < len(model)
        chance = np.where(known, model[np.where(known, keys, 0), 1], 0.5)
        # What a model makes of features, whatever the label is.
        guess = np.random.default_rng(3).normal(0.0, 0.1, keys.max() + 1)[keys]
        chance = expit(logit(chance) + guess)
        return np.stack([1.0 - chance, chance], axis=1)


def audited(method, keys, *, declared, seed):
    """Train on records of these keys, and audit the model; as many new keys are held out."""
    random = np.random.default_rng(seed)
    labels, others = (random.permutation(np.arange(len(keys)) % 2) for _ in range(2))
    features = pl.DataFrame({"key": keys})
    learner = Remembers()
    data = TrainingData(features, labels)
    if isinstance(method, Pate):
        asked, votes = method.vote(data, learner, random=random)
        trained = method.graduate(features[asked], votes, learner, random=random)
    else:
        trained = method.fit(data, learner, random=random)
    unseen = pl.DataFrame({"key": keys + keys.max() + 1})
    arms = [
        Arm(learner.predict(trained.fitted, rows), np.full((len(keys), 2), 0.5), answers)
        for rows, answers in ((features, labels), (unseen, others))
    ]
    return audit_probabilities(*arms, epsilon_declared=declared, seed=seed)


def verdicts(method, keys, declared):
    answers = [audited(method, keys, declared=declared, seed=seed) for seed in SEEDS]
    return ["kept" if nothing_wrong(answer) else str(answer.verdict) for answer in answers]


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
    assert set(verdicts(method, keys, declared)) == {"kept"}
    monkeypatch.setattr(*bug())
    assert set(verdicts(method, keys, declared)) == {"violated"}


@pytest.mark.parametrize("declared", [0.2, 1.0])
def test_the_same_audit_of_what_is_remembered_whole_is_violated(declared):
    assert set(verdicts(MultiStage(float("inf")), np.arange(1_000), declared)) == {"violated"}
