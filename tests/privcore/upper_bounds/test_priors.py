"""Priors over secrets, and attacks as priors."""

import functools
import itertools

import numpy as np
import pytest
from mpmath import mp, mpf, zeta
from scipy.stats import binomtest

from privcore.upper_bounds import (
    attempts_prior,
    joint_prior,
    reconstruction_prior,
    uniform_prior,
    zipf_prior,
)
from tests.support.refusals import refused

one_guess = functools.partial(reconstruction_prior, within=0.0)


def test_uniform_prior():
    np.testing.assert_allclose(uniform_prior([0, 1, 9]), [1.0, 0.1, 1e-9], rtol=1e-14)
    assert uniform_prior(20, base=2) == 2.0**-20


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.0 + 1e-9, 1.1, 3.0])
@pytest.mark.parametrize("size", [1, 10_000, 10_001, 10**9])
def test_zipf_prior_against_mpmath(exponent, size):
    with mp.workdps(40):
        if exponent == 1.0:
            total = mp.harmonic(size)
        else:
            total = zeta(mpf(exponent)) - zeta(mpf(exponent), size + 1)
    assert zipf_prior(1, exponent=exponent, size=size) == pytest.approx(1 / float(total), rel=1e-12)


def test_zipf_prior_is_a_distribution():
    chances = zipf_prior(np.arange(1, 20_001), exponent=1.1, size=20_000)
    assert chances.sum() == pytest.approx(1.0, rel=1e-12)
    assert chances[0] / chances[9] == pytest.approx(10.0**1.1)


def test_reconstruction_within_a_distance():
    places = np.array([0.0, 1.0, 2.0, 10.0])
    chances = np.array([0.2, 0.2, 0.2, 0.4])
    guesses = np.linspace(0.0, 10.0, 101)
    distances = np.abs(guesses[:, np.newaxis] - places)
    exact = reconstruction_prior(chances, distances=distances, within=0.0)
    assert exact == 0.4
    # The best guess is 1.0: three records near it.
    assert reconstruction_prior(chances, distances=distances, within=1.0) == pytest.approx(0.6)
    assert reconstruction_prior(chances, distances=distances, within=10.0) == 1.0
    several = reconstruction_prior([chances, chances[::-1]], distances=distances, within=0.0)
    np.testing.assert_allclose(several, [0.4, 0.4])


@pytest.mark.paper("worst_case", "Section 3.3")
def test_attributes_that_depend_on_one_another():
    joint = np.random.default_rng(5).dirichlet(np.ones(24)).reshape(2, 3, 4)
    assert joint_prior(joint) == pytest.approx(joint.max())
    for first in range(2):
        for third in range(4):
            rest = joint[first, :, third]
            found = joint_prior(joint, known={0: first, 2: third})
            assert found == pytest.approx(rest.max() / rest.sum())
    # Independent ones: the product, whatever is known.
    parts = [np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])]
    independent = np.outer(*parts)
    assert joint_prior(independent) == pytest.approx(0.8 * 0.5)
    assert joint_prior(independent, known={0: 0}) == pytest.approx(0.5)
    # Of a copy, the product is too small: one guess has both right.
    assert joint_prior(np.diag([0.6, 0.4])) == pytest.approx(0.6)


@pytest.mark.paper("worst_case", "Section 3.3")
def test_attempts_hit_whom_the_nearest_of_them_reaches():
    places = np.arange(10.0)
    chances = np.full(10, 0.1)
    attempts = np.array([2.0, 3.0, 9.0])
    distances = np.abs(attempts[:, np.newaxis] - places)
    # Within 1 of 2, 3 or 9 are 1, 2, 3, 4, 8 and 9: what two attempts share counts once.
    assert attempts_prior(chances, distances=distances, within=1.0) == pytest.approx(0.6)
    assert attempts_prior(chances, distances=distances, within=0.0) == pytest.approx(0.3)
    # N = 20,000 draws, judged at 1e-6: how often the minimum over attempts is within 1.
    drawn = np.random.default_rng(3).integers(0, 10, 20_000)
    hits = int(np.sum(distances[:, drawn].min(axis=0) <= 1.0))
    assert binomtest(hits, 20_000, 0.6).pvalue > 1e-6
    # Several targets at once, each with its own distribution.
    several = np.stack([chances, np.eye(10)[4], np.eye(10)[6]])
    np.testing.assert_allclose(
        attempts_prior(several, distances=distances, within=1.0), [0.6, 1.0, 0.0]
    )


@pytest.mark.paper("worst_case", "Section 3.3")
def test_no_attempts_beat_the_best_ones():
    chances = np.random.default_rng(7).dirichlet(np.ones(6))
    exact = 1.0 - np.eye(6)
    for attempts in (1, 2, 5, 9):
        best = np.sort(chances)[::-1][:attempts].sum()
        tried = itertools.combinations(range(6), min(attempts, 6))
        made = [attempts_prior(chances, distances=exact[list(each)], within=0.0) for each in tried]
        assert best == pytest.approx(max(made))
    line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    for attempts in (1, 2, 3):
        bound = reconstruction_prior(chances, distances=line, within=1.0, attempts=attempts)
        for each in itertools.combinations(range(6), attempts):
            assert attempts_prior(chances, distances=line[list(each)], within=1.0) <= bound + 1e-12


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: one_guess([1.0], distances=[[0.0]], attempts=0), "attempts is 0"),
        (lambda: joint_prior([[0.5, 0.6]]), "sum of probabilities is 1.1"),
        (lambda: joint_prior([[0.5, 0.5]], known={2: 0}), "attribute is 2"),
        (lambda: joint_prior([[0.5, 0.5]], known={1: 2}), "value of attribute 1 is 2"),
        (lambda: joint_prior([[1.0, 0.0], [0.0, 0.0]], known={1: 1}), "known is"),
        (lambda: attempts_prior([0.5] * 2, distances=[[0.0]], within=0.0), "a row per attempt and"),
        (lambda: uniform_prior(-1), "digits is -1.0"),
        (lambda: zipf_prior(0, exponent=1.1, size=10), "rank is 0.0"),
        (lambda: zipf_prior(11, exponent=1.1, size=10), "rank is 11.0"),
        (lambda: one_guess([0.5, 0.5], distances=[[0.0]]), "a row per guess and 2 columns"),
        (lambda: one_guess([0.5, 0.5], distances=[[0.0, 1.0]], within=-1.0), "within is -1.0"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)
