"""Figures of two papers on upper bounds, as data.

Those of "Beyond the Worst Case" are what a guess achieves at most, by its prior; those of Stock et
al. 2022 are bits that leak at most from a run of DP-SGD.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees import ApproxDP
from privcore.guarantees.accounts import DpSgd, Mechanism
from privcore.guarantees.conversions import Floats, checked, pure_renyi
from privcore.upper_bounds.attack_success import (
    epsilon_protect,
    generalised_advantage,
    narcissus_bound,
    reconstruction_robustness,
    success_bound,
    tradeoff_success_bound,
)
from privcore.upper_bounds.priors import uniform_prior, zipf_prior
from privcore.upper_bounds.promised import ORDERS
from privcore.upper_bounds.renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    renyi_success_bound,
)

ADVANTAGE = 0.05
DIGITS = 9
PASSWORDS = 10**DIGITS


@dataclass(frozen=True, slots=True, eq=False)
class SuccessCurve:
    """One bound on a guess's success: `success[i]` for a secret of prior `priors[i]`."""

    bound: str
    epsilon: float
    delta: float
    priors: Floats
    success: Floats


def success_curves(
    *, choices: ArrayLike = (2, 3, 4, 6, 10, 20, 50, 100, 300, 1_000, 3_000, 10_000)
) -> list[SuccessCurve]:
    """Return the data of Figure 1 of "Beyond the Worst Case": bounds against the prior.

    Priors are 1/k for each k in `choices`, so that the bound for uniform priors applies too. The
    bound by Renyi divergences needs a curve, which delta 0 alone has: that of epsilon-DP's worst
    mechanism.
    """
    choices = np.atleast_1d(checked("choices", choices, 2.0, np.inf, "a secret has two values"))
    priors = 1.0 / choices
    curves = []
    for epsilon in (1.0, 2.0, 4.0):
        for delta in (0.0, 1e-5):
            success = {
                "any_attack": success_bound(priors, epsilon=epsilon, delta=delta),
                "tradeoff": tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta)),
                "narcissus": narcissus_bound(priors, epsilon=epsilon, delta=delta),
            }
            if delta == 0.0:
                curve = pure_renyi(epsilon, orders=ORDERS)
                success["reconstruction_robustness"] = reconstruction_robustness(
                    priors, epsilon=epsilon
                )
                success["renyi"] = renyi_success_bound(priors, orders=ORDERS, divergences=curve)
            curves += [
                SuccessCurve(bound, epsilon, delta, priors, values)
                for bound, values in success.items()
            ]
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class AdvantageCurve:
    """Largest advantage of an attack on one secret of a distribution, against epsilon.

    Attributes:
        secrets: the distribution's name.
        rank: which of its secrets: `least`, `median` or `most` probable.
        prior: that secret's probability.
        epsilon_protect: the largest epsilon, at delta 0, that keeps its advantage at 0.05.
        epsilons: shape (points,).
        advantage: shape (points,), by Corollary 3.4 for one target.
    """

    secrets: str
    rank: str
    prior: float
    epsilon_protect: float
    epsilons: Floats
    advantage: Floats


def secret_priors() -> dict[tuple[str, str], float]:
    """Return the prior of the least, median and most probable secret of Figure 2's distributions.

    Nine uniform digits, and nine-digit passwords by Zipf's law, with the exponent 1.1 that the
    paper states and with 1.2, which gives its printed numbers. The paper's third distribution, of
    names in e-mails by GPT-2's perplexity, needs GPT-2 and the Enron e-mails and is not here.
    """
    ranks = {"least": PASSWORDS, "median": PASSWORDS // 2, "most": 1}
    priors = {("uniform", rank): float(uniform_prior(DIGITS)) for rank in ranks}
    for exponent in (1.1, 1.2):
        for rank, place in ranks.items():
            prior = float(zipf_prior(place, exponent=exponent, size=PASSWORDS))
            priors[f"Zipf {exponent:g}", rank] = prior
    return priors


def advantage_curves(
    *, epsilons: ArrayLike = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7, 10, 13, 17, 20)
) -> list[AdvantageCurve]:
    """Return the data of Figure 2 of "Beyond the Worst Case": advantage against epsilon."""
    epsilons = np.atleast_1d(checked("epsilons", epsilons, 0.0, np.inf, "epsilon is at least 0"))
    curves = []
    for (secrets, rank), prior in secret_priors().items():
        success = success_bound(prior, epsilon=epsilons, delta=1e-5)
        advantage = generalised_advantage(prior, success)
        protect = float(epsilon_protect(prior, advantage=ADVANTAGE))
        curves.append(AdvantageCurve(secrets, rank, prior, protect, epsilons, advantage))
    return curves


