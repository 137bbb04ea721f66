"""A claim's epsilon for the other relation: a bound for replacing, read for add/remove."""

import math

import pytest

from privcore.guarantees import ApproxDP, PureDP, Relation
from privcore.lower_bounds import Claim
from privcore.upper_bounds import label_success


def claim(delta, **changes):
    family = ApproxDP() if delta else PureDP()
    return Claim(family=family, delta=delta, neighbors=Relation.ADD_REMOVE, **changes)


def test_nothing_said_a_claim_is_at_a_delta_agreed_beforehand():
    assert (Claim().delta, Claim().significance, Claim().shift) == (1e-5, 0.05, 0.0)


def test_a_pure_bound_for_replacing_is_twice_that_of_adding_or_removing():
    assert claim(0.0).epsilon_of(lambda _: 1.0) == 0.5
    assert claim(0.0).epsilon_of(lambda _: 0.0) == 0.0


def test_a_bound_at_a_delta_is_halved_to_a_ten_thousandth_from_below():
    # 14 halvings: the first whose step is at most 1e-4.
    assert claim(1e-5).epsilon_of(lambda _: 2.0) == 1.0 - 2.0**-14


def test_what_is_just_proved_counts():
    proved = {1e-5: 4.0}
    assert claim(1e-5).epsilon_of(lambda delta: proved.get(delta, 2.0)) == 1.0


def test_a_claim_whose_delta_for_replacing_is_one_says_nothing():
    """(1 + e^epsilon) delta stays below 1: up to there a bound is read, and no further."""
    assert claim(0.2).epsilon_of(lambda _: 2.0) == pytest.approx(1.0, abs=1e-4)
    assert claim(0.3).epsilon_of(lambda _: 4.0) == pytest.approx(math.log(1 / 0.3 - 1), abs=1e-4)


def test_a_declared_delta_for_replacing_stays_below_one():
    guarantee = claim(0.6, epsilon=1.0).guarantee()
    assert guarantee is not None
    assert guarantee.delta == 1.0 - 1e-12


@pytest.mark.paper("observational", "Definition 1", "Theorem 5")
@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.SIMULATE])
def test_the_game_tests_a_claim_for_simulating_as_it_is(relation):
    """Theorem 5 is about the simulator that imputes, and replacing implies that at no cost."""
    made = Claim(family=ApproxDP(), delta=1e-5, epsilon=1.0, neighbors=relation)
    assert made.epsilon_of(lambda _: 2.0) == 2.0
    assert made.guarantee() == ApproxDP(1.0, delta=1e-5)


@pytest.mark.paper("observational", "Definition 1")
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_odds_may_grow_twice_as_much_where_labels_are_simulated(epsilon):
    """Matched bets compare odds: at one prior a guarantee for simulating allows e^(2 epsilon).

    That it is reached there, `test_the_bound_on_a_label_under_simulation_is_reached` shows.
    """
    prior = 1.0 / (1.0 + math.exp(epsilon))
    named = float(label_success(prior, epsilon=epsilon, relation=Relation.SIMULATE))
    grown = named / (1.0 - named) / (prior / (1.0 - prior))
    assert grown == pytest.approx(math.exp(2.0 * epsilon))
    for other in (0.5 * prior, 0.9 * prior, 0.5, 0.9):
        named = float(label_success(other, epsilon=epsilon, relation=Relation.SIMULATE))
        assert named / (1.0 - named) / (other / (1.0 - other)) < math.exp(2.0 * epsilon)
