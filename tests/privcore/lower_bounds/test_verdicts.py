import dataclasses
import functools

import numpy as np
import pytest

from privcore.attacks import Tallies, odds_tally
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import (
    Claim,
    Power,
    Secret,
    claim_pvalue,
    epsilon_lower,
    not_a_guarantee,
    privatised,
)
from privcore.lower_bounds.question import conclusive, leak_to_be_seen
from privcore.lower_bounds.verdicts import Cause, Doubt, ReasonCode, Verdict, judge, says_nothing
from tests.simulate import evidence_of, play, randomized_response, unread

CLAIM = Claim(family=PureDP(), delta=0.0, epsilon=1.0)
PRIORS = (0.01, 0.05, 0.3, 0.5)


def known_labels(epsilon, records, held, seed, *, priors=PRIORS, repetitions=3):
    """Return tallies of a target that knows labels through randomized response."""
    random = np.random.default_rng(seed)
    training = randomized_response(records, epsilon, random, priors)
    control = unread(randomized_response(held, epsilon, random, priors), random)
    game, control_game = (
        play(*arm, random, repetitions=repetitions) for arm in (training, control)
    )
    odds, control_odds = ((odds_tally(*arm),) for arm in (training, control))
    return Tallies(game, control_game, odds, control_odds, classes=2)


