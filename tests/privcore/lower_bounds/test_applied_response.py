"""Lemma R: intervals for the randomized response that a file's labels went through.

Trees are LightGBM's, which choose splits by the labels they read. Coverage is judged by a binomial
test at 1e-6 of 1,000 tables at each of three sizes, with seeds [r, 62] and [r, 63].
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, binomtest

from privcore.attacks.label_sums import conditions, label_sums
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.applied_response import (
    SIGNIFICANCE,
    AppliedResponse,
    _boxes,
    _chernoff,
    applied_response,
    are_no_responses,
)
from privcore.mechanisms.randomized_response import RandomizedResponse, correct_probabilities
from tests.support.boosted_trees import boosted, file_of, randomized, rows_with_labels


def response(
    rows: int, epsilon: float, *, seed: int, offset: float = -0.7, leaf: int = 20, rounds: int = 30
) -> AppliedResponse:
    """Return what the file of one table says."""
    features, labels = rows_with_labels(rows, seed=seed, offset=offset)
    read = labels if math.isinf(epsilon) else randomized(labels, epsilon, seed=seed)
    model = boosted(features, read, min_data_in_leaf=leaf, rounds=rounds)
    found = label_sums(*file_of(model, features), labels)
    assert not found.why
    return applied_response(found, labels, conditions=conditions(list(features.T)))


def missed(rows: int, tables: int, *, leaf: int = 20) -> int:
    """Return how many intervals lack the randomized response that was applied."""
    wrong = 0
    for seed in range(tables):
        epsilon = (0.5, 1.0, 2.0)[seed % 3]
        found = response(rows, epsilon, seed=seed, leaf=leaf, offset=-0.7 * (seed % 2))
        wrong += not found.epsilon_low <= epsilon <= found.epsilon_high
    return wrong


@pytest.mark.parametrize(("rows", "leaf"), [(300, 5), (2_500, 20)])
def test_the_applied_epsilon_lies_in_the_interval(rows: int, leaf: int) -> None:
    assert binomtest(missed(rows, 24, leaf=leaf), 24, SIGNIFICANCE, "greater").pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "leaf"), [(300, 5), (2_500, 20), (10_000, 20)])
def test_the_applied_epsilon_lies_in_the_interval_of_a_thousand(rows: int, leaf: int) -> None:
    wrong = missed(rows, 1_000, leaf=leaf)
    assert binomtest(wrong, 1_000, SIGNIFICANCE, "greater").pvalue > 1e-6


@pytest.mark.parametrize(("rows", "declared"), [(1_000, 1.0), (5_000, 2.0)])
def test_unchanged_labels_refute_the_declared_coins(rows: int, declared: float) -> None:
    for seed in range(8):
        found = response(rows, math.inf, seed=seed)
        assert found.epsilon_low > declared
        assert math.isinf(found.epsilon_high)


def test_the_interval_is_narrow() -> None:
    found = [response(5_000, 1.0, seed=seed) for seed in range(5)]
    assert max(one.epsilon_high - one.epsilon_low for one in found) < 0.9
    for rows, leaf, rounds, width in ((300, 5, 30, 0.7), (5_000, 20, 100, 0.16)):
        solved = response(rows, 1.0, seed=0, leaf=leaf, rounds=rounds)
        assert (solved.read, solved.records) == (rows, rows)
        assert solved.same == pytest.approx(rows * expit(1.0), abs=2 * math.sqrt(rows))
        assert solved.epsilon_high - solved.epsilon_low < width


def test_another_rule_than_coins_is_no_randomized_response() -> None:
    features, labels = rows_with_labels(5_000, seed=3)
    read = np.where(features[:, 0] > 0, labels, 1 - labels)  # changed by a feature
    found = label_sums(*file_of(boosted(features, read), features), labels)
    one = applied_response(found, labels, conditions=conditions(list(features.T)))
    assert math.isnan(one.epsilon_low)
    assert math.isnan(one.epsilon_high)


def test_denoised_responses_are_nearer_to_the_labels_and_as_private() -> None:
    """So labels that were changed too little are no proof that the mechanism was left out."""
    mechanism, nearer = RandomizedResponse(0.5, 2), 0
    for seed in range(8):
        features, labels = rows_with_labels(400, seed=seed)
        read = randomized(labels, 0.5, seed=seed)
        chance = boosted(features, read, rounds=20, min_data_in_leaf=100).predict(features)
        both = np.column_stack([1.0 - chance, chance])
        true = correct_probabilities(both, mechanism.distribution(), floor=0.001)[:, 1]
        read = (logit(true) + np.where(read == 1, 0.5, -0.5) > 0).astype(np.int64)
        found = label_sums(*file_of(boosted(features, read, min_data_in_leaf=5), features), labels)
        one = applied_response(found, labels, conditions=conditions(list(features.T)))
        nearer += one.same > binom.ppf(0.975, 400, expit(0.5))
        assert math.isnan(one.epsilon_low)  # and no coins explain them
        assert not found.are_the_tables
    assert nearer > 0


def of_persons(*, together: int) -> int:
    """Return how many of 8 intervals lack epsilon 1 where a person's 60 rows share label and coin.

    Args:
        together: how many rows are said to share one.
    """
    wrong = 0
    for seed in range(8):
        features, labels = rows_with_labels(2_400, seed=seed)
        labels = np.repeat(labels[:40], 60)
        coins = np.random.default_rng([seed, 64]).random(40) < expit(1.0)
        read = np.where(np.repeat(coins, 60), labels, 1 - labels)
        found = label_sums(*file_of(boosted(features, read, rounds=2), features), labels)
        one = applied_response(found, labels, conditions=100, together=together)
        wrong += not one.epsilon_low <= 1.0 <= one.epsilon_high
    return wrong


def test_records_that_share_a_coin_are_counted_as_one() -> None:
    assert of_persons(together=60) == 0
    assert of_persons(together=1) >= 4


def test_labels_are_no_responses_only_where_features_predict_them_too_well() -> None:
    said = []
    for seed in range(16):
        features, labels = rows_with_labels(2_000, seed=seed, offset=-3.0 if seed % 2 else 0.0)
        responses = randomized(labels, 1.0, seed=seed)
        found = label_sums(*file_of(boosted(features, responses), features), responses)
        said.append(are_no_responses(found, epsilon=1.0, conditions=6 * 8_004))
    assert not any(said)
    features, labels = rows_with_labels(2_000, seed=0, offset=-3.0)
    found = label_sums(*file_of(boosted(features, labels), features), labels)
    assert are_no_responses(found, epsilon=1.0, conditions=6 * 8_004)
    assert not are_no_responses(found, epsilon=9.0, conditions=6 * 8_004)


@pytest.mark.parametrize(("ones", "noughts"), [(0, 7), (9, 0), (5, 12), (30, 4)])
@pytest.mark.parametrize("kept", [0.5, 0.731, 0.99])
def test_bounds_are_above_the_exact_tails(ones: int, noughts: int, kept: float) -> None:
    exact = np.convolve(
        binom.pmf(np.arange(ones + 1), ones, kept),
        binom.pmf(np.arange(noughts + 1), noughts, 1 - kept),
    )
    sums = np.arange(ones + noughts + 1)
    every = np.ones_like(sums)
    bounds = np.exp(_chernoff(sums, ones * every, noughts * every, kept))
    above, below = np.cumsum(exact[::-1])[::-1], np.cumsum(exact)
    assert (bounds >= np.minimum(above, below) * (1 - 1e-9)).all()
    assert bounds[0] == pytest.approx(exact[0])  # at both ends the bound is the chance itself
    assert bounds[-1] == pytest.approx(exact[-1])


def test_boxes_are_counted_as_multisets() -> None:
    for depth in range(4):
        boxes = len(list(itertools.combinations_with_replacement(range(5), depth)))
        found = math.exp(_boxes(np.array([depth]), 5)[0])
        assert found == pytest.approx(boxes * 2 ** (depth + 1) * 2 * 2)


def test_sums_that_are_not_evaluated_are_refused() -> None:
    features, labels = rows_with_labels(600, seed=0)
    ensemble, leaves = file_of(boosted(features, labels), features)
    found = label_sums(ensemble, leaves[1:], labels[1:])
    with pytest.raises(InvalidInputError, match="sums"):
        applied_response(found, labels[1:], conditions=10)
