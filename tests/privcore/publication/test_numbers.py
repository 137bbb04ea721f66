"""Parts of a statement, number by number: tables, figures, and detectable leaks."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privcore.attacks import Matched, holdout_sides
from privcore.publication import statement
from privcore.publication.noisy_wealth import log_wealth
from privcore.publication.statement import premise_bets, premises_log_wealth
from tests.privcore.publication.test_statement import tallies_of, world
from tests.support.refusals import refused


def two_groups(records=400):
    """Return tallies of two days, of which the second has twice as many records."""
    one, other = (tallies_of(*world(seed, 2, seed * records)) for seed in (1, 2))
    return replace(
        one,
        game=replace(one.game, records=one.game.records + other.game.records),
        odds=(*one.odds, *other.odds),
        control_odds=(*one.control_odds, *other.control_odds),
    )


def bins_of(tallies):
    """Return by group and quarter of log-odds: training and control, other labels and the class."""
    found = {}
    for arm, side in enumerate((tallies.odds, tallies.control_odds)):
        for group, tally in enumerate(side):
            cells = tally.cells()
            for said, zeros, ones in zip(cells.proxy, cells.zeros, cells.ones, strict=True):
                place = group, math.floor((said + 14.0) * 4.0)
                found.setdefault(place, np.zeros((2, 2), dtype=int))[arm] += (zeros, ones)
    return dict(sorted(found.items()))


def test_the_bets_against_premises_are_these_tables():
    """A bin is in the upper half if it, or one below it, holds the median record."""
    tallies = two_groups()
    sure = np.tile([0.0, 1.0], (300, 1))  # in the last bin
    last = tallies_of(sure, sure, np.arange(300) % 2)
    tallies = replace(
        tallies,
        odds=(*tallies.odds, *last.odds),
        control_odds=(*tallies.control_odds, *last.control_odds),
    )
    bins = bins_of(tallies)
    totals = np.zeros(112, dtype=int)
    for (_, place), table in bins.items():
        totals[place] += table.sum()
    assert totals[-1] == 300
    middle = next(p for p in range(112) if totals[: p + 1].sum() >= totals.sum() / 2.0)
    sides = (lambda _: 1, lambda _: 0, lambda p: int(p >= middle), lambda p: int(p < middle))
    bets = premise_bets(tallies)
    assert len(bets) == 5
    both = {place: table for place, table in bins.items() if table.sum(axis=1).all()}
    assert 20 < len(both) < len(bins)
    for bet, side in zip(bets, sides, strict=False):
        counts = [
            (one.sum(), one[side(place)], other.sum(), other[side(place)])
            for (_, place), (one, other) in both.items()
        ]
        made = np.stack([bet.records, bet.right, bet.control, bet.control_right], axis=1)
        assert made.tolist() == np.array(counts).tolist()
        assert not bet.offset.any()
    misled = holdout_sides(tallies.odds, tallies.control_odds)
    assert np.array_equal(bets[4].right, misled.right)
    assert np.array_equal(bets[4].offset, misled.offset)
    wealth = [math.exp(log_wealth(bet, epsilon=0.0, gap=0.3)) for bet in bets]
    for unread in (0, 7):  # the sixth bet: unreadable labels above what is allowed
        expected = math.log((sum(wealth) + math.exp(0.3 * unread)) / 6.0)
        found = premises_log_wealth(bets, 0.3, unread=unread)
        assert found == pytest.approx(expected, abs=1e-9)


def figure(tables, wealth, gap):
    assert tables.records.size
    return math.floor(64.0 * wealth / gap)


def test_a_bet_of_so_many_tables_that_rounding_counts_is_refused():
    """At a loss of 4e-7 one table may move the figure by 0.25 units, three by 0.76."""
    one = Matched(*(np.array([number]) for number in (9, 5, 9, 4)), offset=np.zeros(1))
    three = Matched(*(np.full(3, number) for number in (9, 5, 9, 4)), offset=np.zeros(3))
    loss = Fraction(4, 10**7)
    assert statement.premises_of((one,) * 5, loss).epsilon_public == loss
    refused("rounding could move", statement.premises_of, (*(one,) * 4, three), loss)
