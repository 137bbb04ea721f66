"""Size and power of every estimator, by simulation: seeds, N and the judging level are stated.

Each test counts how often a bound exceeds a known truth over N simulated audits and judges the
count with an exact binomial test at level 1e-6 (`tests.simulate.JUDGING_LEVEL`). Each also has a
floor of power, so that "always zero" fails too.
"""

import numpy as np
import pytest

from privcore.attacks import LogRatioScore, Tally, generator
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import (
    Claim,
    Grid,
    epsilon_lower,
    epsilon_lower_at_prior,
    game_evidence,
)
from privcore.lower_bounds.game_evidence import paper_epsilons
from tests.simulate import (
    PURE,
    assert_rate_at_most,
    believed,
    gaussian_label,
    matched,
    play,
    randomized_response,
    two_columns,
    unrelated,
)
from tests.support.tiers import rest_slow, tiered

SIGNIFICANCE = 0.05
APPROXIMATE = Claim(family=ApproxDP(), delta=1e-5)


def grid_bound(tally: Tally, claim: Claim, seed: int) -> float:
    found = game_evidence(
        tally, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(seed)
    )
    return found.epsilon_lower


@pytest.mark.slow
@pytest.mark.parametrize("repetitions", rest_slow([1, 20]))
def test_the_grid_is_silent_where_nothing_leaks(repetitions):
    """N = 400 audits of 300 records, seed 1."""
    random = np.random.default_rng(1)
    errors = sum(
        grid_bound(play(*unrelated(300, random), random, repetitions=repetitions), PURE, i) > 0.0
        for i in range(400)
    )
    assert_rate_at_most(errors, 400, SIGNIFICANCE)


@pytest.mark.slow
def test_bets_are_silent_where_nothing_leaks():
    """N = 2,000 audits of 300 records, seed 2; 200 of 100,000 records, seed 3."""
    for records, audits, seed in [(300, 2_000, 2), (100_000, 200, 3)]:
        random = np.random.default_rng(seed)
        errors = sum(believed(unrelated(records, random)) > 0.0 for _ in range(audits))
        assert_rate_at_most(errors, audits, SIGNIFICANCE)


def test_one_threshold_without_correction_has_the_size_it_claims_and_no_less_power():
    """Single tests on fair coins: N = 20,000, seed 4; some are rejected, at most 5%."""
    random = np.random.default_rng(4)
    right = random.binomial(200, 0.5, 20_000)
    rejected = sum(
        epsilon_lower(1_000, 200, int(c), family=PureDP(), delta=0.0) > 0.0 for c in right
    )
    assert_rate_at_most(rejected, 20_000, SIGNIFICANCE)
    assert rejected > 100


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", rest_slow([0.5, 1.0, 2.0, 4.0]))
def test_the_grid_covers_randomized_response(epsilon):
    """N = 60 audits of 3,000 records, 20 repetitions, seed 5; power: 40% of the truth."""
    random = np.random.default_rng(5)
    bounds = [
        grid_bound(
            play(
                *randomized_response(3_000, epsilon, random),
                random,
                repetitions=20,
                score=LogRatioScore(),
            ),
            PURE,
            i,
        )
        for i in range(60)
    ]
    assert_rate_at_most(sum(bound > epsilon for bound in bounds), 60, SIGNIFICANCE)
    assert np.mean(bounds) > (0.4 if epsilon >= 1.0 else 0.1) * epsilon


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
    target, proxy, _ = randomized_response(records // 4, epsilon, random)
    labels = (random.random(records // 4) < proxy[:, 1]).astype(np.int64)
    return training, (target, proxy, labels)


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


def test_adding_and_removing_is_bounded_by_half_of_replacing():
    """Randomized response at 2 for replacing allows 1 for adding and removing; seed 18."""
    random = np.random.default_rng(18)
    for claim in (PURE, APPROXIMATE):
        added = Claim(claim.family, claim.delta, neighbors=Relation.ADD_REMOVE)
        world = arms(10_000, 2.0, random)
        replaced = matched(*world, claim=claim)
        assert matched(*world, claim=added) == pytest.approx(replaced / 2.0, abs=0.02)
        assert 1.5 < replaced <= 2.0


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


@pytest.mark.slow
@pytest.mark.parametrize("mu", rest_slow([0.5, 1.0, 2.0]))
def test_the_grid_covers_the_gaussian_mechanism(mu):
    """N = 60 audits of 3,000 records, 20 repetitions, seed 8, in the Gaussian family."""
    random = np.random.default_rng(8)
    claim = Claim(family=Gaussian(), delta=1e-5)
    truth = Gaussian(mu).epsilon_at(delta=1e-5)
    bounds = [
        grid_bound(
            play(*gaussian_label(3_000, mu, random), random, repetitions=20, score=LogRatioScore()),
            claim,
            i,
        )
        for i in range(60)
    ]
    assert_rate_at_most(sum(bound > truth for bound in bounds), 60, SIGNIFICANCE)
    assert np.mean(bounds) > 0.12 * truth


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


def test_the_papers_figure_is_not_corrected():
    """Randomized response at epsilon 2, 5,000 records, N = 20: it exceeds the truth mostly."""
    random = np.random.default_rng(11)
    above = 0
    for i in range(20):
        tally = play(
            *randomized_response(5_000, 2.0, random), random, repetitions=20, score=LogRatioScore()
        )
        figure = paper_epsilons(tally, claim=PURE, delta=1e-5, random=generator(i)).mean()
        above += figure > 2.0
    assert above > 10


def test_the_binomial_bound_at_a_prior_covers_and_finds():
    """Success rate e^2 / (e^2 - 1 + 1/0.3), 300 guesses, N = 20,000, seed 14."""
    random = np.random.default_rng(14)
    rate = np.exp(2.0) / (np.exp(2.0) - 1.0 + 1.0 / 0.3)
    right = random.binomial(300, rate, 20_000)
    bounds = epsilon_lower_at_prior(300, right, prior=0.3, significance=SIGNIFICANCE)
    assert_rate_at_most(int(np.sum(bounds > 2.0)), 20_000, SIGNIFICANCE)
    assert np.mean(bounds > 2.0) > 0.03
    assert bounds.mean() > 1.6
    assert epsilon_lower_at_prior(10, 10, prior=1.0, significance=0.05) == 0.0
    assert epsilon_lower_at_prior(10, 0, prior=0.5, significance=0.05) == 0.0
