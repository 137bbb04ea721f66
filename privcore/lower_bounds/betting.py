"""Betting on the labels themselves: e-values against a declared epsilon.

What is ours here is to bet on the label instead of on the game's bit. The game shows one label and
hides a coin; even a perfect adversary meets records where label and counterfactual agree, and the
odds that it can win are those of one label against a *mixture* of all labels. Naming the label
directly has no coin, no counterfactual, no repetition and no threshold, and tests what label
replacement at epsilon promises: the odds of every label, given the model and all other labels, are
at most e^epsilon times the odds without them. On randomized response it proves 93% to 96% of the
true epsilon with 20,000 records, where the corrected grid over the game proves 66% to 78%
(`docs/statistics.md` has the table).
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.lifts import LiftCells
from privcore.exceptions import InvalidInputError
from privcore.guarantees import check_delta
from privcore.lower_bounds.fdp import check_significance

# The beliefs are fixed here, before any game: the lift taken at its word, at half and at a quarter,
# each undiluted, and diluted by a tenth and by three tenths of the prior. Their mean is an e-value.
TEMPERATURES = (0.25, 0.5, 1.0)
DILUTIONS = (0.0, 0.1, 0.3)
_STEP = 0.01
_EPSILONS = np.arange(2800) * _STEP


def bets_epsilon_lower(
    cells: LiftCells,
    *,
    records: int,
    classes: int,
    delta: float = 0.0,
    significance: float = 0.05,
) -> float:
    """Return the largest epsilon such that every (epsilon, delta) up to it is rejected.

    For each epsilon of a fixed grid (steps of 0.01) the adversary's wealth is
    E = mean over beliefs of the product over records with belief pi > beta of
    pi/beta if the named label was right, (1 - pi)/(1 - beta) if not, where
    beta = e^epsilon / (e^epsilon - 1 + 1/prior).

    *Delta 0.* Under label replacement at epsilon, the posterior of the named label given the
    model and every other label is at most beta ("Beyond the Worst Case", Theorem 3.2), whatever
    the others are; so each factor has conditional expectation at most 1, the product and its mean
    over beliefs are e-values (Vovk and Wang 2021; betting as in Waudby-Smith and Ramdas 2023), and
    by Markov's inequality P(E >= 1/significance) <= significance.

    *Delta above 0 (ours).* For a test function 0 <= u <= 1 supported on the models that name
    label z, q_z A_z(u) <= beta_z A(u) + delta q_z (1 - q_z) / (1 - q_z + e^epsilon q_z): multiply
    A_z(u) <= e^epsilon A_other(u) + delta by the other labels' probabilities and solve. Apply it
    to min(1, significance * wealth) one record at a time: concavity absorbs beta, and each record
    adds at most delta times the sum over labels of q (1 - q) / (1 + q (e^epsilon - 1)), itself at
    most min(1, classes / (1 + e^(epsilon/2))^2). So rejecting at significance minus that sum over
    records keeps the error at `significance`. With many records nothing is left to bet with, and
    the answer is 0. Records chosen for their confidence do not lower the price: what they are
    chosen by is the mechanism's output.

    Rejecting a grid point g says that no mechanism with epsilon <= g produced this. The answer
    exceeds the truth only if the first grid point at or above the truth is rejected, so one level
    serves the whole grid.

    Args:
        cells: names of the training records, with the prior to be granted: that of the proxy, or
            that of a control (`privcore.lower_bounds.calibration`).
        records: records that played, named or not; each of them pays for delta.
        classes: number of classes, for the price of delta.
        delta: the claim's delta.
        significance: allowed probability that the bound is wrong, in (0, 0.5).

    Assumptions: labels are independent given the features, and none is likelier than its prior
    says; the neighbouring relation is *replacing* a label. A guarantee for adding or removing a
    record at epsilon is one for replacing it at twice epsilon.

    The answer does not say that the loss is small: 0 is silence.

    Raises:
        InvalidInputError: a value out of its range.
    """
    needed = _needed(records, classes, delta, significance)
    beliefs = np.array([(t, d) for t in TEMPERATURES for d in DILUTIONS])
    rejected = _rejected(cells.prior, cells.lift, cells.wrong, cells.right, beliefs, needed)
    return float(_EPSILONS[rejected - 1]) if rejected else 0.0


def bets_epsilon_ceiling(
    cells: LiftCells,
    *,
    records: int,
    classes: int,
    delta: float = 0.0,
    significance: float = 0.05,
) -> float:
    """Return what `bets_epsilon_lower` could have proved had every name been right and certain.

    Same arguments, same errors.
    """
    needed = _needed(records, classes, delta, significance)
    names = cells.right + cells.wrong
    wealth = np.array([names @ np.logaddexp(0.0, -(cells.prior + e)) for e in _EPSILONS])
    silent = np.flatnonzero(wealth < needed)
    reached = int(silent[0]) if silent.size else _EPSILONS.size
    return float(_EPSILONS[reached - 1]) if reached else 0.0


def delta_is_affordable(*, records: int, classes: int, delta: float, significance: float) -> bool:
    """Whether delta's price leaves at least half of the significance to bet with at any epsilon."""
    return delta * records * min(1.0, classes / 4.0) <= significance / 2.0


def _needed(records: int, classes: int, delta: float, significance: float) -> NDArray[np.float64]:
    """Log-wealth that rejects each point of the grid; infinite where delta costs too much."""
    check_significance(significance)
    check_delta(delta)
    if classes < 2:
        raise InvalidInputError("classes", classes, "there are at least 2 classes")
    price = np.minimum(1.0, classes / (1.0 + np.exp(_EPSILONS / 2.0)) ** 2)
    level = significance - delta * records * price
    return np.where(level > 0.0, -np.log(np.maximum(level, 1e-300)), np.inf)


@njit(cache=True)
def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True)
def _rejected(
    prior: NDArray[np.float64],
    lift: NDArray[np.float64],
    wrong: NDArray[np.float64],
    right: NDArray[np.float64],
    beliefs: NDArray[np.float64],
    needed: NDArray[np.float64],
) -> int:
    """How many points of the grid are rejected before the first that is not."""
    cells, count = prior.size, beliefs.shape[0]
    log_belief = np.empty((cells, count))
    log_doubt = np.empty((cells, count))
    for i in range(cells):
        base = 1.0 / (1.0 + math.exp(-prior[i]))
        for j in range(count):
            temperature, dilution = beliefs[j]
            raised = 1.0 / (1.0 + math.exp(-(prior[i] + temperature * lift[i])))
            belief = min((1.0 - dilution) * raised + dilution * base, 1.0 - 1e-12)
            log_belief[i, j] = math.log(belief)
            log_doubt[i, j] = math.log1p(-belief)
    wealth = np.empty(count)
    for point in range(needed.size):
        wealth[:] = 0.0
        for i in range(cells):
            odds = prior[i] + point * _STEP
            log_limit = -_softplus(-odds)
            log_rest = -_softplus(odds)
            for j in range(count):
                if log_belief[i, j] > log_limit:
                    wealth[j] += right[i] * (log_belief[i, j] - log_limit)
                    wealth[j] += wrong[i] * (log_doubt[i, j] - log_rest)
        best = wealth.max()
        if best + math.log(np.exp(wealth - best).mean()) < needed[point]:
            return point
    return needed.size
