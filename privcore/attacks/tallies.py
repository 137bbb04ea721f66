"""Everything that one pass over the records leaves behind, of all and of groups of them.

A leak in a small group is averaged away in the tallies of all. So one column's values have each
their own game and odds. Groups share the records' streams, so that their games add up to the first
repetitions of the whole game.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from privcore.attacks.arms import ArmsComparison, LabelCounts, compare_arms
from privcore.attacks.counts import Counts
from privcore.attacks.game import BINS, Deal, Tally, replay_groups
from privcore.attacks.odds import ODDS_CELLS, OddsTally
from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class StudentTallies:
    """Counts of an arm's records with a student in the proxy's place; they add.

    Attributes:
        odds: in the groups within which records are matched.
        labels: by what the proxy and its student say of each; None of a slice.
    """

    odds: tuple[OddsTally, ...]
    labels: LabelCounts | None

    @classmethod
    def zero(cls, *, groups: int, classes: int) -> "StudentTallies":
        """Return those of no records, the identity of addition."""
        labels = LabelCounts.zero(groups=groups, classes=classes, student=True)
        return cls((OddsTally.zero(),) * groups, labels)

    def __add__(self, other: "StudentTallies") -> "StudentTallies":
        """Return those of both sets of records."""
        return StudentTallies(*map(_added, (self.odds, self.labels), (other.odds, other.labels)))


@dataclass(frozen=True, slots=True)
class Tallies:
    """Counts that one pass leaves behind: game and odds, for training and control records.

    Attributes:
        game: of the training records.
        control_game: of records that were never trained on.
        odds: of the training records, in the groups within which they are matched.
        control_odds: of the control's, in the same groups.
        classes: number of classes.
        student: of the training records, with a student in the proxy's place
            (`privcore.attacks.student`); None where there is none.
        control_student: of the control's.
        labels: with more than two classes, the training records' labels by what the proxy says of
            each; None with two, of which the odds say it.
        control_labels: of the control's.
        unread: of training records whose label cannot be read, in the groups of `odds`; the label
            counts as another one. They are in no other tally. Empty where they are not counted.
        control_unread: of the control's.
        chosen: of privacy units, the tallies of the records that the target chose, which are bet on
            (`privcore.attacks.unit_records`): its games were not played, and their numbers of
            records are of those among which it chose. None where every record plays.
    """

    game: Tally
    control_game: Tally
    odds: tuple[OddsTally, ...]
    control_odds: tuple[OddsTally, ...]
    classes: int
    student: StudentTallies | None = None
    control_student: StudentTallies | None = None
    labels: LabelCounts | None = None
    control_labels: LabelCounts | None = None
    unread: tuple[OddsTally, ...] = ()
    control_unread: tuple[OddsTally, ...] = ()
    chosen: "Tallies | None" = None

    @classmethod
    def zero(
        cls, *, repetitions: int, classes: int, groups: int = 1, student: bool = False
    ) -> "Tallies":
        """Return the tallies of no records in this many groups, the identity of addition."""
        game, empty = Tally.zero(repetitions), (OddsTally.zero(),) * groups
        second = StudentTallies.zero(groups=groups, classes=classes) if student else None
        labels = LabelCounts.zero(groups=groups, classes=classes) if classes > 2 else None
        return cls(game, game, empty, empty, classes, second, second, labels, labels)

    def label_counts(self) -> tuple[LabelCounts, LabelCounts]:
        """Return both arms' labels by what the proxy says of them."""
        if self.labels is None or self.control_labels is None:
            return LabelCounts.of_odds(self.odds), LabelCounts.of_odds(self.control_odds)
        return self.labels, self.control_labels

    def compare_arms(self, random: np.random.Generator) -> ArmsComparison:
        """Return whether chance alone divided the arms, by all that was counted (E1)."""
        students = self.student, self.control_student
        one, other = (None if each is None else each.labels for each in students)
        beside = None if one is None or other is None else (one, other)
        return compare_arms(*self.label_counts(), random=random, beside=beside)

    @property
    def bet_on(self) -> "Tallies":
        """The tallies whose odds are bet on."""
        return self if self.chosen is None else self.chosen

    @property
    def choices(self) -> float:
        """Number of training records among which the target chose one that is bet on, on average.

        The choice reads the target, so delta's price grows with it (`privcore.lower_bounds`).
        """
        return self.bet_on.game.records / self.game.records if self.game.records else 1.0

    @property
    def control_choices(self) -> float:
        """The same of the control's records."""
        held = self.control_game.records
        return self.bet_on.control_game.records / held if held else 1.0

    @property
    def unread_records(self) -> int:
        """Number of records of both arms that would be bet on if their label could be read."""
        bets = self.bet_on
        return sum(odds.records for odds in (*bets.unread, *bets.control_unread))

    def with_unread(self) -> "Tallies":
        """Return the tallies with unreadable labels counted as another class, in both arms.

        Bets on the arms' labels read these. Where labels of both arms are as often unreadable,
        chance still divides what is counted.
        """
        return replace(
            self,
            odds=_added(self.odds, self.unread),
            control_odds=_added(self.control_odds, self.control_unread),
            unread=(),
            control_unread=(),
        )

    def __add__(self, other: "Tallies") -> "Tallies":
        """Return the tallies of both sets of records."""
        counts = (name for name in self.__slots__ if name != "classes")
        sums = {name: _added(getattr(self, name), getattr(other, name)) for name in counts}
        return Tallies(classes=self.classes, **sums)


