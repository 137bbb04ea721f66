"""Evidence over many nights: windows, and a standing that may be looked at every day."""

import itertools
from collections.abc import Callable, Sequence
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
"""The most nights of a window that can pay for delta."""

STANDING_NIGHTS = 128
"""Nights after which a standing begins anew; where delta has a price, after `WINDOW_NIGHTS`."""

_LATER_STARTS = 0.5
"""The part of the stake that waits for leaks which begin after the first night."""

_STEPS = (0, 2, 8, 32, WINDOW_EPSILONS.size)
"""Points of the grid are looked at in these steps, as far as something is rejected."""

_AT_ONCE = 4_000_000
"""The most numbers that are computed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """Evidence that one night leaves for the nights to come.

    Attributes:
        log_wealth: shape (strategies, points of `WINDOW_EPSILONS`), logarithms of the e-values
            against each epsilon of the claim, in its own relation.
        price: what delta takes of a window's significance for this night.
    """

    log_wealth: NDArray[np.float64]
    price: float


def window_epsilon_lower(
    nights: Sequence[Night],
    *,
    days: Sequence[int] | None = None,
    significance: float = 0.05,
    recurring: bool = False,
) -> float:
    """Return the largest epsilon of the grid up to which the nights together reject all.

    Each night is a fresh run of the mechanism on labels that are new given the past. Its e-values
    are therefore valid given the past (for mechanisms as black boxes see Gonzalez, Dulce-Rubio,
    Ramdas and Ribero 2025). Rejecting says that at least one night broke the claim, not which.

    A leak may begin inside the window, after nights that cost the stake nearly all. So one half of
    the stake is bet from the window's first day on, and each later day has an equal part of the
    other half, which waits until that day and is bet from then on. *Proof* that this is valid. Fix
    a strategy and an epsilon of the claim. Let E_i be the e-value of night i, and let v_k >= 0 be
    the part that is bet from night k on, with a sum of 1. After night t the stake is

        W_t = sum over k <= t of v_k E_k ... E_t + sum over k > t of v_k.

    W_0 = 1. Given the nights before t, E_t has an expectation of at most 1, and every other factor
    is known. So W_t has an expectation of at most v_t + sum over k < t of v_k E_k ... E_(t-1) +
    sum over k > t of v_k, which is W_(t-1). W is a nonnegative supermartingale, and so is its mean
    over strategies (Vovk and Wang 2021). The chance that it *ever* reaches 1/a is at most a (Ville
    1939). The window may therefore be read after each of its nights, and the largest reading is
    its bound: a leak that was repaired inside the window stays visible.

    Parts belong to days of the calendar, from the first night's day on. A day on which no night was
    audited adds its part to the next night's, so each part is known before its night's e-value. A
    window with one night bets all of the stake on it.

    With delta, all prices of the window are paid from the significance before any reading.

    Args:
        nights: of one model under one claim, in their order.
        days: the number of each night's day, ascending; None where no day lacks its night. Only
            differences count. The window's last day must be the last night's.
        significance: allowed probability that the bound is wrong, for this window alone: windows
            that end on many days are not covered together (`standing_epsilons` is).
        recurring: labels may recur from night to night (a diagnosis, a customer's status, a
            holdout that is the same every night). Then the product counts one chance twice, and the
            mean over nights is taken instead, which is an e-value whatever the nights have to do
            with each other.

    *Assumes* assumption E every night, that whether a night was audited does not depend on its own
    e-value, and without `recurring` that a night's labels are independent of earlier nights'
    outputs, given the features.

    Raises:
        InvalidInputError: no nights, a wealth of another grid, a value out of its range, days that
            do not ascend or are not one for each night.
    """
    bounds = window_epsilons(
        nights,
        days=range(len(nights)) if days is None else days,
        spans=[(0, len(nights))],
        significance=[significance],
        recurring=recurring,
    )
    return float(bounds[0])


def window_epsilons(
    nights: Sequence[Night],
    *,
    days: Sequence[int],
    spans: Sequence[tuple[int, int]],
    significance: Sequence[float],
    recurring: bool,
) -> NDArray[np.float64]:
    """Return `window_epsilon_lower` of many windows over the same nights, shape (windows,).

    The same figures to the bit, for a fraction of the time: windows of one length are computed
    together, and points of the grid above the first that is not rejected are left out.

    Args:
        nights: of one model under one claim, in their order.
        days: the number of each night's day, ascending.
        spans: first night of each window, and the first that it no longer holds.
        significance: of each window.
        recurring: as in `window_epsilon_lower`.

    Raises:
        InvalidInputError: as `window_epsilon_lower`.
    """
    for one in significance:
        check_significance(one)
    wealth, placed = _stacked(nights), np.asarray(days, dtype=np.int64)
    if placed.shape != (len(nights),) or (np.diff(placed) <= 0).any():
        raise InvalidInputError("days", list(days), f"{len(nights)} numbers that ascend")
    paid = [sum(night.price for night in nights[first:stop]) for first, stop in spans]
    left = np.array(significance) - np.array(paid)
    starts, lengths = np.array([span[0] for span in spans]), np.array([b - a for a, b in spans])
    bounds = np.zeros(len(spans))
    for length in np.unique(lengths).tolist():
        (alike,) = np.nonzero((lengths == length) & (left > 0.0))
        most = max(1, _AT_ONCE // (length * wealth[0].size))
        for begin in range(0, alike.size, most):
            some = alike[begin : begin + most]
            of_each = starts[some, None] + np.arange(length)
            needed = -np.log(left[some])
            bounds[some] = _reached_in_windows(wealth, of_each, placed, needed, recurring=recurring)
    return bounds


def _reached_in_windows(
    log_wealth: NDArray[np.float64],
    nights: NDArray[np.int64],
    days: NDArray[np.int64],
    needed: NDArray[np.float64],
    *,
    recurring: bool,
) -> NDArray[np.float64]:
    """Return the bound of windows of one length, whose `nights` are of shape (windows, nights)."""
    parts = _parts(days[nights])

    def rejected(windows: NDArray[np.int64], points: slice) -> NDArray[np.bool_]:
        if recurring:
            wealth = log_wealth[nights[windows], :, points]
            together = wealth.reshape(1, len(windows), -1, wealth.shape[-1])
        else:
            wealth = log_wealth[nights[windows].T, :, points]
            together = _from_every_start(wealth, parts[windows].T)
        result: NDArray[np.bool_] = _log_mean(together) >= needed[windows, None]
        return result

    runs = 1 if recurring else nights.shape[1]
    reached: NDArray[np.float64] = _first_points(rejected, windows=len(nights), runs=runs).max(
        axis=0
    )
    return reached


def standing_epsilons(
    nights: Sequence[Night], *, significance: float = 0.01, recurring: bool = False
) -> NDArray[np.float64]:
    """Return what the nights from the first up to each one prove, shape (nights,), never falling.

    The product of e-values that are valid given the past may be looked at every day: the chance
    that it *ever* exceeds 1/significance is at most the significance (Ville 1939), and what was
    proved once stays proved. Half of the stake is bet from the first night on; the other half
    waits, an equal part for each later night, and is bet from that night on (proved in
    `window_epsilon_lower`), so that quiet nights before a leak take nothing from it. With delta,
    the nights' prices may take `DELTA_SHARE` of the significance, all of which is set aside from
    the first night on; what waits stakes nothing. Assumptions as `window_epsilon_lower`; with
    `recurring` the nights' mean is no such process, so each night is tested at its share of the
    significance (a union bound over the standing's length).

    *Does not say* that a model is never accused falsely over its lifetime. "Ever" means within one
    standing. Each new standing has the significance anew, so standings add up: at 0.01, one of 128
    nights after the other adds at most 365/128 x 0.01 = 0.029 a year, and one of 28 nights (where
    delta has a price) at most 0.13. A standing that begins anew with a changed family, delta
    or relation adds 0.01 as well.

    Args:
        nights: in their order, since a start fixed beforehand: of the claim, or the end of the
            standing before. At most `STANDING_NIGHTS`, and `WINDOW_NIGHTS` where delta has a price.
        significance: allowed probability that the standing is ever wrong.
        recurring: as in `window_epsilon_lower`.

    Raises:
        InvalidInputError: no or too many nights, a wealth of another grid, a value out of range.
    """
    wealth = _stacked(nights)
    prices = [night.price for night in nights]

    def rejected(_: NDArray[np.int64], points: slice) -> NDArray[np.bool_]:
        lead = standing_lead(
            wealth[:, :, points], prices, significance=significance, recurring=recurring
        )
        result: NDArray[np.bool_] = lead[:, None] >= 0.0
        return result

    reached = _first_points(rejected, windows=1, runs=len(nights))[:, 0]
    risen: NDArray[np.float64] = np.maximum.accumulate(reached)
    return risen


def standing_lead(
    wealth: NDArray[np.float64],
    prices: Sequence[float],
    *,
    significance: float,
    recurring: bool,
) -> NDArray[np.float64]:
    """Return by how much the log-wealth after each night exceeds what a standing needs.

    From log-wealths of shape (nights, strategies, points) to (nights, points); at least 0 rejects.
    Minus infinity from the night on whose prices delta cannot pay.

    Raises:
        InvalidInputError: too many nights for one standing, or a significance out of its range.
    """
    check_significance(significance)
    total = np.cumsum(prices)
    most = standing_length(float(total[-1]))
    if len(prices) > most:
        rule = f"a standing has at most {most}: begin a new one"
        raise InvalidInputError("number of nights", len(prices), rule)
    left = significance * ((1.0 - DELTA_SHARE) if total[-1] > 0.0 else 1.0)
    if recurring:
        needed, evidence = -np.log(left / most), wealth
    else:
        parts = _parts(np.arange(most))[: len(prices)]
        needed, evidence = -np.log(left), _from_every_start(wealth, parts)
    paid = total <= DELTA_SHARE * significance * (1.0 + 1e-9)
    lead: NDArray[np.float64] = np.where(paid[:, None], _log_mean(evidence) - needed, -np.inf)
    return lead


def standing_length(price: float) -> int:
    """Return how many nights a standing has at most, where delta has this price."""
    return WINDOW_NIGHTS if price > 0.0 else STANDING_NIGHTS


def _parts(days: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the parts of the stake that wait for each night of a window, with a sum of 1.

    From ascending numbers of days, shape (..., nights), to the same.
    """
    if days.shape[-1] == 1:
        return np.ones(days.shape)
    span = days[..., -1:] - days[..., :1]
    later = np.diff(days, axis=-1) * (_LATER_STARTS / span)
    first = np.full((*days.shape[:-1], 1), 1.0 - _LATER_STARTS)
    return np.concatenate([first, later], axis=-1)


def _from_every_start(
    wealth: NDArray[np.float64], parts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log-wealth after each night, staked on all nights from which a leak may begin.

    From (nights, ..., strategies, epsilons) to the same. `parts` of the stake, shape (nights, ...),
    all above 0, wait for these nights; where their sum is below 1, the rest waits for nights that
    are still to come.
    """
    waiting = np.maximum(1.0 - np.cumsum(parts, axis=0), 0.0)
    with np.errstate(divide="ignore"):  # nothing is left to wait
        stake, rest = (np.log(each)[..., None, None] for each in (parts, waiting))
    held = np.full(wealth.shape[1:], -np.inf)
    together = np.empty(wealth.shape)
    for night, made in enumerate(wealth):
        held = np.logaddexp(held, stake[night]) + made
        np.logaddexp(held, rest[night], out=together[night])
    return together


def _first_points(
    rejected: Callable[[NDArray[np.int64], slice], NDArray[np.bool_]], *, windows: int, runs: int
) -> NDArray[np.float64]:
    """Return the last point of the grid before the first that is not rejected; 0 where none.

    Of each of `runs` tests in each of `windows`, shape (runs, windows). Later points are looked at
    only in windows of which some test rejects all earlier ones.

    Args:
        rejected: given windows and points, whether each test rejects: (runs, windows, points).
        windows: their number.
        runs: tests in each.
    """
    points = np.zeros((runs, windows), dtype=np.int64)
    going = np.arange(windows)
    for first, stop in itertools.pairwise(_STEPS):
        if not going.size:
            break
        run = np.cumprod(rejected(going, slice(first, stop)), axis=-1).sum(axis=-1)
        points[:, going] += np.where(points[:, going] == first, run, 0)
        going = going[(points[:, going] == stop).any(axis=0)]
    reached: NDArray[np.float64] = WINDOW_EPSILONS[np.maximum(points - 1, 0)]
    return reached


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


def _log_mean(wealth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the mean over strategies, the last axis but one."""
    mean: NDArray[np.float64] = logsumexp(wealth, axis=-2) - np.log(wealth.shape[-2])
    return mean