def example(claim=CLAIM, epsilon=2.0, records=2_000):
    tallies = known_labels(epsilon, records, records // 2, 41)
    return evidence_of(tallies, claim)


@functools.cache
def read():
    return example()


def evidence(lower, ceiling=3.0, sees=1.5, needed=None, **changes):
    """Return evidence against a declared 1 that would be conclusive, but for the changes."""
    given = {
        "epsilon_if_proxy_right": 0.0,
        "control_epsilon_if_proxy_right": 0.0,
        "power": Power(sees, needed, None),
    } | changes
    return dataclasses.replace(read(), epsilon_lower=lower, epsilon_ceiling=ceiling, **given)


def judged(lower=0.0, declared=1.0, **changes):
    names = ("by_policy", "undeclared", "empty", "held_back", "signs")
    given = {name: changes.pop(name) for name in names if name in changes}
    found = judge(evidence(lower, **changes), epsilon_declared=declared, **given)
    assert found.reason.endswith(".")
    assert found.verdict == (found.code.verdict if found.code else Verdict.NOT_REFUTED)
    return found


BELIEVED = {"epsilon_if_proxy_right": 9.0, "control_epsilon_if_proxy_right": 0.1}
EMPTY = {"empty": (ReasonCode.DECLARATION_EMPTY, "The declaration says nothing: so.")}
POLICY = {"empty": (ReasonCode.OVER_POLICY, "It is larger than policy allows.")}
DELTA = {"epsilon_lower_without_delta": 1.2}
SIGNS = {"signs": [Doubt("rows_repeated", "They do.", ReasonCode.PERSONS_SPLIT)]}
HELD = {"held_back": "Bets could not win. Draw anew."}
SMALL = {"sees": 2.1}
BLIND = {"ceiling": 0.99, "sees": None}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, None),
        ({"lower": 0.9999}, None),
        ({"lower": 1.0}, ReasonCode.THIS_NIGHT),
        ({"sees": 2.0}, None),
        ({"lower": 0.0, "declared": 0.0, "sees": 0.5}, None),
        ({"lower": 1.0001}, ReasonCode.THIS_NIGHT),
        ({"declared": None}, ReasonCode.NOTHING_DECLARED),
        # Where there is nothing to hold it against, no bound accuses, and nothing doubts.
        ({"lower": 2.0, "declared": None, **SIGNS, **EMPTY, **HELD}, ReasonCode.NOTHING_DECLARED),
        # A violation stands whatever else there is.
        ({"lower": 1.2, **SIGNS}, ReasonCode.THIS_NIGHT),
        ({"lower": 1.2, **EMPTY}, ReasonCode.THIS_NIGHT),
        ({"lower": 1.2, **POLICY}, ReasonCode.THIS_NIGHT),
        ({"lower": 1.2, **DELTA}, ReasonCode.THIS_NIGHT),
        ({"lower": 1.2, **HELD, **BLIND, **BELIEVED}, ReasonCode.THIS_NIGHT),
        # Then what is declared, then doubts, then size.
        (EMPTY, ReasonCode.DECLARATION_EMPTY),
        (POLICY, ReasonCode.OVER_POLICY),
        (DELTA, ReasonCode.DELTA_DECIDES),
        ({"epsilon_lower_without_delta": 0.9999}, None),
        ({"epsilon_lower_without_delta": 1.0}, ReasonCode.DELTA_DECIDES),
        # The delta of a house's policy is the house's own choice.
        ({**DELTA, "by_policy": True}, None),
        ({**EMPTY, **DELTA}, ReasonCode.DECLARATION_EMPTY),
        ({**EMPTY, **SIGNS, **SMALL}, ReasonCode.DECLARATION_EMPTY),
        ({**POLICY, **SIGNS, **HELD}, ReasonCode.OVER_POLICY),
        ({**DELTA, **SIGNS}, ReasonCode.DELTA_DECIDES),
        (SIGNS, ReasonCode.PERSONS_SPLIT),
        ({**SIGNS, **SMALL}, ReasonCode.PERSONS_SPLIT),
        ({**SIGNS, **SMALL, **HELD}, ReasonCode.PERSONS_SPLIT),
        ({**SIGNS, **BLIND, **BELIEVED}, ReasonCode.PERSONS_SPLIT),
        (SMALL, ReasonCode.TOO_SMALL),
        ({**SMALL, "needed": 900}, ReasonCode.FEW_HELD_OUT),
        ({"sees": None}, ReasonCode.TOO_SMALL),
        ({"power": None}, ReasonCode.TOO_SMALL),
        (BLIND, ReasonCode.TOO_SMALL),
        ({**BLIND, "needed": 900}, ReasonCode.FEW_HELD_OUT),
        # Never acquitted where a perfect attack could not have refuted it.
        ({"ceiling": 1.0}, None),
        ({"ceiling": 0.99}, ReasonCode.TOO_SMALL),
        ({"ceiling": 0.99, "needed": 900}, ReasonCode.FEW_HELD_OUT),
        # Where bets could not win, what others see is enough or is not.
        (HELD, None),
        ({**HELD, **SMALL, "needed": 900}, ReasonCode.PROXY_WRONG),
        ({"misled_pvalue": 0.0009, **SMALL}, ReasonCode.PROXY_WRONG),
        ({"misled_pvalue": 0.0011, **SMALL}, ReasonCode.TOO_SMALL),
        # Nothing could be proved, and the proxy is wrong about the holdout, too.
        ({**BLIND, **BELIEVED}, ReasonCode.PROXY_WRONG),
        ({**BLIND, **BELIEVED, "epsilon_if_proxy_right": 0.99}, ReasonCode.TOO_SMALL),
        ({**BLIND, **BELIEVED, "control_epsilon_if_proxy_right": 0.0}, ReasonCode.TOO_SMALL),
        ({**BLIND, **BELIEVED, "epsilon_if_proxy_right": None}, ReasonCode.TOO_SMALL),
        # Whatever believes the proxy accuses nobody.
        (BELIEVED, None),
        ({**BELIEVED, **SMALL}, ReasonCode.TOO_SMALL),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_figures_then_declaration_then_doubts_then_size(given, code):
    assert judged(**given).code is code


def test_nothing_is_acquitted_below_the_ceiling_or_where_a_leak_would_not_be_seen():
    """Twice the claim is to be seen, within a half and one more."""
    for epsilon, needed in ((0.0, 0.5), (0.2, 0.7), (0.75, 1.5), (1.0, 2.0), (7.0, 8.0)):
        assert leak_to_be_seen(epsilon) == needed
        for ceiling, sees, expected in (
            (epsilon + 1e-9, needed, True),
            (epsilon, needed, epsilon > 0.0),
            (max(epsilon - 1e-9, 0.0), needed, False),
            (epsilon + 9.0, needed + 1e-9, False),
            (epsilon + 9.0, None, False),
            (None, needed, False),
        ):
            assert conclusive(epsilon, epsilon_ceiling=ceiling, sees_from=sees) is expected
            if ceiling is not None:
                found = judged(declared=epsilon, ceiling=ceiling, sees=sees).verdict
                assert (found is Verdict.NOT_REFUTED) is expected


