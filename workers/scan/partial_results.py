"""Inputs of a pass and its results: all of them add, to the bit."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from privcore.attacks import (
    FidelityTally,
    LabelFit,
    OddsTally,
    PaperScore,
    SliceTallies,
    Tallies,
    UnitChoices,
    fit_of,
    generator,
    membership_tallies,
    stream_key,
    unit_tallies,
)
from privcore.attacks.odds import MOST_GROUPS
from privcore.attacks.student import MOST_CLASSES
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import ContentDigest
from workers.labels.shards import BadRecords, Partition
from workers.lake.layout import Lake
from workers.looks.listed import added
from workers.looks.look import Findings, Looks
from workers.plan import Plan
from workers.scan.fitted import FittedSegments, FittedStudent
from workers.sources.source import Source

MOST_TRAINING, MOST_HOLDOUT = 2_400_000, 1_200_000
"""About how many rows of each arm are drawn."""
MAXIMUM_SLICES = 1000
"""A slice column of more values is a mistake, and would name people."""


def may_be_large(rows: int) -> bool:
    """Return whether lots may have to decide which of so many rows of both arms play."""
    return rows > min(MOST_TRAINING, MOST_HOLDOUT)


@dataclass(frozen=True, slots=True)
class RowDraw:
    """Numbers of the day's rows in both arms, whatever their labels are, and of how many play.

    On a large day lots decide which rows play: an audit of more costs more, and proves hardly more.
    A row's lot follows from its place, from the target, and from all that is read of the rows but
    their labels. So nobody can train otherwise on the rows that play, or lay others where no lot
    falls: that would be another target, or other rows, and all lots would fall anew. No label moves
    a lot (`content` is the digest of the others).
    """

    training: int
    holdout: int
    content: ContentDigest = field(default_factory=ContentDigest)

    def __add__(self, other: "RowDraw") -> "RowDraw":
        """Return the numbers of both sets of rows."""
        return RowDraw(
            self.training + other.training,
            self.holdout + other.holdout,
            self.content + other.content,
        )

    @property
    def large(self) -> bool:
        """True if either arm has more rows than are drawn of it."""
        return self.training > MOST_TRAINING or self.holdout > MOST_HOLDOUT

    @property
    def shares(self) -> tuple[float, float]:
        """The probability by which a row of training, and of the holdout, plays."""
        return (
            MOST_TRAINING / max(self.training, MOST_TRAINING),
            MOST_HOLDOUT / max(self.holdout, MOST_HOLDOUT),
        )

    def sentence(self, training: int, holdout: int) -> str:
        """Say of how many rows those that played, by lot, were drawn."""
        return (
            f"Lots chose {training:,} of the {self.training:,} training rows and {holdout:,} of "
            f"the {self.holdout:,} holdout rows, and these played: more would prove hardly more."
        )


@dataclass(frozen=True, slots=True)
class Game:
    """One audited model: where its night comes from, and the plan that it is audited by.

    Only who asks where a model leaks has `segments`; they are counted behind the plan's slices.
    With a `draw` lots decide which rows play; without one all do.
    """

    source: Source
    plan: Plan
    student: FittedStudent | None = None
    segments: FittedSegments | None = None
    draw: RowDraw | None = None

    @property
    def groupings(self) -> int:
        """The number of divisions of all rows: by the plan's slices, and into segments."""
        segments = 0 if self.segments is None else self.segments.divisions
        return len(self.plan.slices) + bool(self.plan.other_labels) + segments

    @property
    def plan_columns(self) -> tuple[str, ...]:
        """Columns of the label files that the plan needs: slices, privacy units, and weights."""
        sampling = self.plan.sampling
        named = (self.plan.privacy_unit, None if sampling is None else sampling.weight)
        asked = (*self.plan.slices, *self.plan.other_labels)
        return (*asked, *(name for name in named if name is not None))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the game needs of the label files."""
        asked = [*self.source.columns, *self.source.context, *self.plan_columns]
        return tuple(dict.fromkeys(asked))

    @property
    def may_have_student(self) -> bool:
        """True if a student may be fitted: of labels of few classes, with features to look at."""
        classes = len(self.source.label.classes)
        return (
            self.plan.secret is Secret.LABEL
            and classes <= MOST_CLASSES
            and bool(self.source.context)
        )

    @property
    def unit_key(self) -> int:
        """The stream of the audit's privacy units, the same in every shard."""
        return stream_key(*self._names, "units")

    @property
    def _names(self) -> tuple[int, str, str]:
        return self.plan.seed, self.source.model, str(self.source.day)

    def tallies(self, result: "PartialResult") -> Tallies:
        """Return what was scanned, once all shards are added: records, privacy units, or pairs."""
        if self.plan.secret is Secret.MEMBERSHIP:
            return membership_tallies(
                result.tallies.odds[0],
                result.tallies.control_odds[0],
                repetitions=self.plan.repetitions,
                key=stream_key(*self._names, "pairs"),
                random=generator(*self._names, "pairs"),
            )
        if result.units is None:
            return self._within_other_labels(result)
        training, control = result.units
        return unit_tallies(
            training,
            control,
            score=PaperScore(),
            repetitions=self.plan.repetitions,
            key=self.unit_key,
            groups=len(self.source.days),
        )

    def _within_other_labels(self, result: "PartialResult") -> Tallies:
        """Return the tallies of all records, whose odds are in the groups of other labels' values.

        Chance divides the arms whatever other labels say, so their comparison needs no groups.
        """
        tallies = result.tallies
        if not self.plan.other_labels:
            return tallies
        (found,) = result.slices
        if found is None or len(found.values) > MOST_GROUPS:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"The columns of other_labels, {', '.join(map(repr, self.plan.other_labels))}, "
                f"have more than {MOST_GROUPS} values together: name columns of fewer values.",
            )
        return found.within(tallies)

    def units_in_both_splits(self, result: "PartialResult") -> int:
        """Return how many privacy units of the holdout have training rows, and are no control."""
        if result.units is None:
            return 0
        training, control = (arm.doubted for arm in result.units)
        return len(control.streams) - len(control.without(training).streams)

    def proxy_fits(self, result: "PartialResult") -> tuple[tuple[LabelFit, LabelFit], ...]:
        """Return how probable the proxy held labels of training and of control records.

        Persons enter once, and compare with those of as many rows (of more, a less certain one
        plays) and the same day.
        """
        if result.units is None:
            return (result.proxy_fits,)
        training, control = (arm.doubted for arm in result.units)
        arms = (
            arm.matched_within(len(self.source.days))
            for arm in (training, control.without(training))
        )
        return tuple(
            (fit_of(one.near), fit_of(other.near)) for one, other in zip(*arms, strict=True)
        )


