"""Betting on the labels themselves: e-values against a declared epsilon.

What is ours here is to bet on the label instead of on the game's bit. The game shows one label and
hides a coin; even a perfect adversary meets records where label and counterfactual agree, and the
odds that it can win are those of one label against a *mixture* of all labels. Naming the label
directly has no coin, no counterfactual, no repetition and no threshold, and tests what label
replacement at epsilon promises: the odds of every label, given the model and all other labels, are
at most e^epsilon times the odds without them. On randomized response it proves 74% to 94% of the
true epsilon with 20,000 records, where the corrected grid over the game proves 51% to 78%
(`docs/statistics.md` has the table).
"""

import math
from collections.abc import Callable

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
_EPSILONS: NDArray[np.float64] = np.linspace(0.0, 27.99, 2800)
_AT_ONCE = 50


def bets_epsilon_lower(
    cells: LiftCells,
    *,
    records: int,
    classes: int,
    delta: float = 0.0,
    significance: float = 0.05,
) -> float:
    """Return the largest epsilon such that every (epsilon, delta) up to it is rejected.

    Up to it from where delta leaves half of the significance to bet with, which is 0 for few enough
    records. For each epsilon of a fixed grid (steps of 0.01) the adversary's wealth is
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
    records keeps the error at `significance`. With many records small epsilons leave nothing to bet
    with, and the grid begins above them; who rejects a larger epsilon has rejected them, too.
    Records chosen for their confidence do not lower the price: what they are chosen by is the
    mechanism's output.

    Rejecting a grid point g says that no mechanism with epsilon <= g produced this. Where the grid
    begins depends on the arguments alone. The answer exceeds the truth only if the first of its
    points at or above the truth is rejected, so one level serves the whole grid.

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
    needed = log_wealth_needed(records, classes=classes, delta=delta, significance=significance)
    return last_rejected(
        lambda piece: log_wealth(cells, epsilons=_EPSILONS[piece]),
        needed,
        epsilons=_EPSILONS,
        significance=significance,
    )


def log_wealth(cells: LiftCells, *, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the e-value against each epsilon; shape of `epsilons`.

    Over nights that are fresh runs of the mechanism, each valid given the past, e-values multiply,
    so these add (Ville 1939; Shafer 2021).
    """
    beliefs = np.array([(t, d) for t in TEMPERATURES for d in DILUTIONS])
    wealth: NDArray[np.float64] = _log_wealth(
        cells.prior, cells.lift, cells.wrong, cells.right, beliefs, np.ascontiguousarray(epsilons)
    )
    return wealth


def bets_claim_pvalue(
    cells: LiftCells, *, records: int, classes: int, epsilon: float, delta: float = 0.0
) -> float:
    """Return the smallest significance at which (epsilon, delta) is rejected, at most 1.

    By Markov's inequality the inverse of the e-value, plus the price of delta. Arguments and
    assumptions as `bets_epsilon_lower`.
    """
    check_delta(delta)
    at = np.array([epsilon])
    price = delta * records * _price_per_record(at, classes)
    return float(min(1.0, np.exp(-log_wealth(cells, epsilons=at)[0]) + price[0]))


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
    needed = log_wealth_needed(records, classes=classes, delta=delta, significance=significance)
    names = cells.right + cells.wrong
    wealth = np.array([names @ np.logaddexp(0.0, -(cells.prior + e)) for e in _EPSILONS])
    return last_rejected(wealth.__getitem__, needed, epsilons=_EPSILONS, significance=significance)


def last_rejected(
    wealth: Callable[[slice], NDArray[np.float64]],
    needed: NDArray[np.float64],
    *,
    epsilons: NDArray[np.float64],
    significance: float,
) -> float:
    """Return the last point before the wealth first falls short; 0 where it does at once.

    The points begin where delta leaves half of `significance`, which the labels do not decide.
    `wealth` gives the log-wealth against a slice of `epsilons`, which ascend, and is asked piece by
    piece, since most answers are small; `needed` is from `log_wealth_needed`.
    """
    affordable = needed <= -math.log(significance / 2.0)
    begin = int(np.argmax(affordable)) if affordable.any() else epsilons.size
    reached = epsilons.size
    for start in range(begin, epsilons.size, _AT_ONCE):
        piece = slice(start, start + _AT_ONCE)
        silent = np.flatnonzero(wealth(piece) < needed[piece])
        if silent.size:
            reached = start + int(silent[0])
            break
    return float(epsilons[reached - 1]) if reached > begin else 0.0


def delta_is_affordable(*, records: int, classes: int, delta: float, significance: float) -> bool:
    """Whether delta's price leaves at least half of the significance to bet with at any epsilon."""
    return delta * records * min(1.0, classes / 4.0) <= significance / 2.0


def log_wealth_needed(
    records: float,
    *,
    classes: int,
    delta: float,
    significance: float,
    epsilons: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the log-wealth that rejects each epsilon once `records` have paid for delta.

    Over several nights the records add. Infinite where the price is all of the significance: then
    no wealth, however large, proves anything.

    Raises:
        InvalidInputError: a value out of its range.
    """
    check_significance(significance)
    check_delta(delta)
    if classes < 2:
        raise InvalidInputError("classes", classes, "there are at least 2 classes")
    at = _EPSILONS if epsilons is None else epsilons
    left = significance - delta * records * _price_per_record(at, classes)
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(left, 0.0))


def _price_per_record(epsilons: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    price: NDArray[np.float64] = np.minimum(1.0, classes / (1.0 + np.exp(epsilons / 2.0)) ** 2)
    return price


@njit(cache=True)
def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True)
def _log_wealth(
    prior: NDArray[np.float64],
    lift: NDArray[np.float64],
    wrong: NDArray[np.float64],
    right: NDArray[np.float64],
    beliefs: NDArray[np.float64],
    epsilons: NDArray[np.float64],
) -> NDArray[np.float64]:
    cells, count = prior.size, beliefs.shape[0]
    wealth = np.zeros((epsilons.size, count))
    log_belief = np.empty(count)
    log_doubt = np.empty(count)
    for i in range(cells):
        base = 1.0 / (1.0 + math.exp(-prior[i]))
        for j in range(count):
            temperature, dilution = beliefs[j]
            raised = 1.0 / (1.0 + math.exp(-(prior[i] + temperature * lift[i])))
            belief = min((1.0 - dilution) * raised + dilution * base, 1.0 - 1e-12)
            log_belief[j] = math.log(belief)
            log_doubt[j] = math.log1p(-belief)
        for point in range(epsilons.size):
            if epsilons[point] >= lift[i]:
                continue  # no belief lies above the limit
            log_limit = -_softplus(-(prior[i] + epsilons[point]))
            log_rest = -_softplus(prior[i] + epsilons[point])
            for j in range(count):
                if log_belief[j] > log_limit:
                    wealth[point, j] += right[i] * (log_belief[j] - log_limit)
                    wealth[point, j] += wrong[i] * (log_doubt[j] - log_rest)
    answer = np.empty(epsilons.size)
    for point in range(epsilons.size):
        best = wealth[point].max()
        answer[point] = best + math.log(np.exp(wealth[point] - best).mean())
    return answer