def _added(one: Any, other: Any) -> Any:
    """Return the sum of two counts, or of odds by their groups; () has no records.

    None where one of them was not counted.
    """
    if isinstance(one, tuple) and one and other:
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return None if one is None or other is None else one + other


_BINS, _FEWEST = 10, 100
_UNLIKE = 0.1
"""Share of the records that would have to be elsewhere, from which on it is remarked on."""
_BY_CHANCE = 1e-9


def unlike_arms(tallies: Tallies) -> str:
    """Return that the earlier model tells the arms apart, or "": no label is read.

    Rows of which it is surest, held out, leave nobody to compare others with. Of a holdout that is
    a random part it is equally sure. Of more than two classes that one counts which
    the arms differ most in.
    """
    classes = [
        np.sum(found, axis=0)
        for arms in _by_class(tallies)
        if (found := [each for both in arms if (each := _apart(both)) is not None])
    ]
    told = [
        (moved / records, records, moved)
        for records, moved, surprise, freedom in classes
        if moved >= _UNLIKE * records and chdtrc(freedom, surprise) * len(classes) <= _BY_CHANCE
    ]
    if not told:
        return ""
    _, records, moved = max(told)
    return (
        f"The earlier model answers otherwise of the holdout than of the training records: "
        f"{moved / records:.0%} of these would have to have other answers. So the holdout is not a "
        "random part of the rows, and has few records beside some training records, of which this "
        "bound then says little. Hold out at random."
    )


def _by_class(tallies: Tallies) -> list[list[NDArray[np.float64]]]:
    """Return both arms' records by what the earlier model says of a class, by class and group."""
    labels, control = tallies.labels, tallies.control_labels
    if labels is None or control is None:
        arms = zip(tallies.odds, tallies.control_odds, strict=True)
        both = ([one.counts.sum(axis=(1, 2)) for one in pair] for pair in arms)
        return [[np.stack(pair).astype(float) for pair in both]]
    counts = np.stack([one.counts.sum(axis=-1) for one in (labels, control)]).astype(float)
    return [[*counts[:, :, place].transpose(1, 0, 2)] for place in range(counts.shape[2])]


def _apart(arms: NDArray[np.float64]) -> tuple[float, float, float, int] | None:
    """Return training records, how many of them are elsewhere, and chi-square with its freedom."""
    if arms.sum(axis=1).min() < _FEWEST:
        return None
    places = np.cumsum(arms.sum(axis=0)) / arms.sum()
    bins = np.minimum((places * _BINS).astype(int), _BINS - 1)
    counts = np.stack([np.bincount(bins, arm, minlength=_BINS) for arm in arms])
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    moved = 0.5 * float(np.abs(shares[0] - shares[1]).sum()) * arms[0].sum()
    surprise = float(((counts - expected) ** 2 / expected).sum())
    return float(arms[0].sum()), moved, surprise, counts.shape[1] - 1


