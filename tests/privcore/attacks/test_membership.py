"""The membership game, the scores that feed it, and pairs; rates are judged at 1e-6."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit

from privcore.attacks import LogRatioScore, Tally, generator, odds_tally, own_label, pair
from privcore.attacks.game import BINS, confidence_bin
from privcore.attacks.matching import SHARES
from privcore.attacks.membership import CalibratedLossScore, RmiaScore, membership_inference
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import Grid, choice_epsilon_lower, game_evidence
from tests.simulate import PURE, assert_rate_at_most, randomized_response, two_columns
from tests.support.refusals import refused
from tests.support.words import WORD, naive_draw

PAIRS = 50


def bound(tally, seed=0, choice=Grid()):  # noqa: B008  # frozen
    return choice_epsilon_lower(tally, claim=PURE, choice=choice, random=generator(seed))


def scores(seed, size=PAIRS):
    """Scores of either sign, some of them exactly 0."""
    random = np.random.default_rng(seed)
    return random.normal(0.3, 1.0, size) * (random.random(size) < 0.8)


def naive_tally(rounds):
    """Count (score, bit, coin) of every record, one list per repetition."""
    guesses = np.zeros((len(rounds), BINS), dtype=np.int64)
    correct = np.zeros_like(guesses)
    for repetition, played in enumerate(rounds):
        for score, bit, coin in played:
            cell = confidence_bin(score)
            guess = coin if score == 0.0 else int(score > 0.0)
            guesses[repetition, cell] += 1
            correct[repetition, cell] += guess == bit
    return Tally(len(rounds[0]), guesses, correct)


@pytest.mark.parametrize("key", [0, 11, WORD - 1])
def test_membership_agrees_with_a_naive_game(key):
    members, others = scores(0), scores(1)
    rounds = []
    for repetition in range(7):
        draws = [naive_draw(key, i, repetition) for i in range(PAIRS)]
        shown = [members[i] if bit else others[i] for i, (bit, _, _) in enumerate(draws)]
        rounds.append([(s, bit, coin) for s, (bit, coin, _) in zip(shown, draws, strict=True)])
    assert membership_inference(members, others, repetitions=7, key=key) == naive_tally(rounds)


@given(st.lists(st.integers(0, 2), min_size=PAIRS, max_size=PAIRS))
@settings(max_examples=25, deadline=None)
def test_any_sharding_gives_the_same_tally_in_any_grouping(shards):
    members, others = scores(0), scores(1)

    def play(rows):
        return membership_inference(members[rows], others[rows], repetitions=4, key=9, indices=rows)

    a, b, c = (play(np.flatnonzero(np.array(shards) == shard)) for shard in range(3))
    assert (a + b) + c == a + (b + c) == c + b + a == play(np.arange(PAIRS))


def test_certain_scores_are_as_good_as_they_get():
    forever = np.full(500, np.inf)
    tally = membership_inference(forever, -forever, repetitions=3, key=1)
    assert np.array_equal(tally.correct, tally.guesses)
    evidence = game_evidence(
        tally, claim=PURE, choice=Grid(), paper_delta=1e-5, random=generator(0)
    )
    assert evidence.records == 500
    assert evidence.epsilon_lower == pytest.approx(evidence.epsilon_ceiling)


@pytest.mark.parametrize(("repetitions", "centre"), [(1, 0.0), (10, 1.5)])
def test_membership_is_silent_where_members_score_as_others_do(repetitions, centre):
    """N = 400 audits of 300 pairs, seed 20; a threshold that is off does not matter."""
    random = np.random.default_rng(20)
    errors = sum(
        bound(
            membership_inference(
                random.normal(centre, 1.0, 300),
                random.normal(centre, 1.0, 300),
                repetitions=repetitions,
                key=i,
            ),
            i,
        )
        > 0.0
        for i in range(400)
    )
    assert_rate_at_most(errors, 400, PURE.significance)


@pytest.mark.parametrize(("epsilon", "both_shown"), [(1.0, True), (4.0, False)])
def test_membership_covers_a_known_mechanism_and_finds_it(epsilon, both_shown):
    """Records are labels, released by randomized response: replacing one costs exactly epsilon.

    N = 60 audits of 3,000 pairs, 10 repetitions, seed 22; power: 40% of the truth on average.
    """
    random = np.random.default_rng(22)
    bounds = []
    for i in range(60):
        target, proxy, labels = randomized_response(3_000, epsilon, random)
        fresh = (random.random(3_000) < proxy[:, 1]).astype(np.int64)
        score, rows = LogRatioScore()(target, proxy), np.arange(3_000)
        members, others = score[rows, labels], score[rows, fresh]
        if both_shown:
            members, others = members - others, others - members
        bounds.append(bound(membership_inference(members, others, repetitions=10, key=i), i))
    assert_rate_at_most(sum(b > epsilon for b in bounds), 60, PURE.significance)
    assert np.mean(bounds) > 0.4 * epsilon


def overfitted(records, random, *, memorised):
    """Log-odds of the own label under (target, reference): hard and easy records, for both."""
    difficulty = random.normal(0.5, 2.0, records)
    target = difficulty + random.normal(0.0, 0.5, records) + memorised
    return target, difficulty + random.normal(0.0, 0.5, records)


def reference_scores(records, random, population, *, memorised):
    """Scores by name of one draw of records; members and others meet the same population."""
    target, reference = overfitted(records, random, memorised=memorised)
    rmia = {"population_target": expit(population[0]), "population_reference": expit(population[1])}
    return {
        # The loss alone, centred at the median of an easy half and a hard half.
        "loss": log_expit(target) - log_expit(0.5),
        "calibrated": CalibratedLossScore()(-log_expit(target), -log_expit(reference)),
        "rmia": RmiaScore()(expit(target), expit(reference), **rmia),
        "rmia, a = 0.3": RmiaScore(slope=0.3)(expit(target), expit(reference), **rmia),
        "rmia, gamma = 2": RmiaScore(dominance=2.0, threshold=0.2)(
            expit(target), expit(reference), **rmia
        ),
    }


@pytest.mark.parametrize(("common", "least", "most"), [(False, 40, 200), (True, 0, 10)])
def test_both_records_of_a_pair_must_meet_the_same_population(common, least, most):
    """Nothing leaks; with a population of 300 for each side a bound is positive all the same.

    N = 200 audits of 500 pairs, seed 24. It shows where many scores are equal (dominance 2).
    """
    random, errors, name = np.random.default_rng(24), 0, "rmia, gamma = 2"
    for i in range(200):
        mine = overfitted(300, random, memorised=0.0)
        theirs = mine if common else overfitted(300, random, memorised=0.0)
        members = reference_scores(500, random, mine, memorised=0.0)[name]
        others = reference_scores(500, random, theirs, memorised=0.0)[name]
        errors += bound(membership_inference(members, others, repetitions=5, key=i), i) > 0.0
    assert least <= errors <= most


def test_a_reference_model_tells_members_from_easy_records():
    """N = 10 audits of 3,000 pairs, seed 25: what the loss alone hardly sees both scores find."""
    random, bounds = np.random.default_rng(25), Counter()
    for i in range(10):
        population = overfitted(1_000, random, memorised=0.0)
        members = reference_scores(3_000, random, population, memorised=1.5)
        others = reference_scores(3_000, random, population, memorised=0.0)
        for name in members:
            game = membership_inference(members[name], others[name], repetitions=5, key=i)
            bounds[name] += bound(game, i) / 10
    for name in ("calibrated", "rmia", "rmia, a = 0.3", "rmia, gamma = 2"):
        assert bounds[name] > max(0.8, 1.2 * bounds["loss"]), bounds


def naive_rmia(score, x, reference, population, population_reference):
    """The paper's share, pair by pair, cross-multiplied as in the docstring."""

    def mean(p):
        return ((1 + score.slope) * p + (1 - score.slope)) / 2

    shares = []
    for p, q in zip(x, reference, strict=True):
        outdone = sum(
            p / mean(q) >= score.dominance * (z / mean(w))
            for z, w in zip(population, population_reference, strict=True)
        )
        share = (outdone + 0.5) / (len(population) + 1)
        shares.append(np.log(share / (1 - share)) - np.log(score.threshold / (1 - score.threshold)))
    return np.array(shares)


