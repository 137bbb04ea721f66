"""Betting on the labels themselves, taking the proxy at its word.

The game shows one label and hides a coin; even a perfect adversary meets records where label and
counterfactual agree, and the odds that it can win are those of one label against a *mixture* of
all labels. Predicting the label has no coin, no counterfactual, no repetition and no threshold,
and tests what label replacement at epsilon promises: the odds of every label, given the model and
all other labels, are at most e^epsilon times the odds without them.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.odds import Predictions
from privcore.lower_bounds.stakes import EPSILONS, Stakes

# The beliefs are fixed here, before any game: the lift taken at its word, at half and at a quarter,
# each undiluted, and diluted by a tenth and by three tenths of the prior. Their mean is an e-value.
TEMPERATURES = (0.25, 0.5, 1.0)
DILUTIONS = (0.0, 0.1, 0.3)
_AT_ONCE = 50


def bets_epsilon_lower(predictions: Predictions, *, stakes: Stakes) -> float:
    """Return the largest epsilon for replacing a label up to which every point is rejected.

    For each epsilon of a fixed grid (steps of 0.01) the adversary's wealth is
    E = mean over beliefs of the product over records with belief pi > beta of
    pi/beta if the prediction was right, (1 - pi)/(1 - beta) if not, where
    beta = e^epsilon / (e^epsilon - 1 + 1/prior), and pi is cut where right over wrong would exceed
    the stakes' cap.

    Under label replacement at epsilon the chance of the predicted label, given the model and every
    other label, is at most beta ("Beyond the Worst Case", Theorem 3.2), whatever the others are;
    so each factor has conditional expectation at most 1, the product and its mean over beliefs are
    e-values (Vovk and Wang 2021; betting as in Waudby-Smith and Ramdas 2023), and by Markov's
    inequality P(E >= 1/significance) <= significance. `Stakes` has the proof with delta (ours).

    The answer exceeds the truth only if the first point of the grid at or above the truth is
    rejected, so one level serves the whole grid.

    Args:
        predictions: of the training records, with the proxy's prior.
        stakes: cap, price and significance, from `stakes_for` with all records that played.

    *Assumes* that the proxy is right: labels are independent given the features, and none is
    likelier than its prior says. Where it is wrong, the answer accuses the innocent:
    `matched_epsilon_lower` needs no proxy to be right. The answer does not say that the loss is
    small: 0 is silence.
    """
    reached = EPSILONS.size
    for start in range(0, EPSILONS.size, _AT_ONCE):
        points = EPSILONS[start : start + _AT_ONCE]
        needed = np.array([stakes.log_needed(float(epsilon)) for epsilon in points])
        silent = np.flatnonzero(log_wealth(predictions, epsilons=points, stakes=stakes) < needed)
        if silent.size:
            reached = start + int(silent[0])
            break
    return float(EPSILONS[reached - 1]) if reached > 0 else 0.0


def log_wealth(
    predictions: Predictions, *, epsilons: NDArray[np.float64], stakes: Stakes
) -> NDArray[np.float64]:
    """Return the logarithm of the e-value against each epsilon; shape of `epsilons`."""
    beliefs = np.array([(t, d) for t in TEMPERATURES for d in DILUTIONS])
    wealth: NDArray[np.float64] = _log_wealth(
        predictions.prior,
        predictions.lift,
        predictions.wrong,
        predictions.right,
        beliefs,
        np.ascontiguousarray(epsilons),
        np.array([stakes.log_cap(float(epsilon)) for epsilon in epsilons]),
    )
    return wealth


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
    log_caps: NDArray[np.float64],
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
            log_cap = log_caps[point]
            log_most, log_least = log_limit, log_rest
            if log_cap < math.inf:
                # The belief whose log-odds exceed the limit's by the cap.
                log_most = -_softplus(-(prior[i] + epsilons[point] + log_cap))
                log_least = -_softplus(prior[i] + epsilons[point] + log_cap)
            for j in range(count):
                if log_belief[j] > log_limit:
                    gain, loss = log_belief[j] - log_limit, log_doubt[j] - log_rest
                    if gain - loss > log_cap:
                        gain, loss = log_most - log_limit, log_least - log_rest
                    wealth[point, j] += right[i] * gain + wrong[i] * loss
    answer = np.empty(epsilons.size)
    for point in range(epsilons.size):
        best = wealth[point].max()
        answer[point] = best + math.log(np.exp(wealth[point] - best).mean())
    return answer
