"""One public test over nights: what its answers cost, and what it is asked."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privcore.attacks import Matched
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP
from privcore.publication import NoisyWealth, RecurringTest, exact_night
from privcore.publication.noisy_wealth import SENSITIVITY
from privcore.publication.premises import premise_bets
from privcore.publication.reach import PublicTest, chance_right, largest_refuted, least_leak_seen
from privcore.publication.recurring_labels import NightAnswer
from privcore.publication.statement import DOUBTFUL, evidence_of, premises_of
from privcore.publication.statement import tested as bet_on
from tests.privcore.publication.test_statement import UNREAD, claim, tallies_of, world

KEY = bytes(range(32))
HALF = Fraction(1, 2)


def test_an_alarm_comes_with_one_figure_more_at_the_other_half_of_the_loss() -> None:
    """Silence has none. 400 nights whose alarm is sure, keyed 0 to 399; level 1e-6."""
    test = RecurringTest(Fraction(4), 0.05, 3)
    assert (test.each, test.alarms.epsilon_public) == (2, 2)
    sure, never = (NoisyWealth(Fraction(1), 0.02, figure) for figure in (10**8, -(10**8)))
    premises = NoisyWealth(Fraction(1), 0.02, -700)
    silent = test.answer(never, premises, key=KEY, test="t", night=("n",))
    assert (silent.alarm, silent.premises, silent.premises_pvalue) == (False, None, None)
    assert not silent.doubtful
    noise = []
    for number in range(400):
        told = test.answer(sure, premises, key=KEY, test="t", night=(number,))
        assert told.alarm
        assert told.premises is not None
        assert (told.premises.epsilon_public, told.premises.gap) == (2, 0.02)
        noise.append(told.premises.figure + 700)
    far = sum(abs(each) > 65 / 2 * math.log(2.0) for each in noise)
    assert stats.binomtest(far, 400, 0.5).pvalue > 1e-6
    again = test.answer(sure, premises, key=KEY, test="t", night=(0,))
    assert again.premises is not None
    assert again.premises.figure + 700 == noise[0]


def test_doubtful_assumptions_take_an_alarm_back() -> None:
    test = RecurringTest(Fraction(4), 0.05, 3)
    sure = NoisyWealth(Fraction(1), 0.02, 10**8)
    kinds = {
        figure: test.answer(
            sure, NoisyWealth(Fraction(1), 0.02, figure), key=KEY, test="t", night=("n",)
        ).doubtful
        for figure in (-(10**6), 10**6)
    }
    assert kinds == {-(10**6): False, 10**6: True}


def test_a_night_of_an_audit_is_what_the_test_is_asked() -> None:
    test = RecurringTest(Fraction(1), 0.05, 10)
    tallies = tallies_of(*world(0, 2, 4_000))
    night = exact_night(tallies, claim=claim(0.5), test=test)
    assert night.evidence.epsilon_public == test.alarms.epsilon_alike
    assert night.premises.epsilon_public == HALF
    assert night.threshold == test.alarms.threshold(night.evidence.gap, 0.0)
    assert 0 < night.control < night.records
    fewer = exact_night(tallies, claim=claim(0.5), test=replace(test, nights=1))
    assert fewer.threshold is not None
    assert night.threshold is not None
    assert fewer.threshold < night.threshold
    assert fewer.epsilon_ceiling > night.epsilon_ceiling > 0.5
    with pytest.raises(InvalidInputError, match="claim"):
        exact_night(tallies, claim=claim(None), test=test)


def test_delta_leaves_every_night_of_many_a_threshold() -> None:
    """The nights share delta's part of the significance; otherwise no night could alarm."""
    tallies = tallies_of(*world(0, 2, 4_000))
    approximate = claim(0.5, family=ApproxDP(1.0, 1e-6), delta=1e-6)
    for nights in (1, 10, 90):
        night = exact_night(
            tallies, claim=approximate, test=RecurringTest(Fraction(1), 0.05, nights)
        )
        assert 0.0 < night.evidence.price < 0.8 * 0.05 / nights
        assert night.threshold is not None


