"""Decoys: the coin is all that decides, and the bound needs nothing else."""

import dataclasses

import numpy as np
import pytest

from privcore.attacks import (
    OddsTally,
    Tallies,
    coin_predictions,
    decoy_tally,
    draw_decoys,
    generator,
)
from privcore.attacks.decoy_labels import coin_pvalue
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim, Grid, read_evidence
from privcore.lower_bounds.designs import DecoyRecords
from privcore.lower_bounds.verdicts import ReasonCode, Verdict, judge
from tests.simulate import assert_rate_at_most, play, two_columns, unrelated
from tests.support.tiers import rest_slow, tiered

PURE = Claim(family=PureDP(), delta=0.0, epsilon=0.5)


def evidence(tally, *, claim=PURE):
    """Evidence of decoys beside a game of ten records each, which play no part."""
    random, odds = np.random.default_rng(0), OddsTally.zero()
    game = play(*unrelated(10, random), random)
    tallies = Tallies(game, game, (odds,), (odds,), 2, decoys=tally)
    return read_evidence(
        tallies, claim=claim, choice=Grid((1.0,)), paper_delta=1e-5, random=generator(0)
    )


def noisy(labels, epsilon, random, classes=2):
    """Randomized response of the labels trained on, told as probabilities."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + classes - 1)
    other = (labels + random.integers(1, classes, labels.size)) % classes
    shown = np.where(random.random(labels.size) < keep, labels, other)
    rest = (1.0 - keep) / (classes - 1)
    return np.where(np.arange(classes) == shown[:, None], keep, rest)


def pairs(records, random, *, favoured):
    """The tally of pairs that are trained on what the proxy favours with this probability."""
    proxy = random.dirichlet([2.0, 2.0], records)
    likely = proxy.argmax(axis=1)
    labels = np.where(random.random(records) < favoured, likely, 1 - likely)
    return decoy_tally(random.dirichlet([1.0, 1.0], records), proxy, labels, 1 - labels)


def test_a_fair_coin_is_called_unfair_no_oftener_than_its_level():
    """300 draws of 200 pairs, at 0.05."""
    random = np.random.default_rng(8)
    found = [coin_pvalue(pairs(200, random, favoured=0.5)) for _ in range(300)]
    assert_rate_at_most(int(np.sum(np.array(found) <= 0.05)), 300, 0.05)


@pytest.mark.parametrize(
    ("favoured", "told"), [(1.0, True), (0.0, True), (0.7, True), (0.5, False)]
)
def test_a_rule_in_place_of_the_coin_is_told(favoured, told):
    assert (coin_pvalue(pairs(300, np.random.default_rng(9), favoured=favoured)) <= 1e-6) is told


def test_a_coin_that_favours_a_class_is_told_and_no_pairs_say_nothing():
    labels = np.zeros(40, dtype=np.int64)
    even = np.full((40, 2), 0.5)
    assert coin_pvalue(decoy_tally(even, even, labels, 1 - labels)) < 1e-6
    assert coin_pvalue(OddsTally.zero()) == 1.0


def test_a_record_is_trained_on_its_label_or_its_draw_and_keeps_the_other():
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 40_000)
    proxy = np.tile([0.7, 0.2, 0.1], (40_000, 1))
    found = draw_decoys(labels, proxy, share=0.25, random=random)
    decoys = found.others >= 0
    assert_share(decoys.sum(), 40_000, 0.25)
    assert np.array_equal(found.labels[~decoys], labels[~decoys])
    swapped = decoys & (found.others == labels) & (found.labels != labels)
    kept = decoys & (found.labels == labels)
    assert np.array_equal(swapped | kept, decoys)
    drawn = np.where(swapped, found.labels, found.others)[decoys]
    for label, chance in enumerate((0.7, 0.2, 0.1)):
        assert_share((drawn == label).sum(), drawn.size, chance)
    telling = decoys & (found.labels != found.others)
    assert_share((telling & swapped).sum(), telling.sum(), 0.5)
    # Given the pair, either label was trained on as often, rare or not.
    for one, two in ((0, 1), (0, 2), (1, 2)):
        pair = telling & (np.minimum(found.labels, found.others) == one)
        pair &= np.maximum(found.labels, found.others) == two
        assert_share((found.labels[pair] == one).sum(), pair.sum(), 0.5)


def assert_share(successes, trials, share):
    assert_rate_at_most(int(successes), int(trials), share)
    assert_rate_at_most(int(trials - successes), int(trials), 1.0 - share)


def test_the_tally_is_of_pairs_and_knows_the_label_only_as_an_outcome():
    target = np.array([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
    proxy = np.full((3, 3), 1.0 / 3.0)
    labels, others = np.array([1, 2, 0]), np.array([2, 0, 0])
    tally = decoy_tally(target, proxy, labels, others)
    assert tally.records == 2  # the third pair is one label
    told = coin_predictions(tally)
    assert np.all(told.prior == 0.0)
    # The first is predicted 1, which it was trained on; the second 0, which it was not.
    assert told.right.sum() == 1
    assert told.wrong.sum() == 1
    assert told.lift == pytest.approx(np.log(2.0), abs=0.2)
    swapped = coin_predictions(decoy_tally(target, proxy, others, labels))
    assert (swapped.right.sum(), swapped.wrong.sum()) == (1, 1)
    assert np.array_equal(swapped.lift, told.lift)


@pytest.mark.parametrize("delta", rest_slow([0.0, 1e-5]))
def test_nothing_but_memory_is_seen_whatever_proxy_and_drift(delta):
    """Target and proxy know the truth, drift and lie; no memory. N = 200 nights of 400, seed 5."""
    random = np.random.default_rng(5)
    claim = PURE if delta == 0.0 else Claim(family=ApproxDP(), delta=delta, epsilon=0.5)
    wrong = 0
    for _ in range(200):
        chance = random.choice([0.03, 0.5, 0.97], 2_000)
        labels = (random.random(2_000) < chance).astype(np.int64)
        believed = two_columns(random.choice([0.1, 0.9], 2_000))
        found = draw_decoys(labels, believed, share=0.2, random=random)
        is_decoy = found.others >= 0
        known = two_columns(np.where(labels == 1, 0.9, 0.1))  # the truth, not what was trained on
        arms = known[is_decoy], believed[is_decoy], found.labels[is_decoy], found.others[is_decoy]
        design = DecoyRecords(decoy_tally(*arms))
        wrong += design.epsilon_lower(design.stakes(claim)) > 0.0
    assert_rate_at_most(wrong, 200, 0.05)


@pytest.mark.parametrize(
    ("classes", "epsilon"), tiered([(4, 2.0), (2, 1.0), (2, 3.0)], always=1, slow=2)
)
def test_what_randomized_response_loses_is_shown_and_no_more(classes, epsilon):
    """N = 40 nights of 4,000 decoys, seed 6: at least 0.75 of epsilon, and not above it."""
    random = np.random.default_rng(6)
    proxy = np.full((4_000, classes), 1.0 / classes)
    bounds = []
    for _ in range(40):
        labels = random.integers(0, classes, 4_000)
        found = draw_decoys(labels, proxy, share=1.0, random=random)
        target = noisy(found.labels, epsilon, random, classes)
        bounds.append(
            evidence(decoy_tally(target, proxy, found.labels, found.others)).epsilon_lower
        )
    assert_rate_at_most(int(np.sum(np.array(bounds) > epsilon)), 40, 0.05)
    assert np.mean(bounds) > 0.75 * epsilon


def test_verdict_and_ceiling_speak_of_decoys():
    random = np.random.default_rng(7)
    labels, proxy = random.integers(0, 2, 500), np.full((500, 2), 0.5)
    found = draw_decoys(labels, proxy, share=1.0, random=random)
    remembered = evidence(
        decoy_tally(noisy(found.labels, 6.0, random), proxy, found.labels, found.others)
    )
    assert remembered.method == "decoys"
    assert 0.5 < remembered.epsilon_lower <= remembered.epsilon_ceiling
    assert remembered.claim_pvalue < 1e-6
    answer = judge(remembered, epsilon_declared=0.5)
    assert answer.verdict is Verdict.VIOLATED
    assert answer.reason.endswith("labels that a coin chose before training.")
    assert f"by {remembered.decoy_records} labels" in answer.reason
    few = evidence(decoy_tally(proxy[:8], proxy[:8], np.zeros(8, dtype=int), np.ones(8, dtype=int)))
    answer = judge(few, epsilon_declared=5.0)
    assert answer.code is ReasonCode.TOO_SMALL
    assert answer.reason.startswith("With 8 decoys at most ")
    believing = dataclasses.replace(
        few, epsilon_if_proxy_right=6.0, control_epsilon_if_proxy_right=1.0
    )
    assert judge(believing, epsilon_declared=5.0) == answer
    wealth = few.window_night.log_wealth
    assert all(np.array_equal(strategy, wealth[0]) for strategy in wealth)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_that_makes_no_sense_is_refused(share):
    with pytest.raises(InvalidInputError, match="share"):
        draw_decoys(np.zeros(2, int), np.full((2, 2), 0.5), share=share, random=generator(0))


def test_labels_that_are_no_classes_are_refused():
    proxy = np.full((2, 2), 0.5)
    with pytest.raises(InvalidInputError, match="class from 0 to 1"):
        decoy_tally(proxy, proxy, np.array([0, 1]), np.array([1, 2]))
    with pytest.raises(InvalidInputError, match="class from 0 to 1"):
        draw_decoys(np.array([0, 3]), proxy, share=0.5, random=generator(0))
