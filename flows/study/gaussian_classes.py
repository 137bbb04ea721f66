"""The data of `study randomized-response`: Gaussian classes, their posterior, a fitted one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax


@dataclass(frozen=True, slots=True, eq=False)
class GaussianClasses:
    """Records of equally many classes; class k is normal around the unit vector e_k.

    Attributes:
        features: shape (records, dimension).
        labels: shape (records,).
        posterior: shape (records, classes), the true one. The classes' means have equal norms, so
            it is the softmax of the first `classes` coordinates.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    posterior: NDArray[np.float64]


def dimension_of(classes: int) -> int:
    """Return 5, or what the unit vectors need: five dimensions hold no ten of them."""
    return max(5, classes)


def draw_classes(records: int, classes: int, random: np.random.Generator) -> GaussianClasses:
    """Return fresh records."""
    labels = random.integers(0, classes, records)
    features = random.standard_normal((records, dimension_of(classes)))
    features[np.arange(records), labels] += 1.0
    return GaussianClasses(features, labels, softmax(features[:, :classes], axis=1))


def fitted_posterior(fresh: GaussianClasses, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what multinomial logistic regression, fitted on `fresh`, says of `features`."""
    classes = fresh.posterior.shape[1]
    design = _with_constant(fresh.features)
    hot = np.eye(classes)[fresh.labels]
    shape = (design.shape[1], classes)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = design @ flat.reshape(shape)
        logs = scores - logsumexp(scores, axis=1, keepdims=True)
        gradient = design.T @ (np.exp(logs) - hot) / len(design)
        return -float((hot * logs).sum()) / len(design), gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    fitted: NDArray[np.float64] = softmax(_with_constant(features) @ found.x.reshape(shape), axis=1)
    return fitted


def raised(posterior: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Return binary probabilities at total-variation distance of at most `shift` from `posterior`.

    Class 1 has min(p + shift, 1): the proxy of the paper's Figure 4.
    """
    ones = np.minimum(posterior[:, 1] + shift, 1.0)
    return np.column_stack([1.0 - ones, ones])


def _with_constant(features: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(features)), features])
