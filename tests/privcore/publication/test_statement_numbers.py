"""Figures of a statement, computed as the docstring of `exact_statement` says."""

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from privcore.attacks import Matched, match_everyone
from privcore.guarantees import ApproxDP
from privcore.lower_bounds import Claim
from privcore.lower_bounds.betting import stakes_for
from privcore.publication import NoisyWealth, PublicStatement, exact_statement, publish_statement
from privcore.publication.noisy_wealth import gap_for, log_wealth, with_noise
from privcore.publication.statement import (
    chance_right,
    largest_refuted,
    least_leak_seen,
    premise_bets,
    premises_log_wealth,
)
from tests.privcore.publication.test_statement import UNREAD, claim, tallies_of, world

KEY = bytes(range(32))


@pytest.mark.parametrize("tested", [claim(0.5), claim(0.5, family=ApproxDP(), delta=1e-5)])
def test_figures_are_these(tested: Claim) -> None:
    """The gap is 4/sqrt(N + 10/e^2), or what the stake's cap leaves, and delta has its price."""
    tallies = tallies_of(*world(1, 2, 900))
    exact = exact_statement(tallies, claim=tested, epsilon_public=Fraction(4))
    tables = match_everyone(tallies.odds, tallies.control_odds)
    records, held = int(tables.records.sum()), int(tables.control.sum())
    assert (exact.records, exact.control, exact.significance) == (records, held, 0.05)
    stakes = stakes_for(tested, records=600, classes=2, control=held)

    def evidence(filled: Matched, epsilon: float) -> NoisyWealth:
        replaced = stakes.replacement(epsilon)
        n1, n0 = filled.records, filled.control
        effective = float((n1 * n0 / (n1 + n0)).sum())
        gap = min(4.0 / math.sqrt(effective + 10.0 / 4.0), 64 * stakes.log_cap(replaced) / 65)
        figure = math.floor(64 * log_wealth(filled, epsilon=replaced, gap=gap) / gap)
        return NoisyWealth(Fraction(2), gap, figure, stakes.price(replaced))

    assert exact.evidence == evidence(tables, 0.5)
    assert (exact.evidence.price > 0.0) == (tested.delta > 0.0)
    test: Any = SimpleNamespace(
        against=evidence,
        refutes=lambda wealth: not wealth.pvalue(0.05) > 0.05,
        deviation=65 / math.sqrt(2.0),  # of a Laplace variable of the scale 65/2
        stakes=stakes,
    )
    assert exact.epsilon_ceiling == largest_refuted(tables, test) > 0.5
    right = chance_right(tallies)
    seen = least_leak_seen(tables, test, epsilon=0.5, right=right)
    assert exact.sees_from == seen is not None


def test_unreadable_labels_beyond_what_is_allowed_move_the_second_figure() -> None:
    target, proxy, labels = world(2, 2, 600)
    labels[[1, 590]] = UNREAD
    tallies = tallies_of(target, proxy, labels)
    bets = premise_bets(tallies)
    gap = gap_for(bets[0], Fraction(2))

    def made(**more: int) -> NoisyWealth:
        return exact_statement(
            tallies, claim=claim(0.5), epsilon_public=Fraction(4), **more
        ).premises

    assert made() == made(unread_allowed=0)
    figures = []
    for allowed in (0, 1, 2):
        figures.append(math.floor(64 * premises_log_wealth(bets, gap, unread=2 - allowed) / gap))
        assert made(unread_allowed=allowed) == NoisyWealth(Fraction(2), gap, figures[-1])
    assert len(set(figures)) > 1


class Read(NoisyWealth):
    """A figure whose p-value is its gap, where it is read at the level of its price."""

    def pvalue(self, significance: float) -> float:
        """Return it."""
        return self.gap if significance == self.price else math.nan


@pytest.mark.parametrize(("pvalue", "small"), [(0.05, True), (0.0501, False)])
@pytest.mark.parametrize(("premises", "doubtful"), [(0.1, True), (0.1001, False), (1.0, False)])
def test_a_claim_is_refuted_up_to_its_level_where_nothing_is_doubtful(
    pvalue: float, small: bool, premises: float, doubtful: bool
) -> None:
    evidence = Read(Fraction(1, 3), pvalue, 0, 0.05)
    made = PublicStatement(0.05, 1, 1, 0.0, evidence, Read(Fraction(1, 2), premises, 0, 0.1))
    assert (made.pvalue, made.premises_pvalue) == (pvalue, premises)
    assert made.doubtful is doubtful
    assert made.refuted is (small and not doubtful)
    assert made.epsilon_public == Fraction(5, 6)


def test_each_figure_has_noise_under_its_own_name() -> None:
    exact = exact_statement(
        tallies_of(*world(1, 2, 300)), claim=claim(0.5), epsilon_public=Fraction(4)
    )
    made = publish_statement(exact, key=KEY, named=("slot", 7))
    assert made.evidence == with_noise(exact.evidence, KEY, "evidence", "slot", 7)
    assert made.premises == with_noise(exact.premises, KEY, "premises", "slot", 7)
    same = ("significance", "records", "control", "epsilon_ceiling")
    assert all(getattr(made, name) == getattr(exact, name) for name in same)