@given(st.floats(0.25, 4.0), st.floats(0.0, 1.0), st.floats(0.05, 0.95), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_rmia_agrees_with_its_definition(dominance, slope, threshold, seed):
    random = np.random.default_rng(seed)
    # Few values, so that ratios tie; 0 for the target is a legitimate probability.
    x, z = random.integers(0, 5, 20) / 4, random.integers(0, 5, 30) / 4
    q, w = random.integers(1, 5, 20) / 4, random.integers(1, 5, 30) / 4
    score = RmiaScore(dominance=dominance, slope=slope, threshold=threshold)
    fast = score(x, q, population_target=z, population_reference=w)
    assert np.allclose(fast, naive_rmia(score, x, q, z, w), rtol=0, atol=1e-12)
    assert np.all(np.isfinite(fast))


def test_a_calibrated_loss_is_what_the_reference_loses_more():
    calibrated = CalibratedLossScore(threshold=0.25)(np.array([1.0, 0.5]), np.array([1.5, 0.5]))
    assert np.array_equal(calibrated, [0.25, -0.25])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": np.array([0.0, np.nan])}, "members is nan, but a score is a number"),
        (
            {"nonmembers": np.zeros(3)},
            r"nonmembers is \(3,\), but it has the shape of members, \(2,\)",
        ),
        ({"members": np.zeros((2, 1))}, r"members is \(2, 1\), but it has one value per record"),
        ({"repetitions": 0}, "repetitions is 0, but the game is played at least once"),
        ({"indices": np.arange(3)}, r"indices is \(3,\), but their shape is \(2,\)"),
    ],
)
def test_bad_pairs_are_named(change, message):
    arguments = {"members": np.zeros(2), "nonmembers": np.zeros(2), "repetitions": 1, "key": 0}
    refused(message, membership_inference, **arguments | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.array([np.nan])}, "target is nan"),
        ({"reference": np.array([1.5])}, "reference is 1.5"),
        ({"reference": np.array([0.0])}, "reference is 0.0, but with slope 1"),
        ({"reference": np.ones(2)}, r"reference is \(2,\), but it has the shape of target, \(1,\)"),
        ({"population_reference": np.ones(1)}, "population_reference is .* of population_target"),
        (
            {"population_target": np.ones(0), "population_reference": np.ones(0)},
            "the population has records",
        ),
    ],
)
def test_bad_probabilities_are_named(change, message):
    half = np.full(1, 0.5)
    arguments = {
        "target": half,
        "reference": half,
        "population_target": np.full(2, 0.5),
        "population_reference": np.full(2, 0.5),
    } | change
    target, reference = arguments.pop("target"), arguments.pop("reference")
    refused(message, RmiaScore(), target, reference, **arguments)


