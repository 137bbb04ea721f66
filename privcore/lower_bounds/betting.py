"""Betting on the labels themselves, taking the proxy at its word.

The game shows one label and hides a coin; even a perfect adversary meets records where label and
counterfactual agree, and the odds that it can win are those of one label against a *mixture* of
all labels. Predicting the label has no coin, no counterfactual, no repetition and no threshold,
and tests what label replacement at epsilon promises: the odds of every label, given the model and
all other labels, are at most e^epsilon times the odds without them.

*Stakes* say how much is bet. Delta is paid by the stake: small stakes keep it affordable on any
number of records.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.odds import Predictions
from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian, add_remove_to_replace, gaussian_mu
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.fdp import check_significance

EPSILONS: NDArray[np.float64] = np.arange(2800) / 100.0
"""The points at which a bound on replacing a label is looked for: 0 to 27.99 in steps of 0.01. What
is claimed is a point of its own beside them (`Stakes.points`)."""

DELTA_SHARE = 0.75
"""Share of the significance for delta. Where it limits the stakes, little is left to wait for
but larger stakes win more than they cost: measured at 10^6 records."""

BLOCK = 0.5
_BLOCKS = 56
_USEFUL = 16.0
_CHEAP = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Stakes:
    """Largest stake on one record at each epsilon, and the price that delta takes for it.

    Let an e-value multiply by r if one record's prediction is right and by w if not, all else
    given. If w/r >= e^-cap for every record, delta adds at most a price to the chance of a false
    rejection, whatever the mechanism does with it: records times delta times 1 - e^-cap times at
    most min(1, sets/(1 + e^(epsilon/2))^2).

    *Proof.* Let u = min(1, alpha W) be the test, W the wealth. Given the model and all other
    labels it is u_wrong + (u_right - u_wrong) 1[prediction right], and u_right - u_wrong
    <= u_right (1 - w/r) <= eta with eta = 1 - e^-cap. For a set S of labels of prior q, and a
    test function 0 <= v <= eta on the models that predict S, (epsilon, delta)-DP gives A_y(v) <=
    e^epsilon A_y'(v) + eta d for y in S and y' not in S, where d is by how much the chance of such
    models given y exceeds e^epsilon times that given y'. Multiplied by the probabilities of y and
    y', summed and solved, q A_S(v) <= beta A(v) + eta D/(1 - q + e^epsilon q), beta =
    q e^epsilon/(1 - q + e^epsilon q), where A draws the label anew and D is the sum of all d times
    these probabilities. So replacing the record's outcome by a fresh coin of probability beta,
    independent of the model, costs at most eta times the sum of D/(1 - q + e^epsilon q) over the
    sets that can be predicted. Each d is at most delta, and D at most delta q (1 - q), so a term is
    at most delta/(1 + e^(epsilon/2))^2. And a model predicts one set, so that all d of one y and y'
    are at most delta together, and all D too. Do it record by record: the mechanism with a label
    drawn anew is (epsilon, delta)-DP in the others. What is left is a test on independent coins, in
    which W has expectation at most 1 (`bets_epsilon_lower`, `matched_log_wealth`).

    With two classes a label or its opposite is predicted: two sets. With K classes that the label
    is the looked-at class, or is not: 2 K sets (`OddsTally`). Where the model itself decides of
    which of c records one label is predicted, all of whose labels are one secret (`unit_records`),
    y is all of them, and there are c times as many sets. Of secrets with several c the mean
    counts, since min is concave.

    Where the wealth is the mean of those against R references, which predict one record apart:
    of two classes the sets are still a label and its opposite, u is larger on one of the two, and
    1 - u_wrong/u_right is at most eta, as it is of each part. Of more labels min(1, alpha W) is at
    most the mean of min(R, alpha W_r), each of which pays R times the price of one: so the price is
    R times as large.

    Caps and prices are constant on blocks of epsilons of length 1/2, each that of its dearest
    point, so that on a block e-values with fixed strategies stay monotone in epsilon.

    Attributes:
        log_caps: shape (blocks,), largest log of r/w; infinite where delta needs no cap.
        prices: shape (blocks,), what delta takes of the significance.
        claim: what is tested, at its significance, of which the price is a part.
        delta: where replacing a label is tested; for a Gaussian claim the delta that costs half
            of the significance at full stakes, at which its epsilon is looked for.
    """

    log_caps: NDArray[np.float64]
    prices: NDArray[np.float64]
    claim: Claim
    delta: float

    def log_cap(self, epsilon: float) -> float:
        """Return the largest log of right over wrong at this epsilon."""
        return float(self.log_caps[_block(epsilon)])

    def price(self, epsilon: float) -> float:
        """Return what delta takes of the significance at this epsilon."""
        return float(self.prices[_block(epsilon)])

    def log_needed(self, epsilon: float) -> float:
        """Return the log-wealth that rejects, by Markov's inequality on what delta leaves."""
        return -math.log(self.claim.significance - self.price(epsilon))

    def replacement(self, epsilon: float) -> float:
        """Return the epsilon for replacing a label that the claim's `epsilon` allows.

        Matched bets compare the odds of a right prediction, and a guarantee for SIMULATE bounds
        these by e^(2 epsilon) as one for ADD_REMOVE does. Where a label's prior is
        1/(1 + e^epsilon), they reach it (`privcore.upper_bounds.label_success`).
        """
        steps = self.claim.neighbors.replacements
        if not isinstance(self.claim.family, Gaussian):
            return steps * epsilon
        mu = steps * float(gaussian_mu(epsilon, delta=self.claim.delta))
        return Gaussian(mu).epsilon_at(delta=self.delta)

    def in_claim(self, replacement: float) -> float:
        """Return the claim's epsilon that follows from a bound on replacing; its inverse.

        A bound of 0 is silence, and stays 0. That on what is claimed is the claim's epsilon, to the
        last digit.
        """
        steps, claimed = self.claim.neighbors.replacements, self.claim.epsilon
        if claimed is not None and replacement == self.replacement(claimed):
            return claimed
        if replacement == 0.0 or not isinstance(self.claim.family, Gaussian):
            return replacement / steps
        mu = float(gaussian_mu(replacement, delta=self.delta)) / steps
        return Gaussian(mu).epsilon_at(delta=self.claim.delta)

    def points(self) -> NDArray[np.float64]:
        """Return the points at which a bound on replacing a label is looked for, in order.

        They are `EPSILONS` and what is claimed itself, so that a claim that is rejected at its own
        point is refuted, and not only one that is rejected at the next of the grid. A claim beyond
        the grid cannot be refuted.
        """
        if self.claim.epsilon is None:
            return EPSILONS
        claimed = self.replacement(self.claim.epsilon)
        return EPSILONS if claimed > EPSILONS[-1] else np.union1d(EPSILONS, [claimed])


