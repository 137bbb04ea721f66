"""Parts of a statement, number by number: tables, figures, and detectable leaks."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from privcore.attacks import Matched, Tallies, holdout_sides, match_everyone
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP
from privcore.lower_bounds.stakes import Stakes, stakes_for
from privcore.publication import PublicStatement, exact_statement, statement
from privcore.publication.noisy_wealth import NoisyWealth, log_wealth
from privcore.publication.premises import premise_bets, premises_log_wealth
from privcore.publication.statement import Bet, chance_right, largest_refuted, least_leak_seen
from tests.privcore.publication.test_statement import claim, tallies_of, world


def two_groups(records: int = 400) -> Tallies:
    """Return tallies of two days, of which the second has twice as many records."""
    one, other = (tallies_of(*world(seed, 2, seed * records)) for seed in (1, 2))
    return replace(
        one,
        game=replace(one.game, records=one.game.records + other.game.records),
        odds=(*one.odds, *other.odds),
        control_odds=(*one.control_odds, *other.control_odds),
    )


def bins_of(tallies: Tallies) -> dict[tuple[int, int], np.ndarray]:
    """Return by group and quarter of log-odds: training and control, other labels and the class."""
    found: dict[tuple[int, int], np.ndarray] = {}
    for arm, side in enumerate((tallies.odds, tallies.control_odds)):
        for group, tally in enumerate(side):
            cells = tally.cells()
            for said, zeros, ones in zip(cells.proxy, cells.zeros, cells.ones, strict=True):
                place = group, math.floor((said + 14.0) * 4.0)
                found.setdefault(place, np.zeros((2, 2), dtype=int))[arm] += (zeros, ones)
    return dict(sorted(found.items()))


def test_the_bets_against_premises_are_these_tables() -> None:
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


def figure(tables: Matched, wealth: float, gap: float) -> int:
    assert tables.records.size
    return math.floor(64.0 * wealth / gap)


def gap_at(tables: Matched, each: float) -> float:
    return 4.0 / math.sqrt(tables.effective + 10.0 / each**2)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_statement_says_these_figures(delta: float) -> None:
    """Two halves of the privacy loss; with delta a stake is held down to 64/65 of its cap."""
    tallies, loss = two_groups(2_000), Fraction(1, 2)
    tested = claim(0.5, family=ApproxDP(), delta=delta)
    made = exact_statement(tallies, claim=tested, epsilon_public=loss)
    tables = match_everyone(tallies.odds, tallies.control_odds)
    assert (made.records, made.control) == (tables.records.sum(), tables.control.sum())
    assert made.significance == 0.05
    stakes = stakes_for(tested, records=tallies.game.records, classes=2, control=made.control)
    gap = gap_at(tables, 0.25)
    if delta:
        assert stakes.log_cap(0.5) * 64 / 65 < gap
        gap = stakes.log_cap(0.5) * 64 / 65
    assert made.evidence == NoisyWealth(
        Fraction(1, 4), pytest.approx(gap, rel=1e-12),
        figure(tables, log_wealth(tables, epsilon=0.5, gap=made.evidence.gap), gap),
        stakes.price(0.5),
    )  # fmt: skip
    bets = premise_bets(tallies)
    gap = gap_at(bets[0], 0.25)
    assert made.premises == NoisyWealth(
        Fraction(1, 4), pytest.approx(gap, rel=1e-12),
        figure(bets[0], premises_log_wealth(bets, made.premises.gap), gap),
    )  # fmt: skip
    test = Bet(stakes, Fraction(1, 4), 0.05)
    assert test.deviation == math.sqrt(2.0) * 65 / 0.25
    right = chance_right(tallies)
    assert made.epsilon_ceiling == largest_refuted(tables, test)
    assert made.epsilon_detectable == least_leak_seen(tables, test, epsilon=0.5, right=right)
    if not delta:
        assert made.epsilon_detectable is not None
    assert statement.DOUBTFUL == 0.1


def test_a_claim_is_refuted_if_its_figure_says_so_and_premises_are_not_doubtful() -> None:
    loud, quiet = (NoisyWealth(Fraction(1, 4), 0.02, by * 10**6) for by in (1, -1))
    for evidence, premises, answer in (
        (loud, quiet, (False, True)),
        (loud, loud, (True, False)),
        (quiet, quiet, (False, False)),
        (quiet, loud, (True, False)),
    ):
        made = PublicStatement(0.05, 10, 10, 1.0, evidence, premises)
        assert (made.doubtful, made.refuted) == answer
        assert made.epsilon_public == Fraction(1, 2)


def test_a_bet_of_so_many_tables_that_rounding_counts_is_refused() -> None:
    """At a loss of 4e-7 one table may move the figure by 0.25 units, three by 0.76."""
    one = Matched(*(np.array([number]) for number in (9, 5, 9, 4)), offset=np.zeros(1))
    three = Matched(*(np.full(3, number) for number in (9, 5, 9, 4)), offset=np.zeros(3))
    loss = Fraction(4, 10**7)
    assert statement.premises_of((one,) * 5, loss).epsilon_public == loss
    with pytest.raises(InvalidInputError, match="rounding could move"):
        statement.premises_of((*(one,) * 4, three), loss)


def some_stakes() -> Stakes:
    return stakes_for(claim(1.0), records=1_000, classes=2, control=300)


TABLES = Matched(
    *(np.array(column) for column in ([300, 41, 7], [1, 2, 3], [101, 20, 4], [50, 7, 1])),
    offset=np.array([0.0, 0.25, 1.5]),
)


def asked(limit: float, seen: list[Matched]) -> Any:
    """A test that refutes declarations up to a limit, and keeps the tables that it was asked."""

    def evidence(tables: Matched, epsilon: float) -> NoisyWealth:
        seen.append(tables)
        return NoisyWealth(Fraction(1), 1.0, int(epsilon <= limit))

    return SimpleNamespace(against=evidence, refutes=lambda wealth: wealth.figure == 1)


@pytest.mark.parametrize("limit", [-0.1, 0.0, 0.004, 0.0153, 1.0, 3.4512, 7.77, 19.99, 25.0])
def test_the_ceiling_is_rounded_down_to_a_hundredth(limit: float) -> None:
    """The bracket is halved to 20/4096; all training predictions are right, half of the others."""
    seen: list[Matched] = []
    found = largest_refuted(TABLES, asked(limit, seen))
    low = math.floor(min(limit, 20.0 - 1e-9) * 4096 / 20.0) * 20.0 / 4096
    assert found == (math.floor(low / 0.01) * 0.01 if limit >= 0.0 else 0.0)
    assert seen[0].right.tolist() == [300, 41, 7]
    assert seen[0].control_right.tolist() == [50, 10, 2]
    assert seen[0].records.tolist() == TABLES.records.tolist()


def leaking(leak: float, right: float, lucky: float) -> tuple[list[int], list[int]]:
    """Return the numbers of right predictions that a leak gives, of training and holdout."""
    effective = sum(n * m / (n + m) for n, m in zip(TABLES.records, TABLES.control, strict=True))
    odds = logit(min(max(right, 0.5), 1.0 - 1e-6))
    odds += leak + lucky / math.sqrt(max(effective * right * (1.0 - right), 1e-9))
    chances = expit(odds + TABLES.offset)
    sums = [
        np.floor(np.cumsum(each)) for each in (TABLES.records * chances, TABLES.control * right)
    ]
    one, other = (np.diff(np.concatenate([[0.0], each])).astype(int).tolist() for each in sums)
    return one, other


@pytest.mark.parametrize(("right", "least"), [(0.5, 340), (0.5, 300), (0.8, 330), (0.3, 320)])
def test_the_least_leak_seen_is_looked_for_by_halves(right: float, least: int) -> None:
    """A figure is 10 for each right record; the labels' and the noise's deviation lower it."""
    tables_asked: list[tuple[list[int], list[int]]] = []

    def evidence(tables: Matched, epsilon: float) -> NoisyWealth:
        assert epsilon == 1.0
        tables_asked.append((tables.right.tolist(), tables.control_right.tolist()))
        return NoisyWealth(Fraction(1), 1.0, 10 * int(tables.right.sum()))

    test: Any = SimpleNamespace(
        against=evidence,
        refutes=lambda wealth: wealth.figure >= 10 * least,
        deviation=45.5,
        stakes=some_stakes(),
    )
    found = least_leak_seen(TABLES, test, epsilon=1.0, right=right)

    expected: list[tuple[list[int], list[int]]] = []

    def seen(leak: float) -> bool:
        expected.extend(leaking(leak, right, lucky) for lucky in (0.0, -1.0))
        most, less = (10 * sum(each[0]) for each in expected[-2:])
        return math.floor(most - math.hypot(most - less, 45.5)) >= 10 * least

    answer = None
    if seen(12.0):
        low, high = 1.0, 12.0
        for _ in range(11):  # 11/2048 is the first below a hundredth
            middle = (low + high) / 2.0
            low, high = (low, middle) if seen(middle) else (middle, high)
        answer = math.ceil(high / 0.01) * 0.01
    assert found == answer
    assert tables_asked == expected


def test_no_tables_see_no_leak() -> None:
    none = Matched(*(np.zeros(0, dtype=np.int64) for _ in range(4)), offset=np.zeros(0))
    always = Bet(some_stakes(), Fraction(1), 1.0)
    assert least_leak_seen(none, always, epsilon=1.0, right=0.5) is None


def test_the_chance_of_a_right_prediction_is_that_of_the_mean_gain() -> None:
    tallies = two_groups()
    gain = records = 0.0
    for tally in tallies.control_odds:
        cells = tally.cells()
        for said, number in zip(cells.proxy, cells.zeros + cells.ones, strict=True):
            chance = 1.0 / (1.0 + math.exp(-said))
            gain, records = gain + number * chance * (1.0 - chance), records + number
    expected = 0.5 + math.sqrt(0.25 - gain / records)
    assert chance_right(tallies) == pytest.approx(expected, rel=1e-12)
    assert expected > 0.7
    assert (
        chance_right(replace(tallies, control_odds=Tallies.zero(repetitions=1, classes=2).odds))
        == 0.5
    )
