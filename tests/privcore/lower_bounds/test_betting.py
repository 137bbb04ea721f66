"""The cost of delta by brute force, the worst mechanism, and size and power of every estimator.

Rates are judged with an exact binomial test at level 1e-6, and each bound has a floor of power.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from privcore.attacks import Predictions
from privcore.attacks.matching import SHARES, Matched
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation, add_remove_to_replace
from privcore.lower_bounds import Claim, epsilon_lower, matched_log_wealth, stakes_for
from privcore.lower_bounds.betting import (
    BLOCK,
    DELTA_SHARE,
    EPSILONS,
    bets_epsilon_lower,
    log_wealth,
)
from tests.simulate import (
    PURE,
    assert_rate_at_most,
    believed,
    gaussian_label,
    matched,
    randomized_response,
    two_columns,
    unread,
    unrelated,
)
from tests.support.refusals import refused
from tests.support.tiers import rest_slow, tiered

SIGNIFICANCE = 0.05


def claim(delta, *, family=None, neighbors=Relation.REPLACE):
    return Claim(family=family or ApproxDP(), delta=delta, neighbors=neighbors)


def what_delta_adds(rights, epsilon, delta):
    """The most that (epsilon, delta)-DP allows beyond coins, for every threshold on right guesses.

    `rights` coins fall right with probability e^epsilon/(1 + e^epsilon), as randomized response at
    prior 0.5 lets them. The mechanism makes every outcome of at least `least` right ones likelier
    by one factor and every other one less likely by another. Two outcomes that differ in one label
    then break the e^epsilon between them only where that label decides: there, and nowhere else,
    it spends delta, the adversary's best moment. Returns the laws, shape (least, right).
    """
    chance = expit(epsilon)
    k = np.arange(rights + 1)
    law = binom.pmf(k, rights, chance)
    laws = []
    for least in range(1, rights + 1):
        reached = law[least:].sum()
        # Outcomes in which one given label is right and exactly `least` are.
        decisive = law[least] * least / rights
        spread = min(delta / max(decisive, 1e-300), 1.0 / max(reached, 1e-300))
        above, below = 1.0 + spread * (1.0 - reached), 1.0 - spread * reached
        laws.append(np.where(k >= least, above, max(below, 0.0)) * law)
    return np.array(laws)


def test_the_attack_spends_exactly_delta():
    """By brute force over all 2^7 outcomes: the hockey-stick divergence of every flipped label."""
    rights, epsilon, delta = 7, 0.6, 0.01
    laws = what_delta_adds(rights, epsilon, delta)
    bits = (np.arange(2**rights)[:, None] >> np.arange(rights)) & 1
    number = bits.sum(axis=1)
    for law in laws:
        assert law.sum() == pytest.approx(1.0)
        each = law[number] / np.array([math.comb(rights, int(n)) for n in number])
        for label in range(rights):
            flipped = each[np.arange(2**rights) ^ (1 << label)]
            spent = np.maximum(each - math.exp(epsilon) * flipped, 0.0).sum()
            assert spent <= delta + 1e-12
    assert max(law[5:].sum() for law in laws) > binom.sf(4, rights, expit(epsilon)) + 1e-3


def wealth_by_rights(records, lift, epsilon, stakes):
    """The log-wealth of bets by how many of the predictions, all alike, are right."""
    return np.array(
        [
            log_wealth(
                Predictions(*(np.array([x]) for x in (0.0, lift, records - k, float(k)))),
                epsilons=np.array([epsilon]),
                stakes=stakes,
            )[0]
            for k in range(records + 1)
        ]
    )


@pytest.mark.parametrize("records", rest_slow([20, 3_000, 200], always=2))
@pytest.mark.parametrize("epsilon", rest_slow([0.0, 2.0, 0.4], always=2))
@pytest.mark.parametrize("expected_reveals", rest_slow([0.02, 50.0, 1.0], always=2))
def test_bets_catch_the_worst_mechanism_at_most_at_the_significance(
    records, epsilon, expected_reveals
):
    """Exact, no simulation: delta so large that 0.02, 1 or 50 labels are revealed on average."""
    delta = min(expected_reveals / records, 0.5)
    stakes = stakes_for(claim(delta), records=records, classes=2)
    laws = what_delta_adds(records, epsilon, delta)
    for lift in (0.5 + epsilon, 3.0 + epsilon, 40.0):
        wealth = wealth_by_rights(records, lift, epsilon, stakes)
        caught = laws[:, wealth >= stakes.log_needed(epsilon)].sum(axis=1)
        assert caught.max() <= SIGNIFICANCE


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
@pytest.mark.parametrize("expected_reveals", [0.02, 1.0, 50.0])
@pytest.mark.parametrize("bounded", [True, False])
def test_the_match_catches_the_worst_mechanism_at_most_at_the_significance(
    epsilon, expected_reveals, bounded
):
    """300 training and 100 holdout records at prior 0.5, exact; stakes bounded as useful or not."""
    records, control = 300, 100
    delta = expected_reveals / records
    stakes = stakes_for(
        claim(delta), records=records, classes=2, control=control if bounded else None
    )
    laws = what_delta_adds(records, epsilon, delta)
    nothing = Matched(*(np.zeros(0, dtype=np.int64) for _ in range(4)), np.zeros(0))

    def rejected(right, held):
        one = Matched(*(np.array([n]) for n in (records, right, control, held)), np.zeros(1))
        wealth = matched_log_wealth((one, *[nothing] * (len(SHARES) - 1)), epsilon, stakes=stakes)
        return wealth >= stakes.log_needed(epsilon)

    chance = np.zeros(records + 1)
    for held in range(25, 76):  # others have a chance below 1e-6
        low, high = 0, records + 1
        while low < high:  # rejection grows with every training success
            middle = (low + high) // 2
            low, high = (low, middle) if rejected(middle, held) else (middle + 1, high)
        chance[low:] += binom.pmf(held, control, 0.5)
    assert (laws @ chance).max() + 1e-6 <= SIGNIFICANCE


def test_without_the_price_the_worst_mechanism_would_be_an_innocent_convict():
    """200 records, twenty reveals expected, staked as if delta were 0: caught far above 5%."""
    records, delta = 200, 0.1
    free = stakes_for(claim(0.0, family=PureDP()), records=records, classes=2)
    wealth = wealth_by_rights(records, 0.3, 0.0, free)
    caught = what_delta_adds(records, 0.0, delta)[:, wealth >= free.log_needed(0.0)].sum(axis=1)
    assert caught.max() > 0.2


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_the_price_covers_every_prior(classes):
    """Sum over the sets that can be predicted of q(1 - q)/(1 - q + q e^epsilon): 4,000 priors.

    Where that sum is above 1, a model that predicts one set cannot reach it.
    """
    random = np.random.default_rng(3)
    stakes = stakes_for(claim(1e-3), records=100, classes=classes)
    epsilons = np.arange(0.0, 27.9, 0.5)  # the dearest point of each block
    concentration = np.exp(random.uniform(-4.0, 3.0, (2_000, 1)))
    flat = random.dirichlet(np.ones(classes), 2_000)
    peaked = np.array([random.dirichlet(np.full(classes, c[0])) for c in concentration])
    tilted = np.linspace(0.0, 1.0, 101)[:, None]
    priors = np.concatenate([flat, peaked])
    if classes == 2:
        priors = np.concatenate([priors, np.hstack([tilted, 1.0 - tilted])])
    # Of two classes the one is the other's opposite; of more, each set is one of 2 K.
    sets = priors if classes == 2 else np.concatenate([priors, 1.0 - priors], axis=1)
    for epsilon in epsilons:
        each = sets * (1.0 - sets) / (1.0 - sets + np.exp(epsilon) * sets)
        exact = min(1.0, float(each.sum(axis=1).max()))
        cap = stakes.log_cap(epsilon)
        paid = stakes.price(epsilon) / (100 * 1e-3 * -math.expm1(-cap))
        assert exact <= paid + 1e-12
        assert paid <= 1.0 + 1e-12
    if classes == 2:
        free = stakes_for(claim(1e-6), records=100, classes=2)
        assert free.price(0.0) == pytest.approx(0.5e-4)


def worst_gain(prior, sets, epsilon, delta):
    """Return what delta can add at most to the chance of right predictions, exactly.

    A linear programme over all mechanisms: how often each labelling (`prior`) leads to each output,
    of which one predicts each of the sets, and one nothing; no two labellings' outputs differ by
    more than (epsilon, delta). What is added is counted as in `Stakes`: q A_S - beta A.
    """
    outputs, labellings = len(sets) + 1, len(prior)
    pairs = list(itertools.permutations(range(labellings), 2))
    laws = labellings * outputs
    gain = np.zeros(laws + len(pairs) * outputs)
    for place, members in enumerate(sets):
        q = prior[members].sum()
        beta = q * math.exp(epsilon) / (1.0 - q + math.exp(epsilon) * q)
        gain[place:laws:outputs] = prior * (members - beta)
    rows = [np.zeros_like(gain) for _ in range(len(pairs) * (outputs + 1))]
    for number, (one, other) in enumerate(pairs):
        first = laws + number * outputs  # by how much an output of `one` exceeds what is allowed
        rows[number][first : first + outputs] = 1.0
        for output in range(outputs):
            row = rows[len(pairs) + number * outputs + output]
            row[one * outputs + output] = 1.0
            row[other * outputs + output] = -math.exp(epsilon)
            row[first + output] = -1.0
    whole = np.zeros((labellings, gain.size))
    whole[:, :laws] = np.repeat(np.eye(labellings), outputs, axis=1)
    limits = np.repeat([delta, 0.0], [len(pairs), len(pairs) * outputs])
    best = linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=whole, b_eq=np.ones(labellings))
    return -best.fun


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize(("choices", "classes"), [(1, 2), (2, 2), (3, 2), (1, 3)])
def test_no_mechanism_gains_more_than_the_price_where_it_chooses_the_record(
    choices, classes, epsilon
):
    """Exact, for 5 priors, the flat one among them; without `choices` it would gain more."""
    random, delta = np.random.default_rng(5), 1e-3
    labels = np.array(list(itertools.product(range(classes), repeat=choices)))
    sets = [labels[:, row] == z for row in range(choices) for z in range(classes)]
    sets += [~one for one in sets] if classes > 2 else []
    priors = [np.full(len(labels), 1.0 / len(labels)), *random.dirichlet(np.ones(len(labels)), 4)]
    worst = max(worst_gain(prior, sets, epsilon, delta) for prior in priors)

    def price(number):
        stakes = stakes_for(claim(delta), records=1, choices=number, classes=classes)
        assert stakes.log_cap(epsilon) == math.inf
        return stakes.price(epsilon)

    assert worst <= price(choices) * (1.0 + 1e-9)
    if choices > 1:
        assert worst > price(1) * 1.05
    if (choices, epsilon) == (1, 0.0):
        assert worst == pytest.approx(delta * (1.0 - 1.0 / classes))


@pytest.mark.parametrize("neighbors", list(Relation))
@pytest.mark.parametrize("nights", [1, 28])
@pytest.mark.parametrize("control", [None, 250])
@pytest.mark.parametrize("classes", [2, 5])
def test_prices_are_those_of_each_blocks_dearest_point_and_never_above_the_share(
    neighbors, nights, control, classes
):
    stakes = stakes_for(
        claim(1e-4, neighbors=neighbors),
        records=5_000,
        classes=classes,
        control=control,
        nights=nights,
    )
    budget = DELTA_SHARE * SIGNIFICANCE / nights
    sets = 2 if classes == 2 else 2 * classes
    for block in range(56):
        points = EPSILONS[
            (block * BLOCK - 1e-9 < EPSILONS) & ((block + 1) * BLOCK - 1e-9 > EPSILONS)
        ]
        points = np.append(points, (block + 1) * BLOCK)  # a claim may lie just below the end
        deltas = np.full(points.size, 1e-4)
        if neighbors is not Relation.REPLACE:
            _, deltas = add_remove_to_replace(points / 2.0, delta=1e-4)
        each = np.minimum(deltas, 1.0) * np.minimum(1.0, sets / (1.0 + np.exp(points / 2.0)) ** 2)
        full = 5_000 * each.max()
        for epsilon in points[[0, -2]]:
            cap, price = stakes.log_cap(float(epsilon)), stakes.price(float(epsilon))
            assert price == pytest.approx(full * -math.expm1(-cap), rel=1e-9)
            assert price <= budget * (1.0 + 1e-9)
            left = SIGNIFICANCE - price
            assert stakes.log_needed(float(epsilon)) == pytest.approx(-math.log(left))
        if control is None:
            # As much is staked as the budget pays for.
            assert price == pytest.approx(min(full, budget), rel=1e-9)
        else:
            useful = 16.0 * math.sqrt(1.0 / 5_000 + 1.0 / control)
            cheap = -math.log1p(-min(0.15 * budget / full, 1.0 - 1e-15))
            assert cap <= max(useful, cheap) * (1.0 + 1e-9) or full <= 0.15 * budget


def test_a_pure_claim_pays_nothing_and_stakes_everything():
    for neighbors in Relation:
        stakes = stakes_for(
            claim(0.0, family=PureDP(), neighbors=neighbors), records=10**6, classes=2, control=9
        )
        assert np.all(np.isinf(stakes.log_caps))
        assert np.all(stakes.prices == 0.0)
        assert stakes.log_needed(1.0) == pytest.approx(math.log(20.0))


def test_what_is_tested_and_what_follows_are_inverse():
    for made, steps in ((Relation.REPLACE, 1), (Relation.ADD_REMOVE, 2), (Relation.SIMULATE, 2)):
        for family, delta in ((PureDP(), 0.0), (ApproxDP(), 1e-5)):
            stakes = stakes_for(claim(delta, family=family, neighbors=made), records=10, classes=2)
            assert stakes.replacement(0.7) == pytest.approx(0.7 * steps)
            assert stakes.in_claim(0.7 * steps) == pytest.approx(0.7)
        gaussian = stakes_for(
            claim(1e-5, family=Gaussian(), neighbors=made), records=1_000, classes=2
        )
        assert gaussian.in_claim(0.0) == 0.0
        for epsilon in (0.3, 1.0, 4.0):
            tested = gaussian.replacement(epsilon)
            assert gaussian.in_claim(tested) == pytest.approx(epsilon, rel=1e-4)
            assert gaussian.in_claim(tested - 1e-3) < epsilon


def test_a_gaussian_claim_is_tested_where_delta_costs_half_of_the_significance():
    """Gaussian DP implies every one of its (epsilon, delta) points; the chosen one is known."""
    for nights in (1, 28):
        stakes = stakes_for(claim(1e-5, family=Gaussian()), records=1_000, classes=2, nights=nights)
        assert stakes.delta == pytest.approx(SIGNIFICANCE / (2.0 * nights * 1_000 * 0.5))
        assert stakes.prices.max() == pytest.approx(SIGNIFICANCE / (2.0 * nights))
        mu = 1.0
        stated = Gaussian(mu).epsilon_at(delta=1e-5)
        assert stakes.replacement(stated) == pytest.approx(
            Gaussian(mu).epsilon_at(delta=stakes.delta), rel=1e-4
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 1}, "there are at least 2 classes"),
        ({"nights": 0}, "there is at least 1 night"),
        ({"choices": 0.9}, "a record is chosen among at least 1"),
        ({"claim": replace(claim(1e-5), significance=0.0)}, "significance is 0"),
        ({"claim": replace(claim(1e-5), significance=1.0)}, "significance is 1"),
    ],
)
def test_bad_input_is_named(change, message):
    refused(message, stakes_for, **{"claim": claim(1e-5), "records": 10, "classes": 2} | change)


def test_one_record_is_one_record():
    """A Gaussian claim's delta, and the largest useful stake, at the least that can play."""
    gaussian = Claim(family=Gaussian(), delta=1e-5)
    assert stakes_for(gaussian, records=1, classes=2).delta == pytest.approx(0.05 / (2 * 1 * 0.5))
    few = stakes_for(claim(0.5), records=1, classes=2, control=300)
    # At 27.5 and above delta costs next to nothing: what is useful, 16 / sqrt(300/301), bounds.
    assert few.log_cap(27.6) == math.inf
    dear = stakes_for(claim(0.5), records=1, classes=2, control=1)
    assert dear.log_cap(0.0) == pytest.approx(-math.log1p(-DELTA_SHARE * 0.05 / (0.5 * 0.5)))


