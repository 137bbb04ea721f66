"""Parts of a pass add, field by field, and a game says what it needs, and what of its parts."""

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from privcore.attacks import SliceTallies, Tallies, UnitChoices
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, PLAN
from tests.support.score_tables import tables
from workers.exceptions import NotEvaluableError, Reason
from workers.looks.look import Findings
from workers.looks.training_rows import TrainingRows
from workers.plan import TrainingSampling
from workers.scan import partial_results
from workers.scan.partial_results import (
    Game,
    LabelPass,
    PartialResult,
    PartialResults,
    RowDraw,
    add_slices,
    all_bad,
    of_one_day,
)
from workers.sources.scores.supplied import ScoreSource, SuppliedScores


def game(*, classes: int = 3, more: dict[str, Any] | None = None, **changes: Any) -> Game:
    """Return a game of models that say chances; `changes` of the source, `more` of the game."""
    known: dict[str, Any] = {
        "model": "ads",
        "label": SimpleNamespace(classes=range(classes)),
        "days": (DAY, DAY),
        "decoys": None,
        "context": ("age",),
        "columns": ("label", "age"),
    }
    source: Any = SimpleNamespace(**known | changes)
    return Game(source, **{"plan": PLAN} | (more or {}))


def planned(**changes: Any) -> dict[str, Any]:
    return {"plan": PLAN.model_copy(update=changes)}


@dataclass(frozen=True)
class Values:
    """Slices of so many values."""

    values: range

    def __add__(self, other: "Values") -> "Values":
        return Values(range(len(self.values) + len(other.values)))


def filled(unit: int) -> PartialResult:
    """Return a result in whose every part there is another number."""
    parts: dict[str, Any] = {}
    for place, field in enumerate(dataclasses.fields(PartialResult), start=1):
        parts[field.name] = unit * place
    for name in ("scores", "proxy_fits", "units", "unread_units"):
        parts[name] = (parts[name], 100 * parts[name])
    slices = (Values(range(unit)), Values(range(2 * unit)))
    looks = {TrainingRows: TrainingRows(unit)}
    return PartialResult(
        **parts | {"slices": slices, "looks": looks, "student": None, "draw": None}
    )


def added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return {name: one[name] + other[name] for name in one} if isinstance(one, dict) else one + other


def test_every_field_is_the_sum_of_both() -> None:
    one, other = filled(1), filled(7)
    found = one + other
    for field in dataclasses.fields(PartialResult):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert getattr(found, field.name) == (None if a is None else added(a, b)), field.name
    rows = dataclasses.replace(one, units=None, unread_units=None)
    for total in (rows + other, other + rows):
        assert (total.units, total.unread_units) == (None, None)
    games = PartialResults((one, rows)) + PartialResults((other, rows))
    assert games == PartialResults((one + other, rows + rows))


def test_a_column_of_more_than_1000_values_has_no_slices() -> None:
    some: Any = Values(range(600))
    few, many = (Values(range(number)) for number in (400, 401))
    assert add_slices(some, few) == Values(range(1000))
    for one, other in ((some, many), (None, few), (few, None)):
        assert add_slices(one, other) is None


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("taught", [False, True])
def test_of_no_records_nothing_is_counted(persons: bool, taught: bool) -> None:
    student = object() if taught else None
    more = {"segments": SimpleNamespace(divisions=2), "student": student}
    plan = planned(privacy_unit="person" if persons else None, slices=("city",))
    zero = PartialResult.zero(game(decoys=object(), more=more | plan))
    assert zero.tallies == Tallies.zero(
        repetitions=4, classes=3, groups=2, decoys=True, student=taught
    )
    assert zero.slices == (SliceTallies.zero(4, student=taught),) * 3
    assert (zero.excluded_records, zero.unread_labels, zero.bad.total) == (0, 0, 0)
    known, unread = UnitChoices.zero(3, student=taught), UnitChoices.zero(3)
    assert zero.units == ((known, known) if persons else None)
    assert zero.unread_units == ((unread, unread) if persons else None)


@pytest.mark.parametrize(
    ("fatal", "reason", "found"),
    [
        (False, Reason.LABELS_UNREADABLE, False),
        (True, Reason.LABELS_UNREADABLE, True),
        (False, Reason.PROBABILITIES_INVALID, True),
    ],
)
def test_what_a_model_gives_may_not_be_left_out(fatal: bool, reason: Reason, found: bool) -> None:
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
        (game(decoys=object()), False),
        (game(context=()), False),
    ],
)
def test_which_games_may_have_a_student(asked: Game, may: bool) -> None:
    assert asked.may_have_student is may


