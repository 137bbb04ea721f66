"""Attribute inference: its posterior, that it is the label game, and its size and power.

Rates are judged with an exact binomial test at level 1e-6 (`tests.simulate.JUDGING_LEVEL`).
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from privcore.attacks import LogRatioScore, PaperScore, generator, label_inference
from privcore.attacks.game import attribute_inference, attribute_posterior
from privcore.exceptions import InvalidInputError
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, Grid, choice_epsilon_lower

PURE = Claim(family=PureDP(), delta=0.0)
RECORDS, VALUES = 40, 3


def bound(tally, seed):
    return choice_epsilon_lower(tally, claim=PURE, choice=Grid(), random=generator(seed))


def rows_of(random, records=RECORDS):
    values = random.random((records, VALUES)) + 1e-3
    return values / values.sum(axis=1, keepdims=True)


def example(seed=0):
    """Return (target, proxy, prior, values) without meaning."""
    random = np.random.default_rng(seed)
    likelihoods = random.random((2, RECORDS, VALUES))
    return (*likelihoods, rows_of(random), random.integers(0, VALUES, RECORDS))


def naive_posterior(prior, likelihood):
    found = []
    for beliefs, chances in zip(prior, likelihood, strict=True):
        joint = [belief * chance for belief, chance in zip(beliefs, chances, strict=True)]
        found.append([part / sum(joint) for part in joint])
    return np.array(found)


@given(st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_posterior_is_bayes_rule(seed):
    target, _, prior, _ = example(seed)
    posterior = attribute_posterior(prior, target)
    assert np.allclose(posterior, naive_posterior(prior, target), rtol=1e-12, atol=0.0)
    shared = attribute_posterior(prior[0], target)
    assert np.allclose(shared, naive_posterior(np.tile(prior[0], (RECORDS, 1)), target))
    assert np.allclose(attribute_posterior(prior, np.full_like(target, 0.3)), prior)


def test_posterior_at_the_extremes():
    prior = np.array([0.5, 0.5, 0.0])
    tiny = attribute_posterior(prior, np.array([[3e-320, 1e-320, 1.0]]))
    assert tiny[0] == pytest.approx([0.75, 0.25, 0.0], abs=1e-3)
    certain = attribute_posterior(prior, np.array([[0.0, 0.2, 0.9]]))
    assert np.array_equal(certain, [[0.0, 1.0, 0.0]])


@pytest.mark.parametrize("score", [PaperScore(), LogRatioScore()])
def test_it_is_the_label_game_on_posteriors(score):
    target, proxy, prior, values = example()
    tally = attribute_inference(target, proxy, prior, values, score=score, repetitions=5, key=3)
    assert tally == label_inference(
        naive_posterior(prior, target),
        naive_posterior(prior, proxy),
        values,
        score=score,
        repetitions=5,
        key=3,
    )


def world(records, random):
    """Return (label likelihoods, prior, values): a column that says much about a binary label."""
    prior = np.array([0.9, 0.07, 0.03])
    values = random.choice(VALUES, records, p=prior)
    ones = expit(np.array([-2.0, 0.0, 2.0]) + random.normal(0.0, 1.0, (records, 1)))
    labels = random.random(records) < ones[np.arange(records), values]
    return np.where(labels[:, None], ones, 1.0 - ones), prior, values


def attack(target, proxy, prior, values, seed):
    return bound(
        attribute_inference(
            target, proxy, prior, values, score=LogRatioScore(), repetitions=10, key=seed
        ),
        seed,
    )


def test_a_proxy_without_the_label_would_call_it_a_leak():
    """The warning of the docstring: the same target against a proxy of ones; N = 10, seed 31."""
    random = np.random.default_rng(31)
    bounds = []
    for i in range(10):
        target, prior, values = world(2_000, random)
        bounds.append(attack(target, np.ones_like(target), prior, values, i))
    assert np.mean(bounds) > 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full((2, 3), np.nan)}, "target is nan, but a probability lies in"),
        ({"prior": np.array([0.5, 0.4, 0.0])}, "prior is 0.9, but a prior sums to 1"),
        ({"prior": np.array([0.5, 0.5])}, r"prior is \(2,\), but its shape is \(2, 3\) or \(3,\)"),
        ({"proxy": np.full((3, 3), 0.5)}, r"proxy is \(3, 3\), but it has the target's shape"),
        ({"target": np.full((2, 1), 0.5)}, "values >= 2"),
        ({"values": np.array([0, 3])}, "values is 3, but a value is an index from 0 to 2"),
        ({"values": np.array([0])}, r"values is \(1,\), but their shape is \(2,\)"),
        ({"repetitions": 0}, "at least once"),
        (
            {"target": np.array([[0.1, 0.1, 0.1], [0.0, 0.0, 0.0]])},
            "target is 0.0, but the label of record 1 is possible with some value",
        ),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {
        "target": np.full((2, 3), 0.5),
        "proxy": np.full((2, 3), 0.5),
        "prior": np.array([0.5, 0.3, 0.2]),
        "values": np.array([0, 1]),
        "score": PaperScore(),
        "repetitions": 1,
        "key": 0,
    } | change
    with pytest.raises(InvalidInputError, match=message):
        attribute_inference(**arguments)