def stakes_for(
    claim: Claim,
    *,
    records: int,
    classes: int,
    control: int | None = None,
    choices: float = 1.0,
    nights: int = 1,
    references: int = 1,
) -> Stakes:
    """Return the stakes with which delta costs at most `DELTA_SHARE` of the significance.

    Args:
        claim: family, delta and relation; a Gaussian claim is tested at one of its
            (epsilon, delta) points, any other at its own delta.
        records: training records that play, each night; each of them pays.
        classes: number of classes.
        control: holdout records that they are held against. Stakes above
            16/sqrt(records control/(records + control)) seldom win more, and are left out unless
            they cost little.
        choices: records among which the target chose each of them, on average.
        nights: how many nights together may cost that share.
        references: against how many each record is predicted.

    The stakes depend on these numbers alone, never on what was played.
    """
    check_significance(claim.significance)
    if classes < 2:
        raise InvalidInputError("classes", classes, "there are at least 2 classes")
    if choices < 1.0:
        raise InvalidInputError("choices", choices, "a record is chosen among at least 1")
    if nights < 1:
        raise InvalidInputError("nights", nights, "there is at least 1 night")
    budget = DELTA_SHARE * claim.significance / nights
    delta = claim.delta
    if isinstance(claim.family, Gaussian):
        each = max(records, 1) * float(_price(np.zeros(1), choices, classes)[0])
        delta = claim.significance / (2.0 * nights * each * (1 if classes == 2 else references))
    paid = 1 if classes == 2 else references
    full = records * paid * _dearest(claim, delta, choices, classes)
    caps, largest = _log_cap(full, budget), np.full(full.shape, math.inf)
    if control:
        useful = _USEFUL * math.sqrt(1.0 / max(records, 1) + 1.0 / control)
        largest = np.maximum(useful, _log_cap(full, _CHEAP * budget))
    caps = np.minimum(caps, largest)
    prices = full * -np.expm1(-caps)
    return Stakes(caps, prices, claim, delta)