LEAK = "a leak of 1.50 shown by every label would probably have been seen. This does not prove that"
UNABLE = "so no attack could refute the declared 1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"declared": None}, "No privacy loss is proved; nothing was declared."),
        ({"lower": 1.2, "declared": None},
         "The privacy loss is at least 1.20; nothing was declared."),
        ({"declared": None, "undeclared": "persons were audited"},
         "No privacy loss is proved; persons were audited."),
        ({}, ("No privacy loss is proved, which refutes nothing of the declared 1; "
              f"{LEAK} it is kept.")),
        ({"lower": 0.7}, ("The privacy loss is at least 0.70, which does not exceed the declared "
                          f"1; {LEAK} it is kept.")),
        ({"sees": None}, ("No privacy loss is proved, which refutes nothing of the declared 1; no "
                          "leak, shown by every label, would probably have been seen, and a "
                          "conclusive audit sees 2.")),
        (SMALL | {"by_policy": True},
         ("No privacy loss is proved, which refutes nothing of the 1 declared by policy; a leak "
          "from 2.10 on, shown by every label, would probably have been seen, and a conclusive "
          "audit sees 2.")),
        ({"ceiling": 0.0}, f"With 1000 holdout records nothing can be proved, {UNABLE}."),
        ({"ceiling": 0.3, "needed": 1_200},
         f"With 1000 holdout records at most 0.30 can be proved, {UNABLE}: hold out more."),
        ({**BLIND, **BELIEVED},
         (f"With 1000 holdout records at most 0.99 can be proved, {UNABLE}. If the earlier "
          "model were right the loss would be at least 9.00; but by the same reckoning it would be "
          "at least 0.10 for records that training never saw, so it is wrong.")),
        (EMPTY | {"lower": 0.2},
         "The declaration says nothing: so. The privacy loss is at least 0.20."),
        # Why bets could not win is the cause where nothing could be proved, and is said once.
        (HELD | {"ceiling": 0.0}, f"{HELD['held_back']} So nothing could refute the declared 1."),
        (HELD | {"ceiling": 0.3, "needed": 1_200},
         ("With 1000 holdout records at most 0.30 can be proved, so no attack could refute the "
          f"declared 1: hold out more. {HELD['held_back']}")),
        # The cause of a doubt comes first, and of the others the words are said once.
        ({"signs": [Doubt("note", "Noted."), Doubt("one", "Cause.", ReasonCode.ARMS_UNLIKE),
                    Doubt("one", "Cause, too.", ReasonCode.ARMS_UNLIKE), Doubt("unseen", ""),
                    Doubt("two", "Sign.", ReasonCode.PERSONS_SPLIT)], "lower": 0.2},
         ("Cause. So nothing is concluded: the privacy loss is at least 0.20. Also seen: note, "
          "two.")),
    ],
)  # fmt: skip
def test_the_reason_says_it_in_sentences(given, reason):
    assert judged(**given).reason == reason


def test_a_violation_states_what_it_assumes_and_rounds_down():
    drawn = "if the holdout was drawn at random from the rows trained on, after any sampling, "
    labels = "no earlier model saw it, and training read no other label of these rows."
    found = judged(1.2999)
    assert found.reason == (
        f"The privacy loss is at least 1.29, more than the declared 1, {drawn}{labels}"
    )
    assert "at least 1.004, more than the declared 1" in judged(1.0049).reason
    assert judged(1.0).reason == f"The privacy loss is more than the declared 1, {drawn}{labels}"
    whole = dataclasses.replace(read().claim, secret=Secret.MEMBERSHIP)
    assert judged(1.2, claim=whole).reason.endswith(f"{drawn}and no earlier model saw it.")


