import dataclasses

import numpy as np
import pytest

from privcore.attacks import LiftTally, Tallies, generator
from privcore.guarantees import ApproxDP, Gaussian, Neighbors, PureDP
from privcore.lower_bounds import (
    Claim,
    Grid,
    Verdict,
    claim_pvalue,
    epsilon_lower,
    read_evidence,
    verdict,
)
from tests.simulate import names, play, randomized_response

CLAIM = Claim(family=PureDP(), delta=0.0, epsilon=1.0)


def example(claim=CLAIM):
    random = np.random.default_rng(41)
    world = randomized_response(400, 2.0, random)
    game, lifts = play(*world, random, repetitions=3), names(*world)
    tallies = Tallies(game, game, lifts, LiftTally.zero(), classes=2)
    return read_evidence(tallies, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(0))


def evidence(*, lower, calibrated, game=0.0, control=0.0):
    base = example()
    return dataclasses.replace(
        base,
        epsilon_lower=lower,
        epsilon_calibrated=calibrated,
        game=dataclasses.replace(base.game, epsilon_lower=game),
        control_game=dataclasses.replace(base.control_game, epsilon_lower=control),
    )


@pytest.mark.parametrize(
    ("figures", "declared", "expected"),
    [
        ({"lower": 1.2, "calibrated": 1.1}, 1.0, Verdict.VIOLATED),
        ({"lower": 1.0, "calibrated": 1.1}, 1.0, Verdict.CONSISTENT),
        ({"lower": 0.0, "calibrated": 0.0}, 0.0, Verdict.CONSISTENT),
        ({"lower": 1.2, "calibrated": 1.0}, 1.0, Verdict.PROXY_UNFAITHFUL),
        ({"lower": 0.2, "calibrated": 0.2, "game": 1.2}, 1.0, Verdict.PROXY_UNFAITHFUL),
        ({"lower": 1.2, "calibrated": 1.1}, None, Verdict.UNDECLARED),
        ({"lower": 0.0, "calibrated": 0.0}, None, Verdict.UNDECLARED),
        (
            {"lower": 2.0, "calibrated": 0.0, "game": 2.0, "control": 1.9},
            None,
            Verdict.PROXY_UNFAITHFUL,
        ),
        (
            {"lower": 2.0, "calibrated": 0.5, "game": 2.0, "control": 1.0},
            None,
            Verdict.UNDECLARED,
        ),
    ],
)
def test_the_verdict_follows_from_the_figures(figures, declared, expected):
    conclusion, sentence = verdict(evidence(**figures), epsilon_declared=declared)
    assert conclusion is expected
    assert sentence.endswith(".")


def test_bounds_are_rounded_down_in_the_sentence():
    _, sentence = verdict(evidence(lower=1.2999, calibrated=1.2999), epsilon_declared=1.0)
    assert "at least 1.299, more than the declared 1" in sentence


def test_a_claim_about_adding_and_removing_is_tested_at_half_the_bound():
    replaced = example()
    added = example(dataclasses.replace(CLAIM, neighbors=Neighbors.ADD_REMOVE))
    assert replaced.method == added.method == "bets"
    assert added.epsilon_lower > 0.3
    assert added.epsilon_lower == pytest.approx(replaced.epsilon_lower / 2.0)
    assert added.claim_pvalue > replaced.claim_pvalue
    assert added.game.epsilon_lower == pytest.approx(replaced.game.epsilon_lower / 2.0)
    assert added.game.epsilon_ceiling == pytest.approx(replaced.game.epsilon_ceiling / 2.0)
    assert added.epsilon_previous == pytest.approx(replaced.epsilon_previous / 2.0)
    with_delta = dataclasses.replace(CLAIM, neighbors=Neighbors.ADD_REMOVE, delta=1e-6)
    assert example(with_delta).method == "grid"


@pytest.mark.parametrize("family", [PureDP(), ApproxDP(), Gaussian()])
def test_what_is_rejected_for_adding_and_removing_is_rejected_for_two_steps(family):
    """At the bound the implied guarantee for replacing is rejected, just above it is not.

    The counts are those of a strong attack, so that delta's growth over two steps matters.
    """
    delta = 0.0 if isinstance(family, PureDP) else 1e-3
    claim = Claim(family=family, delta=delta, neighbors=Neighbors.ADD_REMOVE)

    def bound(at):
        return epsilon_lower(10_000, 1_000, 990, family=family, delta=at)

    found = claim.epsilon_of(bound)
    assert 0.5 < found <= bound(delta) / 2.0 + 1e-9
    for epsilon, rejected in ((found - 1e-6, True), (found + 2e-4, False)):
        implied = dataclasses.replace(claim, epsilon=epsilon).guarantee()
        pvalue = claim_pvalue(10_000, 1_000, 990, guarantee=implied)
        assert (pvalue <= 0.05) == rejected
    replaced = dataclasses.replace(claim, neighbors=Neighbors.REPLACE)
    assert replaced.epsilon_of(bound) == bound(delta)
    assert claim.epsilon_of(lambda _: 0.0) == 0.0


def test_a_claim_whose_delta_grows_to_certainty_is_never_rejected():
    claim = Claim(family=ApproxDP(), delta=0.4, epsilon=1.0, neighbors=Neighbors.ADD_REMOVE)
    assert claim_pvalue(1_000, 1_000, 1_000, guarantee=claim.guarantee()) > 0.99
    assert claim.epsilon_of(lambda delta: 5.0 if delta < 0.5 else 0.0) == 0.0
