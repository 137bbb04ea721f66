"""Stock et al. 2022, sections 3.2 and 4.1: the n-gram model, trained by DP-SGD on one canary."""

import numpy as np
import pytest

from privcore.attacks.secret_leakage import secret_leakage, secret_log_probability
from privcore.mechanisms.noisy_sgd import NoisySgd, train_secrets
from privcore.upper_bounds import curve_leakage
from tests.support.published import printed
from tests.support.tiers import rest_slow

DIGITS, MODELS, NOISE = 10, 10_000, 2.875
SECRET_BITS = DIGITS * np.log2(10.0)


def leakage(steps, *, noise=NOISE):
    """Measure 10,000 models of one canary of ten digits, trained as the section describes."""
    generator = np.random.default_rng(202)
    canary = np.broadcast_to(generator.integers(0, 10, DIGITS), (MODELS, DIGITS))
    training = NoisySgd(noise, 0.5 / noise, steps=steps)
    parameters = train_secrets(canary, training=training, generator=generator)
    logs = secret_log_probability(parameters, canary)
    return secret_leakage(logs, log_prior=-DIGITS * np.log(10.0), generator=generator), training


@pytest.mark.paper("renyi", "Section 3.2", "Section 4.1")
def test_one_step_gives_the_printed_mean_and_deviation():
    # The paper does not say how many steps it took. One gives both printed numbers, if its "mean"
    # is that of p1 and not of log p1 (as its equation 4 has it); the mean of log p1 is -23.6.
    stated = {row["quantity"]: row["value"] for row in printed("002_text_values")}
    mean = float(stated["log p1 at sigma 2.875: mean (about)"])
    deviation = float(stated["log p1 at sigma 2.875: standard deviation (about)"])
    assert int(stated["models N"]) == MODELS
    assert int(stated["canary length T (digits)"]) == DIGITS
    found, _ = leakage(1)
    assert found.leaked - DIGITS * np.log(10.0) == pytest.approx(mean, abs=0.1)
    assert round(found.deviation, 1) == deviation
    assert found.mean_log == pytest.approx(-23.6, abs=0.1)
    assert round(leakage(2)[0].deviation, 1) != deviation


@pytest.mark.paper("renyi", "Section 4.1", "Figure 3")
@pytest.mark.parametrize(
    ("steps", "noise"), rest_slow([(1, 2.875), (1, 0.5), (5, 2.0), (20, 5.0)], always=3)
)
def test_what_leaks_stays_below_the_bound(steps, noise):
    # log2(p1/p0) of 10,000 models against L(p0), for adding the canary.
    found, training = leakage(steps, noise=noise)
    run = training.accounted_as()
    bound = float(curve_leakage(SECRET_BITS, divergence=lambda order: float(run.renyi(order))))
    assert 0.0 < found.leaked < bound * np.log(2.0)
