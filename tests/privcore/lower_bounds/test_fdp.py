"""Bounds of counts: limits as scipy has them, and what they come to at a prior."""

import csv
import math
import pathlib

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import laplace, norm

from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, Gaussian, Laplace, PureDP
from privcore.guarantees.families import inverse, normal_cdf, normal_quantile
from privcore.lower_bounds import best_epsilon, claim_pvalue, epsilon_lower
from privcore.lower_bounds.kernels import (
    _SMALL,
    _creep,
    best_rejected,
    ceiling,
    largest_rejected,
    rejects,
)
from tests.support.refusals import refused

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "epsilon_lower.csv"
FAMILIES = {"gaussian": Gaussian(), "approx_dp": ApproxDP(), "pure_dp": PureDP()}
ROWS = list(csv.DictReader(GOLDEN.open()))


def test_every_golden_row_is_reached_to_1e_6():
    assert len(ROWS) == 880
    for row in ROWS:
        found = epsilon_lower(
            int(row["records"]),
            int(row["guesses"]),
            int(row["correct"]),
            family=FAMILIES[row["family"]],
            delta=float(row["delta"]),
            significance=float(row["significance"]),
            shift=float(row["shift"]),
        )
        assert found == pytest.approx(float(row["epsilon"]), abs=1e-6), row


def naive_excess(records, guesses, correct, significance, shift, f_inverse, *, whole=True):
    """Algorithm 3 as printed: rejected where the answer is above 0.

    Every step, no early exit; else with the loop's only exit, for large games.
    """
    r = significance * correct / records
    h = significance * (guesses - correct) / records
    for i in range(correct - 1, -1, -1):
        h_new = max(h, 0.0, f_inverse(r) - shift)
        if h_new == h and not whole:
            break
        r += i / (guesses - i) * (h_new - h)
        h = h_new
    return r + h - guesses / records


def scipy_inverse(guarantee):
    if isinstance(guarantee, Gaussian):
        return lambda x: ndtr(ndtri(min(x, 1.0)) - guarantee.mu)
    if isinstance(guarantee, Laplace):
        return lambda x: laplace.cdf(laplace.ppf(min(x, 1.0)) - guarantee.epsilon)
    delta = getattr(guarantee, "delta", 0.0)
    e = math.exp(guarantee.epsilon)
    return lambda x: max(0.0, (x - delta) / e, 1.0 - delta - (1.0 - x) * e)


@st.composite
def counts_of_games(draw):
    records = draw(st.integers(1, 400))
    guesses = draw(st.integers(0, records))
    return records, guesses, draw(st.integers(0, guesses))


counts = counts_of_games()
parameters = st.floats(0.0, 8.0)
guarantees = st.one_of(
    parameters.map(Gaussian),
    parameters.map(PureDP),
    parameters.map(Laplace),
    st.tuples(parameters, st.sampled_from([0.0, 1e-6, 1e-2])).map(lambda pair: ApproxDP(*pair)),
)
significances = st.sampled_from([0.4, 0.05, 0.0025])
shifts = st.sampled_from([0.0, 1e-4, 1e-2])


@pytest.mark.slow
@given(counts, guarantees, significances, shifts)
@settings(max_examples=300, deadline=None)
def test_the_kernel_decides_as_the_naive_twin(c, guarantee, significance, shift):
    assume(c[1] > 0)
    ours = rejects(c, (significance, shift), guarantee.kernel())
    excess = naive_excess(*c, significance, shift, scipy_inverse(guarantee))
    assume(abs(excess) > 1e-13)  # a tie, decided by the last bit of an exponential
    assert ours == (excess > 0.0)


