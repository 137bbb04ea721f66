"""Attacks as priors: the guesses that count as a success.

"Beyond the Worst Case" (2025), section 3, encodes every attack as: the target's secret is drawn
from a known distribution, the attacker names a guess, and it succeeds if the secret lies in the
guess's set. The prior is the probability of the most probable set, and is all that the bounds in
`attack_success` and `success_counts` need. A secret here is whatever the declared guarantee's unit
protects at once: a guarantee for labels says nothing about features.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.upper_bounds.priors import checked_distribution


def attribute_prior(probabilities: ArrayLike, *, attempts: int = 1) -> Floats:
    """Return the prior of guessing one attribute, or a whole record, exactly.

    Args:
        probabilities: shape (..., values), of the target's values given what the attacker knows.
            A model's probabilities, shape (records, classes), give each record's prior against
            attackers who know no more than that model, which must not have seen the record.
        attempts: k, how many values the attacker may name; one of them right is a success.

    Returns:
        Shape (...): the probability of the k most probable values.

    Raises:
        InvalidInputError: `probabilities` is not a distribution along its last axis, or attempts
            below 1.
    """
    checked("attempts", attempts, 1, np.inf, "an attacker names at least one value")
    probabilities = checked_distribution(probabilities)
    best = np.sort(probabilities, axis=-1)[..., ::-1][..., :attempts]
    return np.asarray(np.minimum(best.sum(axis=-1), 1.0))[()]


def joint_prior(joint: ArrayLike, *, known: Mapping[int, int] | None = None) -> Floats:
    """Return the prior of guessing all unknown attributes of a record that depend on one another.

    The multi-attribute inference of section 3.3: the attacker knows some of the target's columns,
    and names the most probable combination of all others given these.

    Args:
        joint: shape (values of attribute 0, values of attribute 1, ...), the probability of each
            combination; attributes may depend on one another in any way.
        known: attribute -> the target's value, as positions; without it nothing is known.

    Raises:
        InvalidInputError: `joint` is not a distribution, a position that it does not have, or a
            combination of known values that never occurs.

    >>> # The second attribute is the first one, nearly always: to know one is to know the other.
    >>> joint = [[0.49, 0.01], [0.01, 0.49]]
    >>> float(joint_prior(joint)), float(joint_prior(joint, known={0: 1}))
    (0.49, 0.98)
    """
    known = {} if known is None else known
    joint = np.asarray(joint, dtype=np.float64)
    joint = checked_distribution(joint.ravel()).reshape(joint.shape)
    at: list[int | slice] = [slice(None)] * joint.ndim
    for attribute, value in known.items():
        checked("attribute", attribute, 0, joint.ndim - 1, f"there are {joint.ndim} attributes")
        last = joint.shape[attribute] - 1
        checked(f"value of attribute {attribute}", value, 0, last, f"it lies in 0 to {last}")
        at[attribute] = value
    rest = joint[tuple(at)]
    total = float(rest.sum())
    if total <= 0.0:
        raise InvalidInputError("known", dict(known), "these values occur together")
    return np.asarray(rest.max() / total)[()]


def attempts_prior(probabilities: ArrayLike, *, distances: ArrayLike, within: float) -> Floats:
    """Return the prior of attempts that were made: the mass of the records that any of them hits.

    A target is reconstructed if the *nearest* of the k attempts lies within the distance, whoever
    the attempt was meant for (section 3.3), so k may exceed the number of targets. Unlike
    `reconstruction_prior` it is about these attempts and not the best ones: the prior that Theorem
    3.2 and Corollary 3.4 ask for, which for a poor attack is much smaller.

    Args:
        probabilities: shape (..., secrets), of the targets' records.
        distances: shape (attempts, secrets), from every attempt to every possible record.
        within: the distance E that still counts as a success, at least 0.

    Returns:
        Shape (...).
    """
    probabilities, near = _near(probabilities, distances, within, "attempt")
    return np.asarray(np.minimum(probabilities @ near.max(axis=0), 1.0))[()]


def reconstruction_prior(
    probabilities: ArrayLike, *, distances: ArrayLike, within: float, attempts: int = 1
) -> Floats:
    """Return the prior of naming a record that lies within a distance of the target's.

    The best blind guess has the most probability around it. With `within` 0 and distances that
    are 0 only between a record and itself, it is exact reconstruction, and `attribute_prior`.

    Args:
        probabilities: shape (..., secrets), of the target's records.
        distances: shape (guesses, secrets), from every guess that an attacker could make: guesses
            that are no possible record may be the best, so leave none out.
        within: the distance E that still counts as a success, at least 0.
        attempts: k, how many records the attacker may name. For more than one the answer is the
            sum over the k best guesses: at least the mass of any k guesses together, and more
            where the best ones lie near each other.

    Returns:
        Shape (...).
    """
    checked("attempts", attempts, 1, np.inf, "an attacker names at least one record")
    probabilities, near = _near(probabilities, distances, within, "guess")
    best = np.sort(probabilities @ near.T, axis=-1)[..., ::-1][..., :attempts]
    return np.asarray(np.minimum(best.sum(axis=-1), 1.0))[()]


def _near(
    probabilities: ArrayLike, distances: ArrayLike, within: float, row: str
) -> tuple[Floats, Floats]:
    """Checked probabilities, and 1 where a row's guess lies within the distance, else 0."""
    probabilities = checked_distribution(probabilities)
    distances = checked("distances", distances, 0.0, np.inf, "a distance is at least 0")
    checked("within", within, 0.0, np.inf, "a distance is at least 0")
    if distances.ndim != 2 or distances.shape[1] != probabilities.shape[-1] or not distances.size:
        rule = f"it has a row per {row} and {probabilities.shape[-1]} columns"
        raise InvalidInputError("shape of distances", distances.shape, rule)
    return probabilities, (distances <= within).astype(np.float64)