def test_a_game_names_each_column_once() -> None:
    sampling = TrainingSampling(weight="weight")
    plan = planned(slices=("city", "age"), privacy_unit="person", sampling=sampling)
    segments = SimpleNamespace(divisions=3)
    asked = game(more=plan | {"segments": segments})
    assert asked.columns == ("label", "age", "city", "person", "weight")
    assert (asked.groupings, game(more=plan).groupings) == (5, 2)
    nothing: Any = None
    shared = LabelPass(nothing, nothing, (game(columns=("split", "age")), asked))
    assert shared.columns((0, 1)) == ("split", "age", "label", "city", "person", "weight")


def test_a_days_odds_stand_at_its_place() -> None:
    odds: Any = object()
    before, own, after = of_one_day(odds, 1, 3)
    assert own is odds
    assert (before.records, after.records) == (0, 0)


def test_of_drawn_rows_all_training_rows_are_counted() -> None:
    part = filled(1)
    assert part.training_rows(5) == 5
    assert dataclasses.replace(part, draw=RowDraw(70, 9)).training_rows(5) == 70


def test_what_looks_counted_is_read_with_all_that_is_bad() -> None:
    asked = game()
    bad = all_bad(asked, ("part", 1, 0), 40, NotEvaluableError(Reason.TOO_LARGE, "No."))
    part = dataclasses.replace(bad, looks={TrainingRows: TrainingRows(7)})
    found = (part + part).findings(asked.source, PLAN)
    looks: Any = {TrainingRows: TrainingRows(14)}
    assert found == Findings(asked.source, PLAN, looks, 80)


def test_in_public_unreadable_labels_are_counted_as_records() -> None:
    def counted(records: int) -> Any:
        return SimpleNamespace(records=records)

    zero = PartialResult.zero(game(more=PERSONS))
    games = (dataclasses.replace(zero.tallies.game, records=number) for number in (10, 20))
    tallies = Tallies(
        *games, (), (), 3, unread=(counted(1), counted(2)), control_unread=(counted(4), counted(8))
    )
    part = dataclasses.replace(zero, tallies=tallies, unread_labels=15)
    public = part.in_public()
    assert (public.tallies.game.records, public.tallies.control_game.records) == (13, 32)
    assert public.units == zero.unread_units
    assert dataclasses.replace(part, units=None, unread_units=None).in_public().units is None
    read = dataclasses.replace(part, unread_labels=0)
    assert read.in_public() is read


@dataclass(frozen=True)
class Told:
    """Tallies that say whether the mean of models was looked at."""

    decoys: int = 0
    mean: bool = False

    def with_mean_of_models(self) -> "Told":
        return dataclasses.replace(self, mean=True)


@pytest.mark.parametrize("earlier", [0, 1])
def test_what_models_know_is_told_where_they_are_bet_on(
    monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    monkeypatch.setattr(partial_results, "unit_tallies", lambda *_, **__: Told())
    nowhere: Any = None
    supplied = SuppliedScores(tables("scores", earlier=["p_before"] * earlier))
    asked, mean = Game(ScoreSource("ads", DAY, supplied, nowhere), PLAN), bool(earlier)
    rows: Any = SimpleNamespace(units=None, tallies=Told(7))
    assert asked.tallies(rows, DAY) == Told(7, mean)
    persons: Any = SimpleNamespace(units=(1, 2), tallies=Told(7))
    assert asked.tallies(persons, DAY) == Told(7, mean)


def test_pairs_are_made_of_both_arms_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_results, "membership_tallies", lambda *odds, **_: odds)
    odds = SimpleNamespace(odds=("training",), control_odds=("holdout",))
    result: Any = SimpleNamespace(tallies=odds)
    assert game(more=MEMBERSHIP).tallies(result, DAY) == ("training", "holdout")


def test_persons_of_both_arms_are_counted() -> None:
    training = SimpleNamespace()
    left = {id(training): SimpleNamespace(streams=[3])}
    control = SimpleNamespace(streams=[1, 2, 3], without=lambda other: left[id(other)])
    arms = (SimpleNamespace(doubted=arm) for arm in (training, control))
    persons: Any = SimpleNamespace(units=tuple(arms))
    rows: Any = SimpleNamespace(units=None, proxy_fits="as counted")
    assert [game().units_in_both_splits(one) for one in (persons, rows)] == [2, 0]
    assert game().proxy_fits(rows) == ("as counted",)