@given(guarantees, st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
@settings(max_examples=300, deadline=None)
def test_every_f_is_convex_from_zero_and_below_the_diagonal(guarantee, points):
    low, middle, high = sorted(points)
    at = [inverse(*guarantee.kernel(), x) for x in (low, middle, high)]
    assert inverse(*guarantee.kernel(), 0.0) == 0.0
    assert all(value <= x + 1e-12 for value, x in zip(at, (low, middle, high), strict=True))
    assume(high - low > 1e-9)
    weight = (high - middle) / (high - low)
    assert at[1] <= weight * at[0] + (1.0 - weight) * at[2] + 1e-12


@given(
    counts, st.sampled_from(["gaussian", "approx_dp"]), significances, shifts, st.floats(0.01, 1.0)
)
@settings(max_examples=200, deadline=None)
def test_nothing_is_rejected_at_or_above_the_ceiling(c, family, significance, shift, above):
    assume(c[1] > 0)
    base, level = FAMILIES[family].member(0.0, delta=1e-3).kernel(), (significance, shift)
    top = ceiling(c, level, base)
    assume(math.isfinite(top))
    for parameter in (top * (1 + 1e-9), top + above):
        assert not rejects(c, level, (base[0], parameter, base[2]))


@given(counts, st.sampled_from([*FAMILIES.values(), Laplace()]), significances, shifts)
@settings(max_examples=300, deadline=None)
def test_the_reported_end_is_rejected_and_a_little_more_is_not(c, family, significance, shift):
    base, level = family.member(0.0, delta=1e-5).kernel(), (significance, shift)
    end = largest_rejected(c, level, base, 0.0)
    assert not rejects((c[0], max(c[1], 1), c[2]), level, (base[0], end + 1.1e-8, base[2]))
    if end > 0.0:
        assert rejects(c, level, (base[0], end, base[2]))


@given(counts, st.sampled_from(list(FAMILIES.values())), st.floats(0.2, 1.2))
@settings(max_examples=150, deadline=None)
def test_what_is_known_is_kept_unless_more_is_rejected(c, family, share):
    base = family.member(0.0, delta=1e-5).kernel()
    end = largest_rejected(c, (0.05, 0.0), base, 0.0)
    known = share * end
    more = largest_rejected(c, (0.05, 0.0), base, known)
    assert more == pytest.approx(max(end, known), abs=1.1e-8)
    assert more >= known


@given(counts, st.sampled_from(list(FAMILIES.values())))
@settings(max_examples=150, deadline=None)
def test_bounds_are_monotone(c, family):
    m, guesses, correct = c
    assume(correct < guesses)
    delta = 0.0 if isinstance(family, PureDP) else 1e-5

    def bound(right=correct, significance=0.05, shift=0.0, at=delta):
        return epsilon_lower(
            m, guesses, right, family=family, delta=at, significance=significance, shift=shift
        )

    assert bound() <= bound(right=correct + 1) + 1e-7
    assert bound(significance=0.01) <= bound() + 1e-7
    assert bound(shift=1e-3) <= bound() + 1e-7
    assert bound(at=max(delta, 1e-5) * 10) <= bound(at=max(delta, 1e-5)) + 1e-7


@given(st.integers(0, 2**32), st.sampled_from(list(FAMILIES.values())))
@settings(max_examples=20, deadline=None)
def test_best_epsilon_is_the_largest_of_all_fractions(seed, family):
    random = np.random.default_rng(seed)
    guesses = np.tile([10, 100, 300, 1_000], (3, 1))
    correct = random.binomial(guesses, random.uniform(0.4, 1.0, guesses.shape))
    delta = 0.0 if isinstance(family, PureDP) else 1e-5
    best = best_epsilon(1_000, guesses, correct, family=family, delta=delta)
    each = [
        [
            epsilon_lower(1_000, int(g), int(c), family=family, delta=delta)
            for g, c in zip(*row, strict=True)
        ]
        for row in zip(guesses, correct, strict=True)
    ]
    np.testing.assert_allclose(best, np.max(each, axis=1), atol=1e-7)


def test_counts_of_any_layout_are_searched_by_one_compiled_kernel():
    guesses = np.array([[10, 100, 300], [10, 100, 300]])
    correct = np.array([[9, 80, 200], [10, 70, 190]])
    known = set(best_rejected.signatures)
    found = [
        best_epsilon(1_000, guesses.copy(order), correct, family=PureDP(), delta=0.0)
        for order in "CF"
    ]
    assert np.array_equal(*found)
    compiled = set(best_rejected.signatures) - known
    assert {array.layout for signature in compiled for array in signature[1:3]} <= {"C"}


@given(counts, guarantees)
@settings(max_examples=100, deadline=None)
def test_the_pvalue_is_the_smallest_significance_that_rejects(c, guarantee):
    assume(c[1] > 0)
    pvalue = claim_pvalue(*c, guarantee=guarantee)
    tradeoff = guarantee.kernel()
    assert 0.0 < pvalue <= 1.0
    if pvalue < 1.0:
        assert rejects(c, (pvalue, 0.0), tradeoff)
    if pvalue > 1e-290:
        assert not rejects(c, (pvalue * (1 - 1e-6), 0.0), tradeoff)


@pytest.mark.parametrize("mu", [0.005, 0.3, 3.0])
@pytest.mark.parametrize("z", [-6.0, -4.0, -2.0, -0.3, 0.0, 0.5, 2.0, 4.0])
def test_small_steps_by_series_agree_with_256_bit_arithmetic(z, mu):
    with mpmath.workdps(77):
        step = float(min(mpmath.ncdf(z), mpmath.ncdf(-z))) * _SMALL
        gain, moved, width, far = _creep(z, mu, 1.0 / norm.pdf(z), norm.pdf(z - mu), step)
        there = mpmath.findroot(lambda t: mpmath.ncdf(t) - mpmath.ncdf(z) - mpmath.mpf(step), z)
        exact = mpmath.ncdf(there - mu) - mpmath.ncdf(z - mu)
        assert gain == pytest.approx(float(exact), rel=2e-14)
        assert moved == pytest.approx(float(there), abs=2e-15)
        assert width == pytest.approx(float(1 / mpmath.npdf(there)), rel=2e-14)
        assert far == pytest.approx(float(mpmath.npdf(there - mu)), rel=2e-14)


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_large_games_decide_as_the_twin_without_shortcuts(seed):
    """Small and many steps: the series, the exits and the search at work."""
    random = np.random.default_rng(seed)
    m = int(10 ** random.uniform(3.0, 5.3))
    guesses = max(2, int(m * 10 ** random.uniform(-2.0, 0.0)))
    game, level = (m, guesses, int(guesses * random.uniform(0.5, 0.7))), (0.05, 0.0)
    base = Gaussian(0.0).kernel()
    end = largest_rejected(game, level, base, 0.0)
    for parameter in (end, end + 1.1e-8, random.uniform(0.0, 2.0 * end)):
        twin = scipy_inverse(Gaussian(parameter))
        over = naive_excess(*game, *level, twin, whole=False)
        ours = rejects(game, level, (base[0], parameter, base[2]))
        if abs(over) > 1e-13:
            assert ours == (over > 0.0)


def test_normal_kernels_agree_with_scipy():
    x = np.linspace(-37.0, 8.0, 2_001)
    np.testing.assert_allclose([normal_cdf(v) for v in x], norm.cdf(x), rtol=1e-12)
    p = np.concatenate([np.geomspace(1e-300, 0.5, 2_001), 1.0 - np.geomspace(1e-16, 0.5, 501)])
    np.testing.assert_allclose([normal_quantile(v) for v in p], norm.ppf(p), rtol=1e-14, atol=1e-15)
    assert normal_quantile(0.0) == -math.inf
    assert normal_quantile(1.0) == math.inf


def test_epsilon_at_other_deltas():
    assert PureDP(2.0).epsilon_at(delta=0.0) == 2.0
    # Hockey-stick divergence of randomized response at epsilon 2, solved for epsilon 1.
    delta = (math.exp(2) - math.exp(1)) / (1 + math.exp(2))
    assert PureDP(2.0).epsilon_at(delta=delta) == pytest.approx(1.0)
    assert PureDP(0.5).epsilon_at(delta=0.9) == 0.0
    assert ApproxDP(1.0, 1e-3).epsilon_at(delta=1e-4) == math.inf
    assert Gaussian(1.0).epsilon_at(delta=0.0) == math.inf
    assert Gaussian(0.0).epsilon_at(delta=0.0) == 0.0
    assert Laplace(1.0).epsilon_at(delta=0.0) == 1.0
    x = np.linspace(-60, 60, 2_000_001)
    gap = laplace.pdf(x, loc=1.0) - math.exp(0.4) * laplace.pdf(x)
    hockey = np.trapezoid(np.maximum(gap, 0.0), x)
    assert Laplace(1.0).epsilon_at(delta=hockey) == pytest.approx(0.4, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": 11}, "correct is 11, but it is at most the number of guesses, 10"),
        ({"guesses": 101}, "guesses is 101, but it is at most the number of records, 100"),
        ({"correct": -1}, "correct is -1, but a count is not negative"),
        ({"records": 0}, "records is 0"),
        ({"delta": 1.0}, r"delta is 1.0, but delta lies in \[0, 1\)"),
        ({"delta": -0.1}, "delta is -0.1"),
        ({"family": Gaussian(), "delta": 0.0}, "finite epsilon only at a delta above 0"),
        *(({"significance": one}, "significance lies in") for one in (0.0, 0.5, 0.7, math.nan)),
        *(({"shift": one}, "a total-variation distance") for one in (-1e-9, 1 + 1e-9, math.nan)),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"records": 100, "guesses": 10, "correct": 9, "family": ApproxDP(), "delta": 1e-5}
    arguments |= change
    counts = [arguments.pop(name) for name in ("records", "guesses", "correct")]
    refused(message, epsilon_lower, *counts, **arguments)
    with pytest.raises(InvalidInputError):
        best_epsilon(counts[0], *(np.array([[count]]) for count in counts[1:]), **arguments)


def test_counts_of_other_shapes_and_families_that_are_no_guarantees_are_named():
    counts = np.array([[1, 2]]), np.array([[1]])
    refused("shape of guesses", best_epsilon, 9, *counts, family=PureDP(), delta=0.0)
    refused("this is a family", claim_pvalue, 9, 2, 1, guarantee=PureDP())
    refused("at least 0", PureDP, -1.0)


def test_a_significance_lies_below_a_half_and_a_shift_up_to_one():
    def bound(**given):
        return epsilon_lower(100, 50, 50, family=PureDP(), delta=0.0, **given)

    assert min(bound(significance=one) for one in (0.25, 0.3, 0.499)) > 0.0
    assert bound(shift=1.0) == bound(shift=0.6) == 0.0


def test_a_pvalue_is_never_below_what_a_double_is_trusted_with():
    assert claim_pvalue(10_000, 5_000, 5_000, guarantee=PureDP(0.1)) == 1e-300
    assert claim_pvalue(10_000, 0, 0, guarantee=PureDP(0.1)) == 1.0
