"""The label-inference game: training label or counterfactual?

*Scores* are what the adversary makes of two models' probabilities, for each label it may be shown.
Positive: "this is the training label"; negative: "this is the counterfactual". The absolute value
is the confidence. A score is a fixed function of the two probabilities, chosen before the game.

*A tally* is what a game leaves behind: guesses and correct ones by confidence, per repetition. It
is small, holds no record-level data, and adds: with `Tally.zero` it is a commutative monoid, so one
pass over any amount of data, split in any way, gives the same answer to the bit.

*The inner loop* plays one record, all repetitions at once. A record has few outcomes (its own label
is shown, or one of the counterfactuals), and each of them counts in one cell of the histogram. So
the histogram is held with repetitions side by side, four to a word of 64 bits as their draws are,
and a record adds a row of zeros and ones to the row of each of its cells: whole words, which
compile to vector instructions, where counting one guess at a time would wait for memory at every
step.

*A categorical column* is inferred by the same game, with the column in place of the label.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.counts import Counts
from privcore.attacks.hashing import GOLDEN, REST_BITS, mix, record_streams, rest_of, uniform_of
from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import checked
from privcore.mechanisms.parameter_checks import check_labels, check_pair, check_prior

# A confidence falls into the bin of its leading bits: 16 to an octave, from 2^-26 up to 2^6. Bin 0
# holds the ties (score exactly 0, guessed by a coin); the ends take what lies beyond them.
BINS = 513
_SHIFT = 48
_FIRST = (1023 - 26) << 4


@njit(cache=True, inline="always")
def confidence_bin(score: float) -> int:
    """Bin of one score's absolute value; the score is not NaN."""
    size = abs(score)
    if size == 0.0:
        return 0
    leading = int(np.float64(size).view(np.int64) >> _SHIFT)
    return min(max(leading - _FIRST, 0), BINS - 2) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Tally(Counts):
    """Counts of one arm of the game (training records, or the control's holdout records).

    Args:
        records: records that played, m.
        guesses: shape (repetitions, BINS), guesses made at each confidence; each row sums to m.
        correct: shape (repetitions, BINS), how many of them were right.

    >>> import numpy as np
    >>> from privcore.attacks import membership_inference, stream_key
    >>> parts = [
    ...     membership_inference(np.ones(2), np.zeros(2), repetitions=1, key=stream_key(0, name))
    ...     for name in ("one shard", "another")
    ... ]
    >>> (parts[0] + parts[1]).records
    4
    """

    records: int
    guesses: NDArray[np.int64]
    correct: NDArray[np.int64]

    @classmethod
    def zero(cls, repetitions: int) -> "Tally":
        """Return the tally of no records, the identity of addition."""
        shape = (repetitions, BINS)
        return cls(0, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))

    @property
    def repetitions(self) -> int:
        """Number of times that the game was replayed."""
        return int(self.guesses.shape[0])

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both sets of records."""
        if self.repetitions != other.repetitions:
            rule = f"tallies to add have the same, {self.repetitions}"
            raise InvalidInputError("repetitions", other.repetitions, rule)
        if self.records == 0 or other.records == 0:  # nothing to add, and no arrays to copy
            return self if other.records == 0 else other
        return Tally(
            self.records + other.records, self.guesses + other.guesses, self.correct + other.correct
        )

    def __reduce__(self) -> tuple[Callable[..., "Tally"], tuple[Any, ...]]:
        """Pickle the counts as the narrowest type that holds them: of few records a quarter."""
        most = max(int(self.guesses.max(initial=0)), int(self.correct.max(initial=0)))
        narrow = np.min_scalar_type(most)
        narrowed = self.guesses.astype(narrow), self.correct.astype(narrow)
        return _of_narrow, (self.records, *narrowed)

    def most_confident(
        self, guesses: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return how many of the most confident guesses are right, for exact numbers of guesses.

        Of the bin that the border falls into, the adversary keeps as many guesses as are missing,
        chosen at random: a hypergeometric draw, which is what a legitimate adversary could do.

        Args:
            guesses: shape (fractions,), each from 0 to `records`.
            random: the audit's stream for this draw.

        Returns:
            Shape (repetitions, fractions).

        Raises:
            InvalidInputError: a number of guesses outside 0 to `records`.
        """
        if np.any(guesses < 0) or np.any(guesses > self.records):
            raise InvalidInputError("guesses", guesses, f"each lies in 0 to {self.records}")
        descending = self.guesses[:, ::-1]
        made = np.cumsum(descending, axis=1)
        right = np.cumsum(self.correct[:, ::-1], axis=1)
        border = np.stack([np.searchsorted(row, guesses) for row in made])
        in_bin = np.take_along_axis(descending, border, axis=1)
        right_in_bin = np.take_along_axis(self.correct[:, ::-1], border, axis=1)
        missing = guesses - (np.take_along_axis(made, border, axis=1) - in_bin)
        drawn = random.hypergeometric(right_in_bin, in_bin - right_in_bin, missing)
        above: NDArray[np.int64] = np.take_along_axis(right, border, axis=1) - right_in_bin
        return above + drawn


