"""DP-SGD on one secret: lazily as in full, and as noisy as it is accounted for."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from privcore.guarantees import DpSgd, Neighbors
from privcore.mechanisms.noisy_sgd import NoisySgd, train_secrets

SECRET = (3, 1, 4)


def beginnings():
    """Return every beginning of a sequence of three digits: 1 + 10 + 100 of them."""
    return [prefix for length in range(3) for prefix in itertools.product(range(10), repeat=length)]


def train_in_full(training, noise):
    """Train all 1,110 parameters; `noise` has shape (steps, beginnings, 10)."""
    rows = {prefix: row for row, prefix in enumerate(beginnings())}
    parameters = np.zeros((len(rows), 10))
    for added in noise:
        gradient = np.zeros_like(parameters)
        for digit in range(3):
            row = rows[SECRET[:digit]]
            shares = np.exp(parameters[row]) / np.exp(parameters[row]).sum()
            gradient[row] = shares
            gradient[row, SECRET[digit]] -= 1.0
        gradient *= min(1.0, training.clipping_norm / np.linalg.norm(gradient))
        parameters -= training.learning_rate * (
            gradient + training.noise_multiplier * training.clipping_norm * added
        )
    return parameters, [rows[SECRET[:digit]] for digit in range(3)]


class Given:
    """A generator whose normals are given."""

    def __init__(self, noise):
        self._noise = iter(noise)

    def standard_normal(self, shape):
        return next(self._noise).reshape(shape)


@pytest.mark.paper("renyi", "Section 4.1")
@pytest.mark.parametrize("norm", [0.4, 1.0, 5.0])
def test_lazy_training_is_training_of_all_1110_parameters(norm):
    training = NoisySgd(2.0, 0.7, norm, steps=4)
    noise = np.random.default_rng(3).standard_normal((4, 111, 10))
    full, path = train_in_full(training, noise)
    assert full.size == 1110
    lazy = train_secrets([SECRET], training=training, generator=Given(noise[:, path]))
    assert np.allclose(lazy[0], full[path], rtol=0, atol=1e-14)
    # What was left out is noise, and does not say how probable the secret is.
    shares = log_softmax(full[path], axis=1)[np.arange(3), list(SECRET)].sum()
    assert shares == pytest.approx(log_softmax(lazy[0], axis=1)[np.arange(3), list(SECRET)].sum())


def test_models_do_not_disturb_each_other():
    training = NoisySgd(0.0, 0.5, 1.0, steps=3)
    secrets = [[0, 1], [9, 9], [5, 0]]
    together = train_secrets(secrets, training=training, generator=np.random.default_rng(0))
    for alone, secret in zip(together, secrets, strict=True):
        one = train_secrets([secret], training=training, generator=np.random.default_rng(0))
        assert np.allclose(one[0], alone)
        assert np.argmax(alone, axis=1).tolist() == secret


def test_noise_and_step_have_the_stated_size():
    training = NoisySgd(3.0, 0.25, 0.5)
    found = train_secrets(
        np.zeros((40_000, 1)), training=training, generator=np.random.default_rng(1)
    )[:, 0]
    # The gradient at the start, 0.1 but for the secret's -0.9, has the norm sqrt(0.9).
    assert training.first_gradient(digits=1) == pytest.approx(0.5 / np.sqrt(0.9))
    expected = -0.25 * training.first_gradient(digits=1) * np.array([-0.9] + [0.1] * 9)
    assert np.allclose(found.mean(axis=0), expected, atol=4 * 0.375 / 200)
    assert found.std() == pytest.approx(0.25 * 3.0 * 0.5, rel=0.01)


@pytest.mark.parametrize("neighbors", [Neighbors.ADD_REMOVE, Neighbors.REPLACE])
def test_the_least_noise_is_accounted_at_epsilon(neighbors):
    training = NoisySgd.private(1.5, delta=1e-5, neighbors=neighbors, learning_rate=1.0, steps=7)
    assert training.accounted_as(neighbors).epsilon(1e-5) == pytest.approx(1.5)
    counted = DpSgd(training.noise_multiplier, 1.0, 7, neighbors)
    assert counted.epsilon(1e-5) == pytest.approx(1.5, abs=1e-3)


@pytest.mark.parametrize(
    ("secrets", "start"),
    [
        ([[10]], None),
        ([[-1]], None),
        ([[0.5]], None),
        ([1, 2], None),
        ([[]], None),
        ([[1]], np.zeros(3)),
        ([[1]], np.inf),
    ],
)
def test_bad_secrets_are_refused(secrets, start):
    with pytest.raises(InvalidInputError):
        train_secrets(
            secrets, training=NoisySgd(1.0, 1.0), generator=np.random.default_rng(0), start=start
        )


@pytest.mark.parametrize(
    "values", [(-1.0, 1.0), (np.nan, 1.0), (1.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0, 0)]
)
def test_bad_training_is_refused(values):
    with pytest.raises(InvalidInputError):
        NoisySgd(*values)
