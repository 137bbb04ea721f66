"""Size and power of every estimator, by simulation: seeds, N and the judging level are stated.

Each test counts how often a bound exceeds a known truth over N simulated audits and judges the
count with an exact binomial test at level 1e-6 (`tests.simulate.JUDGING_LEVEL`). Each also has a
floor of power, so that "always zero" fails too.
"""

import numpy as np
import pytest

from privcore.attacks import LiftTally, LogRatioScore, Tallies, Tally, generator
from privcore.guarantees import ApproxDP, Gaussian, PureDP
from privcore.lower_bounds import (
    Claim,
    Grid,
    bets_epsilon_ceiling,
    bets_epsilon_lower,
    epsilon_lower,
    epsilon_lower_at_prior,
    fit_prior,
    game_evidence,
    read_evidence,
)
from privcore.lower_bounds.game_evidence import paper_epsilons
from tests.simulate import (
    assert_rate_at_most,
    gaussian_label,
    names,
    play,
    randomized_response,
    two_columns,
    unrelated,
)

SIGNIFICANCE = 0.05
PURE = Claim(family=PureDP(), delta=0.0)


def grid_bound(tally: Tally, claim: Claim, seed: int) -> float:
    found = game_evidence(
        tally, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(seed)
    )
    return found.epsilon_lower


@pytest.mark.parametrize("repetitions", [1, 20])
def test_the_grid_is_silent_where_nothing_leaks(repetitions):
    """N = 400 audits of 300 records, seed 1."""
    random = np.random.default_rng(1)
    errors = sum(
        grid_bound(play(*unrelated(300, random), random, repetitions=repetitions), PURE, i) > 0.0
        for i in range(400)
    )
    assert_rate_at_most(errors, 400, SIGNIFICANCE)


def test_bets_are_silent_where_nothing_leaks():
    """N = 2,000 audits of 300 records, seed 2; 200 of 100,000 records, seed 3."""
    for records, audits, seed in [(300, 2_000, 2), (100_000, 200, 3)]:
        random = np.random.default_rng(seed)
        errors = sum(
            bets_epsilon_lower(
                names(*unrelated(records, random)).cells(), records=records, classes=2
            )
            > 0.0
            for _ in range(audits)
        )
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


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
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


@pytest.mark.parametrize(
    ("records", "floors"),
    [
        (1_000, {0.5: 0.2, 1.0: 0.35, 2.0: 0.5, 4.0: 0.6}),
        (20_000, {0.5: 0.6, 1.0: 0.75, 2.0: 0.75, 4.0: 0.75}),
    ],
)
def test_bets_cover_randomized_response_and_reach_the_target(records, floors):
    """N = 200 audits (1,000 records), 40 (20,000), seed 6; floors: shares of the truth, on average.

    Also with delta 1e-5 where its price leaves something to bet with.
    """
    audits = 200 if records == 1_000 else 40
    for epsilon, floor in floors.items():
        random = np.random.default_rng(6)
        cells = [
            names(*randomized_response(records, epsilon, random)).cells() for _ in range(audits)
        ]
        deltas = [0.0, 1e-5] if records == 1_000 else [0.0]
        for delta in deltas:
            bounds = [
                bets_epsilon_lower(cell, records=records, classes=2, delta=delta) for cell in cells
            ]
            assert_rate_at_most(sum(b > epsilon for b in bounds), audits, SIGNIFICANCE)
            assert np.mean(bounds) > floor * epsilon


def wrong_beliefs(records, epsilon, random, believed):
    """Randomized response whose adversary believes in `believed` instead of epsilon."""
    _, proxy, labels = randomized_response(records, epsilon, random)
    noisy = np.where(random.random(records) < 1 / (1 + np.exp(-epsilon)), labels, 1 - labels)
    odds = np.log(proxy[:, 1] / proxy[:, 0]) + believed * (2 * noisy - 1)
    return two_columns(1 / (1 + np.exp(-odds))), proxy, labels


