"""Joint evidence of models that were trained on the same labels."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.declarations import ClaimedNight
from privcore.lower_bounds.fdp import check_significance
from privcore.lower_bounds.windows import WINDOW_EPSILONS, Night


def together_epsilon_lower(nights: Sequence[Night], *, significance: float = 0.05) -> float:
    """Return a lower bound on the privacy loss of all models together, from one night of each.

    *Theorem.* Let all outputs together be (epsilon, delta)-private for one label. Each model's
    output is a function of them, so each model is, too, and at each delta above. Then every model's
    e-value against epsilon has an expectation of at most 1, and so has their mean, however they
    depend on each other (Vovk and Wang 2021, "E-values: calibration, combination and
    applications"). Markov's inequality rejects epsilon where the mean reaches 1/significance. The
    bound is the last epsilon of the grid before the first that is not rejected. To be wrong it has
    to reject the least epsilon of the grid that is true, and the chance of that is at most the
    significance.

    Where delta takes a price s, E[min(W, 1/s)] is at most 2, so half of that is the e-value.

    *Does not say* which model leaks, or that losses of different models add up: they may be about
    the same labels. The bound of one model that leaks alone is larger; this one holds for all of
    them at once, whatever their number.

    Args:
        nights: one of each model, of the same day's labels, unit and relation.
        significance: allowed probability that the bound is wrong.

    Raises:
        InvalidInputError: no nights, a wealth of another grid, a significance out of its range.
    """
    check_significance(significance)
    if not nights or any(night.log_wealth.shape[1:] != WINDOW_EPSILONS.shape for night in nights):
        raise InvalidInputError("nights", len(nights), "at least one, on the grid of windows")
    each = np.stack([log_evalues(night.log_wealth, night.price) for night in nights])
    mean = logsumexp(each, axis=0) - math.log(len(nights))
    run = int(np.cumprod(mean >= -math.log(significance)).sum())
    return float(WINDOW_EPSILONS[run - 1]) if run else 0.0


def declarations_log_evalue(claimed: Sequence[ClaimedNight]) -> float:
    """Return the logarithm of an e-value against the claim that every model keeps its declaration.

    It is the mean of the models' e-values, each against what was declared for that model
    (`together_epsilon_lower`).

    Args:
        claimed: one night of each model that declares something.

    Raises:
        InvalidInputError: no nights.
    """
    if not claimed:
        raise InvalidInputError("claimed", 0, "at least one model declares something")
    each = [float(log_evalues(night.log_wealth[:, None], night.price)[0]) for night in claimed]
    return float(logsumexp(each) - math.log(len(each)))


def log_evalues(log_wealth: NDArray[np.float64], price: float) -> NDArray[np.float64]:
    """Return the log e-values of the mean over strategies: (strategies, points) to (points,)."""
    mean: NDArray[np.float64] = logsumexp(log_wealth, axis=0) - math.log(len(log_wealth))
    return mean if price == 0.0 else np.minimum(mean, -math.log(price)) - math.log(2.0)
