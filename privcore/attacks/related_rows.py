"""Rows that belong together: held out together, logged twice, or divided as pairs.

A comparison of single rows takes each as drawn by itself. `workers.looks.rows_alike` says why these
rows are looked for, and where; here is how they are found.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, rel_entr

from privcore.attacks.counts import Counts

_KEPT = 4096
"""The values of a column that are kept: those with the smallest hashes."""
_UNIT = 1 << 20
"""Probabilities are counted in millionths or so, so that sums are the same in every order."""
_CROSSINGS = 30.0
"""The crossings that chance must expect before their absence says anything."""
_ALIKE = 5.0
"""Standard errors by which labels of one value must agree more than labels of different values."""
_NEAR_CROSSING = 0.1
"""Share of the expected crossings that near copies of strangers may give."""
NEAR_DIGITS = (1, 4, 8)
"""Rows whose numbers agree in so many binary digits behind the first are near copies: they differ
by less than a half, 6% and 0.4%."""
_MANTISSA = 52
_DISAGREEMENTS = 20.0
"""The disagreements that chance must expect among twins before their absence says anything."""
_LEAST_SHARE = 0.01
_MOST_ROWS = 4
"""Rows of a value beyond which chance puts nearly every value in both arms."""
_BY_CHANCE = 1e-8
"""Probability of more crossings than are called too many."""

_TRAIN, _HOLDOUT, _LABELS, _RESIDUAL, _SQUARE, _VARIANCE, _VARIANCE_SQUARE = range(7)


@dataclass(frozen=True, slots=True, eq=False)
class ValueSketch(Counts):
    """Sums over the rows of each value, of the values with the smallest hashes; it adds.

    A value among the smallest of a sum is among the smallest of each part that holds it, so what is
    kept of it is whole, whatever the order of addition.

    Attributes:
        hashes: shape (values,), ascending.
        sums: shape (values, 7): training rows, holdout rows, labels of an odd class, residuals of
            these given the proxy, their squares, the proxy's variances, and their squares.
    """

    hashes: NDArray[np.uint64]
    sums: NDArray[np.int64]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> "ValueSketch":
        """Return the sketch of values, which may come again, and what each adds."""
        values, place = np.unique(hashes, return_inverse=True)
        kept = place < _KEPT
        sums = np.zeros((min(values.size, _KEPT), rows.shape[1]), dtype=np.int64)
        np.add.at(sums, place[kept], rows[kept])
        return cls(values[:_KEPT], sums)

    @classmethod
    def zero(cls) -> "ValueSketch":
        """Return the sketch of no rows, the identity of addition."""
        return cls(np.zeros(0, dtype=np.uint64), np.zeros((0, 7), dtype=np.int64))

    def __add__(self, other: "ValueSketch") -> "ValueSketch":
        """Return the sketch of both sets of rows."""
        return ValueSketch.of(
            np.concatenate([self.hashes, other.hashes]), np.concatenate([self.sums, other.sums])
        )

    def crossings(self) -> tuple[int, float]:
        """Return how many values have rows in both arms, and how many chance would expect."""
        _, crossing, expected = self._by_value()
        return int(np.count_nonzero(crossing)), float(expected.sum())

    def too_many_crossings(self) -> tuple[int, int, float] | None:
        """Return values, those that cross the arms, and how many should; None where chance may.

        Only values of 2 to 4 rows are asked, since chance puts larger ones in both arms. If the
        holdout is drawn row by row, a share a of n values crosses in place of an expected share b
        with probability at most exp(-n KL(a, b)) (Hoeffding 1963, theorem 1).
        """
        rows, crossing, expected = self._by_value()
        few = (rows >= 2) & (rows <= _MOST_ROWS)
        values, found = int(few.sum()), int((few & crossing).sum())
        chance = float(expected[few].sum())
        if found <= chance:
            return None
        share, by_chance = found / values, chance / values
        divergence = rel_entr(share, by_chance) + rel_entr(1.0 - share, 1.0 - by_chance)
        certain = values * divergence > -math.log(_BY_CHANCE)
        return (values, found, chance) if certain else None

    def _by_value(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
        """Return of each value its rows, whether it crosses, and with which chance it would."""
        train, holdout = self.sums[:, _TRAIN], self.sums[:, _HOLDOUT]
        rows = train + holdout
        share = holdout.sum() / max(1, rows.sum())
        return rows, train * holdout > 0, 1.0 - (1.0 - share) ** rows - share**rows

    def held_together(self, *, most: float = 0.01) -> bool:
        """Return whether values never cross the arms, although chance would have crossed many.

        Ten values of several rows are asked for in each arm: a column that says which rows were
        held out has few values. Never is at most a share `most` of what chance expects.
        """
        crossing, expected = self.crossings()
        train, holdout = self.sums[:, _TRAIN], self.sums[:, _HOLDOUT]
        enough = min(np.count_nonzero(train > 1), np.count_nonzero(holdout > 1)) >= 10
        return bool(enough and expected >= _CROSSINGS and crossing <= most * expected)

    def crosses(self) -> bool:
        """Return whether values cross the arms at least a quarter as often as chance expects."""
        crossing, expected = self.crossings()
        return bool(expected >= _CROSSINGS and crossing > expected / 4.0)

    def divided_alike(self) -> bool:
        """Return whether values never cross the arms, and labels of one value are alike."""
        return bool(self.held_together() and self.agreement() >= _ALIKE)

    def near_held_together(self) -> tuple[int, float] | None:
        """Return how many near copies cross the arms, and how many should; None where enough do.

        The values are hashes of rows by some digits (`leading_digits`), so rows of strangers may
        share one, and then cross. Labels are not asked: of 20,000 persons of three rows each, whose
        levels differ by a quarter, these did not tell what a target of all levels was accused of.
        *Does not see* rows of one person that no such value joins.
        """
        return self.crossings() if self.held_together(most=_NEAR_CROSSING) else None

    def made_distinct(self, classes: int) -> float | None:
        """Return how many values should come more than `classes` times in an arm that has none.

        It is None where both arms have some, or chance would give fewer than 30. Rows that were
        made distinct, labels among what is distinct, hold a value once a class. If that happened to
        one arm, or to each by itself, labels of equal rows differ between the arms, and an honest
        model that read no label was accused (up to 0.27). Of rows that were made distinct before
        the holdout was drawn, chance expects none. No label is read. Values of one arm alone are
        not asked: they are copies, or were held out together.
        """
        train, holdout = self.sums[:, _TRAIN], self.sums[:, _HOLDOUT]
        share = holdout.sum() / max(1, train.sum() + holdout.sum())
        both = (train > 0) & (holdout > 0)
        rows = np.maximum((train + holdout)[both], classes)
        for arm, chance in ((train[both], 1.0 - share), (holdout[both], share)):
            whole = np.where(rows > classes, chance**rows, 0.0)  # all rows in this arm, which cross
            crossing = 1.0 - chance**rows - (1.0 - chance) ** rows
            more = (bdtrc(classes, rows, chance) - whole) / crossing
            expected = float(more.sum())
            if expected >= _CROSSINGS and np.count_nonzero(arm > classes) <= 0.01 * expected:
                return expected
        return None

    def agreement(self) -> float:
        """Return by how many standard errors labels of one value agree more than of different ones.

        The sum over pairs of rows of one value of the product of their residuals has, given the
        proxy, an expectation of 0 and the sum of the products of their variances as its variance,
        if labels are independent. A bias of the proxy that all rows share is taken out first.
        """
        sums = self.sums / _UNIT
        rows = self.sums[:, _TRAIN] + self.sums[:, _HOLDOUT]
        bias = sums[:, _RESIDUAL].sum() / max(1, rows.sum())
        residual = sums[:, _RESIDUAL] - rows * bias
        square = sums[:, _SQUARE] - 2.0 * bias * sums[:, _RESIDUAL] + rows * bias**2
        products = float(np.sum(residual**2 - square)) / 2.0
        variance = float(np.sum(sums[:, _VARIANCE] ** 2 - sums[:, _VARIANCE_SQUARE])) / 2.0
        return products / np.sqrt(variance) if variance > 0.0 else 0.0

    def repeated(self) -> float:
        """Return the share of rows that come twice to four times; 0 where labels do not agree.

        Rows with the same features are called repeated if they disagree in their labels at most a
        tenth as often as independent labels would by the proxy, where that is often enough:
        fewer than 1 in 10^6 samples of independent labels do so. Features of few values have many
        rows that are alike, and their labels disagree.
        """
        rows = self.sums[:, _TRAIN] + self.sums[:, _HOLDOUT]
        some = (rows >= 2) & (rows <= 4)
        ones = self.sums[some, _LABELS]
        expected = float(np.sum((rows[some] - 1) * self.sums[some, _VARIANCE] / _UNIT))
        disagreeing = int(np.sum(ones * (rows[some] - ones)))
        share = float(rows[some].sum() / max(1, rows.sum()))
        known = expected >= _DISAGREEMENTS and disagreeing <= expected / 10.0
        return share if known and share >= _LEAST_SHARE else 0.0


def distinct_sentence(classes: int, expected: float) -> str:
    """Return that rows of an arm were made distinct, given what `made_distinct` returned."""
    return (
        "Rows of training or of the holdout seem to have been made distinct after the holdout was "
        f"drawn: in one of them no equal rows come more than {classes} times, and a holdout drawn "
        f"row by row would leave {expected:,.0f} that do. Labels of equal rows then differ between "
        "the two, and an honest model could be accused. Make rows distinct before the holdout is "
        "drawn, or not at all."
    )


def leading_digits(numbers: NDArray[np.float64], digits: int) -> NDArray[np.uint64]:
    """Return sign, size and the first binary digits of numbers, of any shape; zero has no sign.

    Args:
        numbers: finite or not.
        digits: behind the first one, 0 to 52.
    """
    kept = ~np.uint64((1 << _MANTISSA - digits) - 1)
    return np.asarray((np.ascontiguousarray(numbers) + 0.0).view(np.uint64) & kept)


def row_sums(
    labels: NDArray[np.int64], train: NDArray[np.bool_], proxy: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return what each row adds to its value in a `ValueSketch`, shape (rows, 7).

    Of several classes it counts whether the label's place is odd; of two that is the label. A row
    whose label cannot be read counts with its arm alone.

    Args:
        labels: shape (rows,), class indices from 0; -1 for one that cannot be read.
        train: shape (rows,), whether training saw the row.
        proxy: shape (rows, classes), the proxy's probabilities.
    """
    read, odd = labels >= 0, labels % 2
    chance = proxy[:, 1::2].sum(axis=1)
    likely = np.rint(np.clip(chance, 0.0, 1.0) * _UNIT).astype(np.int64)
    residual = odd * _UNIT - likely
    variance = likely * (_UNIT - likely) // _UNIT
    of_labels = [odd, residual, residual**2 // _UNIT, variance, variance**2 // _UNIT]
    return np.stack(
        [train, ~train, *(np.where(read, counted, 0) for counted in of_labels)], axis=1
    ).astype(np.int64)


NEARLY = 0.99
"""Share from which on numbers are said to tell both kinds."""


def separation(numbers: NDArray[np.float64], kinds: NDArray[np.bool_]) -> float:
    """Return the share of pairs of both kinds that the numbers order alike, 0.5 to 1.

    It is the area under the ROC curve, or what it lacks to 1. A missing number is less than any
    other.

    Args:
        numbers: shape (records,).
        kinds: shape (records,), of which some are true and some are not.

    >>> separation(np.array([1.0, 2.0, np.nan, 2.0]), np.array([True, True, False, False]))
    0.625
    """
    ordered = np.nan_to_num(numbers, nan=-np.inf)
    first = np.count_nonzero(kinds)
    _, places, alike = np.unique(ordered, return_inverse=True, return_counts=True)
    middle = np.cumsum(alike) - (alike - 1) / 2.0  # the rank of numbers that are the same
    ranks = float(middle[places[kinds]].sum())
    share = (ranks - first * (first + 1) / 2) / (first * (len(kinds) - first))
    return float(max(share, 1.0 - share))
