"""Bounds under each relation on an attacker who names a bit of the game, or a label.

See `privcore.guarantees.relations` for the relations. The game's bit says whether the label that
training saw is shown or one drawn in its place; a named label is a guess at the label itself. Both
bounds hold for attackers with unlimited computation who know everything but this record's label,
for labels drawn from the distribution that the prior is of. They are averages over outputs; without
delta those under REPLACE and SIMULATE hold at every single output, too.
"""

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked_delta, checked_epsilon
from privcore.guarantees.relations import Relation, implied, simulated_epsilon
from privcore.upper_bounds.attack_success import checked_prior, success_bound


def bit_success(
    epsilon: ArrayLike,
    *,
    delta: ArrayLike = 0.0,
    relation: Relation,
    prior: ArrayLike | None = None,
) -> Floats:
    """Return how often a guess at the game's bit is right at most.

    The bit tells the run on the shown label from the run on an imputed one, so under SIMULATE it is
    `(e^epsilon + delta) / (1 + e^epsilon)`. Under REPLACE that holds too, and with the shown
    label's prior q and no delta less: the odds are at most q + (1 - q) e^epsilon. Under ADD_REMOVE
    both runs are compared with the one without the label, hence at twice the epsilon.

    Args:
        epsilon: at least 0, any shape.
        delta: in [0, 1), any shape that broadcasts.
        relation: of the guarantee.
        prior: the shown label's probability under the distribution that imputes; only with
            REPLACE, and only without delta.

    Raises:
        InvalidInputError: a value out of its range, or a prior where none is used.

    >>> float(bit_success(1.0, relation=Relation.SIMULATE).round(4))
    0.7311
    >>> float(bit_success(1.0, relation=Relation.REPLACE, prior=0.5).round(4))
    0.6502
    >>> float(bit_success(1.0, relation=Relation.ADD_REMOVE).round(4))
    0.8808
    """
    if prior is not None:
        if relation is not Relation.REPLACE or np.any(checked_delta(delta) > 0.0):
            raise InvalidInputError("prior", prior, "only REPLACE without delta makes use of it")
        epsilon = simulated_epsilon(epsilon, prior=prior)
    epsilon, delta = implied(epsilon, delta=delta, given=relation, asked=Relation.SIMULATE)
    wrong = 1.0 / (1.0 + np.exp(np.minimum(epsilon, 700.0)))
    wrong = np.where(np.isposinf(epsilon), 0.0, wrong)
    return np.asarray(np.clip(1.0 - wrong * (1.0 - np.minimum(delta, 1.0)), 0.5, 1.0))[()]


def label_success(
    prior: ArrayLike, *, epsilon: ArrayLike, delta: ArrayLike = 0.0, relation: Relation
) -> Floats:
    """Return how often a named label is right at most, if it is with `prior` before the output.

    - REPLACE: `success_bound`, `q e^epsilon / (1 - q + q e^epsilon) + delta`.
    - SIMULATE: `min(q e^epsilon + delta, 1 - (1 - q - delta) e^-epsilon)`: the named label is at
      most e^epsilon times as probable as under the mixture, and the rest at least e^-epsilon times.
      It is more than under replacement at the same epsilon, and less than at twice that.
    - ADD_REMOVE: as SIMULATE with the run without the label in place of the mixture, or as REPLACE
      at twice the epsilon. The first needs no second step: each label is compared with the same
      run, which knows none, so q e^epsilon + delta holds, and success_bound at (2 epsilon,
      (1 + e^epsilon) delta); the smaller one is returned.

    Args:
        prior: q, of the most probable label, in [0, 1], any shape.
        epsilon: at least 0, any shape that broadcasts.
        delta: in [0, 1), any shape that broadcasts.
        relation: of the guarantee.

    Raises:
        InvalidInputError: a value out of its range.

    >>> for relation in Relation:
    ...     print(relation, label_success(0.5, epsilon=1.0, relation=relation).round(3))
    replace 0.731
    add_remove 0.881
    simulate 0.816
    """
    prior, epsilon = checked_prior(prior), checked_epsilon(epsilon)
    delta = checked_delta(delta)
    if relation is Relation.REPLACE:
        return success_bound(prior, epsilon=epsilon, delta=delta)
    with np.errstate(divide="ignore"):
        grown = np.where(prior > 0.0, np.exp(np.minimum(np.log(prior) + epsilon, 0.0)), 0.0)
    named = np.minimum(grown + delta, 1.0)
    if relation is Relation.SIMULATE:
        others = 1.0 - np.maximum(1.0 - prior - delta, 0.0) * np.exp(-epsilon)
        return np.asarray(np.minimum(named, others))[()]
    doubled, more = implied(epsilon, delta=delta, given=relation, asked=Relation.REPLACE)
    replaced = np.minimum(success_bound(prior, epsilon=doubled) + more, 1.0)
    return np.asarray(np.minimum(named, replaced))[()]
