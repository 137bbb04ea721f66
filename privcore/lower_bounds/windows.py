"""Evidence over many nights: windows, and a standing that may be looked at every day."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.fdp import check_significance
from privcore.lower_bounds.stakes import DELTA_SHARE

WINDOW_EPSILONS: NDArray[np.float64] = np.concatenate(
    [np.arange(0, 40) / 20.0, np.arange(20, 60) / 10.0, np.arange(24, 57) / 4.0]
)
"""The grid, agreed beforehand, on which each night keeps its wealth: to 2 in steps of 0.05, to 6 in
steps of 0.1, to 14 in steps of 0.25."""

WINDOW_NIGHTS = 28
"""Windows of at most so many nights can pay for delta."""

STANDING_NIGHTS = 128
"""A standing begins anew after so many nights; where delta has a price, after `WINDOW_NIGHTS`."""

_LATER_STARTS = 0.5
"""The part of a standing's stake that waits for leaks which begin after its first night."""


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """What one night leaves for the nights to come.

    Attributes:
        log_wealth: shape (strategies, points of `WINDOW_EPSILONS`), logarithms of the e-values
            against each epsilon of the claim, in its own relation.
        price: what delta takes of a window's significance for this night.
    """

    log_wealth: NDArray[np.float64]
    price: float


def window_epsilon_lower(
    nights: Sequence[Night], *, significance: float = 0.05, recurring: bool = False
) -> float:
    """Return the largest epsilon of the grid up to which the nights together reject all.

    Each night is a fresh run of the mechanism on labels that are new given the past, and its
    e-values are valid given the past; so for each strategy, fixed over the nights, their product is
    an e-value against "every night kept the claim", and so is the mean of the products over
    strategies (Vovk and Wang 2021; for mechanisms as black boxes Gonzalez, Dulce-Rubio, Ramdas and
    Ribero 2025). Rejecting says that at least one night broke the claim, not which.

    Args:
        nights: of one model under one claim, fixed in number beforehand (7, 28).
        significance: allowed probability that the bound is wrong, for this window alone: windows
            that end on many days are not covered together (`standing_epsilons` is).
        recurring: labels may recur from night to night (a diagnosis, a customer's status). Then
            the product counts one chance twice, and the mean over nights is taken instead, which
            is an e-value whatever the nights have to do with each other.

    *Assumes* assumption E every night, and without `recurring` that a night's labels are
    independent of earlier nights' outputs, given the features.

    Raises:
        InvalidInputError: no nights, a wealth of another grid, a value out of its range.
    """
    check_significance(significance)
    wealth = _stacked(nights)
    total = np.concatenate(wealth) if recurring else wealth.sum(axis=0)
    left = significance - sum(night.price for night in nights)
    return float(_reached(total[None], -np.log(left))[0]) if left > 0.0 else 0.0


def standing_epsilons(
    nights: Sequence[Night], *, significance: float = 0.01, recurring: bool = False
) -> NDArray[np.float64]:
    """Return what the nights from the first up to each one prove, shape (nights,), never falling.

    The product of e-values that are valid given the past may be looked at every day: the chance
    that it *ever* exceeds 1/significance is at most the significance (Ville 1939), and what was
    proved once stays proved. Half of the stake is bet from the first night on; the other half
    waits, an equal part for each later night, and is bet from that night on (the sum of such
    products is a nonnegative supermartingale, too), so that quiet nights before a leak take
    nothing from it. With delta, the nights' prices may take `DELTA_SHARE` of the significance, all
    of which is set aside from the first night on; what waits stakes nothing. Assumptions as
    `window_epsilon_lower`; with `recurring` the nights' mean is no such process, so each night is
    tested at its share of the significance (a union bound over the standing's length).

    Args:
        nights: in their order, since a start fixed beforehand: of the claim, or the end of the
            standing before. At most `STANDING_NIGHTS`, and `WINDOW_NIGHTS` where delta has a price.
        significance: allowed probability that the standing is ever wrong.
        recurring: as in `window_epsilon_lower`.

    Raises:
        InvalidInputError: no or too many nights, a wealth of another grid, a value out of range.
    """
    check_significance(significance)
    wealth = _stacked(nights)
    prices = np.cumsum([night.price for night in nights])
    most = standing_length(float(prices[-1]))
    if len(nights) > most:
        rule = f"a standing has at most {most}: begin a new one"
        raise InvalidInputError("number of nights", len(nights), rule)
    left = significance * ((1.0 - DELTA_SHARE) if prices[-1] > 0.0 else 1.0)
    if recurring:
        needed, evidence = -np.log(left / most), wealth
    else:
        needed, evidence = -np.log(left), _from_every_start(wealth, most)
    paid = prices <= DELTA_SHARE * significance * (1.0 + 1e-9)
    reached: NDArray[np.float64] = np.maximum.accumulate(
        np.where(paid, _reached(evidence, float(needed)), 0.0)
    )
    return reached


def standing_length(price: float) -> int:
    """Return how many nights a standing has at most, where delta has this price."""
    return WINDOW_NIGHTS if price > 0.0 else STANDING_NIGHTS


def _from_every_start(wealth: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the log-wealth up to each night, staked on all nights from which a leak may begin.

    From (nights, strategies, epsilons) to the same. A start that is still to come keeps its part.
    """
    first = np.log(1.0 - _LATER_STARTS) + np.cumsum(wealth, axis=0)
    part = _LATER_STARTS / (most - 1)
    later = np.full(wealth.shape[1:], -np.inf)
    together = []
    for night, made in enumerate(wealth):
        if night > 0:
            later = np.logaddexp(later, np.log(part)) + made
        waiting = np.log((most - 1 - night) * part) if night < most - 1 else -np.inf
        together.append(np.logaddexp(np.logaddexp(first[night], later), waiting))
    return np.stack(together)


def _stacked(nights: Sequence[Night]) -> NDArray[np.float64]:
    """Return the nights' wealths, shape (nights, strategies, epsilons)."""
    if not nights:
        raise InvalidInputError("nights", 0, "there is at least one night")
    shape = (nights[0].log_wealth.shape[0], WINDOW_EPSILONS.size)
    for night in nights:
        if night.log_wealth.shape != shape:
            rule = f"every night's has the first one's strategies and the grid's points, {shape}"
            raise InvalidInputError("shape of log_wealth", night.log_wealth.shape, rule)
    return np.stack([night.log_wealth for night in nights])


def _reached(wealth: NDArray[np.float64], needed: float) -> NDArray[np.float64]:
    """Return the last point up to which the mean over strategies rejects all; 0 where none.

    From (nights, strategies, epsilons) to (nights,).
    """
    log_mean = logsumexp(wealth, axis=1) - np.log(wealth.shape[1])
    rejected = np.cumprod(log_mean >= needed, axis=1).sum(axis=1)
    reached: NDArray[np.float64] = WINDOW_EPSILONS[np.maximum(rejected - 1, 0)]
    return reached