@dataclass(frozen=True, slots=True)
class LabelPass:
    """Inputs that all work units of one pass share; Ray puts it once.

    Games keep their number where some of them are read by themselves.
    """

    lake: Lake
    partition: Partition
    games: dict[int, Game]

    def of(self, numbers: Iterable[int]) -> "LabelPass":
        """Return the pass of some games."""
        return dataclasses.replace(self, games={number: self.games[number] for number in numbers})

    @property
    def alone(self) -> tuple["LabelPass", ...]:
        """The pass of each of several games: a column that is damaged is not every game's."""
        return tuple(self.of([number]) for number in self.games) if len(self.games) > 1 else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The union of what the games need: what is read."""
        return tuple(dict.fromkeys(name for game in self.games.values() for name in game.columns))


@dataclass(frozen=True, slots=True)
class PartialResult:
    """Counts of some records, or all of them, in one game, and what looks saw; it adds as these do.

    Attributes:
        tallies: the game, and labels by lift; of no records where privacy units play.
        fidelity: of the holdout records.
        slices: one for every slice column of the plan, None once it has too many values, and for
            every division into segments.
        excluded_records: rows of neither split.
        bad: records that could not take part.
        content: digest of the bytes that were read.
        proxy_fits: how probable the proxy held the labels of training and of control records;
            of none where privacy units play, and where a manifest says that the proxy is earlier.
        units: of training and of control, the records of each privacy unit that play once all
            shards are added; None where each record is its own unit.
        unread_labels: number of bad records whose label alone cannot be read (`Players`).
        unread_units: candidates of each privacy unit among training and holdout rows with
            unreadable labels, which play in public alone; None where each record is its own unit.
        looks: what looks counted (`workers.looks.listed.LOOKS`).
        suspicion: of the game's student, fitted before the pass; None where there is none.
        draw: of how many rows lots chose those that played; likewise.
    """

    tallies: Tallies
    fidelity: FidelityTally
    slices: tuple[SliceTallies | None, ...]
    excluded_records: int
    bad: BadRecords
    content: ContentDigest
    proxy_fits: tuple[LabelFit, LabelFit] = (LabelFit(), LabelFit())
    units: tuple[UnitChoices, UnitChoices] | None = None
    unread_labels: int = 0
    unread_units: tuple[UnitChoices, UnitChoices] | None = None
    looks: Looks = field(default_factory=dict)
    suspicion: float | None = None
    draw: RowDraw | None = None

    @classmethod
    def zero(cls, game: Game) -> "PartialResult":
        """Return the result of no records, the identity of addition."""
        repetitions, classes = game.plan.repetitions, len(game.source.label.classes)
        nobody = UnitChoices.zero(classes, student=game.student is not None)
        unknown = UnitChoices.zero(classes)
        return cls(
            Tallies.zero(
                repetitions=repetitions,
                classes=classes,
                groups=len(game.source.days),
                student=game.student is not None,
            ),
            FidelityTally.zero(),
            tuple(
                SliceTallies.zero(repetitions, student=game.student is not None)
                for _ in range(game.groupings)
            ),
            0,
            BadRecords.none(),
            ContentDigest(),
            units=None if game.plan.privacy_unit is None else (nobody, nobody),
            unread_units=None if game.plan.privacy_unit is None else (unknown, unknown),
            suspicion=None if game.student is None else game.student.suspicion,
            draw=game.draw,
        )

    def __add__(self, other: "PartialResult") -> "PartialResult":
        """Return the result of both sets of records."""
        return PartialResult(
            self.tallies + other.tallies,
            self.fidelity + other.fidelity,
            tuple(map(add_slices, self.slices, other.slices)),
            self.excluded_records + other.excluded_records,
            self.bad + other.bad,
            self.content + other.content,
            (self.proxy_fits[0] + other.proxy_fits[0], self.proxy_fits[1] + other.proxy_fits[1]),
            add_units(self.units, other.units),
            self.unread_labels + other.unread_labels,
            add_units(self.unread_units, other.unread_units),
            added(self.looks, other.looks),
            self.suspicion,
            self.draw,
        )

    def beside(self, left_out: BadRecords) -> "PartialResult":
        """Return the result with records that were left out before anything was scanned."""
        return dataclasses.replace(self, bad=self.bad + left_out)

    def findings(self, source: Source, plan: Plan) -> Findings:
        """Return what looks counted, to be read once all is added."""
        return Findings(source, plan, self.looks, self.bad.total)

    def training_rows(self, played: int) -> int:
        """Return the day's training rows, of which so many played."""
        return played if self.draw is None else self.draw.training

    def in_public(self) -> "PartialResult":
        """Return the result as the public sees it: no record is left out for its label.

        Records whose label cannot be read are counted as `unread`, and in the games' numbers of
        records, which alone may be used of the games.
        """
        if not self.unread_labels:
            return self
        units = None
        if self.units is not None and self.unread_units is not None:
            training, control = map(UnitChoices.with_unread, self.units, self.unread_units)
            units = training, control
        arms = (
            (self.tallies.game, self.tallies.unread),
            (self.tallies.control_game, self.tallies.control_unread),
        )
        game, control_game = (
            dataclasses.replace(tally, records=tally.records + sum(one.records for one in odds))
            for tally, odds in arms
        )
        tallies = dataclasses.replace(self.tallies, game=game, control_game=control_game)
        return dataclasses.replace(self, tallies=tallies, units=units)


Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class ByGame(Generic[Part]):
    """Something of each game of a pass, by its number; it adds as these do."""

    parts: dict[int, Part]

    def __add__(self, other: "ByGame[Part]") -> "ByGame[Part]":
        """Return what both have of each game."""
        return ByGame(added(self.parts, other.parts))


