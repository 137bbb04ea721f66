"""DP-SGD on an n-gram language model that sees one secret, many models at once.

Stock et al. 2022 (arXiv:2202.07623), section 4.1. The model has ten parameters, one for each next
digit, for every possible beginning of a sequence; only those of the secret's own beginnings decide
how probable the secret is, and no other gradient ever reaches them. So only they are kept, and the
answer is that of training all of them (a test trains all 1,110 of a secret of three digits).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from privcore.exceptions import InvalidInputError
from privcore.guarantees import GaussianMechanism, Neighbors
from privcore.guarantees.conversions import Floats, checked, gaussian_mu
from privcore.mechanisms.parameter_checks import check_classes

_MOVED = {Neighbors.ADD_REMOVE: 1.0, Neighbors.REPLACE: 2.0}  # a sum, in clipping norms


@dataclass(frozen=True, slots=True)
class NoisySgd:
    """Steps of DP-SGD with every record in every batch (sampling rate 1).

    Each step takes `learning_rate` times the sum of the records' gradients, each clipped to
    `clipping_norm`, plus Gaussian noise of `noise_multiplier` times that norm on each parameter.

    Attributes:
        noise_multiplier: sigma, at least 0; 0 trains without privacy.
        learning_rate: above 0.
        clipping_norm: C, above 0.
        steps: at least 1.
    """

    noise_multiplier: float
    learning_rate: float
    clipping_norm: float = 1.0
    steps: int = 1

    def __post_init__(self) -> None:
        largest, least = np.finfo(np.float64).max, np.nextafter(0.0, 1.0)
        checked("noise_multiplier", self.noise_multiplier, 0.0, largest, "it is at least 0")
        checked("learning_rate", self.learning_rate, least, largest, "it is above 0")
        checked("clipping_norm", self.clipping_norm, least, largest, "it is above 0")
        checked("steps", self.steps, 1, np.inf, "training takes at least one step")

    @classmethod
    def private(
        cls,
        epsilon: float,
        *,
        delta: float,
        neighbors: Neighbors,
        learning_rate: float,
        clipping_norm: float = 1.0,
        steps: int = 1,
    ) -> "NoisySgd":
        """Return the training with the least noise that is (epsilon, delta)-DP.

        All steps together are a Gaussian mechanism. Adding a record moves each sum by at most the
        clipping norm, replacing one by at most twice that: sigma is sqrt(steps)/mu or twice as
        much, where mu-Gaussian DP is (epsilon, delta)-DP exactly.
        """
        mu = float(gaussian_mu(epsilon, delta=delta))
        if mu == 0.0:
            raise InvalidInputError("epsilon", epsilon, "no finite noise gives it at this delta")
        noise = _MOVED[neighbors] * math.sqrt(steps) / mu
        return cls(noise, learning_rate, clipping_norm, steps)

    def accounted_as(self, neighbors: Neighbors = Neighbors.ADD_REMOVE) -> GaussianMechanism:
        """Return the Gaussian mechanism that all steps together are; it needs some noise."""
        multiplier = self.noise_multiplier / (_MOVED[neighbors] * math.sqrt(self.steps))
        return GaussianMechanism(multiplier, neighbors)

    def first_gradient(self, *, digits: int, alphabet: int = 10) -> float:
        """Return by what clipping multiplies the first gradient of a model that starts at zero.

        The gradient is (uniform - one-hot) at each digit, whose norm is
        sqrt(digits (1 - 1/alphabet)).
        """
        return min(1.0, self.clipping_norm / math.sqrt(digits * (1.0 - 1.0 / alphabet)))


def train_secrets(
    secrets: ArrayLike,
    *,
    training: NoisySgd,
    generator: np.random.Generator,
    start: ArrayLike | None = None,
    alphabet: int = 10,
) -> Floats:
    """Return the parameters of models that were each trained on its own secret, and nothing else.

    The loss of a model is the sum over digits of the softmax loss; the whole gradient of a secret
    is clipped at once.

    Args:
        secrets: shape (models, digits), whole numbers from 0 to `alphabet` - 1.
        training: how each is trained.
        generator: the source of the noise.
        start: shape that broadcasts to (models, digits, alphabet), parameters before training; 0
            without it, so that all digits are equally probable.
        alphabet: how many values a digit has, at least 2.

    Returns:
        Shape (models, digits, alphabet): the parameters after each beginning of the secret.
    """
    secrets = _checked_secrets(secrets, alphabet)
    shape = (*secrets.shape, alphabet)
    parameters = np.zeros(shape)
    if start is not None:
        try:
            parameters += np.asarray(start, dtype=np.float64)
        except ValueError:
            rule = f"it broadcasts to {shape}"
            raise InvalidInputError("shape of start", np.shape(start), rule) from None
        if not np.all(np.isfinite(parameters)):
            raise InvalidInputError("start", np.nan, "parameters are finite")
    places = secrets[..., np.newaxis]
    scale = training.noise_multiplier * training.clipping_norm
    for _ in range(training.steps):
        gradient = softmax(parameters, axis=-1)
        taken = np.take_along_axis(gradient, places, axis=2)
        np.put_along_axis(gradient, places, taken - 1.0, axis=2)
        norm = np.sqrt(np.einsum("mda,mda->m", gradient, gradient))
        clipped = np.minimum(1.0, training.clipping_norm / np.maximum(norm, 1e-300))
        gradient *= clipped[:, np.newaxis, np.newaxis]
        if scale > 0.0:
            gradient += scale * generator.standard_normal(shape)
        parameters -= training.learning_rate * gradient
    return parameters


def _checked_secrets(secrets: ArrayLike, alphabet: int) -> NDArray[np.int64]:
    check_classes(alphabet)
    rule = f"a digit is a whole number from 0 to {alphabet - 1}"
    digits = checked("secrets", secrets, 0, alphabet - 1, rule)
    if digits.ndim != 2 or not digits.size:
        raise InvalidInputError("shape of secrets", digits.shape, "it is (models, digits)")
    whole = digits.astype(np.int64)
    if not np.array_equal(whole, digits):
        raise InvalidInputError("secrets", float(digits[whole != digits][0]), rule)
    return whole