def _of_narrow(
    records: int, guesses: NDArray[np.unsignedinteger], correct: NDArray[np.unsignedinteger]
) -> Tally:
    """Return the tally of what `Tally` is pickled as."""
    return Tally(records, guesses.astype(np.int64), correct.astype(np.int64))


@dataclass(frozen=True, slots=True)
class PaperScore:
    """`(M(x)[y] - M'(x)[y]) (1 - M'(x)[y])^power`.

    "Observational Auditing of Label Privacy", section 6.2: favours labels that the proxy
    finds unlikely.

    >>> PaperScore()
    PaperScore(power=2.0)
    """

    power: float = 2.0
    name: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        if not 0.0 <= self.power < np.inf:
            raise InvalidInputError("power", self.power, "it is a number of at least 0")

    def __call__(
        self, target: NDArray[np.float64], proxy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score of every label; all three arrays have shape (records, classes)."""
        scores: NDArray[np.float64] = (target - proxy) * (1.0 - proxy) ** self.power
        return scores


@dataclass(frozen=True, slots=True)
class LogRatioScore:
    """`log M(x)[y] - log M'(x)[y]`: the Bayes-optimal order for randomized response.

    There the target's probabilities are the exact posterior given the noisy label, so the ratio is
    the adversary's likelihood ratio. Probabilities are held above `floor`, which bounds the score.

    >>> LogRatioScore()
    LogRatioScore(floor=1e-12)
    """

    floor: float = 1e-12
    name: ClassVar[str] = "log_ratio"

    def __post_init__(self) -> None:
        if not 0.0 < self.floor < 1.0:
            raise InvalidInputError("floor", self.floor, "a floor of probabilities lies in (0, 1)")

    def __call__(
        self, target: NDArray[np.float64], proxy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score of every label; all three arrays have shape (records, classes)."""
        scores: NDArray[np.float64] = np.log(np.maximum(target, self.floor)) - np.log(
            np.maximum(proxy, self.floor)
        )
        return scores


Score = PaperScore | LogRatioScore


TIES = np.uint16(BINS * 2)
"""The cell of scores of exactly 0, until a coin has guessed."""

_AT_ONCE = (1 << 16) - 1  # records that a lane of 16 bits can count

# Lanes of 16 bits: a one in each, all but the highest bit of each, the highest bit of each.
_ONES = np.uint64(0x0001_0001_0001_0001)
_LOW = np.uint64(0x7FFF_7FFF_7FFF_7FFF)
_HIGH = np.uint64(0x8000_8000_8000_8000)
_TOP = np.uint64(15)


@dataclass(frozen=True, slots=True)
class Deal:
    """Outcomes that may be shown of every record, and the chances that choose between them.

    Args:
        outcomes: shape (records, counterfactuals + 1), the cell of every counterfactual and, last,
            of the record's own label: twice the bin of the score, plus 1 where its sign is the
            right guess; `TIES` at a score of exactly 0, which has no sign.
        borders: shape (counterfactuals - 1, records), ascending: where the cumulative probability
            of the counterfactuals, in multiples of 2^-53, passes from one to the next.
        streams: shape (records,), from `record_streams`.
    """

    outcomes: NDArray[np.uint16]
    borders: NDArray[np.uint64]
    streams: NDArray[np.uint64]


def replay(deal: Deal, *, repetitions: int) -> Tally:
    """Play every record `repetitions` times and return the tally."""
    if repetitions < 1:
        raise InvalidInputError("repetitions", repetitions, "the game is played at least once")
    records = deal.streams.size
    counts = np.zeros((TIES, repetitions), dtype=np.int64)
    words = np.zeros((TIES + 1, (repetitions + 3) // 4), dtype=np.uint64)
    for first in range(0, records, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        borders = np.ascontiguousarray(deal.borders[:, some])
        _replay(deal.outcomes[some], borders, deal.streams[some], words)
        counts += words.view("<u2")[:TIES, :repetitions]
        words[:] = 0
    correct = np.ascontiguousarray(counts[1::2].T)  # wrong before right, by bins
    return Tally(records, correct + counts[0::2].T, correct)


def replay_groups(deal: Deal, groups: NDArray[np.integer], *, repetitions: int) -> Iterator[Tally]:
    """Yield the tally of each group, from 0 to the largest: they add up to the whole game's.

    Args:
        deal: of all records.
        groups: shape (records,), each record's group.
        repetitions: how often each record is played.
    """
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(int(groups.max(initial=-1)) + 2))
    for first, last in itertools.pairwise(ends):
        own = order[first:last]
        one = Deal(deal.outcomes[own], deal.borders[:, own], deal.streams[own])
        yield replay(one, repetitions=repetitions)


def outcome_cells(scores: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Return the outcomes of a `Deal` in which every label is also a counterfactual.

    Args:
        scores: shape (records, labels).
        labels: shape (records,), the record's own.
    """
    records, classes = scores.shape
    cells = np.empty((records, classes + 1), dtype=np.uint16)
    if not _outcome_cells(scores, labels.astype(np.int64, copy=False), cells):
        raise InvalidInputError("score", float("nan"), "a score is a number")
    return cells


@njit(cache=True, inline="always")
def _outcome_cell(score: float, own: int) -> np.uint16:
    """Return the cell of one outcome; `own` says that what is shown is the record's own label."""
    if score == 0.0:
        return TIES
    return np.uint16(confidence_bin(score) * 2 + (int(score > 0.0) ^ own ^ 1))


@njit(cache=True, nogil=True)
def _outcome_cells(
    scores: NDArray[np.float64], labels: NDArray[np.int64], cells: NDArray[np.uint16]
) -> bool:
    """Fill in the cells; false where a score is NaN."""
    classes = scores.shape[1]
    for i in range(scores.shape[0]):
        for label in range(classes):
            if np.isnan(scores[i, label]):
                return False
            cells[i, label] = _outcome_cell(scores[i, label], 0)
        cells[i, classes] = _outcome_cell(scores[i, labels[i]], 1)
    return True


@njit(cache=True, nogil=True)
def _replay(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    counts: NDArray[np.uint64],
) -> None:
    """Add every record's outcomes to `counts`, shape (BINS * 2 + 1, words), at most 65,535.

    `left` holds a 1 for each repetition whose outcome is not found yet: those that show the
    record's own label drop out first, then label by label those whose uniform number lies under
    its border, and the last label takes the rest. Ties gather in the last row of `counts`, until
    their coins are flipped.
    """
    words, last = counts.shape[1], borders.shape[0]
    turns = np.arange(1, words + 1).astype(np.uint64) * GOLDEN
    draws = np.empty(words, dtype=np.uint64)
    left = np.empty(words, dtype=np.uint64)
    one = np.uint64(1)
    for i in range(streams.size):
        stream = streams[i]
        for word in range(words):
            draws[word] = mix(stream + turns[word])
        tied = outcomes[i, last] == TIES or outcomes[i, last + 1] == TIES
        row = counts[outcomes[i, last + 1]]
        for word in range(words):
            own = draws[word] & _ONES
            left[word] = own ^ _ONES
            row[word] += own
        for label in range(last):
            tied |= outcomes[i, label] == TIES
            border = borders[label, i]
            high = (border >> REST_BITS) * _ONES
            row = counts[outcomes[i, label]]
            close = np.uint64(0)
            for word in range(words):
                uniform = (draws[word] >> one) & _LOW
                # No lane borrows from the next: its highest bit is set first, and stays where the
                # number is not under the border.
                above = ((uniform | _HIGH) - high) >> _TOP
                hit = left[word] & ~above
                # A lane that equals the border's is 0 here, and its highest bit stays 0.
                close |= left[word] & ~((((uniform ^ high) & _LOW) + _LOW) >> _TOP)
                left[word] ^= hit
                row[word] += hit
            if close:
                _add_close(stream, draws, border, left, row)
        row = counts[outcomes[i, last]]
        for word in range(words):
            row[word] += left[word]
        if tied:
            _flip_coins(stream, draws, counts)


@njit(cache=True, nogil=True)
def _add_close(
    stream: np.uint64,
    draws: NDArray[np.uint64],
    border: np.uint64,
    left: NDArray[np.uint64],
    row: NDArray[np.uint64],
) -> None:
    """Find, by all of its bits, whether a number that begins like the border lies under it."""
    for repetition in range(4 * draws.size):
        word, lane = repetition // 4, np.uint64(16 * (repetition % 4))
        draw = (draws[word] >> lane) & np.uint64(0xFFFF)
        if (
            (left[word] >> lane) & np.uint64(1)
            and draw >> np.uint64(1) == border >> REST_BITS
            and uniform_of(draw, rest_of(stream, repetition)) < border
        ):
            left[word] ^= np.uint64(1) << lane
            row[word] += np.uint64(1) << lane


@njit(cache=True, nogil=True)
def _flip_coins(stream: np.uint64, draws: NDArray[np.uint64], counts: NDArray[np.uint64]) -> None:
    """Count the ties by their coins: right where coin and bit agree."""
    wrong, right, ties = counts[0], counts[1], counts[TIES]
    for repetition in range(4 * draws.size):
        word, lane = repetition // 4, np.uint64(16 * (repetition % 4))
        if (ties[word] >> lane) & np.uint64(1):
            differ = ((draws[word] >> lane) ^ rest_of(stream, repetition)) & np.uint64(1)
            right[word] += (differ ^ np.uint64(1)) << lane
            wrong[word] += differ << lane
    ties[:] = 0


_STEPS = 2.0**53


def label_inference(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    score: Score,
    repetitions: int,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Tally:
    """Play the game on every record, `repetitions` times, and count.

    "Observational Auditing of Label Privacy", Algorithm 2. For each record and repetition a fair
    bit decides whether the adversary is shown the label or a counterfactual drawn from the proxy;
    it guesses "label" where the score is positive, "counterfactual" where it is negative, and by a
    fair coin at exactly 0. Whether it abstains is decided later, from the tally.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.
        score: the adversary.
        repetitions: how often the game is replayed with fresh bits and counterfactuals.
        key: the random stream, from `stream_key`; the bits of a record depend on it, on the
            record's index and on the repetition alone.
        indices: shape (records,), the records' indices in the stream; 0, 1, ... by default.

    Raises:
        InvalidInputError: shapes that differ, probabilities that are NaN, outside [0, 1] or do not
            sum to 1 within 1e-6, a label outside the classes, no repetitions.

    >>> import numpy as np
    >>> from privcore.attacks import LogRatioScore, stream_key
    >>> target, proxy = np.array([[0.1, 0.9], [0.9, 0.1]]), np.full((2, 2), 0.5)
    >>> tally = label_inference(
    ...     target,
    ...     proxy,
    ...     np.array([1, 0]),
    ...     score=LogRatioScore(),
    ...     repetitions=3,
    ...     key=stream_key(0, "game"),
    ... )
    >>> tally.records, tally.guesses.sum(axis=1).tolist()
    (2, [2, 2, 2])
    """
    return replay(
        draw_counterfactuals(target, proxy, labels, score=score, key=key, indices=indices),
        repetitions=repetitions,
    )


def draw_counterfactuals(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    score: Score,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Deal:
    """Return what the game may show of every record: what `replay` takes.

    Args and errors are those of `label_inference`, which deals and replays at once.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    return Deal(
        outcome_cells(score(target, proxy), labels),
        _counterfactual_borders(proxy),
        record_streams(len(labels), key=key, indices=indices),
    )


def _counterfactual_borders(proxy: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return where the proxy's cumulative probabilities pass from one label to the next.

    In multiples of 2^-53, shape (classes - 1, records): a uniform number of 53 bits names the
    counterfactual by how many of them it has reached.
    """
    return np.ceil(np.cumsum(proxy.T[:-1], axis=0) * _STEPS).astype(np.uint64)


def attribute_posterior(
    prior: NDArray[np.float64], likelihood: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the column's distribution given the label, by Bayes' rule; shape (records, values).

    "Observational Auditing of Label Privacy" (Kalemaj et al. 2025, arXiv:2511.14084) for a
    protected attribute other than the label. The adversary knows the rest of a record and its
    label; it is shown the column's value v0 or a counterfactual v1. Without the audited model it
    believes prior(v) proxy(label | v) up to a factor, and v1 is drawn from that; with it, prior(v)
    target(label | v). Give both to `label_inference` as proxy and target.

    The proxy's factor is not a detail: what a value says about a label *in general* is no leak,
    and would look like one if only the target were asked. With a model of the column given the rest
    *and the label* take that model as the proxy, and any belief of the adversary's own as the
    target.

    *Assumes* that, given the rest of the record and the label, the value has the proxy's posterior
    as its distribution, up to a total-variation distance that is the claim's `shift`; that records
    are independent; that prior and proxy never saw these values. Then the tally bounds the epsilon
    of *replacing this column in one record*, which no guarantee for labels speaks of, and which is
    at most that of replacing the record.

    Args:
        prior: shape (values,) or (records, values), rows that sum to 1.
        likelihood: shape (records, values), a model's probability of the record's own label with
            the column set to each value in turn.

    Raises:
        InvalidInputError: probabilities that are NaN or outside [0, 1], a prior that does not sum
            to 1 within 1e-6, shapes that differ, or a record whose label is impossible with every
            value.
    """
    if likelihood.ndim != 2 or likelihood.shape[1] < 2:
        rule = "its shape is (records, values), values >= 2"
        raise InvalidInputError("likelihood", likelihood.shape, rule)
    if prior.shape not in {likelihood.shape, likelihood.shape[1:]}:
        rule = f"its shape is {likelihood.shape} or {likelihood.shape[1:]}"
        raise InvalidInputError("prior", prior.shape, rule)
    check_prior(prior, shape=prior.shape)
    checked("likelihood", likelihood, 0.0, 1.0, "a probability lies in [0, 1]")
    # The largest factor of a row becomes 1 first, so that tiny likelihoods do not underflow.
    possible = np.where(prior > 0.0, likelihood, 0.0)
    largest = possible.max(axis=1, keepdims=True)
    impossible = largest[:, 0] == 0.0
    if np.any(impossible):
        rule = f"the label of record {int(np.argmax(impossible))} is possible with some value"
        raise InvalidInputError("likelihood", 0.0, rule)
    joint = prior * (possible / largest)
    posterior: NDArray[np.float64] = joint / joint.sum(axis=1, keepdims=True)
    return posterior
