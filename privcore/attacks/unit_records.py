"""One record for each person: games and predictions with bounds on persons, whatever they repeat.

Records of one person are seldom independent, and a bound that takes them so over-reports. Here each
unit plays with one record, and everything that is valid for independent records is valid again:

    shard -> UnitChoices --+
    shard -> UnitChoices --+--> UnitChoices --> unit_tallies: Tallies whose records are units
    shard -> UnitChoices --+

Which record is bet on is decided once both models are known: the one of which the target says most
beyond the proxy, and beyond what features explain (a student). An owner who knows a rule that looks
at the proxy alone has the target remember the other records; who knows one that does not look at
the student adds records of which the target has learned what is true of all. The game, and all that
asks whether the arms are alike, have a record that the proxy alone decides: through the target's
choice a leak would look like arms that differ.
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.arms import LabelCounts, label_counts
from privcore.attacks.counts import Counts
from privcore.attacks.game import Score, Tally, label_inference
from privcore.attacks.hashing import record_streams, stream_key
from privcore.attacks.odds import FLOOR, OddsTally, odds_tally, unread_odds
from privcore.attacks.tallies import StudentTallies, Tallies
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels, check_pair


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRecords:
    """Some records of one shard, with both models' probabilities.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.
        key: the shard's stream, as in `label_inference`.
        indices: shape (records,), the records' indices in the shard; 0, 1, ... by default.
        group: that all of the shard's records are of: a day's, where several days play.
    """

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.integer]
    key: int
    indices: NDArray[np.integer] | None = None
    group: int = 0

    def of(self, rows: NDArray[np.integer]) -> "ScoredRecords":
        """Return some of the records, by their places."""
        return ScoredRecords(
            self.target.take(rows, axis=0),  # several times as fast as [rows]
            self.proxy.take(rows, axis=0),
            self.labels[rows],
            self.key,
            rows if self.indices is None else self.indices[rows],
            self.group,
        )

    def streams(self) -> NDArray[np.uint64]:
        """Return the records' random streams, shape (records,)."""
        return record_streams(self.labels.size, key=self.key, indices=self.indices)


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


UNREAD = -1
"""Label of a record whose label cannot be read."""
_ROW_GROUPS = 5  # units of 1, 2, up to 4, up to 8, and more rows


