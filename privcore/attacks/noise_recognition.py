"""Recognition of noise in a live system's answers: where it is, and what is left of it.

A definition says where noise belongs ("Reconstruction Attacks on Aggressive Relaxations of
Differential Privacy", Lemmas 3.3 and 4.5); what a live system does may be something else. One that
adds none, or rounds it away, is misread by an attack that looks for the claimed one.
"""

from enum import StrEnum

import numpy as np

from privcore.attacks.noise_detection import NOISY, ZERO
from privcore.attacks.query_adversary import Adversary
from privcore.mechanisms.table_columns import Column
from privcore.mechanisms.threshold_queries import Groups, Predicates

_REPETITIONS = 15
_RANGES = 8  # of each column
_WIDEST = 1 << 52


class Noise(StrEnum):
    """Answers of an interface that have noise, as far as some hundred of them show."""

    SOMEWHERE = "somewhere"
    """Some answers have noise, and questions with only one possible answer have none."""
    ROUNDED = "rounded"
    """The same, but every answer is 0 or 1: a noisy one differs from time to time."""
    EVERYWHERE = "everywhere"
    """Even questions with only one possible answer have noise."""
    NOWHERE = "nowhere"
    """Every answer was 0 or 1, and the same whenever it was asked for."""


def recognise_noise(adversary: Adversary) -> Noise:
    """Tell where answers have noise by asking about the border of some counts, again and again.

    The smallest threshold that is answered 0 and the one before it: by Lemma 3.3 at least one of
    the two is noisy for every k >= 1, whatever the count, unless its predicate holds for every
    possible record or for none; by Lemma 4.5 too, unless it holds for every record of the table
    or for none. Each is asked 15 times, in several ranges of every column. Beside them, whether
    more than n of the n records are in that range.

    `NOWHERE` is no proof: noise that is drawn once for each question, remembered and rounded to 0
    or 1 looks the same. A reading that rests on it is to be checked by other questions
    (`confirm_counts`).

    Args:
        adversary: who asks; its rule is `NotZeroOrOne`, its k is 0.

    Raises:
        AuditError: the interface does not answer, refuses, fails, or answers garbage.
    """
    noisy = differing = False
    for index, column in enumerate(adversary.interface.columns):
        ranges = _ranges(index, column)
        all_records = np.full(ranges.size, adversary.records)
        certain = [adversary.signs(ranges, all_records) for _ in range(_REPETITIONS)]
        if np.any(np.array(certain) != ZERO):
            return Noise.EVERYWHERE
        low, high = np.zeros_like(all_records), all_records.copy()
        while np.any(open_ := low < high):
            middle = (low + high)[open_] // 2
            zero = adversary.signs(ranges.take(open_), middle) == ZERO
            high[open_] = np.where(zero, middle, high[open_])
            low[open_] = np.where(zero, low[open_], middle + 1)
        for border in (low - 1, low):
            asked = (border >= 0) & (border < adversary.records)
            if not np.any(asked):
                continue
            some = ranges.take(asked)
            signs = np.array([adversary.signs(some, border[asked]) for _ in range(_REPETITIONS)])
            noisy |= bool(np.any(signs == NOISY))
            differing |= bool(np.any(signs != signs[0]))
    if noisy:
        return Noise.SOMEWHERE
    return Noise.ROUNDED if differing else Noise.NOWHERE


def _ranges(index: int, column: Column) -> Predicates:
    """Return ranges from the column's first cell on, none of them all of its domain."""
    if column.lower is not None and column.upper is not None:
        first = column.lower
        share = np.arange(1, _RANGES + 1) / (_RANGES + 1)
        ends = first + np.ceil(share * (column.upper - first)).astype(np.int64)
        ends = np.unique(ends[ends > first])
    else:
        first = -_WIDEST
        half = 16 ** np.arange(_RANGES // 2, dtype=np.int64)
        ends = np.concatenate([-half[::-1], half])
    low = np.full_like(ends, first)
    return Predicates(Groups.everyone(), np.zeros_like(ends), index, low, ends)
