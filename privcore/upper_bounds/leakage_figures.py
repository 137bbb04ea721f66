"""The figures of Stock et al. 2022 as data: bits that leak at most from a run of DP-SGD."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees.accounting import DpSgd, Mechanism
from privcore.guarantees.conversions import Floats, checked
from privcore.upper_bounds.promised import ORDERS
from privcore.upper_bounds.renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
)

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
