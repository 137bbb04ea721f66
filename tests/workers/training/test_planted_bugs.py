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
from workers.executors import InProcess
from workers.training.methods import MultiStage, Pate, TrainingData

SEEDS = range(3)


class Remembers:
    """Gives a key the shares of the labels that it was trained on, and others about 1/2."""

    classes = 2

    def fit(self, features, labels, weights=None):
        assert weights is None
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
    trained = method.fit(
        TrainingData(features, labels), learner, random=random, executor=InProcess()
    )
    unseen = pl.DataFrame({"key": keys + keys.max() + 1})
    arms = [
        Arm(learner.predict(trained.fitted, rows), np.full((len(keys), 2), 0.5), answers)
        for rows, answers in ((features, labels), (unseen, others))
    ]
    return audit_probabilities(*arms, epsilon_declared=declared, seed=seed)


def verdicts(method, keys, declared):
    answers = [audited(method, keys, declared=declared, seed=seed) for seed in SEEDS]
    return ["kept" if nothing_wrong(answer) else str(answer.verdict) for answer in answers]


def test_a_keep_probability_off_by_a_tenth_is_found(monkeypatch):
    """4,000 records, declared 2: kept with 0.97 instead of 0.88, which is 3.4."""
    method, keys = MultiStage(2.0), np.arange(4_000)
    assert set(verdicts(method, keys, 2.0)) == {"kept"}
    sample = RandomizedResponse.sample

    def keeps_too_often(self, labels, random):
        kept = 1.1 * self.distribution()[0, 0]
        return sample(RandomizedResponse(float(np.log(kept / (1.0 - kept))), 2), labels, random)

    monkeypatch.setattr(RandomizedResponse, "sample", keeps_too_often)
    assert set(verdicts(method, keys, 2.0)) == {"violated"}


def test_an_augmentation_that_sees_labels_is_found(monkeypatch):
    """4,000 records, declared 1: each comes a second time, with its own label."""
    method, keys = MultiStage(1.0), np.arange(4_000)
    assert set(verdicts(method, keys, 1.0)) == {"kept"}
    fit = MultiStage.fit

    def augmented(self, data, _, *, random, executor):
        class Sees(Remembers):
            def fit(self, features, labels, weights=None):
                both = np.concatenate([labels, data.labels])
                return super().fit(pl.concat([features, data.features]), both, weights)

        return fit(self, data, Sees(), random=random, executor=executor)

    monkeypatch.setattr(MultiStage, "fit", augmented)
    assert set(verdicts(method, keys, 1.0)) == {"violated"}


def test_votes_without_noise_are_found(monkeypatch):
    """2,000 queries, 4,000 records in pairs of a key; one teacher, declared 0.2.

    The teacher votes for the label of a query's other record 20 times in 21.
    """
    method = Pate(0.2, noise="laplace", delta=0.0, teachers=1, queries=2_000, answers="sample")
    keys = np.repeat(np.arange(2_000), 2)
    assert set(verdicts(method, keys, 0.2)) == {"kept"}
    monkeypatch.setattr(NoisyMax, "sample_in_proportion", lambda _, votes, __: votes.argmax(axis=1))
    assert set(verdicts(method, keys, 0.2)) == {"violated"}


@pytest.mark.slow
def test_teachers_that_share_records_are_found(monkeypatch):
    """150 queries, 1,300 teachers, declared 1: one vote moves an answer by at most 1/150.

    Where every teacher has all records, one label moves all votes on its own query.
    """
    method = Pate(1.0, noise="laplace", delta=0.0, teachers=1_300, queries=150)
    keys = np.arange(1_500)
    assert set(verdicts(method, keys, 1.0)) == {"kept"}
    teach = workers.training.methods.teach
    monkeypatch.setattr(
        workers.training.methods,
        "teach",
        lambda classroom, _: teach(classroom, np.arange(classroom.data.records)),
    )
    assert set(verdicts(method, keys, 1.0)) == {"violated"}


@pytest.mark.parametrize("declared", [0.2, 1.0])
def test_the_same_audit_of_what_is_remembered_whole_is_violated(declared):
    assert set(verdicts(MultiStage(float("inf")), np.arange(1_000), declared)) == {"violated"}