@pytest.mark.parametrize("wrong", [{"epsilon_public": Fraction(0)}, {"nights": 0}])
def test_what_has_no_answer_is_refused(wrong: dict[str, int]) -> None:
    given = {"epsilon_public": HALF, "significance": 0.05, "nights": 3}
    with pytest.raises(InvalidInputError):
        RecurringTest(**given | wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_label_moves_both_figures_by_65_units_at_most() -> None:
    """Every label of a world of 40 records is flipped."""
    target, proxy, labels = world(3, 2, 40)
    test = RecurringTest(Fraction(1), 0.05, 5)

    def figures(given: np.ndarray) -> np.ndarray:
        night = exact_night(tallies_of(target, proxy, given), claim=claim(0.5), test=test)
        assert night.threshold == first.threshold
        return np.array([night.evidence.figure, night.premises.figure])

    first = exact_night(tallies_of(target, proxy, labels), claim=claim(0.5), test=test)
    moved = []
    for record in range(labels.size):
        flipped = labels.copy()
        flipped[record] = 1 - flipped[record]
        moved.append(np.abs(figures(flipped) - figures(labels)).max())
    assert 0 < max(moved) <= SENSITIVITY


class Read(NoisyWealth):
    """A figure whose p-value is known."""

    def pvalue(self, significance: float) -> float:
        """Return it, at the level at which assumptions are read."""
        return self.gap if significance == DOUBTFUL else math.nan


@pytest.mark.parametrize(("pvalue", "doubtful"), [(0.1, True), (0.1001, False), (0.2, False)])
def test_assumptions_are_doubtful_up_to_a_pvalue_of_a_tenth(pvalue: float, doubtful: bool) -> None:
    told = NightAnswer(alarm=True, premises=Read(HALF, pvalue, 0))
    assert (told.premises_pvalue, told.doubtful) == (pvalue, doubtful)


def test_what_a_night_could_have_shown_is_reckoned_with_both_noises() -> None:
    """The noise of threshold and night, each a Laplace variable, adds up in its variance.

    The test's significance counts, and not the claim's.
    """
    tallies = tallies_of(*world(1, 2, 1_200))
    test, declared = RecurringTest(Fraction(4), 0.04, 2), claim(0.5, family=ApproxDP(), delta=1e-4)
    night = exact_night(tallies, claim=declared, test=test)
    epsilon, tables, stakes = bet_on(tallies, replace(declared, significance=0.04), nights=2)
    assert stakes.prices.max() < bet_on(tallies, declared, nights=2)[2].prices.max()
    assert night.evidence.price == stakes.price(stakes.replacement(epsilon))
    alarms = test.alarms
    assert (night.records, night.control) == (tables.records.sum(), tables.control.sum())

    def evidence(filled: Matched, asked: float) -> NoisyWealth:
        return evidence_of(filled, asked, stakes, alarms.epsilon_alike)

    def refutes(wealth: NoisyWealth) -> bool:
        bar = alarms.threshold(wealth.gap, wealth.price)
        return bar is not None and not wealth.figure < bar

    variance = sum(2.0 / float(rate) ** 2 for rate in (alarms.threshold_rate, alarms.night_rate))
    public = PublicTest(evidence, refutes, deviation=math.sqrt(variance))
    right = chance_right(tallies)
    seen = least_leak_seen(tables, public, epsilon=epsilon, stakes=stakes, right=right)
    assert night.epsilon_detectable == seen is not None
    assert night.epsilon_ceiling == largest_refuted(tables, public) > 0.5
    assert night.evidence == evidence(tables, 0.5)
    narrow = replace(public, deviation=public.deviation / 1.5)
    closer = least_leak_seen(tables, narrow, epsilon=epsilon, stakes=stakes, right=right)
    assert closer is not None
    assert closer < seen


def test_unreadable_labels_beyond_what_is_allowed_move_the_assumptions() -> None:
    target, proxy, labels = world(2, 2, 600)
    labels[[1, 590]] = UNREAD
    tallies, test = tallies_of(target, proxy, labels), RecurringTest(Fraction(4), 0.05, 2)
    made = {
        allowed: exact_night(tallies, claim=claim(0.5), test=test, unread_allowed=allowed).premises
        for allowed in (0, 1, 2)
    }
    assert exact_night(tallies, claim=claim(0.5), test=test).premises == made[0]
    for allowed, premises in made.items():
        assert premises == premises_of(premise_bets(tallies), Fraction(2), unread=2 - allowed)
    assert len({premises.figure for premises in made.values()}) > 1