@pytest.mark.parametrize("believed", [2.0, 4.0, 12.0])
def test_bets_cover_whatever_the_adversary_believes(believed):
    """A target that claims more than it knows: truth epsilon 1, N = 1,000, 500 records, seed 7.

    Here the beliefs exceed the truth, so that errors are possible at all and do happen.
    """
    random = np.random.default_rng(7)
    bounds = np.array(
        [
            bets_epsilon_lower(
                names(*wrong_beliefs(500, 1.0, random, believed)).cells(), records=500, classes=2
            )
            for _ in range(1_000)
        ]
    )
    assert_rate_at_most(int(np.sum(bounds > 1.0)), 1_000, SIGNIFICANCE)
    assert bounds.mean() > 0.1


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
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


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_bets_with_delta_cover_the_gaussian_mechanism(mu):
    """N = 300 audits of 1,000 records, seed 9, as (epsilon, 1e-5): the price of delta is due."""
    random = np.random.default_rng(9)
    truth = Gaussian(mu).epsilon_at(delta=1e-5)
    bounds = np.array(
        [
            bets_epsilon_lower(
                names(*gaussian_label(1_000, mu, random)).cells(),
                records=1_000,
                classes=2,
                delta=1e-5,
            )
            for _ in range(300)
        ]
    )
    assert_rate_at_most(int(np.sum(bounds > truth)), 300, SIGNIFICANCE)
    assert bounds.mean() > 0.1


@pytest.mark.parametrize(
    ("epsilon", "audits", "floor"), [(0.5, 100, 0.0), (2.3, 60, 0.0), (6.0, 40, 0.5)]
)
def test_with_many_records_bets_begin_where_delta_is_paid_for(epsilon, audits, floor):
    """Randomized response, 20,000 records as (epsilon, 1e-5), seed 19: never above the truth.

    The grid begins at 2.2: nothing is proved of less, and most of what is well above.
    """
    random = np.random.default_rng(19)
    options = {"records": 20_000, "classes": 2, "delta": 1e-5}
    cells = [names(*randomized_response(20_000, epsilon, random)).cells() for _ in range(audits)]
    bounds = np.array([bets_epsilon_lower(cell, **options) for cell in cells])
    assert_rate_at_most(int(np.sum(bounds > epsilon)), audits, SIGNIFICANCE)
    assert bounds.mean() >= floor * epsilon
    assert np.all((bounds == 0.0) | (bounds >= 2.2))
    assert bets_epsilon_lower(cells[0], **options | {"delta": 0.1}) < 0.1
    assert np.all(bounds <= [bets_epsilon_ceiling(cell, **options) for cell in cells])


def leaky(records, delta, random):
    """A mechanism that is (0, delta)-DP and reveals each label with probability delta."""
    labels = random.integers(0, 2, records)
    known = random.random(records) < delta
    seen = np.where(known, np.where(labels == 1, 1.0, 0.0), 0.5)
    return two_columns(seen), np.full((records, 2), 0.5), labels


def test_the_price_of_delta_is_needed_and_paid():
    """Truth (0, 0.001), 50 records, N = 4,000, seed 10: unpaid, errors are certain to be seen."""
    random = np.random.default_rng(10)
    games = [names(*leaky(50, 1e-3, random)).cells() for _ in range(4_000)]
    paid = [bets_epsilon_lower(c, records=50, classes=2, delta=1e-3) > 0.0 for c in games]
    assert_rate_at_most(sum(paid), 4_000, SIGNIFICANCE)
    games = [names(*leaky(50, 0.2, random)).cells() for _ in range(500)]
    unpaid = [bets_epsilon_lower(c, records=50, classes=2) > 0.0 for c in games]
    assert sum(unpaid) > 450


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


