"""Many guesses: the exact Poisson-binomial distribution, dominance, and what delta adds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import betainc, mp
from scipy.optimize import linprog
from scipy.stats import binom, binomtest

from privcore.upper_bounds import (
    SuccessCount,
    binomial_tail,
    poisson_binomial_tail,
    success_bound,
    success_count,
    success_count_over_runs,
)
from tests.support.refusals import refused

probabilities = st.lists(st.floats(0.0, 1.0), max_size=8)


def naive_tail(chances):
    """By going through all outcomes."""
    masses = np.zeros(len(chances) + 2)
    for outcome in itertools.product([0, 1], repeat=len(chances)):
        masses[sum(outcome)] += np.prod(
            [p if hit else 1.0 - p for p, hit in zip(chances, outcome, strict=True)]
        )
    return masses[::-1].cumsum()[::-1]


@settings(deadline=None)
@given(probabilities)
def test_tail_is_that_of_brute_force(chances):
    np.testing.assert_allclose(poisson_binomial_tail(chances), naive_tail(chances), atol=1e-14)


def test_tail_keeps_its_digits_far_out():
    tail = poisson_binomial_tail(np.full(2_000, 0.3))
    with mp.workdps(40):
        for value in (500, 620, 800, 1_200, 1_500):
            exact = betainc(value, 2_001 - value, 0, mp.mpf(0.3), regularized=True)
            assert tail[value] == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.slow
def test_a_hundred_thousand_targets_with_their_own_priors_agree_with_the_limit_theorem():
    priors = np.random.default_rng(3).random(100_000)
    count = success_count(priors, epsilon=1.0, delta=1e-7)
    limit = count.limit(significance=0.05)
    chances = success_bound(priors, epsilon=1.0)
    deviation = np.sqrt(np.sum(chances * (1.0 - chances)))
    # The central limit theorem, to half a success and what delta adds.
    assert limit == pytest.approx(chances.sum() + 1.6449 * deviation, abs=2.0)


@settings(deadline=None)
@given(probabilities, st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(0.0, 0.2))
def test_limits_are_monotone_in_epsilon_and_delta(priors, e1, e2, delta):
    e1, e2 = sorted([e1, e2])
    low = success_count(priors, epsilon=e1)
    high = success_count(priors, epsilon=e2, delta=delta)
    worst = success_count_over_runs([priors], epsilon=e2, delta=delta)
    for value in range(len(priors) + 2):
        assert low.tail(value) <= high.tail(value) + 1e-12
        assert high.tail(value) <= worst.tail(value) + 1e-12
    assert low.limit() <= high.limit() <= worst.limit()
    assert low.mean <= high.mean + 1e-12


def test_limit_is_the_smallest_that_its_significance_allows():
    for delta in (0.0, 1e-6, 1e-4):
        count = success_count([0.5] * 500, epsilon=1.0, delta=delta)
        for significance in (0.5, 0.05, 1e-3):
            limit = count.limit(significance=significance)
            assert count.tail(limit + 1) <= significance < count.tail(limit)
            assert count.confidence(limit) == 1.0 - count.tail(limit + 1)


@settings(deadline=None)
@given(st.integers(0, 3_000), st.floats(0.0, 1.0), st.floats(0.0, 0.01))
def test_the_closed_form_for_equal_priors_is_the_recursion(guesses, chance, delta):
    # Below 1e-200 the two agree to some 1e-9 of themselves, which no statement rests on.
    whole = poisson_binomial_tail(np.full(guesses, chance))
    first, at_least = binomial_tail(guesses, probability=chance)
    assert (at_least[0], at_least[-1]) == (1.0, 0.0)
    for value in range(0, guesses + 2, 7):
        place = min(max(value - first, 0), at_least.size - 1)
        assert at_least[place] == pytest.approx(whole[value], rel=1e-9, abs=1e-200)
    fast = SuccessCount(guesses, first, at_least, delta * guesses)
    slow = SuccessCount(guesses, 0, whole, delta * guesses)
    assert fast.mean == pytest.approx(slow.mean)
    for value in range(0, guesses + 2, 97):
        assert fast.tail(value) == pytest.approx(slow.tail(value), rel=1e-9, abs=1e-200)


def test_a_hundred_million_fair_bits_need_no_array_of_their_size():
    count = success_count(0.5, guesses=100_000_000, epsilon=1.0, delta=1e-12)
    limit = count.limit(significance=0.05)
    assert count.at_least.size < 1_000_000  # only what lies between 0 and 1 is kept
    chance = float(success_bound(0.5, epsilon=1.0))
    deviation = np.sqrt(1e8 * chance * (1.0 - chance))
    assert limit == pytest.approx(1e8 * chance + 1.6449 * deviation, abs=2.0)


def test_extremes():
    assert success_count([], epsilon=1.0).limit() == 0
    assert success_count([1.0] * 5, epsilon=0.0).limit() == 5
    assert success_count([0.0] * 5, epsilon=np.inf).limit() == 0
    assert success_count([0.5] * 5, epsilon=np.inf).limit() == 5
    count = success_count([0.5] * 5, epsilon=1.0, delta=0.9)
    assert count.limit(significance=0.0) == 5
    assert count.limit(significance=1.0) == 0
    assert count.tail(0) == 1.0
    assert count.tail(6) == 0.0


@pytest.mark.paper("worst_case", "Theorem 3.2")
def test_successes_on_randomized_response_have_exactly_this_distribution():
    # N = 20,000 runs on 60 targets with 2 to 16 equally probable values; judged at 1e-6 at three
    # counts. The same simulation rejects the counts for an epsilon that is 30% off.
    generator = np.random.default_rng(7)
    sizes = generator.integers(2, 17, 60)
    keep = np.exp(1.2) / (np.exp(1.2) + sizes - 1.0)
    successes = (generator.random((20_000, 60)) < keep).sum(axis=1)
    right = success_count(1.0 / sizes, epsilon=1.2)
    wrong = success_count(1.0 / sizes, epsilon=1.2 * 0.7)
    for value in (16, 20, 24):
        reached = int(np.sum(successes >= value))
        assert binomtest(reached, 20_000, right.tail(value)).pvalue > 1e-6
        assert binomtest(reached, 20_000, wrong.tail(value)).pvalue < 1e-6
    limit = right.limit(significance=0.05)
    exceeded = int(np.sum(successes > limit))
    assert binomtest(exceeded, 20_000, 0.05, alternative="greater").pvalue > 1e-6


def test_dominance_over_dependent_targets():
    # N = 20,000 runs, judged at 1e-6. One noisy count is published for 40 fair bits, and decides
    # the one guess for all of them. Successes are dependent, and still below the independent flips.
    generator = np.random.default_rng(11)
    bits = generator.integers(0, 2, (20_000, 40))
    published = bits.sum(axis=1) + generator.laplace(0.0, 1.0 / 1.5, 20_000)
    successes = np.sum(bits == (published > 20.0)[:, np.newaxis], axis=1)
    count = success_count([0.5] * 40, epsilon=1.5)
    for value in range(41):
        reached = int(np.sum(successes >= value))
        bound = count.tail(value)
        assert binomtest(reached, 20_000, bound, alternative="greater").pvalue > 1e-6


@pytest.mark.paper("worst_case", "Theorem 3.5")
@pytest.mark.parametrize("value", [30, 40, 50, 60])
def test_delta_that_reveals_targets_together_stays_below_and_comes_near(value):
    # With probability n delta / j the mechanism reveals j random targets, and else answers each by
    # randomized response: (epsilon, delta)-DP for each target. Its tail is known in closed form.
    guesses, delta = 60, 1e-4
    chance = float(success_bound(0.5, epsilon=0.5))
    count = success_count([0.5] * guesses, epsilon=0.5, delta=delta)
    normal = binom.sf(value - 1, guesses, chance)

    def tail(revealed):
        failure = guesses * delta / revealed
        lost = binom.sf(value - 1 - revealed, guesses - revealed, chance)
        return (1.0 - failure) * normal + failure * lost

    worst = max(tail(revealed) for revealed in range(1, guesses + 1))
    assert worst <= count.tail(value)
    # What a target reveals by chance anyway is counted twice by the theorem, hence the factor.
    assert count.tail(value) - normal <= (worst - normal) / (1.0 - chance)


def test_abstaining_leaves_all_records_exposed_to_delta():
    few = success_count([0.5] * 100, epsilon=1.0, delta=1e-4)
    among_many = success_count([0.5] * 100, epsilon=1.0, delta=1e-4, records=10_000)
    assert among_many.failures == pytest.approx(1.0)
    assert few.limit() < among_many.limit()


@pytest.mark.paper("worst_case", "Theorem 3.3")
def test_lost_targets_are_added_to_the_flips():
    priors = np.array([0.5, 0.2, 0.9, 0.4])
    count = success_count(priors, epsilon=1.0)
    lost = np.array([0.7, 0.2, 0.0, 0.1])
    # By going through all outcomes of flips and lost targets.
    chances = success_bound(priors, epsilon=1.0)
    for value in range(6):
        expected = 0.0
        for flips in itertools.product([0, 1], repeat=4):
            chance = np.prod(np.where(flips, chances, 1.0 - chances))
            expected += chance * sum(lost[j] for j in range(4) if sum(flips) + j >= value)
        assert count.tail_given(value, lost=lost) == pytest.approx(expected, abs=1e-13)
    # No lost target: Theorem 3.2.
    assert count.tail_given(3, lost=[1.0]) == count.tail(3)


@pytest.mark.paper("worst_case", "Theorem 3.3", "Theorem 3.5")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.05, 0.95), min_size=1, max_size=9),
    st.floats(0.0, 4.0),
    st.floats(1e-6, 0.1),
)
def test_theorem_3_5_is_at_least_the_worst_case_of_theorem_3_3(priors, epsilon, delta):
    # The worst distribution of lost targets with mean n delta is a linear program.
    targets = len(priors)
    count = success_count(priors, epsilon=epsilon, delta=delta)
    plain = success_count(priors, epsilon=epsilon)
    for value in range(1, targets + 1):
        gains = [plain.tail(value - j) for j in range(targets + 1)]
        worst = linprog(
            -np.array(gains),
            A_ub=[np.arange(targets + 1)],
            b_ub=[targets * delta],
            A_eq=[np.ones(targets + 1)],
            b_eq=[1.0],
        )
        lost = np.clip(worst.x, 0.0, 1.0)
        reached = plain.tail_given(value, lost=lost / lost.sum())
        assert reached == pytest.approx(-worst.fun, abs=1e-7)
        assert -worst.fun <= count.tail(value) + 1e-9


@pytest.mark.paper("worst_case", "Corollary 3.4")
def test_runs_are_mixed_and_delta_counts_every_target():
    priors = np.random.default_rng(17).random((5, 12))
    count = success_count_over_runs(priors, epsilon=0.7, delta=1e-3)
    for value in range(14):
        alone = [success_count(run, epsilon=0.7).tail(value) for run in priors]
        expected = min(1.0, float(np.mean(alone)) + 12 * 1e-3) if 0 < value <= 12 else alone[0]
        assert count.tail(value) == pytest.approx(expected, abs=1e-12)
    means = [success_count(run, epsilon=0.7).mean for run in priors]
    assert count.mean == pytest.approx(np.mean(means) + 12 * 1e-3)


@pytest.mark.paper("worst_case", "Corollary 3.4")
def test_an_attack_that_names_rare_secrets_is_promised_less():
    # N = 4,000 runs, judged at 1e-6. 20 secrets of 4 values, one of them with 0.7; randomized
    # response at epsilon 1; the attack says the answer, not the most probable value. The bound from
    # its own attempts holds, is near, and is below that of the best blind attack.
    generator = np.random.default_rng(23)
    values, runs, targets, epsilon = np.array([0.7, 0.1, 0.1, 0.1]), 4_000, 20, 1.0
    secrets = generator.choice(4, (runs, targets), p=values)
    keep = np.exp(epsilon) / (np.exp(epsilon) + 3.0)
    other = (secrets + generator.integers(1, 4, secrets.shape)) % 4
    answers = np.where(generator.random(secrets.shape) < keep, secrets, other)
    successes = (answers == secrets).sum(axis=1)
    own = success_count_over_runs(values[answers], epsilon=epsilon)
    blind = success_count([0.7] * targets, epsilon=epsilon)
    for value in range(1, 21):
        reached = int(np.sum(successes >= value))
        bound = min(1.0, own.tail(value))
        assert binomtest(reached, runs, bound, alternative="greater").pvalue > 1e-6
        assert own.tail(value) <= blind.tail(value) + 1e-12
    assert own.limit() < blind.limit()
    assert successes.mean() == pytest.approx(own.mean, rel=0.02)
    weaker = success_count_over_runs(values[answers], epsilon=0.6 * epsilon)
    reached = int(np.sum(successes >= 12))
    assert binomtest(reached, runs, weaker.tail(12), alternative="greater").pvalue < 1e-6


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: success_count([0.5], epsilon=1.0).tail_given(1, lost=[0.4]), "sum of prob"),
        (lambda: success_count_over_runs([0.5], epsilon=1.0), "shape of priors"),
        (lambda: success_count([0.5, 2.0], epsilon=1.0), "prior is 2.0"),
        (lambda: success_count(0.5, epsilon=1.0), "shape of priors"),
        (lambda: success_count([0.5], epsilon=1.0, delta=1.0), "delta is 1.0"),
        (lambda: success_count([0.5] * 3, epsilon=1.0, records=2), "records is 2"),
        (lambda: success_count([0.5], epsilon=1.0).limit(significance=1.5), "significance is 1.5"),
        (lambda: success_count(0.5, guesses=-1, epsilon=1.0), "guesses is -1"),
        (lambda: binomial_tail(-1, probability=0.5), "trials is -1"),
        (lambda: binomial_tail(1, probability=1.5), "probability is 1.5"),
        (lambda: poisson_binomial_tail([-0.1]), "probabilities is -0.1"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)


def test_the_bound_of_section_4_2_as_printed_lies_below_the_prior():
    prior = 0.3
    printed = np.exp(0.0) / (np.exp(0.0) + 1.0 / prior)
    assert printed == pytest.approx(prior / (1.0 + prior))
    assert printed < prior
    assert float(success_bound(prior, epsilon=0.0)) == pytest.approx(prior)


def test_alpha_as_printed_in_the_proof_of_theorem_3_5_is_too_small():
    """Ten fair coins, eight right: four targets lost together break the printed bound."""
    targets, needed, delta = 10, 8, 1e-3

    def tail(right):
        return binom.sf(right - 1, targets, 0.5)

    gamma, lost = tail(needed), np.arange(1, targets + 1)
    printed = max(tail(needed - j) / j - gamma for j in lost)
    right = max((tail(needed - j) - gamma) / j for j in lost)
    assert (printed, right) == (pytest.approx(0.153, abs=5e-4), pytest.approx(0.193, abs=5e-4))
    at_once = targets * delta / 4
    reached = at_once * tail(needed - 4) + (1.0 - at_once) * gamma
    assert gamma + targets * delta * printed < reached - 1e-6
    assert reached <= gamma + targets * delta * right + 1e-12
    bound = success_count(0.5, guesses=targets, epsilon=0.0, delta=delta)
    assert bound.tail(needed) >= reached - 1e-12
