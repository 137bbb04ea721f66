"""Power of an audit: how large a leak it would have seen, alone and with other nights.

A declaration that is not refuted says something only if a false one would probably be refuted. The
ceiling answers that for a perfect attack, which proves much even with ten holdout records. The
power answers it for a leak that every label alike shows: nights with the rows of tonight are
imagined (`privcore.lower_bounds.imagined`), and it is counted what their evidence would be.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privcore.lower_bounds.betting import EPSILONS, Stakes
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.imagined import Imagined
from privcore.lower_bounds.matched import NIGHT_STRATEGIES, REFERENCES
from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.windows import (
    FROM_THE_FIRST,
    LEVELS,
    WINDOW_NIGHTS,
    check_one_kind,
    standing_length,
    standing_needed,
)

OFFSETS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Leaks of imagined nights above the night's own claim: as offsets they add when it changes."""

_UNLUCKY = 0.8416212335729143
"""Standard deviations by which one of five normal numbers falls short."""
_BETWEEN: NDArray[np.float64] = np.arange(0, 401) / 100.0
_STEP = 0.02
_CLOSE = 1.05
"""Factor by which the answered size may exceed the least that suffices."""


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedNight:
    """Evidence of one night if every label of it showed a leak, at the standing's stakes.

    Attributes:
        epsilon: what was declared for the night; 0 where nothing was.
        mean: shape (strategies, offsets), of each strategy's log e-value against `epsilon`
            (`night_log_wealth`), if every label showed a leak of `epsilon` and one of `OFFSETS`.
        variance: of the same shape.
        price: what delta takes of the standing's significance for this night.
    """

    epsilon: float
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    price: float


@dataclass(frozen=True, slots=True)
class Power:
    """Power of one audit.

    Attributes:
        sees_from: the least leak, shown by every label, with which this night alone refutes the
            declaration (or, where nothing is declared, proves any loss) in four of five audits.
            None where no leak up to 4 above the declaration would.
        holdout_needed: about how many holdout records the night needs to see `leak_to_be_seen`, of
            as many records in all; None where it does, where nothing is declared, and where no
            number of them suffices.
        imagined: what the night adds to `sees_from_together`; None where no night can be imagined.
    """

    sees_from: float | None
    holdout_needed: int | None
    imagined: ImaginedNight | None