def test_a_delta_beyond_certainty_is_certainty():
    """Two steps of delta 0.4 at epsilon 27 are certain to give each record away."""
    stakes = stakes_for(claim(0.4, neighbors=Relation.ADD_REMOVE), records=10**12, classes=2)
    price = 2.0 / (1.0 + math.exp(27.5 / 2.0)) ** 2
    budget = DELTA_SHARE * SIGNIFICANCE
    expected = -math.log1p(-budget / (10**12 * price)) if 10**12 * price > budget else math.inf
    assert stakes.log_cap(27.6) == pytest.approx(expected, rel=1e-9)
    assert expected < math.inf


def test_bets_end_where_the_surest_belief_does():
    """No belief is surer than 1 - 1e-12, odds of e^27.631: in the grid's last block of points."""
    free = stakes_for(Claim(PureDP()), records=2, classes=2)
    sure = Predictions(*(np.array([x]) for x in (0.0, 30.0, 0.0, 1e18)))
    assert bets_epsilon_lower(sure, stakes=free) == pytest.approx(27.63)


APPROXIMATE = Claim(family=ApproxDP(), delta=1e-5)


@pytest.mark.slow
def test_bets_are_silent_where_nothing_leaks():
    """N = 2,000 audits of 300 records, seed 2; 200 of 100,000 records, seed 3."""
    for records, audits, seed in [(300, 2_000, 2), (100_000, 200, 3)]:
        random = np.random.default_rng(seed)
        errors = sum(believed(unrelated(records, random)) > 0.0 for _ in range(audits))
        assert_rate_at_most(errors, audits, SIGNIFICANCE)


