"""Columns that know the coins of a mechanism on labels, and columns that it reads.

A mechanism may keep the right share of labels and choose which by something that others know: a
hash of the record's name, the hour, the coin of the row before. `chosen_guesses` searches a
column whose values tell kept labels from changed ones, on half of the rows, and guesses on the
other half (the test `column` of `released_labels`). A mechanism may also keep its guarantee in
every row and read a column that nobody named, so that the pooled rows break it: then nothing is
proved, and `reads_more` says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.lower_bounds.released_labels import Counts, Declared, Floats, Guesses, best_rate

BINS = 1024
"""Values of a column that is searched, at most; halves of it are 128, 16 and 2 as well."""
_WIDTHS = (1, 8, 64, 512)
_READ_WIDTHS = (8, 64)
_CUTS = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5])
"""Shares of rows below a segment's end; above the middle alike, so that few rows stand apart."""
_TABLES, _LEVEL = 1999, 0.001
_MOST_CELLS = 256
_CELL_ROWS = 20
_KEPT, _OTHER, _ELSE = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class SearchedRows:
    """Rows in which columns are searched, one for each record.

    Attributes:
        stratum: shape (rows,), from 0 up.
        true: shape (rows,), classes from 0 up.
        released: shape (rows,), the released class; -1 where the value is none.
        columns: by name, values from 0 to `BINS` - 1 that were known before the coins.
        orders: by name, the rows' places in an order in which neighbours may share a coin.
        learning: shape (rows,), which half is searched; chosen at random.
    """

    stratum: Counts
    true: Counts
    released: Counts
    columns: Mapping[str, NDArray[np.integer]]
    orders: Mapping[str, Counts]
    learning: NDArray[np.bool_]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.true.max(initial=1)) + 1

    @property
    def outcome(self) -> Counts:
        """Whether each label was kept, is the other one of two, or neither."""
        other = _OTHER if self.classes == 2 else _ELSE
        answer = np.where(self.released >= 0, other, _ELSE)
        return np.where(self.released == self.true, _KEPT, answer)

    def searched(self) -> dict[str, NDArray[np.integer]]:
        """Return every column that is searched: those of the table, and coins of neighbours."""
        coins = {
            name: _neighbours(self.outcome, at, self.learning) for name, at in self.orders.items()
        }
        return {**self.columns, **coins}


def _neighbours(outcome: Counts, order: Counts, learning: NDArray[np.bool_]) -> Counts:
    """Return the outcomes of the nearest learning rows before and after each row, as one value."""
    known = learning[order]
    places = np.arange(len(order))
    before = np.maximum.accumulate(np.where(known, places, -1))
    after = np.minimum.accumulate(np.where(known, places, len(order))[::-1])[::-1]
    # A row is no neighbour of its own.
    before, after = np.append(-1, before[:-1]), np.append(after[1:], len(order))
    padded = np.append(outcome[order], _ELSE)
    value = np.empty(len(order), dtype=np.int64)
    value[order] = 3 * padded[before] + padded[np.minimum(after, len(order))]
    return value