def test_what_was_seen_beside_a_verdict_that_it_does_not_change_is_said():
    signs = [Doubt("one", "Cause.", ReasonCode.ARMS_UNLIKE), Doubt("note", "Noted.")]
    for given in ({"lower": 1.2}, {"declared": None}, EMPTY):
        found = judged(signs=signs, **HELD, **given)
        assert found.reason.endswith(". Bets could not win. Draw anew. Cause. Noted.")
        assert found.detail is None
    for given in ({}, SMALL):
        assert judged(signs=signs[1:], **given).reason.endswith(". Noted.")
    misled = judged(misled_pvalue=1e-6, ceiling=0.0, **HELD)
    assert misled.reason.startswith(evidence(0.0, misled_pvalue=1e-6).misled_sentence)


def test_the_first_doubt_is_the_cause_and_its_word_the_detail():
    """A note, and what was not seen, are no doubts."""
    found = judged(
        signs=[
            Doubt("unseen", "", ReasonCode.HOLDOUT_SUSPECT),
            Doubt("note", "Noted."),
            Doubt("two", "Sign.", ReasonCode.ANSWERS_DOUBTFUL),
            Doubt("one", "Cause.", ReasonCode.ARMS_UNLIKE),
        ]
    )
    assert (found.code, found.detail) == (ReasonCode.ANSWERS_DOUBTFUL, "two")
    assert judged(signs=[Doubt("unseen", "", ReasonCode.ARMS_UNLIKE)]).code is None
    assert judged(signs=[Doubt("note", "Noted.")]).code is None


def test_every_reason_has_one_verdict_a_kind_and_a_meaning():
    verdicts = {word: {code for code in ReasonCode if code.verdict is word} for word in Verdict}
    assert {word: len(codes) for word, codes in verdicts.items()} == {
        Verdict.VIOLATED: 4,
        Verdict.FAILED: 8,
        Verdict.INCONCLUSIVE: 17,
        Verdict.NOT_REFUTED: 0,
        Verdict.UNDECLARED: 2,
    }
    for code in ReasonCode:
        assert ReasonCode(str(code)) is code
        assert (code.cause is Cause.OTHER) == (code.verdict is not Verdict.INCONCLUSIVE)
        assert code.by_size is (code.cause is Cause.SIZE)
    for word in (*Verdict, *ReasonCode):
        assert word == word.name.lower()
        assert word.meaning[0].isupper()
        assert word.meaning.endswith(".")
    assert {str(code) for code in ReasonCode if code.by_size} == {
        "nights_needed", "few_held_out", "too_small", "nights_repeat", "learner_forgets",
        "chosen_plan",
    }  # fmt: skip
    assert {str(code) for code in ReasonCode if code.cause is Cause.DECLARATION} == {
        "declaration_empty", "delta_decides", "over_policy",
    }  # fmt: skip


def test_of_privatised_labels_and_of_no_guarantee_nothing_is_refuted():
    for lower, noisy, hollow in (
        (0.0, "themselves no loss is proved.", "no guarantee. No privacy loss is proved."),
        (0.7, "themselves at least 0.70 is lost, which refutes nothing.", "at least 0.70."),
    ):
        kept, void = privatised(evidence(lower), "m"), not_a_guarantee(evidence(lower), "idp")
        assert kept.reason.endswith(noisy)
        assert void.reason.endswith(hollow)
        assert (kept.verdict, kept.code) == (Verdict.UNDECLARED, ReasonCode.LABELS_PRIVATISED)
        assert (void.verdict, void.code) == (Verdict.INCONCLUSIVE, ReasonCode.DECLARATION_EMPTY)
        assert void.detail == "idp"


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