REPETITIONS = 10
"""A slice's game is replayed this often at most: its tally is kept for every value."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceTallies(Counts):
    """Sparse tallies of one column's values, both arms; with `zero` a commutative monoid.

    Only occupied cells are kept, so that many values of few records stay small.

    Args:
        values: the values seen, ascending.
        records: shape (values, 2), records that played: training, control.
        cells: shape (cells,), ascending: of which value, arm and place each count is.
        counts: shape (cells,).
        repetitions: how often the game was replayed.
        student: whether odds were counted a second time, with a student in the proxy's place.
    """

    values: tuple[str, ...]
    records: NDArray[np.int64]
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]
    repetitions: int
    student: bool

    @classmethod
    def zero(cls, repetitions: int, *, student: bool = False) -> "SliceTallies":
        """Return the tallies of no records, the identity of addition."""
        none, played = np.zeros(0, dtype=np.int64), min(repetitions, REPETITIONS)
        return cls((), np.zeros((0, 2), dtype=np.int64), none, none, played, student)

    def __add__(self, other: "SliceTallies") -> "SliceTallies":
        """Return the tallies of both sets of records.

        Raises:
            InvalidInputError: only one of them was counted with a student.
        """
        if self.student != other.student:
            raise InvalidInputError("student", other.student, f"it is {self.student} of the other")
        values = tuple(sorted({*self.values, *other.values}))
        place = {value: index for index, value in enumerate(values)}
        records = np.zeros((len(values), 2), dtype=np.int64)
        span = 2 * _half(self.repetitions, student=self.student)
        moved = []
        for part in (self, other):
            places = np.array([place[value] for value in part.values], dtype=np.int64)
            records[places] += part.records
            moved.append(places[part.cells // span] * span + part.cells % span)
        cells, inverse = np.unique(np.concatenate(moved), return_inverse=True)
        counts = np.zeros(cells.size, dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate([self.counts, other.counts]))
        return SliceTallies(values, records, cells, counts, self.repetitions, self.student)

    def tallies(self, value: str, *, classes: int) -> Tallies:
        """Return a value's tallies, like those of all, of `classes` classes."""
        index, half = self.values.index(value), _half(self.repetitions, student=self.student)
        first, last = np.searchsorted(self.cells, [index * 2 * half, (index + 1) * 2 * half])
        dense = np.zeros(2 * half, dtype=np.int64)
        dense[self.cells[first:last] - index * 2 * half] = self.counts[first:last]
        arms = zip(dense.reshape(2, half), self.records[index].tolist(), strict=True)
        games, odds, students = zip(*(self._arm(*arm) for arm in arms), strict=True)
        return Tallies(games[0], games[1], odds[0], odds[1], classes, *students)

    def within(self, whole: Tallies) -> Tallies:
        """Return the tallies of all records, whose odds are in one group for each value.

        Chance divides the arms whatever the value is: their comparison stays that of `whole`.
        """
        parts = [self.tallies(value, classes=whole.classes) for value in self.values]
        if not parts:
            return whole

        def of_each(odds: str, student: str) -> dict[str, Any]:
            all_of, some = getattr(whole, student), (getattr(each, student) for each in parts)
            beside = tuple(one for each in some if each is not None for one in each.odds)
            return {
                odds: tuple(getattr(each, odds)[0] for each in parts),
                student: None if all_of is None else replace(all_of, odds=beside),
            }

        arms = of_each("odds", "student") | of_each("control_odds", "control_student")
        return replace(whole, **arms)

    def _arm(
        self, cells: NDArray[np.int64], records: int
    ) -> tuple[Tally, tuple[OddsTally], StudentTallies | None]:
        places = self.repetitions * BINS * 2
        game = cells[:places].reshape(self.repetitions, BINS, 2)
        odds, *others = (
            OddsTally(records, each.reshape(OddsTally.zero().counts.shape))
            for each in cells[places:].reshape(-1, ODDS_CELLS)
        )
        student = StudentTallies(tuple(others), None) if self.student else None
        return Tally(records, game.sum(axis=2), game[:, :, 1].copy()), (odds,), student


def slice_tallies(
    dealt: Deal,
    references: Sequence[NDArray[np.int64]],
    groups: NDArray[np.integer],
    *,
    values: Sequence[str],
    control: bool,
    repetitions: int,
) -> SliceTallies:
    """Play the game and count both models' odds group by group.

    Args:
        dealt: of all records (`draw_counterfactuals`).
        references: one or two, each of shape (records,): the cell of each record's odds
            (`odds_cells`) against the proxy, and with a student in the proxy's place.
        groups: shape (records,), each record's index into `values`.
        values: of the column, ascending.
        control: whether these are the control's records.
        repetitions: those of the whole game, of which the first `REPETITIONS` are played.
    """
    played, student = min(repetitions, REPETITIONS), len(references) > 1
    half = _half(played, student=student)
    start = half if control else 0
    games = replay_groups(dealt, groups, repetitions=played)
    flat = np.zeros((len(values), played * BINS * 2), dtype=np.int64)
    for row, game in enumerate(games):
        wrong = game.guesses - game.correct
        flat[row] = np.stack([wrong, game.correct], axis=2).ravel()
    group, place = np.nonzero(flat)
    counted = np.concatenate(
        [
            groups * (2 * half) + start + flat.shape[1] + number * ODDS_CELLS + cells
            for number, cells in enumerate(references)
        ]
    )
    occupied, odds_counts = np.unique(counted, return_counts=True)
    cells = np.concatenate([group * (2 * half) + start + place, occupied])
    counts = np.concatenate([flat[group, place], odds_counts])
    ascending = np.argsort(cells)
    records = np.zeros((len(values), 2), dtype=np.int64)
    records[:, int(control)] = np.bincount(groups, minlength=len(values))
    return SliceTallies(
        tuple(values), records, cells[ascending], counts[ascending], played, student
    )


def _half(repetitions: int, *, student: bool) -> int:
    """Cells of one arm of a value: its game, its odds and, with a student, its odds again."""
    return repetitions * BINS * 2 + ODDS_CELLS * (2 if student else 1)