def test_bad_choices_and_losses_are_named():
    refused(r"dominance is 0\.0, but it is a finite factor", RmiaScore, dominance=0.0)
    refused(r"slope is 1.5, but it lies in \[0, 1\]", RmiaScore, slope=1.5)
    refused(r"threshold is 1\.0, but a share lies in", RmiaScore, threshold=1.0)
    refused("threshold is inf, but it is a finite", CalibratedLossScore, threshold=np.inf)
    no_loss, loss = "is inf, but a loss is a finite", CalibratedLossScore()
    refused(f"target_losses {no_loss}", loss, np.array([np.inf]), np.zeros(1))
    refused("reference_losses is nan", loss, np.zeros(1), np.array([np.nan]))
    refused("reference_losses is .* of target_losses", loss, np.zeros(1), np.zeros(2))


def arm(target, proxy):
    """Return the tally of records whose own label has these log-odds."""
    both = [two_columns(expit(np.asarray(odds, dtype=float))) for odds in (target, proxy)]
    return odds_tally(*both, np.ones(len(both[0]), dtype=np.int64))


def found(training, control, seed=0):
    return pair(training, control, random=generator(seed))


def test_own_label_takes_each_records_label_of_both_models():
    target, proxy = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]), np.full((2, 3), 1 / 3)
    of_target, of_proxy, labels = own_label(target, proxy, np.array([2, 0]))
    assert of_target[:, 1].tolist() == [0.5, 0.1]
    assert of_proxy[:, 1] == pytest.approx(1 / 3)
    assert labels.tolist() == [1, 1]
    for strange in (np.array([3, 0]), np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(InvalidInputError):
            own_label(target, proxy, strange)


def test_all_pairs_are_right_where_members_are_always_likelier():
    sets = found(arm([2.0] * 30, [0.0] * 30), arm([-2.0] * 10, [0.0] * 10))
    both = [(one.records.tolist(), one.right.tolist()) for one in sets]
    assert both == [([10], [10])] * len(SHARES)
    sets = found(arm([-2.0] * 30, [0.0] * 30), arm([2.0] * 10, [0.0] * 10))
    assert [one.right.tolist() for one in sets] == [[0]] * len(SHARES)
    assert sets[0].all_right().right.tolist() == [10]


def test_records_are_paired_within_what_the_proxy_says():
    """Members are likelier in one bin and holdout records in the other: half of the pairs each."""
    training = arm([2.0] * 8 + [-2.0] * 8, [1.0] * 8 + [-3.0] * 8)
    control = arm([-2.0] * 8 + [2.0] * 4, [1.0] * 8 + [-3.0] * 4)
    everything = found(training, control)[0]
    assert (everything.records.tolist(), everything.right.tolist()) == ([12], [8])


def test_sets_hold_the_pairs_that_differ_most():
    random = np.random.default_rng(3)
    training = arm(random.normal(0.5, 2.0, 4000), np.zeros(4000))
    control = arm(random.normal(0.0, 2.0, 1000), np.zeros(1000))
    sets = found(training, control)
    pairs = [int(one.records[0]) for one in sets]
    assert pairs[0] <= 1000
    for share, number in zip(SHARES, pairs, strict=True):
        assert share * pairs[0] <= number <= share * pairs[0] + 60
    rates = [int(one.right[0]) / number for one, number in zip(sets, pairs, strict=True)]
    assert rates[0] > 0.53
    assert rates[2] > rates[1] > rates[0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=1, max_size=40),
    st.integers(0, 9),
)
def test_pairs_are_counted_as_a_walk_through_the_bins_counts_them(members, others, seed):
    """Exchanging the arms exchanges right and wrong; no more pairs than the smaller arm has."""
    training, control = (arm(*np.array(rows).T / 4.0) for rows in (members, others))
    one = found(training, control, seed)[0]
    bins = [[proxy for _, proxy in rows] for rows in (members, others)]
    most = sum(min(bins[0].count(proxy), bins[1].count(proxy)) for proxy in set(bins[0]))
    number, right = int(one.records.sum()), int(one.right.sum())
    assert 0 <= right <= number <= most
    lead = [t - o for t, p in members for o, q in others if p == q]
    assert (number > 0) <= any(lead)
    if all(step > 0 for step in lead):
        assert right == number == most


@pytest.mark.slow
def test_pairs_are_drawn_at_random_and_in_proportion():
    """Each of 3 x 3 pairs is equally likely; the naive twin pairs permutations, 400 times."""
    members, others = [0.0, 1.0, 2.0], [-1.0, 1.5, 1.0]
    training, control = arm(members, np.zeros(3)), arm(others, np.zeros(3))
    random = np.random.default_rng(11)
    twin, ours = [], []
    for seed in range(400):
        shuffled = random.permutation(others)
        lead = np.array(members) - shuffled
        twin.append((np.sum(lead != 0.0), np.sum(lead > 0.0)))
        one = found(training, control, seed)[0]
        ours.append((one.records.sum(), one.right.sum()))
    kinds = sorted(set(twin))
    assert sorted(set(ours)) == kinds
    for kind in kinds:
        expected = twin.count(kind) / 400
        assert ours.count(kind) / 400 == pytest.approx(expected, abs=5 * (0.5 / 400) ** 0.5)