def test_one_threshold_without_correction_has_the_size_it_claims_and_no_less_power():
    """Single tests on 200 fair coins, exact: a hundredth to a twentieth of them are rejected."""
    named = {"family": PureDP(), "delta": 0.0}
    rejected = [epsilon_lower(1_000, 200, right, **named) > 0.0 for right in range(201)]
    assert 0.01 < binom.pmf(np.arange(201), 200, 0.5) @ rejected <= SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "floors"),
    [
        (1_000, {0.5: 0.2, 1.0: 0.35, 2.0: 0.5, 4.0: 0.6}),
        (20_000, {0.5: 0.75, 1.0: 0.88, 2.0: 0.92, 4.0: 0.94}),
    ],
)
@pytest.mark.parametrize("claim", rest_slow([PURE, APPROXIMATE]), ids=["pure", "delta"])
def test_bets_cover_randomized_response_and_reach_the_target(records, floors, claim):
    """N = 100 audits (1,000 records), 20 (20,000), seed 6; floors: shares of the truth, on average.

    At delta 1e-5 as without: it is paid by the stake.
    """
    audits = 100 if records == 1_000 else 20
    for epsilon, floor in floors.items():
        random = np.random.default_rng(6)
        bounds = [
            believed(randomized_response(records, epsilon, random), claim=claim)
            for _ in range(audits)
        ]
        assert_rate_at_most(sum(b > epsilon for b in bounds), audits, SIGNIFICANCE)
        assert np.mean(bounds) > floor * epsilon