# The training run of Figures 1, 2, 5 and 7: of section 4.3, without the canary's own rate.
SAMPLING_RATE = 2.81e-4
STEPS = 186_000
DELTA = 3e-7
# That of Figure 6: a sampling rate of 20% and 100 epochs of 1/0.2 steps.
DENSE_SAMPLING_RATE = 0.2
DENSE_STEPS = 500
DENSE_LEAST_ORDER = 2.0  # below it dp_accounting's series do not converge at this sampling rate
LONG_SECRET = 60.0  # bits, of Figure 2


@dataclass(frozen=True, slots=True, eq=False)
class LeakageCurve:
    """Bits that leak at most from one training run, for secrets of `secret_bits` bits.

    Attributes:
        noise_multiplier: of the run.
        sampling_rate: of the run.
        steps: of the run.
        epsilon: of the run at `DELTA`, by its privacy loss distribution.
        secret_bits: shape (secrets,).
        leaked: shape (secrets,), `renyi_leakage` minimised over all orders.
        direct: shape (secrets,), `direct_leakage`.
        improved_conversion: shape (secrets,), `improved_conversion_leakage`, which is no bound.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    epsilon: float
    secret_bits: Floats
    leaked: Floats
    direct: Floats
    improved_conversion: Floats


def leakage_curves(
    *,
    secret_bits: ArrayLike = (1, 2, 5, 10, 15, 20, 30, 40, 50, 64),
    noise_multipliers: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
    sampling_rate: float = SAMPLING_RATE,
    steps: int = STEPS,
    least_order: float = float(ORDERS[0]),
) -> list[LeakageCurve]:
    """Return leaked bits of DP-SGD, adding or removing a record, epsilon at delta 3e-7.

    Figures 1, 5 and 6 read them against the secret's bits at each noise multiplier, Figure 7
    against epsilon at each number of bits. The run is that of Figure 1; that of Figure 6 has
    `DENSE_SAMPLING_RATE`, `DENSE_STEPS` and `DENSE_LEAST_ORDER`.
    """
    bits = np.atleast_1d(np.asarray(secret_bits, dtype=np.float64))
    orders = ORDERS[least_order <= ORDERS]
    curves = []
    for multiplier in noise_multipliers:
        run = DpSgd(multiplier, sampling_rate, steps)
        divergences = run.renyi(orders)
        leaked = curve_leakage(
            bits, divergence=_divergence(run), least_order=least_order, largest_order=1_000.0
        )
        direct = direct_leakage(bits, orders=orders, divergences=divergences)
        improved = improved_conversion_leakage(bits, orders=orders, divergences=divergences)
        epsilon = run.epsilon(DELTA)
        found = (epsilon, bits, leaked, direct, improved)
        curves.append(LeakageCurve(multiplier, sampling_rate, steps, *found))
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class StepsCurve:
    """Bits of one long secret that leak at most as training goes on.

    Attributes:
        noise_multiplier: of the run.
        secret_bits: of the secret.
        steps: shape (points,).
        leaked: shape (points,), `renyi_leakage` minimised over all orders.
        direct: shape (points,), `direct_leakage`.
    """

    noise_multiplier: float
    secret_bits: float
    steps: Floats
    leaked: Floats
    direct: Floats


def steps_curves(
    *,
    steps: ArrayLike = (1_000, 3_000, 10_000, 30_000, 60_000, 100_000, 140_000, STEPS),
    noise_multipliers: tuple[float, ...] = (0.3, 0.4, 0.5, 1.0),
) -> list[StepsCurve]:
    """Return the data of Figure 2: leaked bits of a 60-bit secret against training steps.

    The run is that of Figure 1, stopped after each number of steps.
    """
    steps = np.atleast_1d(checked("steps", steps, 1, np.inf, "training takes at least one step"))
    curves = []
    for multiplier in noise_multipliers:
        leaked, direct = [], []
        for count in steps:
            run = DpSgd(multiplier, SAMPLING_RATE, int(count))
            leaked.append(
                curve_leakage(LONG_SECRET, divergence=_divergence(run), largest_order=1_000.0)
            )
            divergences = run.renyi(ORDERS)
            direct.append(direct_leakage(LONG_SECRET, orders=ORDERS, divergences=divergences))
        curves.append(
            StepsCurve(multiplier, LONG_SECRET, steps, np.array(leaked), np.array(direct))
        )
    return curves


def _divergence(mechanism: Mechanism) -> Callable[[float], float]:
    """Mechanism's Renyi divergence as a function of one order."""
    return lambda order: float(mechanism.renyi(order))