@dataclass(frozen=True, slots=True, eq=False)
class UnitRecords(Counts):
    """One record of each unit, by one rule.

    Args:
        streams: shape (units,), ascending; the key of each unit's stream, a hash of audit and unit.
        worth: shape (units,): of a unit's records the rule takes the one that is worth most.
        ranks: shape (units,), a hash of the record, which decides among equals.
        target: shape (units, classes), the audited model's probabilities for that record.
        proxy: shape (units, classes), those of the model that never saw the labels.
        labels: shape (units,), the record's class; `UNREAD` where it cannot be read.
        rows: shape (units,), how many rows the unit has.
        groups: shape (units,), the group that the record is of: its day, where several play.
        near: shape (units,), the proxy's probability of the record's label.
        student: shape (units, 2, classes), what a student expects for that record of the target,
            and of the proxy; (units, 0, classes) without one.
    """

    streams: NDArray[np.uint64]
    worth: NDArray[np.float64]
    ranks: NDArray[np.uint64]
    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    near: NDArray[np.float64]
    student: NDArray[np.float64]

    @classmethod
    def zero(cls, classes: int, *, student: bool = False) -> "UnitRecords":
        """Return the records of no units, the identity of addition."""
        words, chances = np.zeros(0, dtype=np.uint64), np.zeros((0, classes))
        none, numbers = np.zeros(0, dtype=np.int64), np.zeros(0)
        second = np.zeros((0, 2 if student else 0, classes))
        return cls(words, numbers, words, chances, chances, none, none, none, numbers, second)

    def __add__(self, other: "UnitRecords") -> "UnitRecords":
        """Return the records of both sets of units, one each; both belong to one audit."""
        classes = self.proxy.shape[1]
        if classes != other.proxy.shape[1]:
            rule = f"records to add have the same, {classes}"
            raise InvalidInputError("classes", other.proxy.shape[1], rule)
        both = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__slots__
        )
        return UnitRecords(*both).one_each()

    def without(self, other: "UnitRecords") -> "UnitRecords":
        """Return the units that `other` does not hold."""
        return self._some(~np.isin(self.streams, other.streams))

    def unread(self) -> "UnitRecords":
        """Return the units as records whose labels cannot be read, and without a student."""
        return replace(self, labels=np.full_like(self.labels, UNREAD), student=self.student[:, :0])

    def with_unread(self, other: "UnitRecords") -> "UnitRecords":
        """Return the units whatever their labels are; `other` are of rows with unreadable ones."""
        return replace(self, student=self.student[:, :0]) + other

    def by_label(self) -> tuple["UnitRecords", "UnitRecords"]:
        """Return the units whose record's label can be read, and the others."""
        unread = self.labels == UNREAD
        return self._some(~unread), self._some(unread)

    def matched_within(self, groups: int) -> tuple["UnitRecords", ...]:
        """Return the units of 1, 2, up to 4, up to 8, and more rows, of each group."""
        size = np.minimum(np.ceil(np.log2(self.rows)), _ROW_GROUPS - 1).astype(np.int64)
        place = self.groups * _ROW_GROUPS + size
        return tuple(self._some(place == one) for one in range(groups * _ROW_GROUPS))

    def _some(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "UnitRecords":
        return UnitRecords(*(getattr(self, name)[chosen] for name in self.__slots__))

    def one_each(self) -> "UnitRecords":
        """Return every stream's record that is worth most, and the sum of its rows."""
        sorting = np.lexsort((self.ranks, -self.worth, self.streams))
        if not sorting.size:
            return self
        ascending = self.streams[sorting]
        first = np.ones(sorting.size, dtype=np.bool_)
        first[1:] = ascending[1:] != ascending[:-1]
        total = np.add.reduceat(self.rows[sorting], np.flatnonzero(first))
        return replace(self._some(sorting[first]), rows=total)


@dataclass(frozen=True, slots=True)
class UnitChoices(Counts):
    """The records of each unit that play, by either rule; with `zero` a commutative monoid.

    A unit's records may lie in several shards. Each shard sends its best candidates, addition keeps
    the better of two, and when all shards are added, in any order, every unit plays once. Memory is
    32 x classes + 112 bytes a unit, 192 MB for a million people and two classes, and with a student
    32 x classes more. Where that is too much, split the *units* by their stream, in every shard
    alike, and add the tallies of the parts.
    Unlike a tally these are records, under a hashed name: keep them no longer than the audit.

    Attributes:
        doubted: the record of which the proxy is least sure: its most probable label is the least
            probable.
        moved: the record of which the target says most beyond the proxy, and beyond its student.
    """

    doubted: UnitRecords
    moved: UnitRecords

    @classmethod
    def zero(cls, classes: int, *, student: bool = False) -> "UnitChoices":
        """Return the records of no units, the identity of addition."""
        nobody = UnitRecords.zero(classes, student=student)
        return cls(nobody, nobody)

    def without(self, other: "UnitChoices") -> "UnitChoices":
        """Return the units that `other` does not hold, as a control must not hold trained units.

        A person with rows in training and in the holdout is no control: what training learned of
        the one row it may have learned of the other.
        """
        return UnitChoices(self.doubted.without(other.doubted), self.moved.without(other.moved))

    def unread(self) -> "UnitChoices":
        """Return the units as records whose labels cannot be read, and without a student."""
        return UnitChoices(self.doubted.unread(), self.moved.unread())

    def with_unread(self, other: "UnitChoices") -> "UnitChoices":
        """Return the units whatever their labels are; `other` are of rows with unreadable ones."""
        return UnitChoices(
            self.doubted.with_unread(other.doubted), self.moved.with_unread(other.moved)
        )


def unit_records(
    records: ScoredRecords,
    units: NDArray[np.generic],
    *,
    unit_key: int,
    student: Callable[[NDArray[np.uint64]], NDArray[np.float64]] | None = None,
    student_chooses: bool = True,
) -> UnitChoices:
    """Return this shard's candidates of each unit, for a bound on the loss of *all* its labels.

    When all shards of both arms are added, `unit_tallies` plays and predicts.

    *Why it is valid.* Let training be epsilon-DP for replacing all labels of one unit: for every
    output o, and all label vectors y and y' of the unit, p(o | y) <= e^epsilon p(o | y'), the other
    units' labels given. Take the event that the label of record r is z, of prior q. Then
    p(o | event) and p(o | no event) are means of p(o | y) over disjoint sets of y, whatever the
    labels of a unit have to do with each other, so the first is at most e^epsilon times the second,
    and by Bayes' rule P(event | o, other units) <= e^epsilon / (e^epsilon - 1 + 1/q). That holds of
    each output, so it holds of the record that the output itself chooses, and it is what
    `bets_epsilon_lower` asks of a record. One bet per unit, and units that are independent given
    the features: the factors multiply. The choice reads no label, and is the same in both arms.

    With delta above 0 the price of `Stakes` is that of as many sets of labels as can be predicted:
    it grows with the records of a unit, up to delta for each unit. The game's record is chosen
    before the output is seen, and there its price does not grow.

    Assumptions: units are independent given the features, and the proxy is right about the label of
    the chosen record by itself, apart from what a control shows. *Nothing* is assumed of a unit's
    labels among each other: 100 identical labels count as one.

    What it does not say: a unit's labels may lose more together than any of them alone. If each is
    private by itself the bound stays near the loss of one. A bound for a unit is one for a single
    label only where the labels of a unit are independent given the features.

    Args:
        records: of this shard; their streams decide among equals.
        units: shape (records,), whom each record belongs to: integers or non-empty words.
        unit_key: the audit's stream, from `stream_key`, the *same for all shards and arms*.
        student: returns what a student expects of target and proxy, shape (records, 2, classes), of
            all records, given their units' streams.
        student_chooses: whether what it expects of the target is looked at for the choice, too: it
            may depend on no training label, and where a statement is published on none at all.
    """
    target, proxy = check_pair(records.target, records.proxy)
    labels = records.labels
    check_labels(labels, target.shape)
    streams, rows = unit_streams(units, labels.size, key=unit_key)
    said = np.zeros((labels.size, 0, target.shape[1]))
    moved = information_gain(target, proxy)
    if student is not None:
        said = student(streams[rows])
        if student_chooses:
            moved = np.minimum(moved, information_gain(target, said[:, 0]))
    several = UnitRecords(
        streams=streams[rows],
        worth=np.zeros(labels.size),
        ranks=records.streams(),
        target=target,
        proxy=proxy,
        labels=labels.astype(np.int64),
        rows=np.ones(labels.size, dtype=np.int64),
        groups=np.full(labels.size, records.group, dtype=np.int64),
        near=proxy[np.arange(labels.size), labels],
        student=said,
    )
    return UnitChoices(
        *(replace(several, worth=worth).one_each() for worth in (-proxy.max(axis=1), moved))
    )


def information_gain(
    target: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how much the target says of each record beyond another, in nats; shape (records,).

    That is the Kullback-Leibler divergence of its chance of one class from the other's: of the
    class that it raised most, which is bet on. A record of which both are sure says little, however
    far their log-odds are apart, so that owners cannot move such records in place of others unless
    answers become wrong.

    Args:
        target: shape (records, classes), probabilities.
        other: likewise, the proxy's or a student's.
    """
    raised = (target - other).argmax(axis=1)[:, None]
    now, before = (
        np.take_along_axis(one, raised, axis=1)[:, 0].clip(FLOOR, 1.0 - FLOOR)
        for one in (target, other)
    )
    gain = now * np.log(now / before) + (1.0 - now) * np.log((1.0 - now) / (1.0 - before))
    # Machines whose logarithms differ in the last bit choose alike.
    return np.asarray(np.round(gain, 9))


def unit_tallies(
    training: UnitChoices,
    control: UnitChoices,
    *,
    score: Score,
    repetitions: int,
    key: int,
    groups: int = 1,
) -> Tallies:
    """Play the game and count odds with one record per unit, all shards of both arms added.

    Units with rows in both arms are left out of the control, and of both arms' odds: leaving them
    out of one arm alone would match units of few rows with units of many. Odds are in groups of
    units of about as many rows, since a unit of more rows has a less certain one to play with, and
    whose playing record is of the same one of `groups`. So units whose rows all lie in one
    arm stand for each other, where rows are split at random, and all units play where the split is
    by unit. The units' bits depend on `key`, the unit and the repetition alone. All else
    is as in `label_inference` and `odds_tally`; what the tallies prove is stated at `unit_records`.
    Units whose record has an unreadable label are counted as such, and the game takes their label
    for the first class: it must not be used then, but for its number of records.
    """
    seen, unseen = training.doubted, control.doubted.without(training.doubted)

    def game(units: UnitRecords) -> Tally:
        rows = units.target, units.proxy, np.maximum(units.labels, 0)
        return label_inference(
            *rows, score=score, repetitions=repetitions, key=key, indices=units.streams
        )

    counted = _counted(seen, control.doubted, groups)
    return replace(
        counted,
        game=game(seen),
        control_game=game(unseen),
        chosen=_counted(training.moved, control.moved, groups),
    )


def _counted(training: UnitRecords, control: UnitRecords, groups: int) -> Tallies:
    """Return the odds and labels of units that have rows in one arm alone, without a game.

    In place of the game's is the number of records among which they were chosen.
    """

    def candidates(units: UnitRecords) -> Tally:
        return replace(Tally.zero(0), records=int(units.rows.sum()))

    def odds(units: UnitRecords, *, beside: bool = False) -> tuple[OddsTally, ...]:
        return tuple(
            odds_tally(part.target, part.student[:, 0] if beside else part.proxy, part.labels)
            for part in units.matched_within(groups)
        )

    def bare(units: UnitRecords) -> tuple[OddsTally, ...]:
        parts = units.matched_within(groups)
        return tuple(unread_odds(part.target, part.proxy) for part in parts)

    def student(units: UnitRecords) -> StudentTallies | None:
        if not units.student.shape[1]:
            return None
        return StudentTallies(odds(units, beside=True), counted(units, beside=True))

    def counted(units: UnitRecords, *, beside: bool = False) -> LabelCounts:
        parts = (
            label_counts(
                part.proxy,
                part.labels,
                student=part.student[:, 1] if beside else None,
                group=place,
                groups=groups * _ROW_GROUPS,
            )
            for place, part in enumerate(units.matched_within(groups))
        )
        return functools.reduce(operator.add, parts)

    classes = training.proxy.shape[1]
    unseen = control.without(training)
    (alone, unread), (others, control_unread) = (
        units.by_label() for units in (training.without(control), unseen)
    )
    return Tallies(
        candidates(training),
        candidates(unseen),
        odds(alone),
        odds(others),
        classes=classes,
        student=student(alone),
        control_student=student(others),
        labels=counted(alone) if classes > 2 else None,
        control_labels=counted(others) if classes > 2 else None,
        unread=bare(unread),
        control_unread=bare(control_unread),
    )
