"""Noise by local sensitivity, as defined; and a mechanism that keeps labels too often."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, kstest, laplace

from privcore.lower_bounds import stakes_for
from privcore.lower_bounds.betting import log_wealth
from privcore.mechanisms import RandomizedResponse
from privcore.mechanisms.local_sensitivity import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    Rounded,
    TrueAnswers,
    Unprotected,
    bootstrap_sensitivity,
    local_sensitivity,
)
from tests.simulate import PURE, predictions
from tests.support.refusals import refused

DOMAIN = (0, 1, 2)


def true_answers(counts, thresholds, *, records, constant=False):
    counts, thresholds = np.broadcast_arrays(np.array(counts), np.array(thresholds))
    return TrueAnswers(counts, thresholds, np.full(counts.shape, constant), records)


def query(table, satisfying, threshold):
    return int(sum(record in satisfying for record in table) > threshold)


def replaced(table, other):
    """Return in how many records two tables differ."""
    return sum(a != b for a, b in zip(table, other, strict=True))


def subsets():
    for size in range(len(DOMAIN) + 1):
        yield from map(set, itertools.combinations(DOMAIN, size))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("records", [3, 4])
def test_lemma_3_3_is_the_definition_of_k_local_sensitivity_on_every_table(records, k):
    tables = list(itertools.product(DOMAIN, repeat=records))
    for table, satisfying in itertools.product(tables, subsets()):
        near = [other for other in tables if replaced(table, other) <= k]
        count = sum(record in satisfying for record in table)
        constant = len(satisfying) in {0, len(DOMAIN)}
        for threshold in range(-2, records + 2):
            answers = {query(other, satisfying, threshold) for other in near}
            true = true_answers([count], [threshold], records=records, constant=constant)
            assert local_sensitivity(true, k)[0] == len(answers) - 1


@functools.cache
def neighbours(domain, records):
    """Return all pairs of tables over a domain that differ in one record."""
    pairs = itertools.combinations(itertools.product(domain, repeat=records), 2)
    return [pair for pair in pairs if replaced(*pair) == 1]


@pytest.mark.parametrize("records", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_lemma_4_5_is_the_definition_of_bootstrap_sensitivity_on_every_table(records):
    for table in itertools.product(DOMAIN, repeat=records):
        near = neighbours(tuple(sorted(set(table))), records)
        for satisfying in subsets():
            count = sum(record in satisfying for record in table)
            for threshold in range(-1, records + 1):
                differences = {
                    abs(query(one, satisfying, threshold) - query(other, satisfying, threshold))
                    for one, other in near
                }
                true = true_answers([count], [threshold], records=records)
                assert bootstrap_sensitivity(true)[0] == max(differences, default=0)


def test_example_3_5_sensitivity_by_threshold():
    true = true_answers(2, [0, 1, 2, 3, 4, 5], records=6)
    assert local_sensitivity(true, 1).tolist() == [0, 1, 1, 0, 0, 0]


def test_noise_has_scale_sensitivity_over_epsilon_and_not_twice_that():
    """N = 100,000, seed 5, judged at level 1e-6 both ways: the printed density's 2 is stray."""
    true = true_answers(np.full(100_000, 7), 6, records=20)
    noise = KLaplace(1).release(true, epsilon=0.1, random=np.random.default_rng(5)) - 1.0
    assert kstest(noise, laplace(scale=10.0).cdf).pvalue > 1e-6
    assert kstest(noise, laplace(scale=20.0).cdf).pvalue < 1e-6


def test_bootstrap_noise_has_scale_one_over_epsilon_and_none_where_all_or_nobody_fits():
    """N = 100,000, seed 7, judged at level 1e-6 as above."""
    true = true_answers(np.full(100_000, 7), 6, records=20)
    random = np.random.default_rng(7)
    noise = BootstrapLaplace().release(true, epsilon=0.1, random=random) - 1.0
    assert kstest(noise, laplace(scale=10.0).cdf).pvalue > 1e-6
    quiet = true_answers([0, 20, 0], [0, 19, -1], records=20)
    answers = BootstrapLaplace().release(quiet, epsilon=1e-10, random=random)
    assert answers.tolist() == [0.0, 1.0, 1.0]


def test_a_count_at_its_threshold_does_not_exceed_it():
    true = true_answers([3, 4, 5], 4, records=20)
    answers = Unprotected().release(true, epsilon=1.0, random=np.random.default_rng(0))
    assert answers.tolist() == [0.0, 0.0, 1.0]


def test_noiseless_answers_are_true_and_the_always_noisy_variant_has_none():
    true = true_answers([0, 9, 20], [10, 3, 25], records=20)
    random = np.random.default_rng(1)
    assert KLaplace(2).release(true, epsilon=1e-10, random=random).tolist() == [0.0, 1.0, 0.0]
    always = KLaplace(2, added_sensitivity=1.0).release(true, epsilon=1e-10, random=random)
    assert np.all(np.abs(always) > 1.0)


