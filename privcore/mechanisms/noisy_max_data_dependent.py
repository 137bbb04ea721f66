"""PATE's data-dependent epsilon: smaller where teachers agree, and never the declared guarantee.

It depends on the votes, thus on the private labels: publishing it leaks, and no one can promise it
before training. It is for looking at, beside the data-independent epsilon.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, logsumexp

from privcore.exceptions import InvalidInputError
from privcore.guarantees import renyi_epsilon
from privcore.mechanisms.noisy_max import NoisyMax

_ORDERS: NDArray[np.float64] = np.concatenate(
    [np.arange(2.0, 64.0), np.geomspace(64.0, 4096.0, 60), [np.inf]]
)


@dataclass(frozen=True, slots=True)
class DataDependentEpsilon:
    """An epsilon at `delta` that holds for these votes only. *Not* a guarantee to declare."""

    epsilon: float
    delta: float
    label: str = "data-dependent: itself private, holds for these votes only, not to be declared"


def data_dependent_epsilon(
    mechanism: NoisyMax, votes: NDArray[np.float64], *, delta: float
) -> DataDependentEpsilon:
    """Return the data-dependent epsilon of answering `votes`, shape (queries, classes).

    Laplace: Papernot et al. 2017 (arXiv:1610.05755), Theorem 3, with Lemma 4's bound on the
    probability that the noisy winner is not the plurality's. Gaussian: Papernot et al. 2018
    (arXiv:1802.08908), Theorem 6 with Propositions 7 and 10. Both as Renyi divergences, of which
    the data-independent one is taken where it is smaller; they add over queries.

    Raises:
        InvalidInputError: a mechanism without noise, other numbers of votes than queries, or a
            delta that is not above 0.
    """
    if not mechanism.scale:
        raise InvalidInputError("scale", 0.0, "without noise there is no finite epsilon")
    if len(votes) != mechanism.queries:
        rule = f"the mechanism answers {mechanism.queries} queries"
        raise InvalidInputError("votes", votes.shape, rule)
    if not 0.0 < delta < 1.0:
        raise InvalidInputError("delta", delta, "a data-dependent epsilon needs a delta in (0, 1)")
    curve = query_renyi(mechanism, votes, _ORDERS).sum(axis=0)
    return DataDependentEpsilon(float(renyi_epsilon(_ORDERS, curve, delta=delta)), delta)


def query_renyi(
    mechanism: NoisyMax, votes: NDArray[np.float64], orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each query's data-dependent Renyi divergence, shape (queries, orders)."""
    log_miss = log_outvoted(mechanism, votes)
    curve = _laplace_renyi if mechanism.noise == "laplace" else _gaussian_renyi
    return np.stack([curve(float(each), mechanism.scale, orders) for each in log_miss])


def log_outvoted(mechanism: NoisyMax, votes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log of a bound on P(the answer is not the plurality's class), shape (queries,)."""
    ordered = -np.sort(-votes, axis=1)
    gaps = (ordered[:, :1] - ordered[:, 1:]) / mechanism.scale
    if mechanism.noise == "laplace":
        logs = np.log((2.0 + gaps) / 4.0) - gaps
    else:
        logs = np.log(np.maximum(erfc(gaps / 2.0) / 2.0, 1e-300))
    return np.asarray(np.minimum(logsumexp(logs, axis=1), np.log1p(-1e-12)))


def _laplace_renyi(
    log_miss: float, scale: float, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Theorem 3 of 2017: moments of order - 1, over order - 1."""
    pure = 2.0 / scale
    moment = orders - 1.0
    with np.errstate(invalid="ignore"):
        independent = np.minimum(pure, pure**2 * orders / 2.0)
    miss = np.exp(log_miss)
    if not miss < (np.exp(pure) - 1.0) / (np.exp(2.0 * pure) - 1.0):
        return independent
    hit = np.log1p(-miss)
    finite = np.where(np.isfinite(moment), moment, 1.0)
    ratio = hit - np.log1p(-np.exp(pure) * miss)
    dependent = np.logaddexp(hit + ratio * finite, log_miss + pure * finite) / finite
    return np.where(np.isfinite(moment), np.minimum(independent, dependent), pure)


def _gaussian_renyi(
    log_miss: float, deviation: float, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Theorem 6 of 2018 at the orders of its Proposition 10."""
    variance = deviation**2
    independent = orders / variance
    second = np.sqrt(variance * -log_miss)
    first = second + 1.0
    if not second > 1.0:
        return independent
    divergence_1, divergence_2 = first / variance, second / variance
    limit = (second - 1.0) * divergence_2 - second * (
        np.log1p(1.0 / (first - 1.0)) + np.log1p(1.0 / (second - 1.0))
    )
    if not (log_miss <= limit and -log_miss > divergence_2):
        return independent
    hit = np.log1p(-np.exp(log_miss))
    finite = np.where(np.isfinite(orders), orders, 2.0) - 1.0
    rest = np.log1p(-np.exp((log_miss + divergence_2) * (1.0 - 1.0 / second)))
    log_a = finite * (hit - rest)
    log_b = finite * (divergence_1 - log_miss / (first - 1.0))
    dependent = np.logaddexp(hit + log_a, log_miss + log_b) / finite
    covered = (orders <= first) & np.isfinite(orders)
    return np.where(covered, np.minimum(independent, dependent), independent)
