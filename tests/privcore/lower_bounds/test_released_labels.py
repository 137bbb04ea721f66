"""Theorem, tests and nights of true labels held against released ones.

Sizes are judged at 1e-3 two-sided, of R simulated tables with seeds [r, 7].
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import OFFSETS, WINDOW_EPSILONS, ClaimedNight, declarations_refuted
from privcore.lower_bounds.released_labels import (
    SHARES,
    Declared,
    Guesses,
    Ratios,
    Thinning,
    best_rate,
    check_counts,
    night_of_labels,
)
from privcore.mechanisms import RandomizedResponse
from tests.support.refusals import refused
from tests.support.tiers import rest_slow


def solved(share, epsilon, delta):
    """Return the largest rate of right guesses by a linear program over all events."""
    classes = len(share)
    rows, limits = [], []
    for i, j in itertools.permutations(range(classes), 2):
        for size in range(1, classes):
            for event in itertools.combinations(range(classes), size):
                row = np.zeros((classes, classes))  # the chance of guess g given class i
                row[i, list(event)] += 1.0
                row[j, list(event)] -= math.exp(epsilon)
                rows.append(row.ravel())
                limits.append(delta)
    sums = np.kron(np.eye(classes), np.ones(classes))
    answer = linprog(
        -np.diag(share).ravel(), A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(classes)
    )
    return -float(answer.fun)


def test_no_channel_is_right_more_often_than_the_best_rate():
    for number in range(60):
        random = np.random.default_rng([number, 7])
        counts = random.integers(0, 200, random.integers(2, 5)) + 1
        epsilon, delta = random.exponential(1.0), random.choice([0.0, 0.01, 0.3])
        best = float(best_rate(counts, epsilon=epsilon, delta=delta))
        assert best == pytest.approx(solved(counts / counts.sum(), epsilon, delta), abs=1e-9)


def test_what_cannot_be_is_refused():
    refused("epsilon", best_rate, np.array([1, 1]), epsilon=math.nan)
    for epsilon, delta in ((0.0, 0.0), (math.inf, 0.0), (1.0, 1.0)):
        with pytest.raises(InvalidInputError):
            Declared(epsilon, delta)
    with pytest.raises(InvalidInputError, match="counts"):
        check_counts(np.ones((2, 2), int), same=np.array([0, 1]), declared=Declared(1.0), seed=0)


@pytest.mark.parametrize("epsilon", [0.5, 0.52, 1.0, 1.03, 7.77, 20.0])
def test_the_declared_epsilon_is_a_point_of_the_grid(epsilon):
    declared = Declared(epsilon)
    assert declared.grid[declared.place] == epsilon
    assert (np.diff(declared.grid) > 0.0).all()


def test_thinned_rows_of_a_larger_cap_hold_those_of_a_smaller_one():
    records, right = np.array([[900, 100], [60, 40]]), np.array([[700, 60], [50, 10]])
    thinning = Thinning.of(records, Declared(1.0))
    drawn = thinning.drawn(right, np.random.default_rng(1))
    assert (drawn <= thinning.rows).all()
    order = np.argsort(thinning.rows, kind="stable")
    assert (np.diff(drawn[order]) >= 0).all()
    assert (np.diff(drawn[order]) <= np.diff(thinning.rows[order])).all()
    # The commoner class is cut to e times the other one, where B is that of equal classes.
    at = thinning.sizes[Declared(1.0).place, 0]
    assert at.tolist() == pytest.approx([100 * math.e, 100], abs=1.0)
    every = thinning.drawn(records, np.random.default_rng(1))
    assert (every == thinning.rows).all()


def response(true, epsilon, random):
    """Return counts (1, classes, classes) of randomized response."""
    keep = RandomizedResponse(epsilon, len(true)).distribution()
    return np.stack([random.multinomial(n, row) for n, row in zip(true, keep, strict=True)])[None]


def test_a_check_says_what_it_saw():
    true, same = np.array([5_000, 5_000]), np.arange(2)
    counts = response(true, 1.5, np.random.default_rng(3))
    check = check_counts(counts, same=same, declared=Declared(1.0), seed=1)
    assert (check.refuted_by, check.epsilon_lower) == ("kept", pytest.approx(1.4, abs=0.11))
    assert check.rows == 10_000
    assert check.sees_from == pytest.approx(1.06, abs=0.01)
    assert set(check.pvalues) == {"kept", "key", "ratio"}
    honest = check_counts(counts, same=same, declared=Declared(1.6), seed=1)
    assert (honest.refuted_by, honest.epsilon_lower) == (None, check.epsilon_lower)
    # With delta the mechanism may say more.
    loose = check_counts(counts, same=same, declared=Declared(1.0, 0.4), seed=1)
    assert loose.refuted_by is None
    # Other names of the released values are read by a key.
    renamed = check_counts(
        counts[:, :, ::-1], same=-np.ones(2, int), declared=Declared(1.0), seed=1
    )
    assert renamed.refuted_by == "key"


def test_one_class_or_no_row_refutes_nothing():
    for counts in (np.zeros((1, 2, 2), int), np.array([[[9_000, 0], [0, 0]]])):
        check = check_counts(counts, same=np.arange(2), declared=Declared(1.0), seed=0)
        assert (check.refuted_by, check.epsilon_lower, check.sees_from) == (None, 0.0, math.inf)


def test_a_constant_answer_that_is_often_right_says_nothing():
    """A naive "keep rate above e/(1 + e)" accuses it: 90% of labels are 1."""
    counts = np.array([[[0, 1_000], [0, 9_000]]])
    check = check_counts(counts, same=np.arange(2), declared=Declared(1.0), seed=0)
    assert min(check.pvalues.values()) == 1.0


def test_a_value_that_reveals_one_class_is_found_by_its_ratio():
    random = np.random.default_rng(5)
    counts = response(np.array([9_900, 100, 10_000]), 0.5, random)
    counts = np.append(counts, np.zeros((1, 3, 1), int), axis=2)
    counts[0, 1] = [30, 0, 30, 40]  # a value that only the rare class has
    check = check_counts(counts, same=np.arange(3), declared=Declared(1.0), seed=2)
    assert check.pvalues["ratio"] < 1e-6
    assert check.pvalues["kept"] > 0.1


def test_strata_do_not_pool():
    """Each channel keeps 0 and pooled they would break 3: labels and channels vary together."""
    counts = np.array([[[900, 0], [100, 0]], [[0, 100], [0, 900]]])
    same = np.arange(2)
    apart = check_counts(counts, same=same, declared=Declared(0.5), seed=0)
    pooled = check_counts(counts.sum(axis=0)[None], same=same, declared=Declared(0.5), seed=0)
    assert (apart.refuted_by, pooled.refuted_by) == (None, "kept")


def test_many_skewed_classes_end():
    true = np.array([70_000, 20_000, 7_000, 3_000])
    counts = response(true, 1.0, np.random.default_rng(4))
    check = check_counts(counts, same=np.arange(4), declared=Declared(1.0), seed=1)
    assert check.refuted_by is None
    assert 0.7 < check.epsilon_lower <= 1.0


POWER = [
    (3_335, (1, 1), 1.0, 1.1, 0.809),
    (3_335, (1, 1), 1.0, 1.0, 0.05),
    (11_526, (1, 1), 0.5, 0.55, 0.831),
    (11_526, (1, 1), 0.5, 0.5, 0.05),
    (3_335, (7, 3), 1.0, 1.1, 0.797),
    (3_335, (9, 1), 1.0, 1.1, 0.462),
    (3_335, (9, 1), 1.0, 1.0, 0.05),
    (3_335, (1,) * 10, 1.0, 1.1, 0.795),
    (3_335, (1,) * 10, 1.0, 1.0, 0.05),
    (10_000, tuple(range(1, 11)), 1.0, 1.1, 0.607),
    (10_000, tuple(range(1, 11)), 1.0, 1.0, 0.05),
]


def up_to_the_declared(records, claim):
    """Return what is looked at up to the declared epsilon: it is rejected with all below."""
    whole, points = Thinning.of(records, claim), slice(claim.place + 1)
    parts = {name: getattr(whole, name)[points] for name in ("sizes", "rows", "rate")}
    return dataclasses.replace(whole, **parts)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes", "declared", "truth", "power"), POWER)
def test_kept_has_its_size_and_its_power(rows, classes, declared, truth, power):
    """R = 1,500 at 0.05; powers of the prototype, less 3 standard errors of both."""
    runs = 1_500
    records = np.round(rows * np.array(classes) / sum(classes)).astype(int)[None]
    thinning = up_to_the_declared(records, Declared(declared))
    keep = RandomizedResponse(truth, len(classes)).keep_probability
    rejected = 0
    for run in range(runs):
        random = np.random.default_rng([run, 7])
        right = thinning.drawn(random.binomial(records, keep), random)
        rejected += int(thinning.pvalues(right).max() <= 0.05)
    if truth == declared:
        assert binom.ppf(5e-4, runs, 0.035) <= rejected <= binom.isf(5e-4, runs, 0.05)
    else:
        assert rejected / runs >= power - 3.0 * math.sqrt(2.0 * power * (1.0 - power) / runs)


class AtItsOwnPoint(Declared):
    """A declaration that is held against its own epsilon alone."""

    @property
    def grid(self):
        return np.array([self.epsilon])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_bets_on_ratios_win_nothing_at_the_truth(delta):
    """The mean of 4,000 e-values at the border, where one class is a mixture of channels."""
    border = np.array([0.5, (0.5 - delta) / math.e, (0.5 - delta) / math.e])
    won = []
    for run in range(4_000):
        random = np.random.default_rng([run, 7])
        rates = np.stack([border, 1.0 - border], axis=1)
        halves = [np.stack([random.multinomial(60, row) for row in rates])[None] for _ in range(2)]
        won.append(1.0 / Ratios(*halves).pvalues(AtItsOwnPoint(1.0, delta))[0])
    assert np.mean(won) <= 1.0 + 4.0 * np.std(won) / math.sqrt(len(won)) + 0.5
    assert np.mean(np.array(won) >= 1.0 / SHARES["ratio"]) <= binom.isf(5e-4, 4_000, 0.005) / 4_000


@pytest.mark.slow
def test_nights_together_are_refuted_on_the_third_night_and_never_at_the_truth():
    """250 series of 28 nights of 3,335 labels, declared 1, at 0.01."""
    claim, records = Declared(1.0), np.array([[1_668, 1_667]])
    thinning = Thinning.of(records, claim)
    found = {1.0: [], 1.1: []}
    for truth, first in found.items():
        keep = RandomizedResponse(truth, 2).keep_probability
        for series in range(250):
            random = np.random.default_rng([series, 7])
            nights = [
                ClaimedNight(
                    1.0, thinning.log_wealth(random.binomial(3_335, keep))[:, claim.place], 0.0
                )
                for _ in range(28)
            ]
            refuted = declarations_refuted(nights, significance=0.01)
            first.append(int(refuted.argmax()) + 1 if refuted.any() else 99)
    assert np.median(found[1.1]) == 3
    assert sum(one < 99 for one in found[1.0]) <= binom.isf(5e-4, 250, 0.01)


@pytest.mark.parametrize("nights", rest_slow([50, 400]))
def test_a_night_on_the_grid_is_what_is_imagined_and_below_what_it_could_be(nights):
    """Means and variances of 50 nights, slow 400: a leak of 1.5 against a declared 1; one delta."""
    declared, true = Declared(1.0, 1e-3), np.array([1_000, 600])
    won = []
    for run in range(nights):
        random = np.random.default_rng([run, 7])
        counts = response(true, 1.5, random)
        night = night_of_labels(counts, same=np.arange(2), declared=declared, random=random)
        assert (night.window.log_wealth <= night.ceiling + 1e-9).all()
        won.append(night.claimed.log_wealth)
    place = OFFSETS.index(0.5)
    error = np.std(won, axis=0) / math.sqrt(len(won))
    assert (abs(np.mean(won, axis=0) - night.imagined.mean[:, place]) < 4.0 * error).all()
    assert np.allclose(
        np.var(won, axis=0), night.imagined.variance[:, place], rtol=6.0 / math.sqrt(nights)
    )
    assert night.window.log_wealth.shape == (2, WINDOW_EPSILONS.size)
    assert night.claimed.epsilon < night.epsilon_ceiling
    assert night.window.price == night.claimed.price == 0.0


def test_guesses_by_a_column_have_strata_of_their_own():
    """Two kinds of guesses at one constant answer are right of every row, and tell nothing."""
    guesses = Guesses(np.array([[500, 0], [0, 500]]), np.array([[500, 0], [0, 500]]))
    assert guesses.pvalues(Declared(1.0), np.random.default_rng(0)).min() == 1.0
