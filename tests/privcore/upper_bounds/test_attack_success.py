"""One guess: limits, small mechanisms gone through exactly, other bounds beside ours."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binomtest, norm

from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation, implied, simulated_epsilon
from privcore.upper_bounds import (
    bit_success,
    bits_leaked,
    epsilon_protect,
    generalised_advantage,
    label_success,
    narcissus_bound,
    reconstruction_robustness,
    success_bound,
    tradeoff_success_bound,
)
from tests.support.published import printed
from tests.support.refusals import refused
from workers.lake.manifest import Privacy

priors = st.floats(1e-12, 1.0 - 1e-9)
epsilons = st.floats(0.0, 60.0)


def ordered(numbers):
    return st.tuples(numbers, numbers).map(sorted)


@pytest.mark.parametrize("prior", [0.0, 1e-300, 1e-9, 0.3, 0.5, 0.9, 1.0])
def test_limits(prior):
    assert success_bound(prior, epsilon=0.0) == prior
    assert success_bound(prior, epsilon=np.inf) == (0.0 if prior == 0.0 else 1.0)
    assert success_bound(prior, epsilon=5000.0) == (0.0 if prior == 0.0 else 1.0)
    assert generalised_advantage(prior, prior) == 0.0
    assert epsilon_protect(prior, advantage=0.0) == 0.0
    assert epsilon_protect(prior, advantage=1.0) == np.inf


def test_limits_of_delta_and_bits():
    assert success_bound(0.9999, epsilon=3.0, delta=0.5) == 1.0
    assert success_bound(0.0, epsilon=3.0, delta=0.25) == 0.25
    assert epsilon_protect(0.0, advantage=0.05) == np.inf
    assert bits_leaked(1.0, epsilon=3.0) == 0.0
    assert bits_leaked(0.0, epsilon=0.0) == np.inf
    assert bits_leaked(0.5, epsilon=np.inf) == np.inf
    assert bits_leaked(1.0, epsilon=np.inf) == np.inf
    assert bits_leaked(2.0**-7, epsilon=0.0) == pytest.approx(7.0, rel=1e-14)
    assert reconstruction_robustness(0.0, epsilon=np.inf) == 0.0
    assert reconstruction_robustness(0.3, epsilon=np.inf) == 1.0
    assert reconstruction_robustness(0.3, epsilon=0.0) == pytest.approx(0.3, rel=1e-15)
    assert narcissus_bound(0.0, epsilon=2.0, delta=0.1) == 0.1


@pytest.mark.paper("worst_case", "Section 3.2")
@pytest.mark.parametrize("prior", [1e-200, 1e-9, 0.01, 0.5, 1.0 - 1e-12])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 20.0, 600.0])
def test_against_mpmath(prior, epsilon):
    with mp.workdps(60):
        growth, p = mp.exp(mpf(epsilon)), mpf(prior)
        success = growth / (growth - 1 + 1 / p)
        bits = mp.log(growth * (1 / p - 1) + 1, 2)
        protect = mp.log(1 + mpf(0.05) / ((1 - mpf(0.05)) * p))
    assert success_bound(prior, epsilon=epsilon) == pytest.approx(float(success), rel=1e-13)
    assert bits_leaked(prior, epsilon=epsilon) == pytest.approx(float(bits), rel=1e-10)
    assert epsilon_protect(prior, advantage=0.05) == pytest.approx(float(protect), rel=1e-13)


@settings(deadline=None)
@given(ordered(priors), ordered(epsilons), ordered(st.floats(0.0, 0.5)))
def test_monotone_and_above_the_prior(prior, epsilon, delta):
    low, high = (success_bound(prior[i], epsilon=epsilon[i], delta=delta[i]) for i in range(2))
    assert prior[0] * (1.0 - 1e-14) <= low <= high * (1.0 + 1e-14)
    assert high <= 1.0


def best_posteriors(secrets, epsilon):
    """For each answer of randomized response: its best guess, and how probably it is right."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + secrets.size - 1.0)
    other = (1.0 - keep) / (secrets.size - 1.0)
    joint = secrets[:, np.newaxis] * np.where(np.eye(secrets.size), keep, other)
    posterior = joint / joint.sum(axis=0)
    return posterior.argmax(axis=0), posterior.max(axis=0)


