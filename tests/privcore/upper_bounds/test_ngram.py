"""Stock et al. 2022, sections 3.2 and 4.1: the n-gram model, trained by DP-SGD on one canary."""

import numpy as np
import pytest

from privcore.guarantees import DpSgd
from privcore.upper_bounds import curve_leakage
from tests.support.published import printed

DIGITS, MODELS, NOISE = 10, 10_000, 2.875
SECRET_BITS = DIGITS * np.log2(10.0)


def log_probabilities(steps, *, noise=NOISE, models=MODELS, seed=202):
    """log p1 of a canary of ten digits under so many models, as the section describes training.

    Only the parameters on the canary's path are kept. The whole gradient is clipped to 1, the noise
    multiplier is `noise`, the sampling rate 1, the learning rate 0.5/noise.
    """
    generator = np.random.default_rng(seed)
    weights = np.zeros((models, DIGITS, 10))
    for _ in range(steps):
        gradient = np.exp(weights)
        gradient /= gradient.sum(axis=2, keepdims=True)
        gradient[:, :, 0] -= 1.0
        norm = np.sqrt(np.sum(gradient**2, axis=(1, 2), keepdims=True))
        noisy = gradient / np.maximum(1.0, norm) + noise * generator.standard_normal(weights.shape)
        weights -= 0.5 / noise * noisy
    totals = np.log(np.exp(weights).sum(axis=2))
    return np.sum(weights[:, :, 0] - totals, axis=1)


@pytest.mark.paper("renyi", "Section 3.2", "Section 4.1")
def test_one_step_gives_the_printed_mean_and_deviation():
    # The paper does not say how many steps it took. One gives both printed numbers, if its "mean"
    # is that of p1 and not of log p1 (as its equation 4 has it); the mean of log p1 is -23.6.
    stated = {row["quantity"]: row["value"] for row in printed("002_text_values")}
    mean = float(stated["log p1 at sigma 2.875: mean (about)"])
    deviation = float(stated["log p1 at sigma 2.875: standard deviation (about)"])
    assert int(stated["models N"]) == MODELS
    assert int(stated["canary length T (digits)"]) == DIGITS
    logs = log_probabilities(1)
    assert round(float(np.log(np.mean(np.exp(logs)))), 1) == mean
    assert round(float(logs.std()), 1) == deviation
    assert logs.mean() == pytest.approx(-23.6, abs=0.1)
    assert round(float(log_probabilities(2).std()), 1) != deviation


@pytest.mark.paper("renyi", "Section 4.1", "Figure 3")
@pytest.mark.parametrize(("steps", "noise"), [(1, 2.875), (1, 0.5), (5, 2.0), (20, 5.0)])
def test_what_leaks_stays_below_the_bound(steps, noise):
    # log2(p1/p0) of 10,000 models against L(p0), for adding the canary.
    logs = log_probabilities(steps, noise=noise)
    leaked = float(np.log2(np.mean(np.exp(logs)))) + SECRET_BITS
    run = DpSgd(noise, 1.0, steps)
    bound = float(curve_leakage(SECRET_BITS, divergence=lambda order: float(run.renyi(order))))
    assert 0.0 < leaked < bound