@pytest.mark.parametrize(
    ("epsilon", "delta", "limit", "policy", "told"),
    [
        (1.0, 0.0, None, None, None),
        (1.0, 0.000999, None, 1.0, None),
        (1.0, 0.05, 0.06, None, None),
        (1.0, 0.001, None, None, "its delta of 0.001 is not below 1 over the 1,000 training"),
        (1.0, 0.99, None, None, "its delta of 0.99 is not below 1 over the 1,000 training"),
        (1.0, 1e-6, 1e-6, None, "its delta of 1e-06 is not below the 1e-06 of plan.delta_limit"),
        (1.1, 0.0, None, 1.0, "epsilon of 1.1 is larger than the 1 that policy allows"),
        (100.0, 0.0, None, None, "its epsilon of 100, randomized response changes none of 1,000"),
        (11.6, 0.0, None, None, "its epsilon of 11.6, randomized response changes none of 1,000"),
        (11.4, 0.0, None, None, None),
    ],
)
def test_a_declaration_that_says_nothing_is_told(epsilon, delta, limit, policy, told):
    found = says_nothing(epsilon, delta, records=1_000, limit=limit, policy=policy)
    assert says_nothing(11.6, 0.0, records=10_000, limit=None, policy=None) is None
    assert (found is None) is (told is None)
    if found and told:
        over = ReasonCode.OVER_POLICY if policy else ReasonCode.DECLARATION_EMPTY
        assert (found[0], told in found[1]) == (over, True)


def test_delta_stands_beside_what_was_declared():
    found = example(dataclasses.replace(CLAIM, family=ApproxDP(), delta=1e-6), epsilon=1.0)
    assert "the declared 9 (delta 1e-6)" in judge(found, epsilon_declared=9.0).reason


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "least", "most"), [(1.0, 0, 4), (1.02, 6, 30)])
def test_a_claim_is_refuted_at_its_own_point(epsilon, least, most):
    """Randomized response on 200,000 balanced records, 30 seeds: 5% would be 1.5 of them."""
    refuted = 0
    for seed in range(30):
        tallies = known_labels(epsilon, 200_000, 200_000, seed, priors=(0.5,), repetitions=1)
        found = evidence_of(tallies, CLAIM, seed=seed)
        assert found.claim_pvalue is not None
        rejected = found.claim_pvalue <= CLAIM.significance
        assert rejected is (judge(found, epsilon_declared=1.0).verdict is Verdict.VIOLATED)
        refuted += rejected
    assert least <= refuted <= most


APPROXIMATE = Claim(family=ApproxDP(), delta=0.9 / 2_000, epsilon=0.5)


def test_a_declaration_that_stands_by_its_delta_alone_is_told():
    found = example(APPROXIMATE)
    pure = found.epsilon_lower_without_delta
    assert pure is not None
    assert (
        pure == example(dataclasses.replace(APPROXIMATE, family=PureDP(), delta=0.0)).epsilon_lower
    )
    between = (found.epsilon_lower + pure) / 2.0
    assert found.epsilon_lower < between < pure
    told = judge(found, epsilon_declared=between)
    assert told.code is ReasonCode.DELTA_DECIDES
    assert "stands by its delta of 0.00045 alone" in told.reason
    # The delta of a house's policy is the house's own choice.
    assert judge(found, epsilon_declared=between, by_policy=True).code is ReasonCode.TOO_SMALL
    assert judge(found, epsilon_declared=pure).code is ReasonCode.DELTA_DECIDES
    assert judge(found, epsilon_declared=pure + 1e-9).code is ReasonCode.TOO_SMALL


@pytest.mark.slow
@pytest.mark.parametrize("claim", [CLAIM, Claim(family=Gaussian(), delta=1e-4, epsilon=1.0)])
def test_a_claim_without_a_delta_of_its_own_has_no_second_bound(claim):
    assert example(claim).epsilon_lower_without_delta is None


def test_a_mechanism_that_keeps_its_declaration_seldom_stands_by_its_delta_alone():
    """Randomized response at 0.5, declared with 0.9 over 400 records: 20 audits, seed 41 + i."""
    claim = Claim(family=ApproxDP(), delta=0.9 / 400, epsilon=0.5)
    told = []
    for seed in range(20):
        tallies = known_labels(0.5, 400, 400, 41 + seed, repetitions=1)
        evidence = evidence_of(tallies, claim, seed=seed)
        told.append(judge(evidence, epsilon_declared=0.5).code)
    # Of 20 at 5%, 4 or more are less likely than 2%.
    assert told.count(ReasonCode.TOO_SMALL) >= 17, told
