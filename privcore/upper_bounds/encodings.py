"""Which guess counts as a success: attacks as priors.

"Beyond the Worst Case" (2025), section 3, encodes every attack as: the target's secret is drawn
from a known distribution, the attacker names a guess, and it succeeds if the secret lies in the
guess's set. The prior is the probability of the most probable set, and is all that the bounds in
`attack_success` and `success_counts` need. A secret here is whatever the declared guarantee's unit
protects at once: a guarantee for labels says nothing about features.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.upper_bounds.priors import checked_distribution


def membership_prior(inclusion: ArrayLike = 0.5) -> Floats:
    """Return the prior of guessing whether a record took part.

    Args:
        inclusion: probability that it did, in [0, 1], any shape.

    Raises:
        InvalidInputError: a probability outside [0, 1].
    """
    rule = "a probability of inclusion lies in [0, 1]"
    inclusion = checked("inclusion", inclusion, 0.0, 1.0, rule)
    return np.asarray(np.maximum(inclusion, 1.0 - inclusion))[()]


def attribute_prior(probabilities: ArrayLike) -> Floats:
    """Return the prior of guessing one attribute, or a whole record, exactly.

    Args:
        probabilities: shape (..., values), of the target's values given what the attacker knows.
            A model's probabilities, shape (records, classes), give each record's prior against
            attackers who know no more than that model, which must not have seen the record.

    Returns:
        Shape (...): the probability of the most probable value.

    Raises:
        InvalidInputError: `probabilities` is not a distribution along its last axis.
    """
    return np.asarray(checked_distribution(probabilities).max(axis=-1))[()]


def attributes_prior(distributions: Iterable[ArrayLike]) -> Floats:
    """Return the prior of guessing several independent attributes of a record, all of them right.

    For attributes that depend on one another this is too small or too large: pass their joint
    distribution to `attribute_prior` instead.

    Args:
        distributions: one array of shape (..., values) per attribute; values may differ in number.

    Returns:
        Shape (...): the product of the attributes' priors.

    Raises:
        InvalidInputError: one of them is not a distribution, or there is none.
    """
    priors = [attribute_prior(each) for each in distributions]
    if not priors:
        raise InvalidInputError("distributions", priors, "there is at least one attribute")
    product = np.asarray(priors[0])
    for prior in priors[1:]:
        product = product * prior
    return product[()]


def reconstruction_prior(
    probabilities: ArrayLike, *, distances: ArrayLike, within: float
) -> Floats:
    """Return the prior of naming a record that lies within a distance of the target's.

    The best blind guess has the most probability around it. With `within` 0 and distances that
    are 0 only between a record and itself, it is exact reconstruction, and `attribute_prior`.

    Args:
        probabilities: shape (..., secrets), of the target's records.
        distances: shape (guesses, secrets), from every guess that an attacker could make: guesses
            that are no possible record may be the best, so leave none out.
        within: the distance E that still counts as a success, at least 0.

    Returns:
        Shape (...).

    Raises:
        InvalidInputError: a value out of its range, or shapes that do not fit.
    """
    probabilities = checked_distribution(probabilities)
    distances = checked("distances", distances, 0.0, np.inf, "a distance is at least 0")
    checked("within", within, 0.0, np.inf, "a distance is at least 0")
    if distances.ndim != 2 or distances.shape[1] != probabilities.shape[-1] or not distances.size:
        rule = f"it has a row per guess and {probabilities.shape[-1]} columns"
        raise InvalidInputError("shape of distances", distances.shape, rule)
    near = (distances <= within).astype(np.float64)
    # A sum of probabilities may exceed 1 by rounding.
    return np.asarray(np.minimum((probabilities @ near.T).max(axis=-1), 1.0))[()]
