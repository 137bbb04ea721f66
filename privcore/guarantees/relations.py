"""Relations: the runs that a guarantee for labels compares, and which one implies which.

Write P_y for the outputs of a mechanism where one record's label is y, all else the same.

REPLACE: P_y against P_z, for any two labels.
ADD_REMOVE: P_y against the mechanism's own run without the label ("Observational Auditing of
    Privacy", Table 3: (x, y) against (x, nothing)).
SIMULATE: P_y against the run of a simulator that sees everything but the label (the same paper,
    Definition 1, after Mahloujifar et al. 2025). Here it is the one of Definition 2, which imputes
    a label drawn from a distribution q given the record's features and runs the mechanism:
    the mixture of all P_z with weights q_z. Its distribution is part of the claim.

The game of that paper plays against exactly this simulator: the counterfactual label is such a
draw, had the mechanism been run on it. So does assumption E of the headline, which puts a fresh
label in the place of the record's own.

Joint promise of several guarantees for the same labels.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import (
    Floats,
    add_remove_to_replace,
    checked,
    checked_delta,
    checked_epsilon,
)


class Relation(StrEnum):
    """Run with which a guarantee for one label compares the mechanism's run.

    >>> [str(relation) for relation in Relation]
    ['replace', 'add_remove', 'simulate']
    """

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"
    SIMULATE = "simulate"

    @property
    def replacements(self) -> int:
        """Number of steps of this relation that lead from one label to another one."""
        return 1 if self is Relation.REPLACE else 2

    @property
    def imputations(self) -> int:
        """Number of steps that lead from a label to an imputed one, as `implied` counts them."""
        return 2 if self is Relation.ADD_REMOVE else 1


def implied(
    epsilon: ArrayLike, *, delta: ArrayLike = 0.0, given: Relation, asked: Relation
) -> tuple[Floats, Floats]:
    """Return the (epsilon, delta) under `asked` that follows from one under `given`.

    - REPLACE implies SIMULATE as it is, whatever labels are imputed: a mixture is no farther from
      P_y than its parts (see `simulated_epsilon` for less, where the label's own prior is known).
    - SIMULATE implies REPLACE, and ADD_REMOVE implies both others, at (2 epsilon,
      (1 + e^epsilon) delta): two steps through the simulated run, or through the one without the
      label.
    - Neither of the others implies ADD_REMOVE at any epsilon: they say nothing of what the
      mechanism does without the label. Where its run without one *is* the imputed run, SIMULATE
      and ADD_REMOVE are the same claim; the paper reads them so, and audits both at epsilon.

    Args:
        epsilon: at least 0, any shape.
        delta: in [0, 1), any shape that broadcasts.
        given: the relation of the guarantee.
        asked: the relation of the answer.

    Returns:
        Epsilon, infinite where nothing follows, and delta, at least 1 where nothing follows of it.

    Raises:
        InvalidInputError: a value out of its range.

    >>> epsilon, delta = implied(1.0, given=Relation.ADD_REMOVE, asked=Relation.SIMULATE)
    >>> float(epsilon), float(delta)
    (2.0, 0.0)
    """
    epsilon, delta = np.broadcast_arrays(checked_epsilon(epsilon), checked_delta(delta))
    if given is asked or (given, asked) == (Relation.REPLACE, Relation.SIMULATE):
        return epsilon[()], delta[()]
    if asked is Relation.ADD_REMOVE:
        return np.full(epsilon.shape, np.inf)[()], np.zeros(epsilon.shape)[()]
    return add_remove_to_replace(epsilon, delta=delta)


def simulated_epsilon(epsilon: ArrayLike, *, prior: ArrayLike) -> Floats:
    """Return the epsilon by which a label of a known prior stands out, under replacement.

    P_y exceeds the imputed mixture by a factor of at most `e^epsilon / (1 - q + q e^epsilon)`, and
    the mixture P_y by at most `q + (1 - q) e^epsilon`, where q is y's own share of the mixture; the
    second is the larger, and its logarithm is returned. It is epsilon at q = 0 and 0 at q = 1.

    Args:
        epsilon: at least 0, any shape, of a pure guarantee under replacement.
        prior: q, in [0, 1], any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range.

    >>> round(float(simulated_epsilon(1.0, prior=0.5)), 2)
    0.62
    """
    epsilon = checked_epsilon(epsilon)
    prior = checked("prior", prior, 0.0, 1.0, "a prior lies in [0, 1]")
    # From logarithms, so that a large epsilon does not overflow.
    with np.errstate(divide="ignore"):
        others = np.where(prior < 1.0, np.log1p(-np.minimum(prior, 1.0)) + epsilon, -np.inf)
        own = np.log(prior)
    return np.asarray(np.maximum(np.logaddexp(own, others), 0.0))[()]


_LARGEST = 100.0
"""Sum of epsilons above which their sum is returned: no finer figure means anything."""


def composed_epsilon(guarantees: Sequence[tuple[float, float]], *, delta: float) -> float:
    """Return an epsilon that all mechanisms together keep at `delta`, rounded up.

    The privacy loss distributions of the worst mechanisms of each (epsilon, delta) are composed
    (dp_accounting, pessimistic rounding; Koskela, Jalko, Honkela 2020; the worst mechanism is that
    of Kairouz, Oh, Viswanath 2015, Theorem 3.4). It is at most the sum of the epsilons, which holds
    where `delta` is at least the sum of the deltas.

    *Assumes* that the mechanisms' coins are independent. Each may know the outputs of those before.

    Args:
        guarantees: epsilon and delta of each, all for the same unit and relation.
        delta: at which the epsilon is asked for.

    Returns:
        0 for no guarantee; infinity where none holds at `delta`.

    >>> composed_epsilon([(1.0, 0.0), (0.5, 0.0)], delta=0.0)
    1.5
    >>> composed_epsilon([(1.0, 1e-6)], delta=0.0)
    inf
    """
    checked_delta(delta)
    for epsilon, each in guarantees:
        checked_epsilon(epsilon)
        checked_delta(each)
        if not math.isfinite(epsilon):
            raise InvalidInputError("epsilon", epsilon, "a declared epsilon is finite")
    total = math.fsum(epsilon for epsilon, _ in guarantees)
    paid = math.fsum(each for _, each in guarantees)
    basic = total if paid <= delta * (1.0 + 1e-12) else math.inf
    if len(guarantees) < 2 or delta == 0.0 or total > _LARGEST:
        return basic
    from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415  # slow to import
    from dp_accounting.pld.common import DifferentialPrivacyParameters  # noqa: PLC0415

    parts = [
        privacy_loss_distribution.from_privacy_parameters(
            DifferentialPrivacyParameters(epsilon, each)
        )
        for epsilon, each in guarantees
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.compose(part)
    return min(basic, float(together.get_epsilon_for_delta(delta)))