def of_one_day(odds: OddsTally, day: int, days: int) -> tuple[OddsTally, ...]:
    """Return one day's tally among those of all days: records are matched within their day."""
    return tuple(odds if place == day else OddsTally.zero() for place in range(days))


def add_slices(one: SliceTallies | None, other: SliceTallies | None) -> SliceTallies | None:
    """Return the sum of one column's slices; None once it has too many values."""
    if one is None or other is None:
        return None
    both = one + other
    return both if len(both.values) <= MAXIMUM_SLICES else None


def add_units(
    one: tuple[UnitChoices, UnitChoices] | None, other: tuple[UnitChoices, UnitChoices] | None
) -> tuple[UnitChoices, UnitChoices] | None:
    """Return the sum of both arms' units; None where the plan names none."""
    if one is None or other is None:
        return None
    return one[0] + other[0], one[1] + other[1]


def all_bad(
    game: Game,
    place: tuple[str, int, int],
    rows: int,
    error: NotEvaluableError,
    *,
    fatal: bool = False,
) -> PartialResult:
    """Return that all of a shard is bad; a model's own fault is nothing that could be left out."""
    fatal = fatal or error.reason is Reason.PROBABILITIES_INVALID
    bad = BadRecords.at(place, rows, error.reason, error.sentence, fatal=fatal)
    return dataclasses.replace(PartialResult.zero(game), bad=bad)
