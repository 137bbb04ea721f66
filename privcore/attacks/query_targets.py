"""Attacks on single persons: are they unique, are they in the table, what does their record hold.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", section 3.5. Each takes
a batch of targets, described by what the attacker already knows of them.

*Which records exist* (section 4): bootstrap differential privacy answers "does a record satisfy
phi?" without noise exactly where none does, or all do (Lemma 4.5). So every question is answered
truly, and the distinct records can be found, though not how often each occurs.
"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.query_adversary import (
    NOISY,
    QUIET,
    ZERO,
    Adversary,
    CandidateCells,
    EveryCell,
    SeenCells,
)
from privcore.attacks.query_reconstruction import (
    Bisection,
    TableReconstruction,
    extended_groups,
    find_bounds,
)
from privcore.exceptions import (
    INTERFACE_ERRORS,
    ContradictoryAnswersError,
    InvalidInputError,
    NoBoundsError,
)
from privcore.mechanisms.threshold_queries import Column, Groups, Predicates


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
    adversary: Adversary, targets: Groups, column: int, candidates: CandidateCells | None = None
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


def any_record(adversary: Adversary, predicates: Predicates) -> NDArray[np.bool_]:
    """Tell whether any record satisfies each predicate, one decision each; Lemma 4.5.

    Raises:
        InvalidInputError: a rule for noise that tells no sides: whether an answer of "none" is
            noisy is the same as for an answer of "all".
    """
    if not adversary.rule.tells_side:
        rule = "existence is read from a noiseless 0, which it does not tell from a 1"
        raise InvalidInputError("rule", adversary.rule, rule)
    thresholds = np.zeros(predicates.size, dtype=np.int64)
    return np.asarray(adversary.signs(predicates, thresholds) != ZERO)


def probe_records(adversary: Adversary) -> TableReconstruction:
    """Find the distinct records of a table, column by column, the smallest domain first.

    Every count is 1, and the adversary's k is 0. Ranges are halved as in `Bisection`; where the
    left half is empty, the right one is not, and needs no question. Where the interface refuses,
    fails or answers garbage, what was learned by then is returned with the reason.
    """
    groups, stopped = Groups.everyone(), None
    try:
        columns = adversary.interface.columns
        domains = [_bounded(adversary, index) for index in range(len(columns))]
        alone = [
            probe_column(adversary, index, Groups.everyone(), EveryCell.of(domain))[1]
            for index, domain in enumerate(domains)
        ]
        for column in sorted(range(len(columns)), key=lambda index: alone[index].size):
            seen = SeenCells(alone[column], np.ones_like(alone[column]))
            group, cells = probe_column(adversary, column, groups, seen)
            groups = extended_groups(groups, column, group, cells)
    except INTERFACE_ERRORS as error:
        stopped = str(error)
    return TableReconstruction(groups, np.ones(groups.size, dtype=np.int64), stopped)


def _bounded(adversary: Adversary, column: int) -> Column:
    """Return the column with bounds, by doubling until no record lies outside."""
    known = adversary.interface.columns[column]
    if known.cells is not None:
        return known
    width = 1
    outside = np.ones(2, dtype=np.bool_)
    zeros = np.zeros(2, dtype=np.int64)
    while np.any(outside):
        width *= 2
        if width > EveryCell.WIDEST:
            raise NoBoundsError(known.name)
        sides = Predicates(
            Groups.everyone(),
            zeros,
            column,
            np.array([-EveryCell.WIDEST, width]),
            np.array([-width, EveryCell.WIDEST]),
        )
        outside = any_record(adversary, sides)
    return Column(known.name, -width, width - 1, known.precision)


def probe_column(
    adversary: Adversary, column: int, groups: Groups, candidates: CandidateCells
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of group and cell of `column` that exist, in ascending order.

    Raises:
        ContradictoryAnswersError: more ranges hold a record than there are records.
    """
    group = np.arange(groups.size)
    low, high = np.zeros_like(group), np.full_like(group, candidates.size)
    leaves = []
    found_alone = 0
    while group.size:
        if found_alone + group.size > adversary.records:
            raise ContradictoryAnswersError(found_alone + group.size, adversary.records)
        single = high - low == 1
        found_alone += int(single.sum())
        leaves.append(np.stack([group[single], candidates.cells(low[single])]))
        group, low, high = (part[~single] for part in (group, low, high))
        middle = candidates.middles(low, high)
        left = Predicates(groups, group, column, candidates.cells(low), candidates.cells(middle))
        right = Predicates(groups, group, column, candidates.cells(middle), candidates.cells(high))
        in_left = any_record(adversary, left)
        in_right = ~in_left
        asked = np.flatnonzero(in_left)
        in_right[asked] = any_record(adversary, right.take(asked))
        group = np.concatenate([group[in_left], group[in_right]])
        high = np.concatenate([middle[in_left], high[in_right]])
        low = np.concatenate([low[in_left], middle[in_right]])
    group, cells = np.concatenate(leaves, axis=1)
    order = np.lexsort((cells, group))
    return group[order], cells[order]