@pytest.mark.paper("worst_case", "Proposition B.1")
@pytest.mark.parametrize(
    ("secrets", "likeliest"),
    [([0.4, 0.3, 0.2, 0.1], [0, 1, 2, 3]), ([0.7, 0.2, 0.05, 0.05], [0, 1, 0, 0])],
)
def test_randomized_response_reaches_the_bound_within_its_range_and_not_outside(secrets, likeliest):
    guesses, posterior = best_posteriors(np.array(secrets), np.log(5.0))
    assert guesses.tolist() == likeliest
    bound = success_bound(np.array(secrets)[guesses], epsilon=np.log(5.0))
    own = guesses == np.arange(4)  # no other secret is five times as probable
    np.testing.assert_allclose(posterior[own], bound[own], rtol=1e-14)
    assert np.all(posterior[~own] < 0.8 * bound[~own])


def some_mechanism(seed):
    """P_y for three labels and no label over four outputs, and the labels' distribution."""
    generator = np.random.default_rng(seed)
    spread = generator.uniform(0.0, 3.0)
    runs = np.exp(generator.uniform(0.0, spread, (4, 4)))
    runs /= runs.sum(axis=1, keepdims=True)
    return runs[:3], runs[3], generator.dirichlet(np.full(3, generator.choice([0.3, 1.0, 5.0])))


def loss(one, other):
    return float(np.abs(np.log(one / other)).max())


def hockey_stick(one, other, epsilon):
    """The least delta at epsilon, both ways."""
    ways = (one - np.exp(epsilon) * other, other - np.exp(epsilon) * one)
    return max(float(np.maximum(way, 0.0).sum()) for way in ways)


def exact(labels, without, chances):
    """The least pure epsilon under each relation."""
    mixture = chances @ labels
    return {
        Relation.REPLACE: max(loss(one, other) for one in labels for other in labels),
        Relation.ADD_REMOVE: max(loss(one, without) for one in labels),
        Relation.SIMULATE: max(loss(one, mixture) for one in labels),
    }


mechanisms = st.integers(0, 10**6).map(some_mechanism)


@pytest.mark.paper("observational", "Definition 1", "Definition 2", "Table 3")
@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_what_implies_what(mechanism):
    epsilons = exact(*mechanism)
    for known in Relation:
        for asked in Relation:
            bound, delta = implied(epsilons[known], given=known, asked=asked)
            assert delta == 0.0
            assert epsilons[asked] <= bound + 1e-9


@pytest.mark.paper("observational", "Definition 1", "Definition 2")
@settings(deadline=None, max_examples=100)
@given(mechanisms, st.floats(0.0, 2.0))
def test_what_implies_what_with_delta(mechanism, epsilon):
    labels, without, chances = mechanism
    mixture = chances @ labels
    pairs = {
        Relation.REPLACE: [(one, other) for one in labels for other in labels],
        Relation.ADD_REMOVE: [(one, without) for one in labels],
        Relation.SIMULATE: [(one, mixture) for one in labels],
    }
    for known in Relation:
        delta = max(hockey_stick(*pair, epsilon) for pair in pairs[known])
        if delta >= 1.0:
            continue
        for asked in (Relation.REPLACE, Relation.SIMULATE):
            bound, allowed = implied(epsilon, delta=delta, given=known, asked=asked)
            reached = max(hockey_stick(*pair, float(bound)) for pair in pairs[asked])
            assert reached <= allowed + 1e-9