def chosen_guesses(rows: SearchedRows, declared: Declared) -> tuple[str, Guesses]:
    """Return the most telling column, and guesses by it at the rows that were not searched.

    On the learning half every column is cut into 1024, 128, 16 and 2 ranges of its values. In each
    range the guess is the released value, with two classes also the other one, or none: whichever
    gains most against B in Kullback and Leibler's divergence, less what a range of chance would
    gain. The column and cut with the largest sum are used on the other half. Each kind of guess is
    a stratum of its own for B, because g may differ between strata alone: else a column that
    predicts the label would make right guesses of a mechanism that says nothing.
    """
    share = np.bincount(rows.true, minlength=rows.classes)
    even = np.where(share > 0, 1, 0)
    limit = float(best_rate(even, epsilon=declared.epsilon, delta=declared.delta))
    outcome, best = rows.outcome, (-1.0, "", 1, np.zeros(1, dtype=np.int64))
    for name, value in rows.searched().items():
        counted = np.bincount(
            ((value * rows.classes + rows.true) * 3 + outcome)[rows.learning],
            minlength=BINS * rows.classes * 3,
        ).reshape(BINS, rows.classes, 3)
        for width in _WIDTHS:
            actions, gain = _actions(counted.reshape(-1, width, rows.classes, 3).sum(axis=1), limit)
            if gain > best[0]:
                best = gain, name, width, actions
    _, name, width, actions = best
    if not name:
        return "", Guesses(*np.zeros((2, 1, rows.classes), dtype=np.int64))
    return name, _guesses(rows, outcome, actions[rows.searched()[name] // width])


def _actions(counted: Counts, limit: float) -> tuple[Counts, float]:
    """Return what to guess in each range, shape (ranges,): kept, other or none; and the gain.

    Rates are means over classes, since thinning makes these alike. A class of few rows is taken to
    be at the limit.
    """
    rows = counted.sum(axis=2)
    weight = rows.shape[1] ** 2 / (1.0 / (rows + 1.0)).sum(axis=1)
    rate = (counted[:, :, :_ELSE] + limit) / (rows + 1.0)[:, :, None]
    mean = np.clip(rate.mean(axis=1), 1e-9, 1.0 - 1e-9)
    apart = mean * np.log(mean / limit) + (1.0 - mean) * np.log((1.0 - mean) / (1.0 - limit))
    gains = np.where(mean > limit, weight[:, None] * apart, 0.0)
    gains -= np.log(weight + 1.0)[:, None] / 2.0 + np.log(2.0)
    actions = np.where(gains.max(axis=1) > 0.0, gains.argmax(axis=1), _ELSE)
    return actions, float(np.maximum(gains.max(axis=1), 0.0).sum())


def _guesses(rows: SearchedRows, outcome: Counts, action: Counts) -> Guesses:
    """Return guesses at the half that was not searched; each kind of guess has its own strata."""
    used = ~rows.learning & (action != _ELSE)
    cell = ((rows.stratum * 2 + action) * rows.classes + rows.true)[used]
    shape = (2 * (int(rows.stratum.max(initial=0)) + 1), rows.classes)
    made = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    right = cell[(outcome == action)[used]]
    return Guesses(made, np.bincount(right, minlength=shape[0] * shape[1]).reshape(shape))


def reads_more(rows: SearchedRows, inputs: Sequence[str], *, seed: int) -> str | None:
    """Return the column that the mechanism most probably reads, besides the strata; None if none.

    Each row of the learning half gives how much more often labels with its values were changed than
    others of its class and stratum; columns in which that is no more than chance are left out. On
    the other half rows are sorted by the sum, cut into 16 segments, and changed labels are held
    against segments within each class and stratum. If the mechanism reads none of the columns,
    every division of the changed labels among the segments is as likely as any other one. So the
    share of 1,999 random tables with the same margins that tell at least as much is an exact
    p-value, whatever the rows' numbers are. It is judged at 0.001.

    Args:
        rows: what was searched.
        inputs: the columns that a mechanism may read. Names of records, time and coins of others
            are none: a mechanism that reads them is broken.
        seed: of the random tables.
    """
    changed = (rows.outcome != _KEPT).astype(np.int64)
    cell = rows.stratum * rows.classes + rows.true
    learning, cells = rows.learning, int(cell.max(initial=0)) + 1
    known = np.bincount(cell[learning], minlength=cells)
    share = (np.bincount(cell[learning], changed[learning], cells) + 0.5) / (known + 1.0)
    score, most = np.zeros(len(changed)), (0.0, "")
    for name in inputs:
        effect, telling = max(
            (
                _effect(
                    rows.columns[name] // width * rows.classes + rows.true,
                    (changed - share[cell]) * learning,
                    (share * (1.0 - share))[cell] * learning,
                )
                for width in _READ_WIDTHS
            ),
            key=lambda found: found[1],
        )
        if telling > 2.0:
            score += effect
            most = max(most, (telling, name))
    if not most[1]:
        return None
    random = np.random.default_rng(seed)
    return most[1] if _pvalue(score, changed, cell, ~learning, random) <= _LEVEL else None


def _effect(value: Counts, residual: Floats, variance: Floats) -> tuple[Floats, float]:
    """Return what each row's value adds to its score, and by how many errors all exceed chance."""
    summed, noise = np.bincount(value, residual), np.bincount(value, variance)
    seen = noise > 0.0
    squares = np.where(seen, summed**2 / np.where(seen, noise, 1.0), 0.0)
    telling = (squares.sum() - seen.sum()) / np.sqrt(2.0 * max(seen.sum(), 1))
    return (summed / (noise + 1.0))[value], float(telling)


def _pvalue(
    score: Floats,
    changed: Counts,
    cell: Counts,
    tested: NDArray[np.bool_],
    random: np.random.Generator,
) -> float:
    """Return the share of tables with the same margins that tell at least as much."""
    cuts = np.unique(np.quantile(score[tested], np.append(_CUTS, 1.0 - _CUTS[:-1])))
    segment = np.searchsorted(cuts, score, side="right")
    shape = (int(cell.max(initial=0)) + 1, len(cuts) + 1)
    place = cell * shape[1] + segment
    rows = np.bincount(place[tested], minlength=shape[0] * shape[1]).reshape(shape)
    hits = np.bincount(place[tested], changed[tested], shape[0] * shape[1]).reshape(shape)
    summed = np.bincount(segment[tested], score[tested], shape[1])
    middle = summed / np.maximum(rows.sum(axis=0), 1)
    largest = np.argsort(-rows.sum(axis=1), kind="stable")[:_MOST_CELLS]
    seen, others = 0.0, np.zeros(_TABLES)
    for one in largest[rows[largest].sum(axis=1) >= _CELL_ROWS]:
        seen += float(hits[one] @ middle)
        drawn = random.multivariate_hypergeometric(
            rows[one], int(hits[one].sum()), size=_TABLES, method="marginals"
        )
        others += drawn @ middle
    # Sums of equal tables may differ in their last digits.
    return float(1 + (others >= seen - 1e-9 * (1.0 + abs(seen))).sum()) / (_TABLES + 1)
