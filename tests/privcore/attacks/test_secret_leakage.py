"""Secrets of n-gram models: measured leakage and guesses, held against the bounds."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from privcore.attacks.secret_leakage import (
    guess_digit,
    guess_digit_with_prior,
    secret_leakage,
    secret_log_probability,
    tuned_training,
)
from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian, Neighbors, gaussian_epsilon
from privcore.mechanisms.noisy_sgd import NoisySgd, train_secrets
from privcore.upper_bounds import success_bound, tradeoff_success_bound, zipf_prior
from privcore.upper_bounds.renyi import curve_leakage
from tests.support.published import printed
from tests.support.refusals import refused

LEVEL, DELTA = 1e-6, 1e-5
ZIPF = zipf_prior(np.arange(1, 11), exponent=1.1, size=10)


def leakage(noise, *, steps=1, models=4_000, seed=7):
    """Measure models of one canary of ten digits, trained as section 4.1 describes."""
    generator = np.random.default_rng(seed)
    secrets = np.broadcast_to(generator.integers(0, 10, 10), (models, 10))
    training = NoisySgd(noise, 0.5 / noise, steps=steps)
    parameters = train_secrets(secrets, training=training, generator=generator)
    logs = secret_log_probability(parameters, secrets)
    return secret_leakage(logs, log_prior=-10.0 * np.log(10.0), generator=generator), training


def test_log_space_survives_what_probabilities_do_not():
    parameters = np.full((2, 300, 10), 0.0)
    parameters[:, :, 1:] += 20.0
    secrets = np.zeros((2, 300))
    logs = secret_log_probability(parameters, secrets)
    assert logs == pytest.approx(-300.0 * (20.0 + np.log(9.0 + np.exp(-20.0))))
    found = secret_leakage(logs, log_prior=-10_000.0, generator=np.random.default_rng(0))
    assert found.leaked == pytest.approx(float(logs[0]) + 10_000.0)
    assert found.deviation == 0.0
    assert found.effective_models == pytest.approx(2.0)


@pytest.mark.slow
def test_the_interval_covers_the_leakage():
    # Log-normal p1: log of the mean is mean + variance/2. 200 samples, 95% intervals.
    generator, covered = np.random.default_rng(5), 0
    for _ in range(200):
        logs = generator.normal(-30.0, 1.0, 400)
        found = secret_leakage(logs, log_prior=-25.0, generator=generator, resamples=200)
        covered += found.lower <= -30.0 + 0.5 + 25.0 <= found.upper
        assert found.lower <= found.leaked <= found.upper
    assert binomtest(covered, 200, 0.90, alternative="less").pvalue > LEVEL
    assert covered < 200


@pytest.mark.paper("renyi", "Section 4.1", "Figure 3", "Theorem 1", "Corollary 1")
@pytest.mark.parametrize(
    ("noise", "steps", "leaked", "bound"),
    [(0.5, 1, 2.85, 11.57), (1.0, 1, 1.44, 6.29), (2.0, 1, 0.76, 3.27), (5.0, 1, 0.32, 1.34),
     (2.0, 5, 2.66, 6.96), (5.0, 20, 3.05, 5.67)],
)  # fmt: skip
def test_sampling_leaks_less_than_the_bound(noise, steps, leaked, bound):
    found, training = leakage(noise, steps=steps)
    curve = training.accounted_as().renyi
    bits = float(curve_leakage(10.0 * np.log2(10.0), divergence=lambda order: float(curve(order))))
    assert bits * np.log(2.0) == pytest.approx(bound, abs=0.01)
    assert found.leaked == pytest.approx(leaked, abs=0.08)
    assert 0.0 < found.lower < found.upper < bits * np.log(2.0)


@pytest.mark.paper("renyi", "Section 3.2", "Section 4.1")
def test_one_step_gives_the_printed_mean_and_deviation():
    # The paper does not say how many steps it took. One gives both printed numbers, if its "mean"
    # is that of p1 and not of log p1 (as its equation 4 has it); the mean of log p1 is -23.6.
    stated = {row["quantity"]: row["value"] for row in printed("002_text_values")}
    mean = float(stated["log p1 at sigma 2.875: mean (about)"])
    deviation = float(stated["log p1 at sigma 2.875: standard deviation (about)"])
    assert int(stated["canary length T (digits)"]) == 10
    (found, _), (twice, _) = (
        leakage(2.875, steps=steps, models=int(stated["models N"]), seed=202) for steps in (1, 2)
    )
    assert found.leaked - 10 * np.log(10.0) == pytest.approx(mean, abs=0.1)
    assert round(found.deviation, 1) == deviation
    assert found.mean_log == pytest.approx(-23.6, abs=0.1)
    assert round(twice.deviation, 1) != deviation


def test_the_leakage_of_one_step_is_the_exact_expectation():
    # One step of one digit: p1 is a softmax of normals, integrated over 400,000 fresh draws.
    training = NoisySgd(2.0, 0.8)
    generator = np.random.default_rng(11)
    secrets = np.full((20_000, 1), 4)
    parameters = train_secrets(secrets, training=training, generator=generator)
    logs = secret_log_probability(parameters, secrets)
    found = secret_leakage(logs, log_prior=np.log(0.1), generator=generator, significance=1e-3)
    normals = 1.6 * generator.standard_normal((400_000, 10))
    normals[:, 0] += 0.8
    exact = np.exp(normals[:, 0]) / np.exp(normals).sum(axis=1)
    assert found.lower < np.log(exact.mean() / 0.1) < found.upper


@pytest.mark.paper("worst_case", "Figure 3")
@pytest.mark.parametrize("neighbors", [Neighbors.REPLACE, Neighbors.ADD_REMOVE])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("prior", [np.full(10, 0.1), ZIPF], ids=["uniform", "zipf"])
def test_no_guess_succeeds_more_often_than_its_bound(neighbors, epsilon, prior):
    models = 4_000
    generator = np.random.default_rng([int(epsilon), int(prior[0] > 0.2)])
    training = tuned_training(
        epsilon, delta=DELTA, neighbors=neighbors, generator=generator, models=200
    )
    secrets = generator.choice(10, (models, 1), p=prior)
    parameters = train_secrets(secrets, training=training, generator=generator)[:, 0]
    mu = 1.0 / training.accounted_as(Neighbors.REPLACE).noise_multiplier
    replaced = float(gaussian_epsilon(mu, delta=DELTA))
    if neighbors is Neighbors.REPLACE:
        assert replaced == pytest.approx(epsilon)
    for guess in (
        guess_digit(parameters),
        guess_digit_with_prior(parameters, prior=prior, training=training),
    ):
        right = int(np.sum(guess == secrets[:, 0]))
        bounds = [
            float(success_bound(prior[guess], epsilon=replaced, delta=DELTA).mean()),
            float(success_bound(prior.max(), epsilon=replaced, delta=DELTA)),
        ]
        if prior[0] < 0.2:
            bounds.append(float(tradeoff_success_bound(10, guarantee=Gaussian(mu))))
        for bound in bounds:
            assert binomtest(right, models, bound, alternative="greater").pvalue > LEVEL


def test_noise_for_adding_a_record_is_too_little_for_replacing_it():
    # What the paper's accountant (adding or removing) calls epsilon 4 is not 4 for a secret that is
    # replaced: the attack exceeds the bound that f-DP has for mu at epsilon 4.
    generator = np.random.default_rng(2)
    training = tuned_training(
        4.0, delta=DELTA, neighbors=Neighbors.ADD_REMOVE, generator=generator, models=200
    )
    secrets = generator.integers(0, 10, (4_000, 1))
    parameters = train_secrets(secrets, training=training, generator=generator)[:, 0]
    right = int(np.sum(guess_digit(parameters) == secrets[:, 0]))
    as_if = Gaussian(1.0 / training.accounted_as().noise_multiplier)
    bound = float(tradeoff_success_bound(10, guarantee=as_if))
    assert binomtest(right, 4_000, bound, alternative="greater").pvalue < 1e-3


@pytest.mark.parametrize(("noise", "tolerance"), [(1.5, 0.005), (0.05, 0.004)])
def test_the_posterior_is_the_best_attack_after_one_step(noise, tolerance):
    # Two digits: the success of the best test between two normals is known.
    prior, training = np.array([0.8, 0.2]), NoisySgd(noise, 0.3, 10.0)
    generator = np.random.default_rng(4)
    secrets = generator.choice(2, (100_000, 1), p=prior)
    parameters = train_secrets(secrets, training=training, generator=generator, alphabet=2)[:, 0]
    guess = guess_digit_with_prior(parameters, prior=prior, training=training)
    # The gradients (-0.5, 0.5) and (0.5, -0.5) lie sqrt(2) apart; the noise deviates by ten times.
    gap = np.sqrt(2.0) / (10.0 * noise)
    cut = np.log(4.0) / gap
    best = 0.8 * norm.cdf(gap / 2 + cut) + 0.2 * norm.cdf(gap / 2 - cut)
    reached, blind = (np.mean(one == secrets[:, 0]) for one in (guess, guess_digit(parameters)))
    assert reached == pytest.approx(best, abs=tolerance)
    assert reached > blind


def test_the_prior_rules_out_what_cannot_be():
    parameters = np.array([[0.0, 5.0, 1.0]])
    loud, quiet = NoisySgd(100.0, 1.0), NoisySgd(0.0, 1.0)
    prior = np.array([0.5, 0.0, 0.5])
    assert guess_digit_with_prior(parameters, prior=prior, training=quiet) == [2]
    assert guess_digit_with_prior(parameters, prior=[0.9, 0.0, 0.1], training=loud) == [0]
    assert guess_digit(parameters) == [1]


def test_bad_input_is_refused():
    random = np.random.default_rng(0)
    refused("log_trained", secret_leakage, [0.5, -1.0], log_prior=-1.0, generator=random)
    refused("at least 2", secret_leakage, [-1.0], log_prior=-1.0, generator=random)
    refused("shape of secrets", secret_log_probability, np.zeros((2, 3, 10)), np.zeros((2, 2)))
    refused("parameters", guess_digit, [[0.0, np.nan]])
    with pytest.raises(InvalidInputError, match="prior"):
        guess_digit_with_prior([[0.0, 1.0]], prior=[0.5, 0.6], training=NoisySgd(1.0, 1.0))
