"""Parts of a pass add, field by field, and a game says what it needs, and what of its parts."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privcore.attacks import SliceTallies, Tallies, UnitChoices, odds_tally
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, PLAN, without_files
from tests.support.persons import units_of
from tests.support.score_tables import tables
from workers.exceptions import NotEvaluableError, Reason
from workers.looks.look import Findings
from workers.looks.training_rows import TrainingRows
from workers.plan import TrainingSampling
from workers.scan.fitted import FittedSegments, FittedStudent
from workers.scan.partial_results import (
    ByGame,
    Game,
    LabelPass,
    PartialResult,
    RowDraw,
    add_slices,
    all_bad,
    of_one_day,
)
from workers.sources.scores.supplied import ScoreSource, SuppliedScores


def game(*, more=None, **changes):
    """Return a game of models whose files lie nowhere; `changes` of the source, `more` of it."""
    return Game(without_files(**changes), **{"plan": PLAN} | (more or {}))


def scores(**changes):
    nowhere: Any = None
    return ScoreSource("ads", DAY, SuppliedScores(tables("scores", **changes)), nowhere)


SUSPICION = 0.5


def student():
    nobody: Any = None
    return FittedStudent(nobody, None, (), (), SUSPICION)


def segments(divisions):
    nobody: Any = None
    return FittedSegments((), (), (nobody,) * (divisions - 1), np.zeros((0, 2)), ())


def planned(**changes):
    return {"plan": PLAN.model_copy(update=changes)}


@dataclass(frozen=True)
class Values:
    """Slices of so many values."""

    values: range

    def __add__(self, other):
        return Values(range(len(self.values) + len(other.values)))


def filled(unit):
    """Return a result in whose every part there is another number."""
    parts: dict[str, Any] = {}
    for place, field in enumerate(dataclasses.fields(PartialResult), start=1):
        parts[field.name] = unit * place
    for name in ("proxy_fits", "units", "unread_units"):
        parts[name] = (parts[name], 100 * parts[name])
    slices = (Values(range(unit)), Values(range(2 * unit)))
    looks = {TrainingRows: TrainingRows(unit)}
    # What was known before the pass is the same of all parts.
    known = {"suspicion": SUSPICION, "draw": RowDraw(70, 9)}
    return PartialResult(**parts | {"slices": slices, "looks": looks} | known)


def added(one, other):
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return {name: one[name] + other[name] for name in one} if isinstance(one, dict) else one + other


def test_every_field_is_the_sum_of_both():
    one, other = filled(1), filled(7)
    found = one + other
    for field in dataclasses.fields(PartialResult):
        a, b = getattr(one, field.name), getattr(other, field.name)
        known = field.name in {"suspicion", "draw"}
        assert getattr(found, field.name) == (a if known else added(a, b)), field.name
    rows = dataclasses.replace(one, units=None, unread_units=None)
    for total in (rows + other, other + rows):
        assert (total.units, total.unread_units) == (None, None)
    games = ByGame({0: one, 1: rows}) + ByGame({2: rows, 0: other})
    assert games == ByGame({0: one + other, 1: rows, 2: rows})


def test_a_column_of_more_than_1000_values_has_no_slices():
    some: Any = Values(range(600))
    few, many = (Values(range(number)) for number in (400, 401))
    assert add_slices(some, few) == Values(range(1000))
    for one, other in ((some, many), (None, few), (few, None)):
        assert add_slices(one, other) is None


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("taught", [False, True])
def test_of_no_records_nothing_is_counted(persons, taught):
    more = {"segments": segments(2), "student": student() if taught else None}
    plan = planned(privacy_unit="person" if persons else None, slices=("city",))
    zero = PartialResult.zero(game(more=more | plan))
    assert zero.tallies == Tallies.zero(repetitions=4, classes=3, groups=2, student=taught)
    assert zero.slices == (SliceTallies.zero(4, student=taught),) * 3
    assert (zero.excluded_records, zero.unread_labels, zero.bad.total) == (0, 0, 0)
    known, unread = UnitChoices.zero(3, student=taught), UnitChoices.zero(3)
    assert zero.units == ((known, known) if persons else None)
    assert zero.unread_units == ((unread, unread) if persons else None)
    assert zero.suspicion == (SUSPICION if taught else None)


@pytest.mark.parametrize(
    ("fatal", "reason", "found"),
    [
        (False, Reason.LABELS_UNREADABLE, False),
        (True, Reason.LABELS_UNREADABLE, True),
        (False, Reason.PROBABILITIES_INVALID, True),
    ],
)
def test_what_a_model_gives_may_not_be_left_out(fatal, reason, found):
    bad = all_bad(game(), ("part", 1, 0), 40, NotEvaluableError(reason, "No."), fatal=fatal).bad
    assert (bad.first, bad.total, bad.reason, bad.fatal) == (("part", 1, 0), 40, reason, found)
    assert not all_bad(game(), ("", 0, 0), 1, NotEvaluableError(Reason.TOO_LARGE, "")).bad.fatal


MEMBERSHIP = planned(secret=Secret.MEMBERSHIP)
PERSONS = planned(privacy_unit="person")


@pytest.mark.parametrize(
    ("asked", "may"),
    [
        (game(), True),
        (game(more=PERSONS), True),
        (game(classes=20), True),
        (game(classes=21), False),
        (game(more=MEMBERSHIP), False),
        (Game(scores(), PLAN), False),
    ],
)
def test_which_games_may_have_a_student(asked, may):
    assert asked.may_have_student is may


def test_a_game_names_each_column_once():
    sampling = TrainingSampling(weight="weight")
    plan = planned(slices=("city", "age"), privacy_unit="person", sampling=sampling)
    asked = game(more=plan | {"segments": segments(3)})
    assert asked.columns == ("label", "split", "age", "city", "person", "weight")
    assert (asked.groupings, game(more=plan).groupings) == (5, 2)
    nothing: Any = None
    shared = LabelPass(nothing, nothing, {0: game(features=("weight", "age")), 1: asked})
    assert shared.columns == ("label", "split", "weight", "age", "city", "person")
    assert shared.of([1]).columns == asked.columns


def test_a_days_odds_stand_at_its_place_and_of_drawn_rows_all_are_counted():
    odds: Any = object()
    before, own, after = of_one_day(odds, 1, 3)
    assert own is odds
    assert (before.records, after.records) == (0, 0)
    part = filled(1)
    assert part.training_rows(5) == 70
    assert dataclasses.replace(part, draw=None).training_rows(5) == 5


def test_what_looks_counted_is_read_with_all_that_is_bad():
    asked = game()
    bad = all_bad(asked, ("part", 1, 0), 40, NotEvaluableError(Reason.TOO_LARGE, "No."))
    part = dataclasses.replace(bad, looks={TrainingRows: TrainingRows(7)})
    found = (part + part).findings(asked.source, PLAN)
    looks: Any = {TrainingRows: TrainingRows(14)}
    assert found == Findings(asked.source, PLAN, looks, 80)


def odds(records):
    chances = np.full((records, 2), 0.5)
    return odds_tally(chances, chances, np.zeros(records, dtype=np.int64))


def test_in_public_unreadable_labels_are_counted_as_records():
    zero = PartialResult.zero(game(more=PERSONS))
    games = (dataclasses.replace(zero.tallies.game, records=number) for number in (10, 20))
    unread = {"unread": (odds(1), odds(2)), "control_unread": (odds(4), odds(8))}
    tallies = Tallies(*games, (), (), 3, **unread)
    part = dataclasses.replace(zero, tallies=tallies, unread_labels=15)
    public = part.in_public()
    assert (public.tallies.game.records, public.tallies.control_game.records) == (13, 32)
    assert public.units == zero.unread_units
    assert dataclasses.replace(part, units=None, unread_units=None).in_public().units is None
    read = dataclasses.replace(part, unread_labels=0)
    assert read.in_public() is read


def test_pairs_are_made_of_both_arms_odds():
    asked = game(classes=2, more=MEMBERSHIP)
    counted = dataclasses.replace(
        PartialResult.zero(asked).tallies, odds=(odds(30),), control_odds=(odds(20),)
    )
    result = dataclasses.replace(PartialResult.zero(asked), tallies=counted)
    found = asked.tallies(result)
    assert (found.odds[0].records, found.control_odds[0].records) == (30, 20)
    assert found.game.records > 0


def test_persons_of_both_arms_are_counted():
    zero = PartialResult.zero(game(classes=2, more=PERSONS))
    both, alone = units_of([1] * 2), units_of([1], "holdout")
    persons = dataclasses.replace(zero, units=(units_of([1] * 10), both + alone))
    rows = dataclasses.replace(zero, units=None)
    assert [game().units_in_both_splits(one) for one in (persons, rows)] == [2, 0]
    assert game().proxy_fits(rows) == (rows.proxy_fits,)
