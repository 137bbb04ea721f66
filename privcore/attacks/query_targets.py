"""Attacks on single persons: are they unique, are they in the table, what does their record hold.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", section 3.5. Each takes
a batch of targets, described by what the attacker already knows of them.
"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.candidate_cells import CandidateCells, EveryCell
from privcore.attacks.noise_detection import NOISY, QUIET, ZERO
from privcore.attacks.query_adversary import Adversary
from privcore.attacks.query_reconstruction import Bisection, find_bounds
from privcore.mechanisms.threshold_queries import Groups


def confirm_unique(adversary: Adversary, targets: Groups) -> NDArray[np.bool_]:
    """Tell which targets are the only record of their kind; two queries each (Example 3.8).

    The query with threshold k is noisy and the one with k + 1 is noiseless exactly where one record
    has the target's known cells. (In a table of two records the second query is decided beforehand,
    and the border on the other side is asked about.)

    Args:
        adversary: who asks.
        targets: what is known of each, at least one column.
    """
    persons, ones = targets.members(), np.ones(targets.size, dtype=np.int64)
    if adversary.k + 1 >= adversary.records or adversary.k == 0:
        several = adversary.exceeds(persons, ones)
        return np.asarray(adversary.exceeds(persons, 0 * ones) & ~several)
    above = adversary.signs(persons, (adversary.k + 1) * ones)
    border = adversary.signs(persons, adversary.k * ones)
    return np.asarray(_noiseless_zero(above) & (border == NOISY))


def infer_membership(adversary: Adversary, targets: Groups) -> NDArray[np.bool_]:
    """Tell which targets have a record in the table; two queries each (Example 3.9).

    The query with threshold k - 1 is noisy and the one with k is noiseless exactly where no record
    has the target's known cells. Without protection (k = 0) one query is enough: its threshold
    is 0. So it is against protection, where the rule for noise tells a noiseless 0 from a 1:
    `Adversary.exceeds(..., 0)` is the query with threshold k alone. The example's second query is
    needed where it does not.

    Args:
        adversary: who asks.
        targets: what is known of each, at least one column.
    """
    persons, ones = targets.members(), np.ones(targets.size, dtype=np.int64)
    if adversary.k == 0:
        return adversary.exceeds(persons, 0 * ones)
    above = adversary.signs(persons, adversary.k * ones)
    border = adversary.signs(persons, (adversary.k - 1) * ones)
    # A noiseless 0 at the border is a predicate that holds for no possible record.
    return np.asarray(~(_noiseless_zero(above) & ((border == NOISY) | (border == ZERO))))


def infer_attribute(
    adversary: Adversary,
    targets: Groups,
    column: int,
    candidates: CandidateCells | None = None,
) -> NDArray[np.int64]:
    """Return the cell of `column` of each target, by bisection; shape (targets,) (Example 3.10).

    One decision for each halving. The targets are in the table and unique in what is known of them
    (`confirm_unique`); of others the answer says nothing.

    Args:
        adversary: who asks.
        targets: what is known of each.
        column: index of the column that is not known.
        candidates: the cells that it may hold; the column's domain by default, found by doubling
            where it has no bounds. `SeenCells` of the column's own counts needs fewer queries.
    """
    if candidates is None:
        candidates = EveryCell.of(find_bounds(adversary, column))
    ones = np.ones(targets.size, dtype=np.int64)
    found = Bisection().find(adversary, column, targets, ones, candidates)
    return found.cell


def _noiseless_zero(signs: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Tell which answers carry no noise and are, or may be, 0."""
    return np.asarray((signs == ZERO) | (signs == QUIET))