def test_nothing_follows_for_a_run_without_the_label():
    # The mechanism ignores labels, and does something else where there is none.
    # Two of them: three thirds do not make one on every processor, two halves do.
    labels, without = np.array([[1 - 1e-9, 1e-9]] * 2), np.array([1e-9, 1 - 1e-9])
    epsilons = exact(labels, without, np.full(2, 1 / 2))
    assert epsilons[Relation.REPLACE] == epsilons[Relation.SIMULATE] == 0.0
    assert epsilons[Relation.ADD_REMOVE] > 20.0
    for known in (Relation.REPLACE, Relation.SIMULATE):
        assert implied(0.0, given=known, asked=Relation.ADD_REMOVE)[0] == np.inf


@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_a_label_stands_out_of_its_own_mixture_by_less(mechanism):
    labels, without, chances = mechanism
    epsilon = exact(labels, without, chances)[Relation.REPLACE]
    for prior, run in zip(chances, labels, strict=True):
        bound = simulated_epsilon(epsilon, prior=prior)
        assert loss(run, chances @ labels) <= bound + 1e-9
        assert bound <= epsilon + 1e-12


@pytest.mark.paper("observational", "Algorithm 2", "Definition 2")
@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_no_guess_at_the_bit_does_better(mechanism):
    # At every output and shown label: the bit is 0 with odds P_y to the mixture.
    labels, without, chances = mechanism
    epsilons, mixture = exact(labels, without, chances), chances @ labels
    for prior, run in zip(chances, labels, strict=True):
        right = np.maximum(run, mixture) / (run + mixture)
        for relation, epsilon in epsilons.items():
            assert right.max() <= bit_success(epsilon, relation=relation) + 1e-9
        own = bit_success(epsilons[Relation.REPLACE], relation=Relation.REPLACE, prior=prior)
        assert right.max() <= own + 1e-9


@pytest.mark.paper("observational", "Definition 1", "Definition 2")
@settings(deadline=None, max_examples=200)
@given(mechanisms, st.floats(0.0, 2.0))
def test_no_named_label_does_better(mechanism, epsilon):
    labels, without, chances = mechanism
    epsilons, mixture = exact(labels, without, chances), chances @ labels
    posterior = chances[:, None] * labels / mixture
    for relation, known in epsilons.items():
        bounds = label_success(chances, epsilon=known, relation=relation)
        if relation is Relation.ADD_REMOVE:
            # Averaged over outputs; at one output only the step over replacement holds.
            reached = float((chances[:, None] * labels).max(axis=0).sum())
            assert reached <= label_success(chances.max(), epsilon=known, relation=relation) + 1e-9
        else:
            assert np.all(posterior.max(axis=1) <= bounds + 1e-9)
    # With delta, averaged over outputs, the best label at each.
    reached = float((chances[:, None] * labels).max(axis=0).sum())
    against = {Relation.ADD_REMOVE: without, Relation.SIMULATE: mixture}
    for relation, other in against.items():
        delta = max(hockey_stick(run, other, epsilon) for run in labels)
        if delta < 1.0:
            bound = label_success(chances.max(), epsilon=epsilon, delta=delta, relation=relation)
            assert reached <= bound + 1e-9


