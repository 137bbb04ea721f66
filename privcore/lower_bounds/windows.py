"""Evidence over many nights: windows, and a standing that may be looked at every day.

Where nights have each their own claim, all of them are tested together: was every declaration true
when it was made?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.betting import DELTA_SHARE
from privcore.lower_bounds.fdp import check_significance

WINDOW_EPSILONS: NDArray[np.float64] = np.concatenate(
    [np.arange(0, 40) / 20.0, np.arange(20, 60) / 10.0, np.arange(24, 57) / 4.0]
)
"""The grid, agreed beforehand, on which each night keeps its wealth: to 2 in steps of 0.05, to 6 in
steps of 0.1, to 14 in steps of 0.25."""

WINDOW_NIGHTS = 28
"""The most nights of a window that can pay for delta."""

STANDING_NIGHTS = 128
"""Nights after which a standing begins anew; where delta has a price, after `WINDOW_NIGHTS`."""

FROM_THE_FIRST = 0.5
"""The part of the stake that is bet from the first night on; the rest waits for later starts."""


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
    check_significance(significance)
    wealth = _stacked(nights)
    placed = np.arange(len(nights)) if days is None else np.asarray(days, dtype=np.int64)
    if placed.shape != (len(nights),) or (np.diff(placed) <= 0).any():
        raise InvalidInputError("days", placed.tolist(), f"{len(nights)} numbers that ascend")
    left = significance - float(np.array([night.price for night in nights]).sum())
    if left <= 0.0:
        return 0.0
    parts = _parts(placed)
    if recurring:
        wealth, parts = wealth.reshape(1, -1, wealth.shape[-1]), np.ones(1)
    points = _rejected_points(wealth, parts, -math.log(left)).max(keepdims=True)
    return float(_epsilon_at(points)[0])


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
    points = _standing_points(
        _stacked(nights), [night.price for night in nights], significance, recurring=recurring
    )
    risen: NDArray[np.float64] = np.maximum.accumulate(_epsilon_at(points))
    return risen


def _standing_points(
    wealth: NDArray[np.float64], prices: Sequence[float], significance: float, *, recurring: bool
) -> NDArray[np.int64]:
    """Return how many points a standing rejects after each night; 0 once delta cannot pay.

    From log-wealths of shape (nights, strategies, points). Raises as `standing_needed`.
    """
    needed, paid = standing_needed(prices, significance=significance, recurring=recurring)
    if recurring:
        each = [_rejected_points(night[None], np.ones(1), needed) for night in wealth]
        return np.where(paid, np.concatenate(each), 0)
    parts = _parts(np.arange(standing_length(sum(prices))))[: len(prices)]
    return np.where(paid, _rejected_points(wealth, parts, needed), 0)


def standing_length(price: float) -> int:
    """Return how many nights a standing has at most, where delta has this price."""
    return WINDOW_NIGHTS if price > 0.0 else STANDING_NIGHTS


def standing_needed(
    prices: Sequence[float], *, significance: float, recurring: bool
) -> tuple[float, NDArray[np.bool_]]:
    """Return the log-wealth that rejects in a standing, and of each night if delta is paid.

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
    paid = total <= DELTA_SHARE * significance * (1.0 + 1e-9)
    return -math.log(left / most if recurring else left), paid