def drifted(records, random, *, memorised):
    """Return a day whose labels the proxy misjudges; a share of them the target memorises."""
    truth = random.beta(0.5, 0.5, records) * 0.9 + 0.05
    labels = (random.random(records) < truth).astype(np.int64)
    proxy = 1 / (1 + np.exp(-(0.6 * np.log(truth / (1 - truth)) + 0.5)))
    learnt = np.log(truth / (1 - truth)) + random.normal(0.0, 0.5, records)
    own = np.where(random.random(records) < memorised, 4.0 * (2 * labels - 1), 0.0)
    return two_columns(1 / (1 + np.exp(-(learnt + own)))), two_columns(proxy), labels


def faithful(records, random, *, memorised):
    """The same without drift: the proxy is right."""
    target, _, labels = drifted(records, random, memorised=0.0)
    truth = random.uniform(0.05, 0.95, records)
    labels = (random.random(records) < truth).astype(np.int64)
    own = np.where(random.random(records) < memorised, 4.0 * (2 * labels - 1), 0.0)
    odds = np.log(truth / (1 - truth)) + own
    del target
    return two_columns(1 / (1 + np.exp(-odds))), two_columns(truth), labels


def calibrated(world, random, records, memorised):
    training = names(*world(records, random, memorised=memorised))
    control = names(*world(records // 4, random, memorised=0.0))
    fit = fit_prior(control)
    bound = {
        "proxy": training.cells(),
        "control": fit.apply(training.cells()),
        "both": fit.raise_prior(training.cells()),
    }
    return {
        name: bets_epsilon_lower(cells, records=records, classes=2) for name, cells in bound.items()
    }


def test_calibration_turns_drift_into_silence_and_keeps_memorisation():
    """4,000 training and 1,000 control records, N = 100 each, seed 12."""
    random = np.random.default_rng(12)
    drift = [calibrated(drifted, random, 4_000, 0.0) for _ in range(100)]
    assert np.mean([b["proxy"] for b in drift]) > 0.5
    for name in ("control", "both"):
        assert_rate_at_most(sum(b[name] > 0.0 for b in drift), 100, SIGNIFICANCE)
    for world in (drifted, faithful):
        leaks = [calibrated(world, random, 4_000, 0.5) for _ in range(20)]
        assert np.min([b["both"] for b in leaks]) > 0.5
    neither = [calibrated(faithful, random, 4_000, 0.0) for _ in range(100)]
    for name in ("proxy", "control", "both"):
        assert_rate_at_most(sum(b[name] > 0.0 for b in neither), 100, SIGNIFICANCE)


def test_raising_the_prior_never_proves_more():
    random = np.random.default_rng(13)
    for _ in range(20):
        bound = calibrated(drifted, random, 1_000, 0.3)
        assert bound["both"] <= min(bound["proxy"], bound["control"]) + 0.011


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


def test_the_headline_method_is_chosen_by_the_claim_and_the_size_alone():
    random = np.random.default_rng(15)
    world = randomized_response(400, 2.0, random)
    game, lifts = play(*world, random, repetitions=3), names(*world)

    def method(claim: Claim, records: int = 400) -> str:
        sized = LiftTally(records, lifts.counts)
        tallies = Tallies(game, game, sized, lifts, classes=2)
        return read_evidence(
            tallies, claim=claim, choice=Grid(), paper_delta=1e-5, random=generator(0)
        ).method

    assert method(PURE) == "bets"
    assert method(Claim(family=ApproxDP(), delta=1e-5)) == "bets"
    assert method(Claim(family=ApproxDP(), delta=1e-5), records=100_000) == "grid"
    assert method(Claim(family=Gaussian(), delta=1e-5)) == "grid"


def test_a_perfect_attack_reaches_the_ceiling():
    labels = np.random.default_rng(16).integers(0, 2, 1_000)
    certain = two_columns(labels.astype(float))
    cells = names(certain, np.full((1_000, 2), 0.5), labels).cells()
    reached = bets_epsilon_lower(cells, records=1_000, classes=2)
    most = bets_epsilon_ceiling(cells, records=1_000, classes=2)
    assert 4.5 < reached <= most < 7.0
