"""No model is accused if training reads no label, however wrong its confident predictions are.

Both arms of `tests.no_leak_worlds` are drawn alike (assumption E1), so that the tables of `match`
are hypergeometric, whatever the target says. An audit accuses where its e-value against epsilon 0
reaches the inverse significance, which is no later than a bound above 0. Rates are judged with an
exact binomial test at level 1e-6. An attribute's values are classes to `odds_tally` and `match`, so
what is tested of labels here is tested of attributes.
"""

import functools
import sys
from itertools import product

import numpy as np
import pytest

from privcore.attacks import (
    PaperScore,
    ScoredRecords,
    generator,
    match,
    odds_tally,
    stream_key,
    unit_records,
    unit_tallies,
)
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    Night,
    matched_log_wealth,
    stakes_for,
    window_epsilon_lower,
)
from privcore.lower_bounds.matched import night_log_wealth
from tests.no_leak_worlds import FIRST, PROPERTIES, WRONG
from tests.simulate import PURE, assert_rate_at_most
from tests.support.tiers import tiered

SIGNIFICANCE = 0.05
HASHED = functools.cache(stream_key)


@pytest.fixture(autouse=True)
def _all_audits_name_the_same_persons(monkeypatch):
    monkeypatch.setattr(sys.modules[unit_records.__module__], "stream_key", HASHED)


def labels(world, random):
    return tuple((odds_tally(*arm),) for arm in world.draw(random))


def ten_classes(world, random):
    sizes = world.training, world.control
    return tuple((odds_tally(*world.classes(size, random)),) for size in sizes)


def persons(world, random, *, by_person=True):
    """As many persons of 1 to 5 rows, which differ; or alike rows of persons, dealt one by one."""
    people = world.training + world.control
    person = np.repeat(np.arange(people), random.integers(1, 6, people))
    drawn, row = (person.size, np.arange(person.size)) if by_person else (people, person)
    target, proxy, ones = (part[row] for part in world.arm(drawn, random))
    share = world.training / people
    trained = (person if by_person else random.random(person.size) * people) < share * people
    arms = (
        unit_records(
            ScoredRecords(target[arm], proxy[arm], ones[arm], place), person[arm], unit_key=1
        )
        for place, arm in enumerate((trained, ~trained))
    )
    tallies = unit_tallies(*arms, score=PaperScore(), repetitions=1, key=2).bet_on
    return tallies.odds, tallies.control_odds


def rows_of_persons(world, random):
    """Persons with rows in both arms are matched in neither, so each has few rows."""
    return persons(world, random, by_person=False)


KINDS = {
    "labels": labels,
    "ten classes": ten_classes,
    "persons": persons,
    "rows of persons": rows_of_persons,
}


def beside(kind, world, random, seed):
    """The tables of both arms of one night, matched as their kind is, and the stakes."""
    arms = KINDS[kind](world, random)
    classes = 10 if kind == "ten classes" else 2
    records, control = (sum(one.records for one in arm) for arm in arms)
    stakes = stakes_for(PURE, records=records, control=control, classes=2)
    return match(*arms, random=generator(seed), classes=classes), stakes


def accused(kind, world, random, seed):
    """Return whether one audit's e-value against epsilon 0 reaches the inverse significance."""
    tables, stakes = beside(kind, world, random, seed)
    return matched_log_wealth(tables, 0.0, stakes=stakes) >= -np.log(SIGNIFICANCE)


def night(kind, world, random, seed):
    """Return a night's wealth against epsilon 0 at every point, for windows."""
    tables, stakes = beside(kind, world, random, seed)
    wealth = night_log_wealth(tables, epsilons=np.zeros(1), stakes=stakes)
    return Night(np.repeat(wealth, WINDOW_EPSILONS.size, axis=1), 0.0)


@pytest.mark.parametrize("held", tiered([95, 60, 80, 99], always=1, slow=3))
def test_a_target_that_says_the_truth_is_not_accused(held):
    """The first world, 4,000 training records, N = 60 audits a holdout, seed 31: none accuses.

    Training ordered by sureness and its control by log-odds accused in 37, 13, 33 and 41 of them.
    """
    random = np.random.default_rng(31)
    world = FIRST.of(4_000, held)
    assert sum(accused("labels", world, random, audit) for audit in range(60)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *product(("labels", "ten classes"), WRONG),
        ("persons", "uneven"),
        ("rows of persons", "uneven"),
    ],
)
def test_weeks_and_months_of_a_wrong_target_are_not_accused(kind, name):
    """N = 20 windows of 7 nights, 5 of 28, 20,000 and 2,000 records (persons), seed 33."""
    random = np.random.default_rng(33)
    nights = [night(kind, WRONG[name], random, seed) for seed in range(140)]
    for length in (7, 28):
        starts = range(0, len(nights), length)
        windows = (nights[start : start + length] for start in starts)
        errors = sum(window_epsilon_lower(one, significance=SIGNIFICANCE) > 0.0 for one in windows)
        assert_rate_at_most(errors, len(starts), SIGNIFICANCE)
    assert np.mean([one.log_wealth[0, 0] for one in nights]) < 0.0


def test_a_leak_that_moves_what_the_target_is_wrongly_sure_of_is_proved_larger_than_it_is():
    """The price of E2: randomized response at 0.5, N = 5, 20,000 and 2,000 records, seed 41.

    Memory lifts records of the segment that is right past the cut, where the holdout has those that
    are wrong. Not a bound to be proud of: it says what the assumption is worth.
    """
    random, world = np.random.default_rng(41), WRONG["uneven"]
    for audit in range(5):
        training = odds_tally(*world.arm(20_000, random, epsilon=0.5))
        tables = match([training], [odds_tally(*world.arm(2_000, random))], random=generator(audit))
        staked = stakes_for(PURE, records=20_000, control=20_000, classes=2)
        assert matched_log_wealth(tables, 0.5, stakes=staked) > -np.log(SIGNIFICANCE)


def accusations(name, held, audits, kind="labels"):
    random = np.random.default_rng(34)
    world = PROPERTIES[name].of(4_000, held)
    return sum(accused(kind, world, random, audit) for audit in range(audits))


@pytest.mark.slow
@pytest.mark.parametrize("held", [20, 99, 400])
@pytest.mark.parametrize("name", PROPERTIES)
def test_no_prior_and_no_drift_accuses_anybody(name, held):
    """N = 100 audits a cell, 4,000 training records, seed 34: 18 are too many."""
    assert_rate_at_most(accusations(name, held, 100), 100, SIGNIFICANCE)


@pytest.mark.slow
@pytest.mark.parametrize("held", [20, 400])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "labels"])
@pytest.mark.parametrize("name", [name for name in PROPERTIES if name.startswith("normal")])
def test_no_kind_of_label_and_no_drift_accuses_anybody(name, kind, held):
    """N = 100 audits a cell, 4,000 training records (persons), seed 34."""
    assert_rate_at_most(accusations(name, held, 100, kind), 100, SIGNIFICANCE)
