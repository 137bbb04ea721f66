"""Priors over secrets, and attacks as priors."""

import numpy as np
import pytest
from mpmath import mp, mpf, zeta

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    attribute_prior,
    attributes_prior,
    empirical_prior,
    membership_prior,
    reconstruction_prior,
    uniform_prior,
    zipf_prior,
)


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


def test_empirical_prior():
    np.testing.assert_allclose(empirical_prior([[1, 3], [2, 2]]), [[0.25, 0.75], [0.5, 0.5]])


def test_membership_and_attributes():
    np.testing.assert_allclose(membership_prior([0.5, 0.1, 1.0]), [0.5, 0.9, 1.0])
    np.testing.assert_allclose(attribute_prior([[0.2, 0.8], [0.6, 0.4]]), [0.8, 0.6])
    product = attributes_prior([[0.2, 0.8], [0.5, 0.25, 0.25]])
    joint = np.outer([0.2, 0.8], [0.5, 0.25, 0.25]).ravel()
    assert product == pytest.approx(attribute_prior(joint))


def test_reconstruction_within_a_distance():
    places = np.array([0.0, 1.0, 2.0, 10.0])
    chances = np.array([0.2, 0.2, 0.2, 0.4])
    guesses = np.linspace(0.0, 10.0, 101)
    distances = np.abs(guesses[:, np.newaxis] - places)
    exact = reconstruction_prior(chances, distances=distances, within=0.0)
    assert exact == pytest.approx(attribute_prior(chances))
    # The best guess is 1.0: three records near it.
    assert reconstruction_prior(chances, distances=distances, within=1.0) == pytest.approx(0.6)
    assert reconstruction_prior(chances, distances=distances, within=10.0) == 1.0
    several = reconstruction_prior([chances, chances[::-1]], distances=distances, within=0.0)
    np.testing.assert_allclose(several, [0.4, 0.4])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: uniform_prior(-1), "digits is -1.0"),
        (lambda: uniform_prior(3, base=1), "base is 1.0"),
        (lambda: zipf_prior(0, exponent=1.1, size=10), "rank is 0.0"),
        (lambda: zipf_prior(11, exponent=1.1, size=10), "rank is 11.0"),
        (lambda: zipf_prior(1, exponent=-1.0, size=10), "exponent is -1.0"),
        (lambda: zipf_prior(1, exponent=1.0, size=0), "size is 0.0"),
        (lambda: empirical_prior([0, 0]), "counts is 0.0"),
        (lambda: empirical_prior([1, -1]), "counts is -1.0"),
        (lambda: membership_prior(1.5), "inclusion is 1.5"),
        (lambda: attribute_prior([0.5, 0.6]), "sum of probabilities is 1.1"),
        (lambda: attribute_prior([]), "sum of probabilities is 0.0"),
        (lambda: attributes_prior([]), "distributions is"),
        (
            lambda: reconstruction_prior([0.5, 0.5], distances=[[0.0]], within=0.0),
            "shape of distances",
        ),
        (
            lambda: reconstruction_prior([0.5, 0.5], distances=[[0.0, 1.0]], within=-1.0),
            "within is -1.0",
        ),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(InvalidInputError, match=name):
        call()