@pytest.mark.parametrize("prior", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_bound_on_a_label_under_simulation_is_reached(prior, epsilon):
    # At one rare output the named label is as much more, or the others as much less, probable than
    # the mixture as epsilon allows: nothing tighter is true.
    named = min(np.exp(epsilon), (1.0 - (1.0 - prior) * np.exp(-epsilon)) / prior)
    others = (1.0 - prior * named) / (1.0 - prior)
    rare = 1e-6
    labels = np.array([[rare * named, 1 - rare * named], [rare * others, 1 - rare * others]])
    chances = np.array([prior, 1.0 - prior])
    mixture = chances @ labels
    assert max(loss(run, mixture) for run in labels) <= epsilon + 1e-5
    reached = prior * labels[0, 0] / mixture[0]
    bound = label_success(prior, epsilon=epsilon, relation=Relation.SIMULATE)
    assert reached == pytest.approx(bound, rel=1e-6)
    # More than replacement allows at epsilon, and not more than at twice that.
    assert bound > success_bound(prior, epsilon=epsilon)
    assert bound <= success_bound(prior, epsilon=2.0 * epsilon)


@pytest.mark.paper("observational", "Table 3")
@pytest.mark.parametrize(
    "row", printed("004_table3_neighbors"), ids=lambda row: row["dp_definition"]
)
def test_table_3_s_four_rows_are_what_a_manifest_declares(row):
    relation, _, protected = row["dp_definition"].partition(", ")
    neighbors = {"Replacement": "replace", "Add/remove": "add_remove"}[relation]
    definition = {"DP": "dp", "Label DP": "label_dp"}[protected]
    declared = Privacy(
        definition=definition,
        neighbors=neighbors,
        unit="record",
        epsilon=1.0,
        delta=0.0,
        mechanism=None,
        declared_by="owner",
        declared_at=None,
    )
    # One step from one secret to another, or two through the run without: twice the epsilon.
    steps = {"replace": 1, "add_remove": 2}[neighbors]
    assert steps == Relation(declared.neighbors).replacements
    epsilon, _ = implied(1.0, given=Relation(declared.neighbors), asked=Relation.REPLACE)
    assert epsilon == steps


def test_limits_by_relation():
    for relation in Relation:
        assert bit_success(0.0, relation=relation) == 0.5
        assert bit_success(np.inf, relation=relation) == 1.0
        assert label_success(0.3, epsilon=0.0, relation=relation) == pytest.approx(0.3)
        assert label_success(0.3, epsilon=np.inf, relation=relation) == 1.0
        assert label_success(0.0, epsilon=5.0, relation=relation) == 0.0
        assert label_success(1.0, epsilon=5.0, relation=relation) == 1.0
    assert simulated_epsilon(800.0, prior=0.5) == pytest.approx(800.0 - np.log(2.0))
    assert simulated_epsilon(3.0, prior=1.0) == 0.0


@settings(deadline=None)
@given(st.floats(1e-9, 1.0), st.floats(0.0, 30.0), st.floats(0.0, 0.5))
def test_ours_is_never_above(prior, epsilon, delta):
    ours = success_bound(prior, epsilon=epsilon, delta=delta)
    assert ours <= narcissus_bound(prior, epsilon=epsilon, delta=delta) * (1.0 + 1e-12)
    pure = success_bound(prior, epsilon=epsilon)
    assert pure <= reconstruction_robustness(prior, epsilon=epsilon) * (1.0 + 1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 10**9), st.floats(0.0, 20.0), st.floats(0.0, 0.3))
def test_tradeoff_bound_in_closed_form(choices, epsilon, delta):
    pure = success_bound(1.0 / choices, epsilon=epsilon)
    found = tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta))
    assert found == pytest.approx(pure + delta * (1.0 - pure), rel=1e-6)
    assert tradeoff_success_bound(choices, guarantee=PureDP(epsilon)) == pytest.approx(pure, 1e-6)


def test_tradeoff_bound_of_gaussian_dp_for_a_bit():
    for mu in (0.0, 0.1, 1.0, 5.0):
        expected = norm.cdf(mu / 2.0)
        assert tradeoff_success_bound(2, guarantee=Gaussian(mu)) == pytest.approx(expected, 1e-9)


def test_an_attack_on_the_gaussian_mechanism_obeys_the_tradeoff_bound():
    # N = 200,000 secrets of 4 values, as orthogonal vectors at distance mu = 1.5; judged at 1e-6.
    # The best attack comes within 10% of the bound, and breaks that for a mu that is 30% smaller.
    generator = np.random.default_rng(17)
    noisy = generator.standard_normal((200_000, 4))
    noisy[:, 0] += 1.5 / math.sqrt(2.0)
    successes = int(np.sum(noisy.argmax(axis=1) == 0))
    bound = float(tradeoff_success_bound(4, guarantee=Gaussian(1.5)))
    wrong = float(tradeoff_success_bound(4, guarantee=Gaussian(1.5 * 0.7)))
    assert binomtest(successes, 200_000, bound, alternative="greater").pvalue > 1e-6
    assert binomtest(successes, 200_000, wrong, alternative="greater").pvalue < 1e-6
    assert successes / 200_000 > 0.9 * bound


