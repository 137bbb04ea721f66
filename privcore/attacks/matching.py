"""Training records beside holdout records that the models see alike: two-by-two tables.

A prediction on a training record may be right because training memorised its label, or because the
models know what holds for everybody. On records that training never saw only the second is left.
So each training record is set beside holdout records of about the same prior (strata of the proxy's
log-odds), for which the same label is predicted, of the same rank among their own arm's lifts.

No label is looked at: not to predict, not to recalibrate the proxy, not to match. What decides are
the models' outputs alone, so that the labels, of both arms, are left to test with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks.odds import OddsCells, OddsTally
from privcore.exceptions import InvalidInputError

SHARES = (1.0, 0.2, 0.05, 0.0125, 0.003)
"""Shares of the training records, the surest predictions, of which tables are made."""

_IN_STRATUM = 50
_DEVIATIONS = 3.0
_MOST_STRATA = 128
_FEWEST_OF_AN_ORDER = 4  # what is granted within a stratum is what the target says, no chance


@dataclass(frozen=True, slots=True)
class Matched:
    """Two-by-two tables, one per stratum and predicted side; every array has shape (tables,).

    Attributes:
        records: training records.
        right: of these, whose prediction was right.
        control: holdout records matched with them.
        control_right: of these, whose prediction was right.
        offset: by how much the proxy holds the training records' predictions likelier than the
            holdout's, in log-odds and at least 0: it is granted to the adversary.
    """

    records: NDArray[np.int64]
    right: NDArray[np.int64]
    control: NDArray[np.int64]
    control_right: NDArray[np.int64]
    offset: NDArray[np.float64]

    def all_right(self) -> "Matched":
        """Return the tables had every prediction on a training record been right."""
        return Matched(self.records, self.records, self.control, self.control_right, self.offset)


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The proxy as the target sees it: log-odds intercept + slope times the proxy's.

    (0, 1) is a proxy that the target agrees with, on average, on records that it never saw. Where
    places of an order stand for the proxy's log-odds, it is how sure the target is at each.
    """

    intercept: float
    slope: float
    ordered: bool = False

    def apply(self, log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the recalibrated log-odds."""
        return self.intercept + self.slope * log_odds

    def sureness(self, cells: OddsCells) -> NDArray[np.float64]:
        """By how much the target moved the probability: where labels tell most of a leak.

        Of an order the log-odds, as the target's are none of probabilities either.
        """
        fitted = self.apply(cells.proxy)
        if self.ordered:
            return np.abs(cells.target - fitted)
        return np.abs(expit(cells.target) - expit(fitted))

    def granted(self, log_odds: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return by what, in log-odds, one record may be likelier than another: it is granted."""
        fitted = self.apply(log_odds)
        return (fitted,) if self.ordered else (fitted, log_odds)


def match(
    training: Sequence[OddsTally],
    control: Sequence[OddsTally],
    *,
    random: np.random.Generator,
    ordered: bool = False,
) -> tuple[Matched, ...]:
    """Match training records with holdout records; one set of tables for each of `SHARES`.

    Args:
        training: tallies of the training records, one for each group within which to match
            (privacy units of as many rows; one group where records play).
        control: of the holdout records, in the same groups.
        random: the audit's stream. It decides which holdout records of a border cell are matched,
            never by their labels.
        ordered: whether places of an order stand for the proxy's log-odds (`Tallies.ordered`).
            Then that is what strata are made of, four at least, and surest is who moved furthest.

    How: the proxy is recalibrated to the mean of the target's probabilities on holdout records of
    the same proxy log-odds (`recalibrate`). A training record is predicted to have the looked-at
    class where the target lies above that, else not to have it. Strata are quantiles of the proxy's
    log-odds, one for every 50 records of the smaller arm. In each, a share of the training records
    is predicted on either side, with at least the sureness that the set of tables asks for; the
    same share of the holdout records, those of the largest lift on that side, is their control
    (`_held` says where it is less). Ranks and not values are matched: memorisation lifts training
    records only, and matching by value would set it beside the holdout's best known records.

    Raises:
        InvalidInputError: numbers of groups that differ.
    """
    if len(training) != len(control) or not training:
        rule = f"there is at least one, and as many as in training, {len(training)}"
        raise InvalidInputError("groups of the control", len(control), rule)
    arms = [(one.cells(), other.cells()) for one, other in zip(training, control, strict=True)]
    fit = recalibrate([holdout for _, holdout in arms], ordered=ordered)
    fewest = _FEWEST_OF_AN_ORDER if ordered else 1
    surest = _sureness_needed([cells for cells, _ in arms], fit)
    sets: list[list[tuple[float, ...]]] = [[] for _ in SHARES]
    for cells, holdout in arms:
        for stratum in _strata(cells, holdout, fewest=fewest):
            for tables, least in zip(sets, surest, strict=True):
                tables.extend(_tables(*stratum, fit=fit, least=least, random=random))
    return tuple(_matched(tables) for tables in sets)


def recalibrate(control: Sequence[OddsCells], *, ordered: bool = False) -> Recalibration:
    """Fit the target's probability on the proxy's log-odds, over records that training never saw.

    A logistic regression on the target's probabilities, not on labels; held by a normal penalty of
    unit variance near (0, 1), the slope at least 0; near (0, 0) and of either sign where these are
    no log-odds but an `ordered` proxy's places.
    """
    proxy = np.concatenate([cells.proxy for cells in control])
    mean = expit(np.concatenate([cells.target for cells in control]))
    made = np.concatenate([cells.zeros + cells.ones for cells in control]).astype(np.float64)
    design = np.stack([np.ones_like(proxy), proxy], axis=1)
    centre = np.array([0.0, 0.0 if ordered else 1.0])
    fitted = centre.copy()
    for _ in range(50):
        chance = expit(design @ fitted)
        gradient = design.T @ (made * (mean - chance)) - (fitted - centre)
        curvature = (design.T * (made * chance * (1.0 - chance))) @ design + np.eye(2)
        step = np.clip(np.linalg.solve(curvature, gradient), -1.0, 1.0)
        fitted += step
        if np.abs(step).max() < 1e-9:
            break
    if fitted[1] < 0.0 and not ordered:
        return Recalibration(float(logit(np.average(mean, weights=made))), 0.0)
    return Recalibration(float(fitted[0]), float(fitted[1]), ordered)


def _sureness_needed(training: Sequence[OddsCells], fit: Recalibration) -> list[float]:
    """Return the sureness that at least each of `SHARES` of the training records reaches."""
    sureness = np.concatenate([fit.sureness(cells) for cells in training])
    made = np.concatenate([cells.zeros + cells.ones for cells in training])
    order = np.argsort(-sureness)
    reached = np.cumsum(made[order])
    total = int(reached[-1]) if reached.size else 0
    return [
        0.0
        if share >= 1.0 or not total
        else float(sureness[order[np.searchsorted(reached, share * total)]])
        for share in SHARES
    ]


def _strata(
    training: OddsCells, control: OddsCells, *, fewest: int = 1
) -> list[tuple[OddsCells, OddsCells]]:
    """Cut both arms where the proxy's log-odds of all records have their quantiles."""
    smaller = min(int((cells.zeros + cells.ones).sum()) for cells in (training, control))
    number = min(max(smaller // _IN_STRATUM, fewest), _MOST_STRATA)
    proxy = np.concatenate([training.proxy, control.proxy])
    made = np.concatenate([training.zeros + training.ones, control.zeros + control.ones])
    order = np.argsort(proxy, kind="stable")
    ranks = np.cumsum(made[order])
    if not ranks.size:
        return []
    wanted = np.arange(1, number) / number * ranks[-1]
    edges = np.unique(proxy[order[np.searchsorted(ranks, wanted)]])
    arms = [np.searchsorted(edges, cells.proxy, side="right") for cells in (training, control)]
    return [
        (_some(training, arms[0] == place), _some(control, arms[1] == place))
        for place in range(edges.size + 1)
    ]


def _some(cells: OddsCells, chosen: NDArray[np.bool_]) -> OddsCells:
    return OddsCells(
        cells.proxy[chosen], cells.target[chosen], cells.zeros[chosen], cells.ones[chosen]
    )


def _tables(
    training: OddsCells,
    control: OddsCells,
    *,
    fit: Recalibration,
    least: float,
    random: np.random.Generator,
) -> list[tuple[float, ...]]:
    """Return a stratum's tables: (records, right, control, right, offset) of each side."""
    sure, lift = fit.sureness(training) >= least, training.target - fit.apply(training.proxy)
    seen_sure, seen_lift = (
        fit.sureness(control) >= least,
        control.target - fit.apply(control.proxy),
    )
    made, seen = training.zeros + training.ones, control.zeros + control.ones
    remaining = _Remaining(control, seen_lift)
    tables: list[tuple[float, ...]] = []
    for side in (1, 0):
        chosen = sure & ((lift > 0.0) == bool(side))
        records = int(made[chosen].sum())
        alike = int(seen[seen_sure & ((seen_lift > 0.0) == bool(side))].sum())
        held = _held(records, int(made.sum()), alike, int(seen.sum()))
        if not held:
            continue
        right = int((training.ones if side else training.zeros)[chosen].sum())
        taken = remaining.take(held, side=side, random=random)
        offset = max(
            _log_odds_of_mean(one[chosen], made[chosen], side)
            - _log_odds_of_mean(other, taken.sum(axis=1), side)
            for one, other in zip(
                fit.granted(training.proxy), fit.granted(control.proxy), strict=True
            )
        )
        tables.append((records, right, held, int(taken[:, side].sum()), max(offset, 0.0)))
    return tables


def _held(records: int, stratum: int, alike: int, control: int) -> int:
    """Return how many holdout records of a stratum stand for these training records.

    The same share of the stratum, in rank; but where no more than chance is between that and the
    number of holdout records that pass the training's own cut in value, no more than these. Else
    the number of holdout records that truly are so (of a drifted segment, say) falls short of its
    share in every other stratum, and the rank fills it up with records that are right less often.
    Where the arms differ by more than that, memory has lifted training records: then values do not
    compare, and the share is cut by three standard deviations, which errs towards silence.

    Args:
        records: training records that pass the cut.
        stratum: all training records of the stratum.
        alike: holdout records that pass it.
        control: all holdout records of the stratum.
    """
    if not records or not control:
        return 0
    expected = records * control / stratum
    pooled = (records + alike) / (stratum + control)
    chance = (
        _DEVIATIONS * control * math.sqrt(pooled * (1.0 - pooled) * (1.0 / stratum + 1.0 / control))
    )
    return math.floor(min(expected, max(alike, expected - chance)) + 1e-9)


class _Remaining:
    """A stratum's holdout records, taken from either end of their lifts, each at most once."""

    def __init__(self, control: OddsCells, lift: NDArray[np.float64]) -> None:
        self._order = np.argsort(lift, kind="stable")
        self._left = np.stack([control.zeros, control.ones], axis=1)

    def take(self, wanted: int, *, side: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return how many (zeros, ones) of each cell are the `wanted` of the largest lift."""
        order = self._order[::-1] if side else self._order
        reached = np.cumsum(self._left[order].sum(axis=1))
        whole = int(np.searchsorted(reached, wanted, side="right"))
        taken = np.zeros_like(self._left)
        taken[order[:whole]] = self._left[order[:whole]]
        left = wanted - (int(reached[whole - 1]) if whole else 0)
        if left:
            zeros, ones = self._left[order[whole]]
            drawn = int(random.hypergeometric(ones, zeros, left))
            taken[order[whole]] = left - drawn, drawn
        self._left -= taken
        return taken


def _log_odds_of_mean(log_odds: NDArray[np.float64], made: NDArray[np.int64], side: int) -> float:
    """Return the log-odds of the mean probability that a prediction of this side is right."""
    right = log_odds if side else -log_odds
    return math.log(made @ expit(right)) - math.log(made @ expit(-right))


def _matched(tables: list[tuple[float, ...]]) -> Matched:
    columns = np.array(tables, dtype=np.float64).reshape(-1, 5).T
    records, right, control, control_right = columns[:4].astype(np.int64)
    return Matched(records, right, control, control_right, columns[4])
