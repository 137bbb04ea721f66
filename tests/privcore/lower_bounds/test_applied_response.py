"""Lemma R: intervals for the randomized response that a file's labels went through.

Trees are LightGBM's, which choose splits by the labels they read. Coverage is judged by a binomial
test at 1e-6 of 1,000 tables of two classes, where the sums determine all labels and where they
determine few, with seeds [r, 62] and [r, 63]; of 3 and 5 classes, and of categories that labels
sort, by 400 tables each, with seeds [r, 66] and [r, 67].
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, binomtest

from privcore.attacks.label_sums import conditions, label_sums
from privcore.lower_bounds.applied_response import (
    SIGNIFICANCE,
    AppliedResponse,
    _boxes,
    _chances,
    _chernoff,
    _nodes,
    applied_response,
)
from privcore.mechanisms.randomized_response import RandomizedResponse, correct_probabilities
from tests.support.boosted_trees import (
    boosted,
    file_of,
    randomized,
    rows_with_classes,
    rows_with_labels,
)
from tests.support.refusals import refused
from tests.support.tiers import tiered


def said(rows, epsilon, *, seed, classes=2, offset=-0.7, leaf=20, rounds=30):
    """Return what the file of one table says."""
    if classes == 2:
        features, labels = rows_with_labels(rows, seed=seed, offset=offset)
    else:
        features, labels = rows_with_classes(rows, classes, seed=seed)
    read = labels
    if not math.isinf(epsilon):
        read = randomized(labels, epsilon, seed=seed, classes=classes)
    many = {} if classes == 2 else {"num_class": classes}
    model = boosted(features, read, min_data_in_leaf=leaf, rounds=rounds, **many)
    found = label_sums(*file_of(model, features), labels)
    assert not found.why
    return found, applied_response(found, labels, conditions=conditions(list(features.T)))


@pytest.mark.parametrize(
    ("tables", "classes", "rows", "leaf", "rounds"),
    tiered(
        [
            (24, 2, 300, 5, 30),
            (9, 3, 200, 5, 20),
            (1_000, 2, 200, 5, 10),
            (1_000, 2, 4_000, 20, 10),
            (400, 3, 200, 5, 8),
            (400, 3, 1_000, 20, 3),
            (400, 5, 200, 5, 5),
            (400, 5, 1_000, 20, 2),
        ],
        always=2,
        slow=6,
    ),
)
def test_the_applied_epsilon_lies_in_the_interval(tables, classes, rows, leaf, rounds):
    """Leaves of 5 of few rows determine nearly all labels, and trees of few rounds nearly none."""
    wrong, size = 0, {"classes": classes, "leaf": leaf, "rounds": rounds}
    for seed in range(tables):
        epsilon = (0.5, 1.0, 2.0)[seed % 3]
        _, found = said(rows, epsilon, seed=seed, offset=-0.7 * (seed % 2), **size)
        wrong += not found.epsilon_low <= epsilon <= found.epsilon_high
    assert binomtest(wrong, tables, SIGNIFICANCE, "greater").pvalue > 1e-6


@pytest.mark.parametrize(("rows", "declared"), [(1_000, 1.0), (5_000, 2.0)])
def test_unchanged_labels_refute_the_declared_coins(rows, declared):
    for seed in range(8):
        _, found = said(rows, math.inf, seed=seed)
        assert found.epsilon_low > declared
        assert math.isinf(found.epsilon_high)


def test_the_interval_is_narrow():
    found = [said(5_000, 1.0, seed=seed)[1] for seed in range(5)]
    assert max(one.epsilon_high - one.epsilon_low for one in found) < 0.9
    for rows, leaf, rounds, width in ((300, 5, 30, 0.7), (5_000, 20, 100, 0.16)):
        _, solved = said(rows, 1.0, seed=0, leaf=leaf, rounds=rounds)
        assert (solved.read, solved.records) == (rows, rows)
        assert solved.same == pytest.approx(rows * expit(1.0), abs=2 * math.sqrt(rows))
        assert solved.epsilon_high - solved.epsilon_low < width


def test_another_rule_than_coins_is_no_randomized_response():
    features, labels = rows_with_labels(5_000, seed=3)
    read = np.where(features[:, 0] > 0, labels, 1 - labels)  # changed by a feature
    found = label_sums(*file_of(boosted(features, read), features), labels)
    one = applied_response(found, labels, conditions=conditions(list(features.T)))
    assert math.isnan(one.epsilon_low)
    assert math.isnan(one.epsilon_high)


def test_denoised_responses_are_nearer_to_the_labels_and_as_private():
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


def of_persons(*, together):
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


def test_records_that_share_a_coin_are_counted_as_one():
    assert of_persons(together=60) == 0
    assert of_persons(together=1) >= 4


@pytest.mark.parametrize(("classes", "width"), [(3, 0.7), (5, 0.7), (10, 0.8)])
def test_of_classes_intervals_are_narrow_and_unchanged_labels_refute_coins(classes, width):
    _, solved = said(200, 1.0, seed=0, classes=classes, leaf=5, rounds=20)
    assert (solved.read, solved.classes) == (200, classes)
    kept, _ = _chances(1.0, classes)
    assert solved.same == pytest.approx(200 * kept, abs=20)
    assert solved.epsilon_high - solved.epsilon_low < width
    for rows in (1_000, 2_500):
        found, clean = said(rows, math.inf, seed=1, classes=classes, rounds=6)
        assert found.are_the_tables
        assert clean.epsilon_low > 1.0
        assert math.isinf(clean.epsilon_high)


def test_each_class_has_boxes_of_its_own():
    found, _ = said(1_000, 1.0, seed=0, classes=3, rounds=6)
    sums, rows, ones, boxes = _nodes(found, 500)
    assert (len(sums), len(rows), len(ones)) == (len(boxes),) * 3
    assert boxes.min() == pytest.approx(_boxes(np.array([0]), 500)[0] + math.log(3.0))


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_chances_are_those_of_the_mechanism(classes, epsilon):
    matrix = RandomizedResponse(epsilon, classes).distribution()
    assert _chances(epsilon, classes) == pytest.approx((matrix[0, 0], matrix[0, 1]))
    shares = AppliedResponse(epsilon, 9.0, 0, 0, 1, classes).most_changed
    assert shares == pytest.approx(1.0 - matrix[0, 0])


def of_sorted_categories(tables, *, left_out):
    """Return how many intervals lack epsilon 1 where 500 categories of 3 rows are sorted by labels.

    Args:
        left_out: whether nodes below conditions on categories are.
    """
    wrong = 0
    loose = {"cat_l2": 0.0, "cat_smooth": 0.0, "min_data_per_group": 1, "min_data_in_bin": 1}
    wide = {"max_cat_threshold": 1_500, "max_bin": 1_500}
    for seed in range(tables):
        number = np.random.default_rng([seed, 67]).normal(size=1_500)
        features = np.column_stack([number, np.arange(1_500) // 3])
        labels = (np.random.default_rng([seed, 68]).random(1_500) < expit(number)).astype(int)
        read = randomized(labels, 1.0, seed=seed)
        model = boosted(features, read, rounds=4, categorical=[1], **loose, **wide)
        found = label_sums(*file_of(model, features), labels)
        assert not found.why
        if not left_out:
            found = dataclasses.replace(found, numeric=np.ones_like(found.numeric))
        one = applied_response(found, labels, conditions=conditions([number]))
        wrong += not one.epsilon_low <= 1.0 <= one.epsilon_high
    return wrong


def test_nodes_of_categories_that_labels_chose_are_left_out():
    assert of_sorted_categories(6, left_out=False) == 6
    assert of_sorted_categories(6, left_out=True) == 0


@pytest.mark.slow
def test_sorted_categories_accuse_nobody_in_four_hundred_tables():
    wrong = of_sorted_categories(400, left_out=True)
    assert binomtest(wrong, 400, SIGNIFICANCE, "greater").pvalue > 1e-6


@pytest.mark.parametrize(("ones", "noughts"), [(0, 7), (9, 0), (5, 12), (30, 4)])
@pytest.mark.parametrize("kept", [0.5, 0.731, 0.99])
@pytest.mark.parametrize("others", [1, 4])
def test_bounds_are_above_the_exact_tails(ones, noughts, kept, others):
    other = (1 - kept) / others
    exact = np.convolve(
        binom.pmf(np.arange(ones + 1), ones, kept),
        binom.pmf(np.arange(noughts + 1), noughts, other),
    )
    sums = np.arange(ones + noughts + 1)
    every = np.ones_like(sums)
    bounds = np.exp(_chernoff(sums, ones * every, noughts * every, kept, other))
    above, below = np.cumsum(exact[::-1])[::-1], np.cumsum(exact)
    assert (bounds >= np.minimum(above, below) * (1 - 1e-9)).all()
    assert bounds[0] == pytest.approx(exact[0])  # at both ends the bound is the chance itself
    assert bounds[-1] == pytest.approx(exact[-1])


def test_boxes_are_counted_as_multisets():
    for depth in range(4):
        boxes = len(list(itertools.combinations_with_replacement(range(5), depth)))
        found = math.exp(_boxes(np.array([depth]), 5)[0])
        assert found == pytest.approx(boxes * 2 ** (depth + 1) * 2 * 2)


def test_sums_that_are_not_evaluated_are_refused():
    features, labels = rows_with_labels(600, seed=0)
    ensemble, leaves = file_of(boosted(features, labels), features)
    found = label_sums(ensemble, leaves[1:], labels[1:])
    refused("sums", applied_response, found, labels[1:], conditions=10)