REPLACE, SIMULATE = Relation.REPLACE, Relation.SIMULATE


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: success_bound(1.2, epsilon=1.0), "prior is 1.2"),
        (lambda: success_bound([0.1, np.nan], epsilon=1.0), "prior is nan"),
        (lambda: success_bound(0.5, epsilon=-0.5), "epsilon is -0.5"),
        (lambda: success_bound(0.5, epsilon=1.0, delta=1.0), "delta is 1.0"),
        (lambda: success_bound("x", epsilon=1.0), "prior is 'x'"),
        (lambda: generalised_advantage(0.5, 1.5), "posterior is 1.5"),
        (lambda: epsilon_protect(0.5, advantage=-0.1), "advantage is -0.1"),
        (lambda: epsilon_protect(-1.0, advantage=0.1), "prior is -1.0"),
        (lambda: bits_leaked(1.01, epsilon=1.0), "probability is 1.01"),
        (lambda: implied(-1.0, given=REPLACE, asked=SIMULATE), "epsilon is -1"),
        (lambda: simulated_epsilon(1.0, prior=2.0), "prior is 2.0"),
        (lambda: bit_success(1.0, relation=SIMULATE, prior=0.5), "only REPLACE without"),
        (lambda: bit_success(1.0, delta=0.1, relation=REPLACE, prior=0.5), "REPLACE without delta"),
        (lambda: label_success(1.5, epsilon=1.0, relation=REPLACE), "prior is 1.5"),
        (lambda: label_success(0.5, epsilon=1.0, delta=1.0, relation=SIMULATE), "delta is 1.0"),
        (lambda: reconstruction_robustness(2.0, epsilon=1.0), "prior is 2.0"),
        (lambda: narcissus_bound(0.5, epsilon=1.0, delta=1.0), "delta is 1.0"),
        (lambda: tradeoff_success_bound(1, guarantee=PureDP(1.0)), "choices is 1.0"),
        (lambda: tradeoff_success_bound(2, guarantee=PureDP()), "epsilon is None"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)


def response(epsilon, classes):
    """Randomized response: run[secret, answer]."""
    run = np.ones((classes, classes)) + (np.exp(epsilon) - 1.0) * np.eye(classes)
    return run / run.sum(axis=1, keepdims=True)