def power_of(imagined: Imagined, claim: Claim, random: np.random.Generator) -> Power:
    """Return what an audit could have seen, and what it adds to what nights see together.

    *Assumes* a leak of all labels alike, that training remembers whole, and that the proxy, once
    recalibrated, holds what is known of a label without it. A learner that forgets, or that shows
    few labels, shows less: this is never a mechanism's epsilon, and no verdict of a violation rests
    on it.

    Args:
        imagined: nights with the rows of this audit.
        claim: what is tested; without an epsilon, any loss at all.
        random: a stream of its own.
    """
    epsilon = claim.epsilon or 0.0
    lasting = replace(claim, significance=claim.standing_significance)
    alone, standing = (
        imagined.design.stakes(claim),
        imagined.design.stakes(lasting, nights=WINDOW_NIGHTS),
    )
    price = float(standing.prices.max())
    if not imagined.design.held or alone.replacement(epsilon) > EPSILONS[-1]:
        nothing = np.zeros((NIGHT_STRATEGIES, len(OFFSETS)))
        return Power(None, None, ImaginedNight(epsilon, nothing, nothing, price))
    seed = int(random.integers(2**63))
    means, variances, leads = [], [], []
    for offset in OFFSETS:
        made, own = _log_wealth(imagined, (standing, alone), claim, epsilon + offset, seed)
        both = np.concatenate([made.transpose(1, 2, 0)] * (REFERENCES // made.shape[1]))
        means.append(both.mean(axis=-1).ravel())
        variances.append(both.var(axis=-1, ddof=1).ravel())
        leads.append(_lead(own, alone, epsilon))
    night = ImaginedNight(epsilon, np.array(means).T, np.array(variances).T, price)
    seen = _sees_alone(imagined, claim, leads, seed)
    sees = seen is not None and seen <= leak_to_be_seen(epsilon)
    needed = None if claim.epsilon is None or sees else _size_needed(imagined, claim, seed)
    return Power(seen, needed, night)


def sees_from_together(
    nights: Sequence[ImaginedNight], *, significance: float = 0.01, recurring: bool = False
) -> float | None:
    """Return the least leak with which the nights refute their declarations in four of five cases.

    Every label of every night shows a leak that lies by the same offset above what was declared
    for its night. Given the past nights are independent, so that means and variances of a
    strategy's log e-value add. All strategies rise with the number of right predictions, so the
    log of their mean falls short as each of them does: with probability 4/5 it exceeds the log
    of the mean of their quantiles. Of the stake of `declarations_refuted` that part counts which
    bets from the first night on; its levels count as they bet.

    Args:
        nights: as `declarations_refuted` takes them.
        significance: of the standing.
        recurring: as in `declarations_refuted`; sums are then no evidence, and each night is
            tested by itself.

    Returns:
        The leak in the terms of the last night's claim; None where none up to 4 above it is seen.

    Raises:
        InvalidInputError: as `declarations_refuted`.

    *Assumes* what `power_of` does, and normal sums. A leak of few labels has to be larger.
    """
    mean, variance, times = _by_level(nights)
    needed, paid = standing_needed(
        [night.price for night in nights], significance=significance, recurring=recurring
    )
    if not paid[-1]:
        return None
    if recurring:
        leads = (_log_mean_unlucky(mean, variance, times) - needed).max(axis=0)
    else:
        sums = _log_mean_unlucky(mean.sum(axis=0), variance.sum(axis=0), times)
        leads = sums + math.log(FROM_THE_FIRST) - needed
    least = _least_offset(leads)
    return None if least is None else nights[-1].epsilon + least


def nights_until_conclusive(
    nights: Sequence[ImaginedNight], *, significance: float = 0.01, recurring: bool = False
) -> int | None:
    """Return how many nights like these would together see `leak_to_be_seen`; None where never.

    Args and errors are those of `sees_from_together`. The threshold is the last night's. Nights
    are as many as one standing holds.
    """
    *moments, times = _by_level(nights)
    mean, variance = (each.mean(axis=0) for each in moments)
    price = float(np.mean([night.price for night in nights]))
    epsilon = nights[-1].epsilon
    most = 1 if recurring else standing_length(price)
    needed, paid = standing_needed([price] * most, significance=significance, recurring=recurring)
    needed -= 0.0 if recurring else math.log(FROM_THE_FIRST)

    def sees(number: int) -> bool:
        reached = _log_mean_unlucky(number * mean, number * variance, times)
        least = _least_offset(reached - needed)
        return least is not None and epsilon + least <= leak_to_be_seen(epsilon)

    # What sums to enough goes on to grow, so the least number is found by halving.
    low, high = 0, int(paid.sum())
    if high == 0 or not sees(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sees(middle) else (middle, high)
    return high


def _log_wealth(
    imagined: Imagined, stakes: Sequence[Stakes], claim: Claim, leak: float, seed: int
) -> list[NDArray[np.float64]]:
    """Return the log e-values against the claim at each of several stakes, of the same nights."""
    made: dict[tuple[float, ...], NDArray[np.float64]] = {}
    found = []
    for each in stakes:
        tested = each.replacement(claim.epsilon or 0.0)
        key = tested, each.log_cap(tested), each.replacement(leak)
        if key not in made:
            random = np.random.default_rng(seed)
            made[key] = imagined.log_wealth(key[2], tested, each, random)
        found.append(made[key])
    return found


def _log_mean_unlucky(
    mean: NDArray[np.float64], variance: NDArray[np.float64], times: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the log of the mean of what strategies exceed in four of five cases.

    From moments of shape (..., strategies, offsets) to (..., offsets between them); each strategy
    counts so many times.
    """
    weights = _between()
    mean, variance = mean @ weights, np.maximum(variance @ weights, 0.0)
    reached = logsumexp(mean - _UNLUCKY * np.sqrt(variance), axis=-2, b=times[:, None])
    return np.asarray(reached - math.log(times.sum()))


@functools.cache
def _between() -> NDArray[np.float64]:
    """Return what moments at `OFFSETS` are multiplied by for those at `_BETWEEN`.

    Each is read from a parabola through the two offsets beside it and the next: near the claim a
    bet that follows the leak wins in proportion to its square, and others in proportion to it.
    """
    weights = np.zeros((len(OFFSETS), _BETWEEN.size))
    for place in range(len(OFFSETS) - 1):
        first = min(place, len(OFFSETS) - 3)
        some = slice(first, first + 3)
        here = (OFFSETS[place] <= _BETWEEN) & (OFFSETS[place + 1] >= _BETWEEN)
        powers = np.vander(_BETWEEN[here] - OFFSETS[first], 3)
        weights[some, here] = np.linalg.solve(
            np.vander(np.array(OFFSETS[some]) - OFFSETS[first], 3).T, powers.T
        )
    return weights


def _least_offset(leads: NDArray[np.float64]) -> float | None:
    """Return the least of `_BETWEEN` from which on leads are at least 0; None where none is."""
    short = np.flatnonzero(~(leads >= 0.0))
    first = int(short[-1]) + 1 if short.size else 0
    return float(_BETWEEN[first]) if first < _BETWEEN.size else None


def _lead(made: NDArray[np.float64], stakes: Stakes, epsilon: float) -> float:
    """Return by how much nights alone exceed, in four of five audits, what refutes `epsilon`.

    From log e-values of shape (nights, references, strategies), the last of these the night's own.
    """
    own = made[:, :, -1]
    unlucky = own.mean(axis=0) - _UNLUCKY * own.std(axis=0, ddof=1)
    reached = logsumexp(unlucky) - math.log(unlucky.size)
    return float(reached - stakes.log_needed(stakes.replacement(epsilon)))


def _sees_alone(
    imagined: Imagined, claim: Claim, leads: Sequence[float], seed: int
) -> float | None:
    """Return the least leak that a night alone refutes, by halving where `leads` turn."""
    epsilon, stakes = claim.epsilon or 0.0, imagined.design.stakes(claim)
    short = [place for place, lead in enumerate(leads) if not lead >= 0.0]
    first = short[-1] + 1 if short else 0
    if first == len(OFFSETS):
        return None
    low, high = OFFSETS[max(first - 1, 0)], OFFSETS[first]
    while high - low > _STEP:
        middle = (low + high) / 2.0
        (made,) = _log_wealth(imagined, (stakes,), claim, epsilon + middle, seed)
        low, high = (low, middle) if _lead(made, stakes, epsilon) >= 0.0 else (middle, high)
    return epsilon + high


def _size_needed(imagined: Imagined, claim: Claim, seed: int) -> int | None:
    """Return about the least size with which a night sees `leak_to_be_seen`; None where none is."""
    epsilon = claim.epsilon or 0.0

    def sees(held: int) -> bool:
        resized = imagined.resized(held)
        stakes = resized.design.stakes(claim)
        (made,) = _log_wealth(resized, (stakes,), claim, leak_to_be_seen(epsilon), seed)
        return _lead(made, stakes, epsilon) >= 0.0

    low, high = imagined.design.held, imagined.most
    if high <= low or not sees(high):
        return None
    while high > math.ceil(low * _CLOSE) and (middle := math.isqrt(low * high)) > low:
        low, high = (low, middle) if sees(middle) else (middle, high)
    return high


def _by_level(
    nights: Sequence[ImaginedNight],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return moments at each level of bets, and how many strategies have each.

    Shapes (nights, different levels and strategies, offsets), and (different levels and
    strategies,): most levels bet on the same nights.
    """
    check_one_kind([night.price for night in nights])
    within = np.array([night.epsilon for night in nights])[:, None] <= np.array(LEVELS)
    every = np.concatenate([within, np.ones_like(within)], axis=1).astype(float)
    bets, times = np.unique(every, axis=1, return_counts=True)
    mean, variance = (
        np.einsum("nl,nsg->nlsg", bets, np.stack(each)).reshape(len(nights), -1, len(OFFSETS))
        for each in ([night.mean for night in nights], [night.variance for night in nights])
    )
    return mean, variance, np.repeat(times, mean.shape[1] // times.size)