@njit(cache=True)
def _parts(days: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the parts of the stake that wait for each night of a window, with a sum of 1.

    From ascending numbers of days, shape (nights,), to the same.
    """
    parts = np.ones(days.size)
    if days.size > 1:
        parts[0] = FROM_THE_FIRST
        for night in range(1, days.size):
            share = (1.0 - FROM_THE_FIRST) / (days[-1] - days[0])
            parts[night] = (days[night] - days[night - 1]) * share
    return parts


@njit(cache=True)
def _logaddexp(one: float, other: float) -> float:
    most = max(one, other)
    if most == -np.inf:
        return most
    return most + math.log1p(math.exp(-abs(one - other)))


@njit(cache=True)
def _rejected_points(
    wealth: NDArray[np.float64], parts: NDArray[np.float64], needed: float
) -> NDArray[np.int64]:
    """Return how many points are rejected after each night before the first that is not.

    Later points are looked at only while some night rejects all earlier ones.

    Args:
        wealth: log-wealths, shape (nights, strategies, points).
        parts: of the stake that wait for each night, shape (nights,); where their sum is below 1,
            the rest waits for nights that are still to come.
        needed: the log-wealth that rejects.
    """
    nights, strategies, points = wealth.shape
    stake, waits = np.log(parts), np.log(np.maximum(1.0 - np.cumsum(parts), 0.0))
    rejected = np.zeros(nights, dtype=np.int64)
    held, going = np.empty(strategies), nights
    for point in range(points):
        held[:] = -np.inf
        for night in range(nights):
            together = -np.inf
            for strategy in range(strategies):
                held[strategy] = (
                    _logaddexp(held[strategy], stake[night]) + wealth[night, strategy, point]
                )
                together = _logaddexp(together, _logaddexp(held[strategy], waits[night]))
            if rejected[night] == point:
                if together - math.log(strategies) >= needed:
                    rejected[night] += 1
                else:
                    going -= 1
        if going == 0:
            break
    return rejected


def _epsilon_at(points: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the last of so many rejected points of the grid; 0 where there are none."""
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


LEVELS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Declared epsilons up to which one sixteenth of the stake bets; the other half bets on all."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedNight:
    """Evidence of one night about the guarantee that was declared for that night.

    Attributes:
        epsilon: what was declared.
        log_wealth: shape (strategies,), logarithms of the e-values against the declared epsilon.
        price: what delta takes of the standing's significance for this night.
    """

    epsilon: float
    log_wealth: NDArray[np.float64]
    price: float


def declarations_refuted(
    nights: Sequence[ClaimedNight], *, significance: float = 0.01, recurring: bool = False
) -> NDArray[np.bool_]:
    """Return whether the nights up to each refute that all declarations were true: (nights,).

    Each night is held against what was declared for that night, and the evidence of all nights is
    multiplied. So a changed declaration resets nothing: a family, a delta or an epsilon that
    changes changes only what its own night is held against. Nights without a declaration are not
    among `nights`: they multiply by 1. A lower declaration is not held against older nights.

    A night that declares much is lost to a bettor on it, though another night's declaration was
    false. So half of the stake bets on all nights, and an equal part of the other half for each of
    eight levels bets only on nights that declare no more than this level. Declaring 50 every second
    night therefore costs the evidence of the others a constant factor, once.

    *Lemma.* Night t is audited against its own claim C_t: a family, an epsilon, a delta and a
    relation, known before training begins. Its e-value is E_t, its price p_t. Let W_t be the stake
    after night t, with parts v_k that wait for later starts, as in `window_epsilon_lower`, averaged
    over strategies and levels. If every C_t is true, the chance that W *ever* reaches 1/a is at
    most a + p_1 + p_2 + ...

    *Proof.* Let U_t be 1 from the first night on which a W reaches 1, and a W_t before. U_0 = a,
    and U never exceeds 1. Fix a night t and what came before it. If U_(t-1) = 1, U_t = 1. Else U_t
    = min(1, a W_t), where W_t = sum over k <= t of v_k E_k ... E_t + what waits, and where a level
    that C_t exceeds has 1 in the place of E_t. All of this but E_t is known. So a W_t is a function
    of this night's records alone: a sum, with nonnegative weights, of products that a right
    prediction multiplies by r and a wrong one by w, w/r >= e^-cap, and of parts that stay as they
    are. (The night's own e-value is itself a mean of such products.) Hence 1 - u_wrong/u_right <= 1
    - e^-cap for u = U_t, which is all that `Stakes` asks of a test. Its proof replaces this night's
    outcomes, one after the other, by independent coins, and uses the truth of C_t alone: U_t has an
    expectation of at most p_t plus that of min(1, a W_t) under the coins. That is at most a W_t's,
    where E_t has an expectation of at most 1, and so at most a W_(t-1) = U_(t-1). Hence E[U_t] <=
    E[U_(t-1)] + p_t, and the chance that W reaches 1/a by night T is at most E[U_T] <= a + p_1 +
    ... + p_T. ∎

    Only night t uses C_t, so claims may differ from night to night in every part. Without delta
    all prices are 0, and this is Ville's inequality. Claims may be chosen by anyone who knows all
    earlier nights.

    With delta, a is `1 - DELTA_SHARE` of the significance, and prices may take the rest, set aside
    before the first night. Nights without a price need no such share. Mixing both kinds in one
    standing would either waste it or pay for it after looking, so each kind has a standing of its
    own, at the significance each. With `recurring` each night is tested at its share of the
    significance, a union bound over the standing's length, since labels that come again are no new
    evidence.

    *Assumes* what `window_epsilon_lower` does, and that a night's declaration was fixed before its
    e-value could be known. *Does not say* which declaration was false. Standings add up as
    `standing_epsilons` says, and a model that declares with and without delta has two.

    Args:
        nights: in their order, since a start fixed beforehand; all with a price, or all without.
        significance: allowed probability that the standing is ever wrong.
        recurring: as in `window_epsilon_lower`.

    Raises:
        InvalidInputError: no or too many nights, nights of both kinds, a value out of its range.
    """
    prices = [night.price for night in nights]
    check_one_kind(prices)
    shapes = {night.log_wealth.shape for night in nights}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        rule = "each night has one e-value for each strategy, and all have the same strategies"
        raise InvalidInputError("shapes of log_wealth", sorted(shapes), rule)
    wealth = np.ascontiguousarray(_by_level(nights)[:, :, None])
    points = _standing_points(wealth, prices, significance, recurring=recurring)
    refuted: NDArray[np.bool_] = np.logical_or.accumulate(points > 0)
    return refuted


def check_one_kind(prices: Sequence[float]) -> None:
    """Raise unless there are nights, and delta has a price on all of them or on none.

    Raises:
        InvalidInputError: no nights, or nights of both kinds.
    """
    if not prices:
        raise InvalidInputError("nights", 0, "there is at least one night")
    if len({price > 0.0 for price in prices}) > 1:
        rule = "all are above 0 or all are 0: nights with a price have a standing of their own"
        raise InvalidInputError("prices", list(prices), rule)


def _by_level(nights: Sequence[ClaimedNight]) -> NDArray[np.float64]:
    """Return the nights' log e-values for each level and strategy, bets on all nights half."""
    wealth = np.stack([night.log_wealth for night in nights])
    within = np.array([night.epsilon for night in nights])[:, None] <= np.array(LEVELS)
    lower = np.where(within[:, :, None], wealth[:, None, :], 0.0)
    each = np.broadcast_to(wealth[:, None, :], lower.shape)
    return np.concatenate([lower, each], axis=1).reshape(len(nights), -1)
