"""Label inference for people instead of records: one bit for all labels of a privacy unit.

A unit's records may lie in several shards. What a shard knows of a unit is a partial sum of scores
per repetition, and these add:

    shard -> UnitScores --+
    shard -> UnitScores --+--> UnitScores --> Tally, in which m is the number of units
    shard -> UnitScores --+

Every shard knows a unit's bit without asking, since it is hashed from the audit's stream, the unit
and the repetition. Sums are whole multiples of 2^-32: floating-point sums would depend on their
order, and the tally on how records were sharded.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.hashing import GOLDEN, coin_words, mix
from privcore.attacks.replays import check_repetitions, tally_of
from privcore.attacks.scored_records import ScoredRecords
from privcore.attacks.scores import Score
from privcore.attacks.streams import stream_key
from privcore.attacks.tally import BINS, Tally, confidence_bins
from privcore.exceptions import InvalidInputError

LARGEST_SCORE = 2.0**11
"""Largest absolute score of one record: a unit's sum holds a million of them."""

_STEP = 2.0**-32
_UNIFORM = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores:
    """Sums of the shown records' scores by unit and repetition; with `zero` a commutative monoid.

    Memory is 8 bytes x units x repetitions, 800 MB for a million people and 100 repetitions. Where
    that is too much, split the *units* (by their stream, in every shard alike) and add the tallies
    of the parts, which are small: a unit must be whole before it becomes a guess.

    Args:
        streams: shape (units,), ascending; the key of each unit's stream, a hash of audit and
            unit in which no identity is left to read.
        sums: shape (units, repetitions), in multiples of 2^-32.
    """

    streams: NDArray[np.uint64]
    sums: NDArray[np.int64]

    @classmethod
    def zero(cls, repetitions: int) -> "UnitScores":
        """Return the scores of no units, the identity of addition."""
        return cls(np.zeros(0, dtype=np.uint64), np.zeros((0, repetitions), dtype=np.int64))

    @property
    def repetitions(self) -> int:
        """Number of times that the game was replayed."""
        return int(self.sums.shape[1])

    def __add__(self, other: "UnitScores") -> "UnitScores":
        """Return the scores of both sets of records, which must belong to one audit."""
        if self.repetitions != other.repetitions:
            rule = f"scores to add have the same, {self.repetitions}"
            raise InvalidInputError("repetitions", other.repetitions, rule)
        streams = np.union1d(self.streams, other.streams)
        sums = np.zeros((streams.size, self.repetitions), dtype=np.int64)
        for part in (self, other):
            sums[np.searchsorted(streams, part.streams)] += part.sums
        return UnitScores(streams, sums)

    def __eq__(self, other: object) -> bool:
        """Return whether every unit and sum is the same."""
        return (
            isinstance(other, UnitScores)
            and np.array_equal(self.streams, other.streams)
            and np.array_equal(self.sums, other.sums)
        )

    __hash__ = None  # type: ignore[assignment]

    def tally(self) -> Tally:
        """Return the tally of one guess per unit, once all shards are added.

        "The labels" where the sum is positive, "the counterfactuals" where it is negative, a fair
        coin at exactly 0; the confidence is the sum's absolute value.
        """
        scores = self.sums.astype(np.float64) * _STEP
        return _tally_guesses(scores, coin_words(self.streams, self.repetitions))


def unit_label_inference(
    records: ScoredRecords,
    units: NDArray[np.generic],
    *,
    score: Score,
    repetitions: int,
    unit_key: int,
    sharing: float = 0.0,
) -> UnitScores:
    """Play the label-inference game with one bit per unit, and return what this shard saw of it.

    "Observational Auditing of Label Privacy" (arXiv:2511.14084), Algorithm 2, with all labels of a
    unit in place of one label: per unit and repetition a fair bit decides whether the adversary is
    shown the unit's labels or a counterfactual for each of them. Its score is the sum of the
    records' scores, which for `LogRatioScore` is the unit's log-likelihood ratio where labels are
    independent.

    `UnitScores.tally` then bounds the epsilon of replacing *all labels of one unit*: at least that
    of replacing one label and, where delta is 0, at most that times the records of the unit.

    Assumptions: units are independent, and given the features a unit's labels have the joint
    distribution that the counterfactuals are drawn from. Each has the proxy's probabilities;
    `sharing` is the chance that a record's draw is the one common to its unit, so 0 says that
    labels of one person are independent given the features, and 1 that one uniform number decides
    them all, through the cumulative probabilities in class order. This is a strong assumption:
    where it fails, real labels agree with each other as counterfactuals do not, which an adversary
    notices without any help of the model, and the bound says nothing about training. Play the same
    game on units that were never trained on to see it. What always holds up is `unit_records`, one
    record per unit: it asks of the proxy each label's own probabilities only.

    Playing `label_inference` on all records as if each were a person's only one is valid too where
    labels of a unit are independent given the features, and proves the loss of one label. Where
    they are not, its guesses are right or wrong together and it over-reports.

    Args:
        records: of this shard; their streams decide their counterfactuals.
        units: shape (records,), whom each record belongs to: integers or non-empty words.
        score: the adversary.
        repetitions: how often the game is replayed with fresh bits and counterfactuals.
        unit_key: the audit's stream, from `stream_key`, the *same for all shards*: it decides the
            units' bits.
        sharing: in [0, 1], fixed before the game, from labels of other days.

    Raises:
        InvalidInputError: as `label_inference`; a unit that is missing, empty, or neither integer
            nor word; sharing outside [0, 1]; a score that is not a number of at most 2,048.
    """
    target, proxy = records.checked_pair()
    check_repetitions(repetitions)
    if not 0.0 <= sharing <= 1.0:
        raise InvalidInputError("sharing", sharing, "a probability lies in [0, 1]")
    streams, rows = unit_streams(units, records.labels.size, key=unit_key)
    sums = _sum_shown(
        _whole_steps(score(target, proxy)),
        records.labels.astype(np.int64),
        np.cumsum(proxy, axis=1),
        rows,
        coin_words(streams, repetitions),
        records.streams(),
        sharing,
    )
    return UnitScores(streams, sums)