def _log_cap(full: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """Return the stakes' cap at which what costs `full` at full stakes costs the budget."""
    with np.errstate(divide="ignore"):
        return np.where(full > budget, -np.log1p(-np.minimum(budget / full, 1.0)), math.inf)


def _block(epsilon: float) -> int:
    return min(int(epsilon / BLOCK + 1e-9), _BLOCKS - 1)


def _dearest(claim: Claim, delta: float, choices: float, classes: int) -> NDArray[np.float64]:
    """Return the largest price of one record at full stakes on each block of epsilons."""
    # A claim may lie between the last point of a block and its end.
    points = np.append(EPSILONS, _BLOCKS * BLOCK)
    deltas: NDArray[np.float64] = np.full(points.shape, delta)
    if claim.neighbors.replacements == 2 and not isinstance(claim.family, Gaussian):
        # Two steps at epsilon/2 each: (epsilon, (1 + e^(epsilon/2)) delta).
        _, deltas = add_remove_to_replace(points / 2.0, delta=delta)
    prices = np.minimum(deltas, 1.0) * _price(points, choices, classes)
    within: NDArray[np.float64] = prices[:-1].reshape(_BLOCKS, -1).max(axis=1)
    return np.maximum(within, prices[EPSILONS.size // _BLOCKS :: EPSILONS.size // _BLOCKS])


def _price(epsilons: NDArray[np.float64], choices: float, classes: int) -> NDArray[np.float64]:
    """Return what one record at full stakes pays, as a multiple of delta."""
    sets = choices * (2 if classes == 2 else 2 * classes)
    price: NDArray[np.float64] = np.minimum(1.0, sets / (1.0 + np.exp(epsilons / 2.0)) ** 2)
    return price


# The beliefs are fixed here, before any game: the lift taken at its word, at half and at a quarter,
# each undiluted, and diluted by a tenth and by three tenths of the prior. Their mean is an e-value.
TEMPERATURES = (0.25, 0.5, 1.0)
DILUTIONS = (0.0, 0.1, 0.3)
_AT_ONCE = 50


def bets_epsilon_lower(predictions: Predictions, *, stakes: Stakes) -> float:
    """Return the largest epsilon for replacing a label up to which every point is rejected.

    For each epsilon of a fixed grid (`Stakes.points`) the adversary's wealth is
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
    points = stakes.points()
    reached = points.size
    for start in range(0, points.size, _AT_ONCE):
        some = points[start : start + _AT_ONCE]
        needed = np.array([stakes.log_needed(float(epsilon)) for epsilon in some])
        silent = np.flatnonzero(log_wealth(predictions, epsilons=some, stakes=stakes) < needed)
        if silent.size:
            reached = start + int(silent[0])
            break
    return float(points[reached - 1]) if reached > 0 else 0.0


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
        answer[point] = _log_mean_exp(wealth[point])
    return answer


@njit(cache=True)
def _log_mean_exp(logarithms: NDArray[np.float64]) -> float:
    # Loops, since whole arrays double the seconds that a first audit waits for this to compile.
    largest, total = -math.inf, 0.0
    for one in logarithms:
        largest = max(largest, one)
    for one in logarithms:
        total += math.exp(one - largest)
    return largest + math.log(total / logarithms.size)
