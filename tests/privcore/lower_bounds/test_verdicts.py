import dataclasses

import numpy as np
import pytest

from privcore.attacks import Tallies, generator, odds_tally
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import (
    Claim,
    Grid,
    Verdict,
    claim_pvalue,
    doubted,
    epsilon_lower,
    not_a_guarantee,
    privatised,
    read_evidence,
    says_nothing,
    verdict,
)
from tests.simulate import play, randomized_response

CLAIM = Claim(family=PureDP(), delta=0.0, epsilon=1.0)


def example(claim=CLAIM, epsilon=2.0, records=2_000):
    random = np.random.default_rng(41)
    training = randomized_response(records, epsilon, random)
    target, proxy, _ = randomized_response(records // 2, epsilon, random)
    control = target, proxy, (random.random(records // 2) < proxy[:, 1]).astype(np.int64)
    game, control_game = (play(*arm, random, repetitions=3) for arm in (training, control))
    odds, control_odds = ((odds_tally(*arm),) for arm in (training, control))
    tallies = Tallies(game, control_game, odds, control_odds, classes=2)
    return read_evidence(tallies, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(0))


def evidence(*, lower, ceiling=3.0, believed=0.0, control=0.0):
    return dataclasses.replace(
        example(),
        epsilon_lower=lower,
        epsilon_ceiling=ceiling,
        epsilon_if_proxy_right=believed,
        control_epsilon_if_proxy_right=control,
    )


@pytest.mark.parametrize(
    ("figures", "declared", "expected"),
    [
        ({"lower": 1.2}, 1.0, Verdict.VIOLATED),
        ({"lower": 1.0}, 1.0, Verdict.CONSISTENT),
        ({"lower": 0.0}, 0.0, Verdict.CONSISTENT),
        # Whatever believes the proxy accuses nobody.
        ({"lower": 0.9, "believed": 9.0}, 1.0, Verdict.CONSISTENT),
        ({"lower": 0.9, "believed": 9.0, "control": 5.0}, 1.0, Verdict.CONSISTENT),
        # Nothing could be proved: a wrong proxy leaves no conclusion.
        ({"lower": 0.2, "ceiling": 1.0, "believed": 9.0, "control": 0.1}, 1.0,
         Verdict.PROXY_UNFAITHFUL),
        ({"lower": 0.2, "ceiling": 1.0, "believed": 1.0, "control": 0.1}, 1.0, Verdict.CONSISTENT),
        ({"lower": 0.2, "ceiling": 1.0, "believed": 9.0}, 1.0, Verdict.CONSISTENT),
        ({"lower": 1.2}, None, Verdict.UNDECLARED),
        ({"lower": 0.0, "believed": 9.0, "control": 9.0}, None, Verdict.UNDECLARED),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_figures(figures, declared, expected):
    conclusion, sentence = verdict(evidence(**figures), epsilon_declared=declared)
    assert conclusion is expected
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("figures", "declared", "sentence"),
    [
        ({"lower": 0.0}, None, "No privacy loss is proved; nothing was declared."),
        ({"lower": 1.2}, None, "The privacy loss is at least 1.20; nothing was declared."),
        ({"lower": 0.0}, 0.0,
         ("No privacy loss is proved, which refutes nothing of the declared 0; at most 3.00 could "
         "have been proved.")),
        ({"lower": 0.7}, 1.0,
         ("The privacy loss is at least 0.70, which does not exceed the declared 1; at most 3.00 "
         "could have been proved.")),
        ({"lower": 0.0, "ceiling": 0.0}, 1.0,
         ("With 1000 holdout records nothing can be proved, so no attack could refute the declared "
         "1: hold out more.")),
        ({"lower": 0.0, "ceiling": 0.3}, 1.0,
         ("With 1000 holdout records at most 0.30 can be proved, so no attack could refute the "
         "declared 1: hold out more.")),
    ],
)  # fmt: skip
def test_a_bound_of_nothing_is_said_in_words(figures, declared, sentence):
    assert verdict(evidence(**figures), epsilon_declared=declared)[1] == sentence


def test_of_privatised_labels_and_of_no_guarantee_too():
    for lower, noisy, hollow in (
        (0.0, "themselves no loss is proved.", "no guarantee. No privacy loss is proved."),
        (0.7, "themselves at least 0.70 is lost, which refutes nothing.", "at least 0.70."),
    ):
        assert privatised(evidence(lower=lower), "m")[1].endswith(noisy)
        assert not_a_guarantee(evidence(lower=lower), "idp")[1].endswith(hollow)


def test_bounds_are_rounded_down_in_the_sentence():
    _, sentence = verdict(evidence(lower=1.2999), epsilon_declared=1.0)
    assert "at least 1.2, more than the declared 1" in sentence
    _, sentence = verdict(evidence(lower=1.0049), epsilon_declared=1.0)
    assert "at least 1.004, more than the declared 1" in sentence


def test_a_holdout_that_can_prove_nothing_is_said_to_be_too_small():
    _, sentence = verdict(evidence(lower=0.0, ceiling=0.9), epsilon_declared=1.0)
    assert "With 1000 holdout records at most 0.90 can be proved" in sentence
    assert "hold out more" in sentence


def test_evidence_has_one_method_for_bound_ceiling_and_pvalue():
    found = example()
    assert found.method == "matched"
    assert 1.0 < found.epsilon_lower <= 2.0 < found.epsilon_ceiling
    assert found.claim_pvalue < 0.05
    assert found.claim_evalue == pytest.approx(1.0 / found.claim_pvalue)
    assert example(dataclasses.replace(CLAIM, epsilon=None)).claim_pvalue is None
    # The bound is where the p-value crosses the significance.
    for shift, rejected in ((-0.005, True), (0.015, False)):
        claim = dataclasses.replace(CLAIM, epsilon=found.epsilon_lower + shift)
        assert (example(claim).claim_pvalue <= 0.05) == rejected


def test_an_evalue_grows_to_the_end_of_doubles():
    """Logarithms of 500 and above 1,000: the first is told whole, the second as e^700."""
    claim = dataclasses.replace(CLAIM, epsilon=0.01)
    whole, beyond = (example(claim, 6.0, records) for records in (9_000, 40_000))
    assert 350.0 < np.log(whole.claim_evalue) < 700.0
    assert np.log(whole.claim_evalue) == pytest.approx(-np.log(whole.claim_pvalue))
    assert beyond.claim_evalue == pytest.approx(np.exp(700.0))


def test_a_claim_about_adding_and_removing_is_tested_at_half_the_bound():
    replaced = example()
    added = example(dataclasses.replace(CLAIM, neighbors=Relation.ADD_REMOVE))
    assert added.epsilon_lower > 0.3
    assert added.epsilon_lower == pytest.approx(replaced.epsilon_lower / 2.0)
    assert added.epsilon_ceiling == pytest.approx(replaced.epsilon_ceiling / 2.0)
    assert added.claim_pvalue > replaced.claim_pvalue
    assert added.game.epsilon_lower == pytest.approx(replaced.game.epsilon_lower / 2.0)
    assert added.game.epsilon_ceiling == pytest.approx(replaced.game.epsilon_ceiling / 2.0)


@pytest.mark.slow
def test_a_gaussian_claim_is_tested_at_one_of_its_points():
    """Randomized response at 2 refutes small mu; the bound is told as epsilon at the delta."""
    claim = Claim(family=Gaussian(), delta=1e-5, epsilon=0.5)
    found = example(claim)
    assert found.method == "matched"
    assert 0.5 < found.epsilon_lower < found.epsilon_ceiling
    assert found.claim_pvalue < 0.05
    assert found.window_night.price > 0.0


@pytest.mark.parametrize("family", [PureDP(), ApproxDP(), Gaussian()])
def test_what_is_rejected_for_adding_and_removing_is_rejected_for_two_steps(family):
    """At the bound the implied guarantee for replacing is rejected, just above it is not.

    The counts are those of a strong attack, so that delta's growth over two steps matters.
    """
    delta = 0.0 if isinstance(family, PureDP) else 1e-3
    claim = Claim(family=family, delta=delta, neighbors=Relation.ADD_REMOVE)

    def bound(at):
        return epsilon_lower(10_000, 1_000, 990, family=family, delta=at)

    found = claim.epsilon_of(bound)
    assert 0.5 < found <= bound(delta) / 2.0 + 1e-9
    for epsilon, rejected in ((found - 1e-6, True), (found + 2e-4, False)):
        implied = dataclasses.replace(claim, epsilon=epsilon).guarantee()
        pvalue = claim_pvalue(10_000, 1_000, 990, guarantee=implied)
        assert (pvalue <= 0.05) == rejected
    replaced = dataclasses.replace(claim, neighbors=Relation.REPLACE)
    assert replaced.epsilon_of(bound) == bound(delta)
    assert claim.epsilon_of(lambda _: 0.0) == 0.0


def test_a_claim_whose_delta_grows_to_certainty_is_never_rejected():
    claim = Claim(family=ApproxDP(), delta=0.4, epsilon=1.0, neighbors=Relation.ADD_REMOVE)
    assert claim_pvalue(1_000, 1_000, 1_000, guarantee=claim.guarantee()) > 0.99
    assert claim.epsilon_of(lambda delta: 5.0 if delta < 0.5 else 0.0) == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "limit", "policy", "told"),
    [
        (1.0, 0.0, None, None, ""),
        (1.0, 0.000999, None, 1.0, ""),
        (1.0, 0.05, 0.06, None, ""),
        (1.0, 0.001, None, None, "its delta of 0.001 is not below 1 over the 1,000 training"),
        (1.0, 0.99, None, None, "its delta of 0.99 is not below 1 over the 1,000 training"),
        (1.0, 1e-6, 1e-6, None, "its delta of 1e-06 is not below the 1e-06 of plan.delta_limit"),
        (1.1, 0.0, None, 1.0, "its epsilon of 1.1 is larger than the 1 that policy allows"),
    ],
)
def test_a_declaration_that_says_nothing_is_told(epsilon, delta, limit, policy, told):
    found = says_nothing(epsilon, delta, records=1_000, limit=limit, policy=policy)
    assert (told in found) if told else found == ""


def test_a_vacuous_declaration_is_never_consistent_and_may_be_violated():
    for figures, expected in (
        ({"lower": 0.0}, Verdict.VACUOUS),
        ({"lower": 0.9, "ceiling": 0.95, "believed": 9.0, "control": 5.0}, Verdict.VACUOUS),
        ({"lower": 1.2}, Verdict.VIOLATED),
    ):
        found, sentence = verdict(
            evidence(**figures), epsilon_declared=1.0, vacuous="The declaration says nothing: so."
        )
        assert found is expected
        assert sentence.startswith("The declaration says nothing: so.") is (
            expected is Verdict.VACUOUS
        )


def test_delta_stands_beside_what_was_declared():
    read = example(dataclasses.replace(CLAIM, family=ApproxDP(), delta=1e-6), epsilon=1.0)
    assert "the declared 9 (delta 1e-6)" in verdict(read, epsilon_declared=9.0)[1]


APPROXIMATE = Claim(family=ApproxDP(), delta=0.9 / 2_000, epsilon=0.5)


def test_a_declaration_that_stands_by_its_delta_alone_is_vacuous() -> None:
    found = example(APPROXIMATE)
    pure = found.epsilon_lower_without_delta
    assert pure is not None
    assert (
        pure == example(dataclasses.replace(APPROXIMATE, family=PureDP(), delta=0.0)).epsilon_lower
    )
    between = (found.epsilon_lower + pure) / 2.0
    assert found.epsilon_lower < between < pure
    conclusion, sentence = verdict(found, epsilon_declared=between)
    assert conclusion is Verdict.VACUOUS
    assert "stands by its delta of 0.00045 alone" in sentence
    # The delta of a house's policy is the house's own choice.
    assert verdict(found, epsilon_declared=between, by_policy=True)[0] is Verdict.CONSISTENT
    assert verdict(found, epsilon_declared=pure)[0] is Verdict.CONSISTENT


@pytest.mark.slow
@pytest.mark.parametrize("claim", [CLAIM, Claim(family=Gaussian(), delta=1e-4, epsilon=1.0)])
def test_a_claim_without_a_delta_of_its_own_has_no_second_bound(claim: Claim) -> None:
    assert example(claim).epsilon_lower_without_delta is None


def test_a_mechanism_that_keeps_its_declaration_seldom_stands_by_its_delta_alone() -> None:
    """Randomized response at 0.5, declared with 0.9 over 400 records: 20 audits, seed 41 + i."""
    claim = Claim(family=ApproxDP(), delta=0.9 / 400, epsilon=0.5)
    found = []
    for seed in range(20):
        random = np.random.default_rng(41 + seed)
        training = randomized_response(400, 0.5, random)
        target, proxy, _ = randomized_response(400, 0.5, random)
        control = target, proxy, (random.random(400) < proxy[:, 1]).astype(np.int64)
        game, control_game = (play(*arm, random, repetitions=1) for arm in (training, control))
        odds, control_odds = ((odds_tally(*arm),) for arm in (training, control))
        tallies = Tallies(game, control_game, odds, control_odds, classes=2)
        found.append(
            read_evidence(
                tallies, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(seed)
            )
        )
    told = [verdict(one, epsilon_declared=0.5)[0] for one in found]
    # Of 20 at 5%, 4 or more are less likely than 2%.
    assert told.count(Verdict.CONSISTENT) >= 17, told


def test_a_doubt_takes_back_an_acquittal_and_nothing_else() -> None:
    """Where nothing is concluded its sentence comes first; of the same kind one is said."""
    doubts = [("one", "Cause."), ("one", "Cause, too."), ("two", "Sign.")]
    found = evidence(lower=0.0)
    for conclusion in Verdict:
        given = found, conclusion, "It is so."
        notes = [("note", "Noted.")]
        assert doubted(*given, doubts=[], notes=notes) == (conclusion, "It is so. Noted.")
        changed, reason = doubted(*given, doubts=doubts, notes=notes)
        if conclusion in {Verdict.CONSISTENT, Verdict.PROXY_UNFAITHFUL}:
            assert reason == (
                "Cause. So nothing is concluded: no privacy loss is proved. Also seen: two, note."
            )
        else:
            assert reason == "It is so. Cause. Cause, too. Sign. Noted."
        assert (changed is Verdict.DOUBTFUL) == (
            conclusion in {Verdict.CONSISTENT, Verdict.DOUBTFUL}
        )


def test_why_bets_could_not_win_is_the_cause_where_nothing_could_be_proved() -> None:
    why = "Bets could not win. Draw anew."
    small = (
        "With 1000 holdout records at most 0.30 can be proved, so no attack could refute the "
        f"declared 1: hold out more. {why}"
    )
    for ceiling, expected in (
        (0.0, f"{why} So nothing could refute the declared 1."),
        (0.3, small),
    ):
        found = evidence(lower=0.0, ceiling=ceiling)
        assert verdict(found, epsilon_declared=1.0, held_back=why)[1] == expected
    misled = dataclasses.replace(evidence(lower=0.0, ceiling=0.0), misled_pvalue=1e-6)
    assert verdict(misled, epsilon_declared=1.0, held_back=why)[1].startswith(
        misled.misled_sentence
    )
    assert verdict(evidence(lower=0.0), epsilon_declared=1.0, held_back=why)[1].endswith(why)
    assert "So nothing could" not in verdict(evidence(lower=2.0), epsilon_declared=1.0)[1]


@pytest.mark.parametrize(
    ("epsilon", "records", "says"),
    [(100.0, 1_000, True), (11.6, 1_000, True), (11.4, 1_000, False), (11.6, 10_000, False)],
)
def test_an_epsilon_at_which_no_label_would_change_says_nothing(epsilon, records, says):
    found = says_nothing(epsilon, 0.0, records=records, limit=None, policy=None)
    assert bool(found) is says
    assert not says or f"its epsilon of {epsilon:g}, randomized response changes none" in found