def unit_streams(
    units: NDArray[np.generic], records: int, *, key: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the streams of the units, ascending, and which of them each record belongs to.

    Raises:
        InvalidInputError: not one unit per record, or one that is missing, empty, or neither
            integer nor word.
    """
    if units.shape != (records,):
        rule = f"there is one per label, so their shape is {(records,)}"
        raise InvalidInputError("units", units.shape, rule)
    values, rows = np.unique(_known(units), return_inverse=True)
    hashes = np.array([stream_key(key, value) for value in values.tolist()], dtype=np.uint64)
    streams, ranks = np.unique(hashes, return_inverse=True)
    return streams, ranks[rows].astype(np.int64)


def _known(units: NDArray[np.generic]) -> NDArray[np.generic]:
    """The units as an array of integers or of words, none of them missing."""
    if units.dtype.kind in "iu":
        return units
    people = units.tolist()
    for unit in people:
        if unit is None or unit == "" or (isinstance(unit, float) and math.isnan(unit)):
            raise InvalidInputError("units", unit, "every record belongs to a known unit")
    kind = int if people and type(people[0]) is int else str
    for unit in people:
        if type(unit) is not kind:
            rule = "units are integers or words, and all are of one kind"
            raise InvalidInputError("units", unit, rule)
    return np.array(people, dtype=kind)


def _whole_steps(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Scores in multiples of 2^-32."""
    small = np.abs(scores) <= LARGEST_SCORE
    if not np.all(small):
        worst = float(scores[~small][0])
        raise InvalidInputError("score", worst, f"its size is at most {LARGEST_SCORE:.0f}")
    return np.rint(scores / _STEP).astype(np.int64)


@njit(cache=True, inline="always")
def _uniform(word: np.uint64) -> float:
    return np.float64(np.int64(word >> np.uint64(11))) * _UNIFORM


@njit(cache=True, nogil=True)
def _sum_shown(
    scores: NDArray[np.int64],
    labels: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    rows: NDArray[np.int64],
    words: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    sharing: float,
) -> NDArray[np.int64]:
    """Return the sums of the scores of the labels that are shown, in the shape of `words`."""
    records, classes = scores.shape
    sums = np.zeros(words.shape, dtype=np.int64)
    for i in range(records):
        row = rows[i]
        for repetition in range(words.shape[1]):
            unit_word = words[row, repetition]
            shown = labels[i]
            if unit_word & np.uint64(1) == np.uint64(0):
                word = mix(streams[i] + np.uint64(repetition + 1) * GOLDEN)
                # A second mixing, so that what is decided and what is drawn are independent.
                if sharing > 0.0 and _uniform(mix(word + GOLDEN)) < sharing:
                    word = mix(unit_word + GOLDEN)
                uniform = _uniform(word)
                shown = 0
                for label in range(classes - 1):
                    shown += np.int64(uniform >= cumulative[i, label])
            sums[row, repetition] += scores[i, shown]
    return sums


def _tally_guesses(scores: NDArray[np.float64], words: NDArray[np.uint64]) -> Tally:
    """Return the tally of guessing the lowest bit of each word by the sign of its score.

    Both arrays have shape (records, repetitions); at a score of exactly 0 the word's second bit is
    the guess.
    """
    records, repetitions = scores.shape
    counts = np.zeros((BINS * 2, repetitions), dtype=np.uint32)
    _count(confidence_bins(scores).astype(np.int64) * 2 + (scores > 0.0), words, counts)
    return tally_of(records, counts)


@njit(cache=True, inline="always")
def _row(cell: np.int64, word: np.uint64) -> np.int64:
    """Return the row that counts a guess at the word's bit: by its bin, wrong before right."""
    guess = cell & 1
    if cell < 2:
        guess = np.int64(word >> np.uint64(1)) & 1
    return (cell | 1) - (guess ^ np.int64(word & np.uint64(1)))


@njit(cache=True, nogil=True)
def _count(cells: NDArray[np.int64], words: NDArray[np.uint64], counts: NDArray[np.uint32]) -> None:
    """Add every guess to `counts`; `cells` and `words` have shape (records, repetitions).

    A cell is twice the bin of a score, plus whether the guess is 1.
    """
    for i in range(cells.shape[0]):
        for repetition in range(cells.shape[1]):
            counts[_row(cells[i, repetition], words[i, repetition]), repetition] += 1
