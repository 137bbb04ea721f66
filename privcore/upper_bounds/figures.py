"""The papers' figures as data: one row per curve, arrays along the horizontal axis."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import comb

from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP
from privcore.guarantees.accounting import DpSgd, Mechanism
from privcore.guarantees.conversions import Floats, checked, pure_renyi
from privcore.upper_bounds.attack_success import success_bound
from privcore.upper_bounds.comparisons import (
    narcissus_bound,
    reconstruction_robustness,
    tradeoff_success_bound,
)
from privcore.upper_bounds.promised import ORDERS
from privcore.upper_bounds.reidentification import rip_epsilon, rip_noise_scale
from privcore.upper_bounds.renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    renyi_success_bound,
)

# The training run of Stock et al. 2022, Figure 1.
SAMPLING_RATE = 2.81e-4
STEPS = 186_000
DELTA = 3e-7


@dataclass(frozen=True, slots=True, eq=False)
class SuccessCurve:
    """One bound on a guess's success: `success[i]` for a secret of prior `priors[i]`."""

    bound: str
    epsilon: float
    delta: float
    priors: Floats
    success: Floats


def success_curves(
    *,
    choices: ArrayLike = (2, 3, 4, 6, 10, 20, 50, 100, 300, 1_000, 3_000, 10_000),
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0),
    deltas: tuple[float, ...] = (0.0, 1e-5),
) -> list[SuccessCurve]:
    """Return the data of Figure 1 of "Beyond the Worst Case": bounds against the prior.

    Priors are 1/k for each k in `choices`, so that the bound for uniform priors applies too. The
    bound by Renyi divergences needs a curve, which delta 0 alone has: that of epsilon-DP's worst
    mechanism.

    Raises:
        InvalidInputError: a value out of its range.
    """
    choices = np.atleast_1d(checked("choices", choices, 2.0, np.inf, "a secret has two values"))
    priors = 1.0 / choices
    curves = []
    for epsilon in epsilons:
        for delta in deltas:
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
class LeakageCurve:
    """Bits that leak at most from one training run, for secrets of `secret_bits` bits.

    Attributes:
        noise_multiplier: of the run.
        epsilon: of the run at `DELTA`, by its privacy loss distribution.
        secret_bits: shape (secrets,).
        leaked: shape (secrets,), `renyi_leakage` minimised over all orders.
        direct: shape (secrets,), `direct_leakage`.
        improved_conversion: shape (secrets,), `improved_conversion_leakage`, which is no bound.
    """

    noise_multiplier: float
    epsilon: float
    secret_bits: Floats
    leaked: Floats
    direct: Floats
    improved_conversion: Floats


def leakage_curves(
    *,
    secret_bits: ArrayLike = (1, 2, 5, 10, 15, 20, 30, 40, 50, 64),
    noise_multipliers: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
) -> list[LeakageCurve]:
    """Return the data of Figures 1 and 7 of Stock et al. 2022: leaked bits of DP-SGD.

    Figure 1 reads them against the secret's bits at each noise multiplier, Figure 7 against
    epsilon at each number of bits. The run is that of Figure 1: sampling rate 2.81e-4, 186,000
    steps, delta 3e-7, adding or removing a record.

    Raises:
        InvalidInputError: a value out of its range.
    """
    bits = np.atleast_1d(np.asarray(secret_bits, dtype=np.float64))
    curves = []
    for multiplier in noise_multipliers:
        run = DpSgd(multiplier, SAMPLING_RATE, STEPS)
        divergences = run.renyi(ORDERS)
        leaked = curve_leakage(bits, divergence=_divergence(run), largest_order=1_000.0)
        direct = direct_leakage(bits, orders=ORDERS, divergences=divergences)
        improved = improved_conversion_leakage(bits, orders=ORDERS, divergences=divergences)
        epsilon = run.epsilon(DELTA)
        curves.append(LeakageCurve(multiplier, epsilon, bits, leaked, direct, improved))
    return curves


def _divergence(mechanism: Mechanism) -> Callable[[float], float]:
    """Mechanism's Renyi divergence as a function of one order."""
    return lambda order: float(mechanism.renyi(order))


@dataclass(frozen=True, slots=True)
class NoiseNeeded:
    """Noise that one statistic of `records` records needs; made by `noise_needed`.

    Attributes:
        records: n.
        deviation: sigma, the statistic's exact standard deviation over random halves.
        sensitivity: its largest change when one record of a half is replaced.
        rip_scale: scale of the Laplace noise that gives eta-RIP, c sigma.
        dp_scale: scale of the Laplace noise that gives epsilon-DP, sensitivity/epsilon.
    """

    records: int
    deviation: float
    sensitivity: float
    rip_scale: float
    dp_scale: float


def noise_needed(records: int, *, eta: float = 0.1) -> NoiseNeeded:
    """Return the data of Figure 1 of Izzo et al.: noise for eta-RIP against noise for DP.

    An instance of the example that sigma stays O(1) while the sensitivity grows like 2^(n/3). Mark
    n/2 of the n records. The statistic of a half is its number of marked records, standardised,
    plus 2^(n/3) if all of them are marked: one half in comb(n, n/2). Both noises are for epsilon =
    `rip_epsilon(eta)`, at which DP implies the same eta.

    Args:
        records: n, even and at least 4; the figure has 36, 40, 44 and 48.
        eta: in (0, 1/2).

    Raises:
        InvalidInputError: a value out of its range.
    """
    checked("records", records, 4, 1_000, "a number from 4 to 1,000")
    if records % 2:
        raise InvalidInputError("records", records, "halves need an even number")
    # The number of marked records is hypergeometric, with mean n/4 and this variance.
    spread = np.sqrt(records**2 / (16.0 * (records - 1.0)))
    jump, rare = 2.0 ** (records / 3.0), 1.0 / comb(records, records // 2)
    top = records / 4.0 / spread
    deviation = float(np.sqrt(1.0 + 2.0 * jump * rare * top + jump**2 * rare * (1.0 - rare)))
    sensitivity = float(jump + 1.0 / spread)
    return NoiseNeeded(
        records=records,
        deviation=deviation,
        sensitivity=sensitivity,
        rip_scale=float(rip_noise_scale(eta)) * deviation,
        dp_scale=sensitivity / float(rip_epsilon(eta)),
    )