@pytest.mark.paper("relaxations", "Section 3.1")
def test_budgets_add_up_and_rounding_adds_nothing_to_them():
    """The density of two answers against that of every neighbour's, and the rounded cells'.

    The actual table is fixed, and so is its noise: scale local sensitivity / epsilon. That is all
    that the definition compares.
    """
    table, budgets = (0, 1, 1, 2), (0.4, 0.7)
    queries = [({1}, 1), ({1, 2}, 2)]
    counts = [sum(record in satisfying for record in table) for satisfying, _ in queries]
    true = true_answers(counts, [threshold for _, threshold in queries], records=4)
    scales = local_sensitivity(true, 1) / np.array(budgets)
    assert np.all(scales > 0.0)
    near = [o for o in itertools.product(DOMAIN, repeat=4) if replaced(table, o) <= 1]
    points = np.linspace(-5.0, 6.0, 45)
    cells = np.arange(-6.5, 8.5)

    def log_density(rows):
        parts = [
            laplace.logpdf(points, query(rows, *each), scale)
            for each, scale in zip(queries, scales, strict=True)
        ]
        return np.add.outer(*parts)

    def rounded(rows, place):
        return np.log(np.diff(laplace.cdf(cells, query(rows, *queries[place]), scales[place])))

    worst = max(np.abs(log_density(table) - log_density(other)).max() for other in near)
    assert worst == pytest.approx(sum(budgets))
    for place, budget in enumerate(budgets):
        moved = max(np.abs(rounded(table, place) - rounded(other, place)).max() for other in near)
        assert moved <= budget + 1e-9


@pytest.mark.paper("relaxations", "Section 5.1")
@pytest.mark.parametrize(("count", "sensitivity"), [(3, 1), (9, 0)])
def test_the_always_noisy_variant_has_scale_one_plus_sensitivity_over_epsilon(count, sensitivity):
    """N = 20,000 answers, seed 51, judged at 1e-6; the scale without the 1 is refused."""
    true = true_answers(np.full(20_000, count), 3, records=10)
    assert local_sensitivity(true, 1).max() == sensitivity
    random = np.random.default_rng(51)
    answers = KLaplace(added_sensitivity=1.0).release(true, epsilon=0.5, random=random)
    noise = answers - true.exceeded
    right = (1.0 + sensitivity) / 0.5
    assert kstest(noise, laplace(scale=right).cdf).pvalue > 1e-6
    for wrong in (0.7 * right, right + 2.0):
        assert kstest(noise, laplace(scale=wrong).cdf).pvalue < 1e-6


def test_rounding_leaves_noiseless_answers_as_they_are():
    true = true_answers(np.array([9, 0, 5]), 4, records=20)
    for rounded in (Rounded(KLaplace(1)), Rounded(KLaplace(1), to_bits=True)):
        answers = rounded.release(true, epsilon=1e-3, random=np.random.default_rng(2))
        assert answers[:2].tolist() == [1.0, 0.0]
        assert np.all(answers == np.rint(answers))
    bits = Rounded(KLaplace(1), to_bits=True).release(
        true_answers(np.full(1000, 5), 4, records=20), epsilon=1e-3, random=np.random.default_rng(3)
    )
    assert set(bits.tolist()) == {0.0, 1.0}


def test_rounding_to_a_bit_takes_the_nearer_one():
    """N = 100,000, seed 8: 1/2 e^(-epsilon/2) of the answers cross the middle, level 1e-6."""
    true = true_answers(np.full(100_000, 4), 4, records=20)
    bits = Rounded(KLaplace(1), to_bits=True).release(
        true, epsilon=2.0, random=np.random.default_rng(8)
    )
    assert binomtest(int(bits.sum()), bits.size, 0.5 * math.exp(-1.0)).pvalue > 1e-6


def test_the_honest_mechanism_keeps_its_epsilon_on_neighboring_counts():
    """N = 200,000, seed 6: odds within e^epsilon of each other, and near it at the threshold."""
    epsilon, shares = 0.5, []
    for count in (4, 5):
        true = true_answers(np.full(200_000, count), 4, records=20)
        random = np.random.default_rng(6)
        shares.append(NoisyCountThreshold().release(true, epsilon=epsilon, random=random).mean())
    assert shares[0] == pytest.approx(0.5, abs=0.01)
    assert shares[1] == pytest.approx(1.0 - 0.5 * math.exp(-epsilon), abs=0.01)
    assert math.log((1.0 - shares[0]) / (1.0 - shares[1])) == pytest.approx(epsilon, abs=0.05)


def test_bad_input_is_named():
    true = true_answers([1], [0], records=2)
    random = np.random.default_rng(0)
    for k in (0, -1, True, 1.5):
        refused("k is", KLaplace, k)
    refused("records is 2", local_sensitivity, true, 3)
    refused("added_sensitivity is -1", KLaplace, 1, added_sensitivity=-1)
    for epsilon in (0.0, -1.0, math.nan):
        for mechanism in (KLaplace(1), BootstrapLaplace(), NoisyCountThreshold()):
            refused("epsilon is", mechanism.release, true, epsilon=epsilon, random=random)


RECORDS = 200_000


def pvalue(epsilon, classes, *, keep_factor):
    """P-value of the claim `epsilon` where labels are kept `keep_factor` times as often."""
    random = np.random.default_rng([41, round(100 * keep_factor)])
    kept = keep_factor * RandomizedResponse(epsilon, classes).keep_probability
    actual = RandomizedResponse(math.log(kept * (classes - 1) / (1.0 - kept)), classes)
    labels = random.integers(0, classes, RECORDS)
    seen = actual.sample(labels, random)
    posterior = actual.distribution()[:, seen].T.copy()
    prior = np.full((RECORDS, classes), 1.0 / classes)
    stakes = stakes_for(PURE, records=RECORDS, classes=classes)
    wealth = log_wealth(
        predictions(posterior, prior, labels), epsilons=np.array([epsilon]), stakes=stakes
    )
    return math.exp(-max(float(wealth[0]), 0.0))


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_keep_probability_that_is_off_by_10_percent_is_refuted(epsilon, classes):
    """N = 200,000, seed 41: the truth stays at significance 0.05, the bug is refuted at 1e-6."""
    assert pvalue(epsilon, classes, keep_factor=1.0) > 0.05
    assert pvalue(epsilon, classes, keep_factor=1.1) < 1e-6
