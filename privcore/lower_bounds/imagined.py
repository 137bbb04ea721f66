"""Tables as another audit would leave them: of another number of records, or of a leaking model.

They are expectations from tonight's tables, and plan an audit. No verdict rests on them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import Matched, OddsTally
from privcore.attacks.pairing import Paired

_MARGIN = 2.0
"""An imagined leak is this many standard errors less lucky than it is on average."""


def resized_tables(
    tables: Sequence[Matched | Paired], *, records: float, held: float
) -> tuple[Matched | Paired, ...]:
    """Return tables as multiples of the training and holdout records would fill them.

    Strata, sides, offsets and shares of right predictions stay.
    """
    return tuple(_resized(one, records, held) for one in tables)


def resized_tally(tally: OddsTally, factor: float) -> OddsTally:
    """Return a tally of `factor` times the records, distributed over its cells alike."""
    counts = _times(tally.counts.ravel(), factor).reshape(tally.counts.shape)
    return OddsTally(int(counts.sum()), counts)


def leaking_tables(
    tables: Sequence[Matched | Paired], epsilon: float
) -> tuple[Matched | Paired, ...]:
    """Return tables as a target would leave them that leaks `epsilon` of every training label.

    A training record's prediction is then right with e^epsilon times the odds that unseen records
    of its table show tonight, less one standard error of their ratio. Pairs show odds of 1.

    Args:
        tables: as matched.
        epsilon: for replacing a label.
    """
    return tuple(_leaking(one, epsilon) for one in tables)


def leaking_right(records: int, epsilon: float) -> int:
    """Return how many of fair pairs a target tells that leaks `epsilon`, less a standard error."""
    chance = float(expit(epsilon))
    error = math.sqrt(records * chance * (1.0 - chance))
    return max(0, math.floor(records * chance - _MARGIN * error))


def _resized(one: Matched | Paired, records: float, held: float) -> Matched | Paired:
    if isinstance(one, Paired):
        return Paired(_times(one.records, held), _times(one.right, held))
    made = np.maximum(_times(one.records, records), 1)
    control = np.maximum(_times(one.control, held), 1)
    return Matched(
        made,
        np.minimum(_times(one.right, records), made),
        control,
        np.minimum(_times(one.control_right, held), control),
        one.offset,
        one.may_win,
    )


def _leaking(one: Matched | Paired, epsilon: float) -> Matched | Paired:
    if isinstance(one, Paired):
        told = [leaking_right(int(records), epsilon) for records in one.records]
        return Paired(one.records, np.array(told, dtype=np.int64))
    if not one.records.size:
        return one
    unseen = (one.control_right + 0.5) / (one.control + 1.0)
    weight = one.records * one.control / (one.records + one.control)
    error = 1.0 / math.sqrt(float(weight @ (unseen * (1.0 - unseen))))
    chance = expit(logit(unseen) + epsilon - _MARGIN * error)
    right = np.diff(np.floor(np.cumsum(one.records * chance)), prepend=0.0).astype(np.int64)
    return replace(one, right=np.minimum(right, one.records))


def _times(counts: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """Return counts times a factor as whole numbers whose running sums are off by less than 1."""
    sums = np.floor(np.cumsum(counts) * factor + 1e-9)
    times: NDArray[np.int64] = np.diff(sums, prepend=0.0).astype(np.int64)
    return times
