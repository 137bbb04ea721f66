"""Tallies of groups of records: one column's values, each with its own game and odds.

A leak in a small group is averaged away in the tallies of all. Groups share the records' streams,
so that their games add up to the first repetitions of the whole game.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.odds import ODDS_CELLS, OddsTally
from privcore.attacks.replays import Deal, replay_groups
from privcore.attacks.tallies import StudentTallies, Tallies
from privcore.attacks.tally import BINS, Tally
from privcore.exceptions import InvalidInputError

REPETITIONS = 10
"""A slice's game is replayed this often at most: its tally is kept for every value."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceTallies:
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

    def __eq__(self, other: object) -> bool:
        """Return whether every count is the same."""
        return (
            isinstance(other, SliceTallies)
            and self.student == other.student
            and self.values == other.values
            and np.array_equal(self.records, other.records)
            and np.array_equal(self.cells, other.cells)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def tallies(self, value: str, *, classes: int) -> Tallies:
        """Return a value's tallies, like those of all, of `classes` classes."""
        index, half = self.values.index(value), _half(self.repetitions, student=self.student)
        first, last = np.searchsorted(self.cells, [index * 2 * half, (index + 1) * 2 * half])
        dense = np.zeros(2 * half, dtype=np.int64)
        dense[self.cells[first:last] - index * 2 * half] = self.counts[first:last]
        (game, odds, student), (control_game, control_odds, control_student) = (
            self._arm(cells, int(records))
            for cells, records in zip(dense.reshape(2, half), self.records[index], strict=True)
        )
        return Tallies(
            game,
            control_game,
            (odds,),
            (control_odds,),
            classes,
            student=student,
            control_student=control_student,
        )

    def within(self, whole: Tallies) -> Tallies:
        """Return the tallies of all records, whose odds are in one group for each value.

        Chance divides the arms whatever the value is: their comparison stays that of `whole`.
        """
        parts = [self.tallies(value, classes=whole.classes) for value in self.values]
        if not parts:
            return whole

        def beside(all_of: StudentTallies | None, *some: StudentTallies | None) -> Any:
            odds = tuple(one for each in some if each is not None for one in each.odds)
            return None if all_of is None else replace(all_of, odds=odds)

        return replace(
            whole,
            odds=tuple(each.odds[0] for each in parts),
            control_odds=tuple(each.control_odds[0] for each in parts),
            student=beside(whole.student, *(each.student for each in parts)),
            control_student=beside(
                whole.control_student, *(each.control_student for each in parts)
            ),
        )

    def _arm(
        self, cells: NDArray[np.int64], records: int
    ) -> tuple[Tally, OddsTally, StudentTallies | None]:
        places = self.repetitions * BINS * 2
        game = cells[:places].reshape(self.repetitions, BINS, 2)
        odds, *others = (
            OddsTally(records, each.reshape(OddsTally.zero().counts.shape))
            for each in cells[places:].reshape(-1, ODDS_CELLS)
        )
        student = StudentTallies(tuple(others), None) if self.student else None
        return Tally(records, game.sum(axis=2), game[:, :, 1].copy()), odds, student


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