def arms(records, epsilon, random):
    """Both arms of randomized response; what the target says of the holdout is of fresh labels."""
    training = randomized_response(records, epsilon, random)
    return training, unread(randomized_response(records // 4, epsilon, random), random)


@pytest.mark.parametrize("claim", [PURE, APPROXIMATE], ids=["pure", "delta"])
@pytest.mark.parametrize(("epsilon", "floor"), rest_slow([(1.0, 0.85), (2.0, 0.90), (4.0, 0.92)]))
def test_the_match_covers_randomized_response_and_reaches_the_target(epsilon, floor, claim):
    """20,000 training and 5,000 holdout records, priors 0.01 to 0.5, N = 20, seed 15."""
    random = np.random.default_rng(15)
    bounds = np.array(
        [matched(*arms(20_000, epsilon, random), claim=claim, seed=i) for i in range(20)]
    )
    assert_rate_at_most(int(np.sum(bounds > epsilon)), 20, SIGNIFICANCE)
    assert bounds.mean() > floor * epsilon


@pytest.mark.slow
@pytest.mark.parametrize("claim", [PURE, APPROXIMATE], ids=["pure", "delta"])
@pytest.mark.parametrize(("epsilon", "floor"), [(1.0, 0.95), (2.0, 0.97), (4.0, 0.97)])
def test_a_million_records_prove_nearly_everything(epsilon, floor, claim):
    """10^6 training and 250,000 holdout records, N = 4, seed 16."""
    random = np.random.default_rng(16)
    bounds = np.array(
        [matched(*arms(1_000_000, epsilon, random), claim=claim, seed=i) for i in range(4)]
    )
    assert np.all(bounds <= epsilon)
    assert bounds.mean() > floor * epsilon


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_match_covers_the_gaussian_mechanism_in_its_own_family(mu):
    """20,000 and 5,000 records at prior 0.5, N = 10, seed 17; floor: a quarter of the truth."""
    random = np.random.default_rng(17)
    claim = Claim(family=Gaussian(), delta=1e-5)
    truth = Gaussian(mu).epsilon_at(delta=1e-5)
    bounds = []
    for audit in range(10):
        target, proxy, _ = gaussian_label(5_000, mu, random)
        control = target, proxy, random.integers(0, 2, 5_000)
        training = gaussian_label(20_000, mu, random)
        bounds.append(matched(training, control, claim=claim, seed=audit))
    assert_rate_at_most(int(np.sum(np.array(bounds) > truth)), 10, SIGNIFICANCE)
    assert np.mean(bounds) > 0.25 * truth, np.mean(bounds) / truth


def wrong_beliefs(records, epsilon, random, belief):
    """Randomized response whose adversary believes in `belief` instead of epsilon."""
    _, proxy, labels = randomized_response(records, epsilon, random)
    noisy = np.where(random.random(records) < 1 / (1 + np.exp(-epsilon)), labels, 1 - labels)
    odds = np.log(proxy[:, 1] / proxy[:, 0]) + belief * (2 * noisy - 1)
    return two_columns(1 / (1 + np.exp(-odds))), proxy, labels


@pytest.mark.slow
@pytest.mark.parametrize("belief", tiered([2.0, 4.0, 12.0], always=1, slow=2))
def test_bets_cover_whatever_the_adversary_believes(belief):
    """A target that claims more than it knows: truth epsilon 1, N = 1,000, 500 records, seed 7.

    Here the beliefs exceed the truth, so that errors are possible at all and do happen.
    """
    random = np.random.default_rng(7)
    bounds = np.array([believed(wrong_beliefs(500, 1.0, random, belief)) for _ in range(1_000)])
    assert_rate_at_most(int(np.sum(bounds > 1.0)), 1_000, SIGNIFICANCE)
    assert bounds.mean() > 0.1


@pytest.mark.parametrize("mu", rest_slow([0.5, 1.0, 2.0]))
def test_bets_with_delta_cover_the_gaussian_mechanism(mu):
    """N = 300 audits of 1,000 records, seed 9, as (epsilon, 1e-5): the price of delta is due."""
    random = np.random.default_rng(9)
    truth = Gaussian(mu).epsilon_at(delta=1e-5)
    bounds = np.array(
        [believed(gaussian_label(1_000, mu, random), claim=APPROXIMATE) for _ in range(300)]
    )
    assert_rate_at_most(int(np.sum(bounds > truth)), 300, SIGNIFICANCE)
    assert bounds.mean() > 0.1
