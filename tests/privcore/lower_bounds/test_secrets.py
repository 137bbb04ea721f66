"""Attributes and membership: bounds that keep their level and find what is planted.

Simulated with fixed seeds; rates are judged by exact binomial tests at 1e-6 (`tests.simulate`).
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from privcore.attacks import (
    Paired,
    Tallies,
    attribute_posterior,
    generator,
    membership_inference,
    odds_tally,
    own_label,
    pair,
)
from privcore.attacks.matching import SHARES
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import (
    WINDOW_NIGHTS,
    Claim,
    Grid,
    Secret,
    Verdict,
    matched_epsilon_lower,
    matched_log_wealth,
    stakes_for,
)
from privcore.lower_bounds.matched import PairedRecords, night_log_wealth
from privcore.lower_bounds.verdicts import judge
from tests.simulate import assert_rate_at_most, evidence_of, matched, two_columns
from tests.support.tiers import rest_slow, tiered

MEMBERSHIP = Claim(family=PureDP(), delta=0.0, secret=Secret.MEMBERSHIP)
FREE = stakes_for(MEMBERSHIP, records=10, classes=2)


def pairs(number, right):
    return Paired(np.array([number]), np.array([right]))


def universe(members, others, epsilon, random, *, mu=None):
    """Return both arms where each record's membership is published by randomized response.

    It is kept with odds e^epsilon; replacing a record changes two of these bits, so the mechanism
    is (2 epsilon)-DP for replacing and epsilon-DP for adding or removing one. With `mu` membership
    is published with noise N(0, 1/mu^2): mu-GDP for adding, sqrt(2) mu for replacing.
    """
    arms = []
    for size, member in ((members, True), (others, False)):
        kept = random.random(size) < expit(epsilon)
        said = np.where(np.where(kept, member, not member), 1.0, -1.0)
        if mu is not None:
            said = np.clip(member - 0.5 + random.normal(0.0, 1.0 / mu, size), -4.0, 4.0)
        proxy = random.choice([0.2, 0.5, 0.9], size)
        target = expit(np.log(proxy / (1 - proxy)) + said)
        labels = np.zeros(size, dtype=np.int64)
        arms.append(odds_tally(*own_label(two_columns(1 - target), two_columns(1 - proxy), labels)))
    return arms


def bound(training, control, *, claim=MEMBERSHIP, seed=0):
    sets = pair(training, control, random=generator(seed))
    paying = min(training.records, control.records)
    stakes = stakes_for(claim, records=paying, classes=2)
    return stakes.in_claim(matched_epsilon_lower(sets, stakes=stakes))


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("number", [1, 7, 60])
def test_wealth_on_coins_is_one_on_average(number, epsilon):
    """With d coins of odds e^epsilon the mean over every outcome is 1, for all sets together."""
    mean = sum(
        chance
        * math.exp(matched_log_wealth([pairs(number, k)] * len(SHARES), epsilon, stakes=FREE))
        for k, chance in enumerate(binom.pmf(np.arange(number + 1), number, expit(epsilon)))
    )
    assert mean == pytest.approx(1.0, rel=1e-9)
    nights = sum(
        chance
        * np.exp(
            night_log_wealth(
                [pairs(number, k)] * len(SHARES), epsilons=np.array([epsilon]), stakes=FREE
            )
        )
        for k, chance in enumerate(binom.pmf(np.arange(number + 1), number, expit(epsilon)))
    )
    assert nights == pytest.approx(1.0, rel=1e-9)


def test_no_pairs_are_silence():
    nothing = [Paired(np.zeros(0, np.int64), np.zeros(0, np.int64))] * len(SHARES)
    assert matched_epsilon_lower(nothing, stakes=FREE) == 0.0
    assert matched_log_wealth(nothing, 1.0, stakes=FREE) == 0.0
    assert np.all(night_log_wealth(nothing, epsilons=np.array([1.0]), stakes=FREE) == 0.0)


def test_a_bound_is_that_of_pairs_and_the_ceiling_of_all_right():
    some, everything = [pairs(200, 150)] * len(SHARES), [pairs(200, 200)] * len(SHARES)
    low, high = (matched_epsilon_lower(sets, stakes=FREE) for sets in (some, everything))
    assert 0.3 < low < math.log(3)
    assert PairedRecords(some, records=200).epsilon_ceiling(FREE) == high > 3.0


@pytest.mark.slow
@pytest.mark.parametrize(("inside", "outside"), tiered([(400, 100), (300, 300)], always=1, slow=1))
def test_membership_stays_silent_where_training_made_no_difference(inside, outside):
    """400 audits of each: a target that drifts, ranks well and knows nothing of who is in."""
    spoke = 0
    for seed in range(400):
        random = np.random.default_rng([1, seed])
        arms = universe(inside, outside, 0.0, random)
        spoke += bound(*arms, seed=seed) > 0.0
    assert_rate_at_most(spoke, 400, 0.05)


@pytest.mark.parametrize(
    ("claim", "share"),
    [
        (MEMBERSHIP, 0.75),
        (dataclasses.replace(MEMBERSHIP, neighbors=Relation.ADD_REMOVE), 0.75),
        (dataclasses.replace(MEMBERSHIP, family=ApproxDP(), delta=1e-6), 0.75),
    ],
    ids=["replace", "add_remove", "delta"],
)
@pytest.mark.parametrize("epsilon", rest_slow([0.5, 1.5]))
def test_membership_of_a_known_mechanism_is_found_and_not_exceeded(claim, share, epsilon):
    """60 audits of 8,000 + 2,000 records each; replacing a record is 2 epsilon, adding epsilon."""
    truth = epsilon if claim.neighbors is Relation.ADD_REMOVE else 2.0 * epsilon
    found = [
        bound(*universe(8_000, 2_000, epsilon, np.random.default_rng([2, seed])), claim=claim)
        for seed in range(60)
    ]
    assert_rate_at_most(int(np.sum(np.array(found) > truth)), 60, 0.05)
    assert np.median(found) > share * truth


@pytest.mark.parametrize("mu", rest_slow([0.5, 1.5]))
def test_membership_behind_gaussian_noise_is_found_and_not_exceeded(mu):
    """40 audits of 8,000 + 2,000 records, as Gaussian DP for replacing a record."""
    claim = dataclasses.replace(MEMBERSHIP, family=Gaussian(), delta=1e-5)
    truth = Gaussian(math.sqrt(2.0) * mu).epsilon_at(delta=1e-5)
    found = []
    for seed in range(40):
        arms = universe(8_000, 2_000, 0.0, np.random.default_rng([6, seed]), mu=mu)
        found.append(bound(*arms, claim=claim))
    assert_rate_at_most(int(np.sum(np.array(found) > truth)), 40, 0.05)
    assert np.median(found) > 0.2 * truth


def attribute_world(records, epsilon, random, *, noisy=True):
    """Return (target, proxy, values) of a column that randomized response published.

    The label depends on the column, so each label says something of it in general: both models know
    that, and the target besides what was published of each record.
    """
    values = (random.random(records) < 0.3).astype(np.int64)
    of_label = np.array([[0.8, 0.2], [0.4, 0.6]])  # label given the column
    labels = (random.random(records) < of_label[values, 1]).astype(np.int64)
    proxy = of_label[:, labels].T
    said = np.where(random.random(records) < expit(epsilon), values, 1 - values)
    kept = np.where(np.arange(2) == said[:, None], expit(epsilon), expit(-epsilon))
    target = proxy * kept if noisy else proxy
    prior = np.array([0.5, 0.5])  # the attacker's, and wrong: no faith in it is needed
    return attribute_posterior(prior, target), attribute_posterior(prior, proxy), values


@pytest.mark.parametrize("epsilon", rest_slow([1.0, 3.0]))
def test_an_attribute_is_found_and_not_exceeded_though_its_prior_is_wrong(epsilon):
    """60 audits of 4,000 + 1,000 records: holdout records' columns were published of nobody."""
    found = []
    for seed in range(60):
        random = np.random.default_rng([3, seed])
        training = attribute_world(4_000, epsilon, random)
        target, proxy, _ = attribute_world(1_000, epsilon, random)
        # A fresh draw of the column given the label, as if training had seen another one.
        of_label = proxy[:, 1] * 0.3 / (proxy[:, 1] * 0.3 + proxy[:, 0] * 0.7)
        fresh = (random.random(1_000) < of_label).astype(np.int64)
        found.append(matched(training, (target, proxy, fresh), seed=seed))
    assert_rate_at_most(int(np.sum(np.array(found) > epsilon)), 60, 0.05)
    assert np.median(found) > 0.6 * epsilon