@pytest.mark.paper("worst_case", "Section 4.1")
@pytest.mark.parametrize("classes", [2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_multi_membership_by_randomized_response_reaches_its_bound(classes, epsilon):
    # Each of `classes` canaries is as likely, and the answer names the true one most often.
    run = response(epsilon, classes)
    reached = run.max(axis=0).sum() / classes
    found = tradeoff_success_bound(classes, guarantee=PureDP(epsilon))
    assert reached == pytest.approx(float(found), rel=1e-6)
    # "Closely aligns with MMC for uniform priors": without delta it is the same number.
    assert success_bound(1.0 / classes, epsilon=epsilon) == pytest.approx(reached, rel=1e-12)


@pytest.mark.paper("worst_case", "Section 4.3")
@pytest.mark.parametrize("seed", range(20))
def test_no_reconstruction_within_a_distance_exceeds_equation_1(seed):
    # Five values on a line, read right within 0, 1 or 2 of the truth; every output's best attempt.
    random = np.random.default_rng([0, seed])
    prior = random.dirichlet(np.full(5, 0.6))
    run = np.exp(random.uniform(0.0, 2.0, (5, 4)))
    run /= run.sum(axis=1, keepdims=True)
    epsilon = float(np.log(run[:, None] / run[None]).max())
    for distance in (0, 1, 2):
        near = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) <= distance
        heaviest = min(1.0, float((prior @ near).max()))
        reached = float(((prior[:, None] * run).T @ near).max(axis=1).sum())
        assert reached <= reconstruction_robustness(heaviest, epsilon=epsilon) + 1e-12
        assert reached <= success_bound(heaviest, epsilon=epsilon) + 1e-12


@pytest.mark.paper("worst_case", "Section 4.3, distributional ReRo")
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_one_attempt_on_many_targets_hits_no_more_than_the_sum_of_their_bounds(epsilon):
    # Three targets of four values with priors of their own; all 64 outputs of randomized response,
    # and at each the attempt that hits most targets.
    random = np.random.default_rng(18)
    priors, run = random.dirichlet(np.full(4, 0.8), 3), response(epsilon, 4)
    joint = priors[:, :, None] * run  # target, secret, answer
    outputs = np.indices((4,) * 3).reshape(3, -1).T
    likely = joint.sum(axis=1)  # target, answer
    chance = np.prod([likely[target, outputs[:, target]] for target in range(3)], axis=0)
    hits = sum(
        joint[target][:, outputs[:, target]] / likely[target, outputs[:, target]]
        for target in range(3)
    )
    reached = float(chance @ hits.max(axis=0))
    bounds = success_bound(priors.max(axis=1), epsilon=epsilon)
    robust = reconstruction_robustness(priors.max(axis=1), epsilon=epsilon)
    assert chance.sum() == pytest.approx(1.0)
    assert reached <= float(bounds.sum()) <= float(robust.sum())
    # One attempt has one prior for each target, and at any single output that decides.
    for attempt in range(4):
        posterior = hits[attempt] / 3.0
        own = success_bound(priors[:, attempt], epsilon=epsilon)
        assert posterior.max() <= float(own.mean()) + 1e-12


@pytest.mark.paper("worst_case", "Section 7.1")
@pytest.mark.parametrize("seed", range(20))
def test_a_prior_that_is_off_by_so_much_for_the_attempt_moves_the_bound_by_no_more(seed):
    # The attacker believes in another distribution; only how far the attempt's own chance is off
    # counts, here exactly. Every output of a random mechanism on four values.
    random = np.random.default_rng([71, seed])
    truth, believed = random.dirichlet(np.ones(4), 2)
    run = np.exp(random.uniform(0.0, 1.5, (4, 5)))
    run /= run.sum(axis=1, keepdims=True)
    epsilon = float(np.log(run[:, None] / run[None]).max())
    posterior = truth[:, None] * run / (truth @ run)
    attempts = (believed[:, None] * run).argmax(axis=0)
    for output, attempt in enumerate(attempts):
        off = max(0.0, truth[attempt] - believed[attempt])
        bound = success_bound(min(1.0, believed[attempt] + off), epsilon=epsilon)
        assert posterior[attempt, output] <= bound + 1e-12
    # Without the difference it is no bound: a value that is thought rare and is not.
    sure = response(0.1, 2)
    assert 0.9 * sure[0, 0] / (np.array([0.9, 0.1]) @ sure[:, 0]) > success_bound(0.1, epsilon=0.1)


def test_at_the_prior_of_somebody_who_knows_less_the_bounds_are_none():
    # arXiv:2603.12142. The exact best attack who sees an output and one of three facts that tell of
    # the secret, against the priors of a guess with and without the fact.
    exceeded = 0
    for seed in range(20):
        random = np.random.default_rng([12142, seed])
        joint = random.dirichlet(np.full(12, 0.3)).reshape(3, 4)  # fact, secret
        run = np.exp(random.uniform(0.0, 0.2, (4, 5)))
        run /= run.sum(axis=1, keepdims=True)
        epsilon = float(np.log(run[:, None] / run[None]).max())
        reached = float((joint[:, :, None] * run).max(axis=1).sum())
        informed, blind = float(joint.max(axis=1).sum()), float(joint.sum(axis=0).max())
        for bound in (reconstruction_robustness, success_bound):
            assert reached <= bound(informed, epsilon=epsilon) + 1e-12
        exceeded += reached > reconstruction_robustness(blind, epsilon=epsilon)
    assert exceeded == 16