@pytest.mark.slow
def test_an_attribute_that_the_label_tells_in_general_is_no_leak():
    spoke = 0
    for seed in range(200):
        random = np.random.default_rng([4, seed])
        arms = [attribute_world(size, 2.0, random, noisy=False) for size in (800, 200)]
        spoke += matched(*arms, seed=seed) > 0.0
    assert_rate_at_most(spoke, 200, 0.05)


def evidence(arms, claim):
    scores = np.linspace(-1.0, 1.0, 50)
    game = membership_inference(scores, scores[::-1], repetitions=1, key=0)
    tallies = Tallies(game, game, (arms[0],), (arms[1],), 2)
    return evidence_of(tallies, claim, choice=Grid((1.0,)))


def test_evidence_of_membership_says_nothing_of_the_proxy_and_needs_none():
    arms = universe(8_000, 2_000, 1.5, np.random.default_rng(5))
    claim = dataclasses.replace(MEMBERSHIP, epsilon=1.0)
    found = evidence(arms, claim)
    assert found.method == "paired"
    assert (found.records, found.control_records) == (8_000, 2_000)
    assert found.epsilon_if_proxy_right is found.control_epsilon_if_proxy_right is None
    assert 2.4 < found.epsilon_lower < 3.0
    assert found.epsilon_ceiling > 4.0
    assert found.claim_pvalue is not None
    assert found.claim_pvalue < 1e-6
    assert judge(found, epsilon_declared=1.0).verdict is Verdict.VIOLATED
    few = evidence(universe(200, 5, 0.0, np.random.default_rng(5)), claim)
    answer = judge(few, epsilon_declared=1.0)
    assert answer.verdict is Verdict.INCONCLUSIVE
    assert "so no attack could refute the declared 1" in answer.reason


def test_delta_is_paid_for_each_pair():
    arms = universe(8_000, 2_000, 1.5, np.random.default_rng(5))
    costly = dataclasses.replace(MEMBERSHIP, family=ApproxDP(), delta=1e-2)
    assert evidence(arms, costly).epsilon_lower < evidence(arms, MEMBERSHIP).epsilon_lower
    expected = stakes_for(costly, records=2_000, classes=2)
    night = evidence(arms, costly).window_night
    assert night.price > 0.0
    assert expected.prices.max() > night.price
    cheap = dataclasses.replace(costly, delta=1e-5)
    for sizes in ((8_000, 20), (20, 8_000)):
        few = evidence(universe(*sizes, 1.5, np.random.default_rng(5)), cheap)
        assert few.records == sizes[0]
        paid = stakes_for(cheap, records=20, classes=2, nights=WINDOW_NIGHTS)
        assert few.window_night.price == pytest.approx(paid.prices.max())
