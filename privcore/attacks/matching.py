"""Training records beside holdout records that the models see alike: two-by-two tables.

A prediction on a training record may be right because training memorised its label, or because the
models know what holds for all records. On records that training never saw only the second is left.
So each training record is set beside holdout records of about the same prior (strata of the proxy's
log-odds), for which the same label is predicted about as surely.

One rule for both arms: whatever recalibrates, cuts, orders or chooses treats training and holdout
records alike, and reads no label. What decides are the models' outputs alone, so that the labels,
of both arms, are left to test with.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks.odds import OddsCells, OddsTally
from privcore.exceptions import InvalidInputError

_DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
class Side:
    """Records of a stratum that are predicted to be on one side, past a cut.

    Attributes:
        group: of the stratum.
        holdout: holdout records of the stratum.
        chosen: the training cells.
        records: training records in them.
        alike: holdout records past the same cut.
        expected: holdout records that were past it if they were the training records' share.
        variance: of `alike` less `expected`, where chance alone divided the arms.
    """

    group: int
    holdout: int
    chosen: NDArray[np.bool_]
    records: int
    alike: int
    expected: float
    variance: float


def explained_by_chance(sides: Sequence[Side]) -> bool:
    """Return whether the holdout has no more records past the cut in all strata than by chance."""
    excess = sum(side.alike - side.expected for side in sides)
    return excess <= _DEVIATIONS * math.sqrt(sum(side.variance for side in sides)) + 1e-9


def wanted_controls(sides: Sequence[Side]) -> NDArray[np.int64]:
    """Return how many holdout records of each stratum stand for its training records of a side.

    A stratum has few of them, and three standard deviations less leave none (`held`). So where
    fewer of several neighbours pass the cut together than chance explains, these together have
    their share less three standard deviations of their sum, spread by their holdout's size.
    """
    by_chance = explained_by_chance(sides)
    counts = np.array([held(side, by_chance=by_chance) for side in sides], dtype=np.int64)
    for first, last in neighbours(sides):
        some = slice(first, last)
        lacking = _least_share(sides[some]) - int(counts[some].sum())
        if lacking >= 1.0:
            sizes = np.array([side.holdout * bool(side.records) for side in sides[some]])
            even = sizes * ((lacking + counts[some].sum()) / sizes.sum())
            counts[some] += spread(math.floor(lacking), np.maximum(even - counts[some], 0.0))
    return counts


def neighbours(sides: Sequence[Side]) -> Iterator[tuple[int, int]]:
    """Yield runs of strata of one group, each the shortest whose share less chance is a half."""
    first = 0
    for last in range(1, len(sides) + 1):
        ends = last == len(sides) or sides[last].group != sides[first].group
        some = sides[first:last]
        if ends or _least_share(some) >= sum(side.expected for side in some) / 2.0 > 0.0:
            yield first, last
            first = last


def _least_share(sides: Sequence[Side]) -> float:
    """Return the share of some strata's holdout less three standard deviations."""
    chance = _DEVIATIONS * math.sqrt(sum(side.variance for side in sides))
    return sum(side.expected for side in sides) - chance + 1e-9


def spread(whole: float, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers with a sum, rounded down, in proportion to weights; one is above 0."""
    reached = np.floor(np.cumsum(weights) * (whole / weights.sum()) + 1e-9)
    return np.asarray(np.diff(reached, prepend=0.0).astype(np.int64))


def held(side: Side, *, by_chance: bool) -> int:
    """Return how many holdout records of a stratum stand for the training records of a side.

    Where chance explains how many pass the training records' own cut, all of these. To cut chance's
    excess by rank would drop the least sure ones; where a target is surest where it is wrong, that
    adds up over strata and nights. Where more pass than chance explains (three standard deviations
    in the stratum, or in the sum over strata), memory has made training records less sure, and the
    share decides, by rank. Where fewer pass than that, memory has lifted training records: then
    values do not compare, and the share less three standard deviations is taken, which errs towards
    silence.
    """
    if not side.records:
        return 0
    chance = _DEVIATIONS * math.sqrt(side.variance)
    most = max(side.alike, math.floor(side.expected - chance + 1e-9), 0)
    if by_chance and side.alike <= side.expected + chance + 1e-9:
        return most
    return min(most, math.floor(side.expected + 1e-9))


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The proxy as the target sees it: log-odds intercept + slope times the proxy's.

    (0, 1) is a proxy that the target agrees with on average.
    """

    intercept: float
    slope: float

    def apply(self, log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the recalibrated log-odds."""
        return self.intercept + self.slope * log_odds

    def moved(self, cells: OddsCells) -> NDArray[np.float64]:
        """Return by how much the target moved the probability of the class, with its sign.

        The size says how sure the prediction is: labels tell most of a leak where the probability
        moved far.
        """
        return np.asarray(expit(cells.target) - expit(self.apply(cells.proxy)))

    def granted(self, log_odds: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return by what, in log-odds, one record may be likelier than another: it is granted."""
        return self.apply(log_odds), log_odds


def recalibrate(arms: Sequence[OddsCells]) -> Recalibration:
    """Fit the target's probability on the proxy's log-odds, over the records of both arms.

    A logistic regression on the target's probabilities, not on labels; held by a normal penalty of
    unit variance near (0, 1), the slope at least 0. Both arms enter alike: a fit that reads the
    holdout alone would treat the arms differently, and the tables would be hypergeometric only
    approximately where nothing leaks.
    """
    proxy = np.concatenate([cells.proxy for cells in arms])
    mean = expit(np.concatenate([cells.target for cells in arms]))
    made = np.concatenate([cells.made for cells in arms]).astype(np.float64)
    fitted = fit_near(np.stack([np.ones_like(proxy), proxy], axis=1), mean, made)
    if fitted[1] < 0.0:
        return Recalibration(float(logit(np.average(mean, weights=made))), 0.0)
    return Recalibration(float(fitted[0]), float(fitted[1]))


def fit_near(
    design: NDArray[np.float64], mean: NDArray[np.float64], made: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a logistic regression's coefficients, held near those that take the proxy as it is.

    Args:
        design: shape (cells, columns): ones, the proxy's log-odds, and what may be known besides.
        mean: shape (cells,), of what is fitted.
        made: shape (cells,), records.
    """
    centre = np.zeros(design.shape[1])
    centre[1] = 1.0
    fitted = centre.copy()
    for _ in range(50):
        chance = expit(design @ fitted)
        gradient = design.T @ (made * (mean - chance)) - (fitted - centre)
        curvature = (design.T * (made * chance * (1.0 - chance))) @ design + np.eye(centre.size)
        step = np.clip(np.linalg.solve(curvature, gradient), -1.0, 1.0)
        fitted += step
        if np.abs(step).max() < 1e-9:
            break
    return fitted


Unread = tuple[Sequence[OddsTally], Sequence[OddsTally]]
"""Training and holdout records whose label cannot be read, by group."""

SHARES = (1.0, 0.2, 0.05, 0.0125, 0.003)
"""Shares of the records of both arms, the surest predictions, of which tables are made."""

_IN_STRATUM = 50
_MOST_STRATA = 128
_UNREAD = 2
"""Column of unreadable labels, after those of another label and of the looked-at class."""


@dataclass(frozen=True)  # without slots, so that `effective` is computed once
class Matched:
    """Two-by-two tables, one per stratum and predicted side; every array has shape (tables,).

    Attributes:
        records: training records.
        right: of these, whose prediction was right.
        control: holdout records matched with them.
        control_right: of these, whose prediction was right.
        offset: by how much the proxy holds the training records' predictions likelier than the
            holdout's, in log-odds and at least 0: it is granted to the adversary.
        unaided: how many of the control would be right on average if predictions told no more of
            unseen labels than the proxy does; None where that is not asked.
    """

    records: NDArray[np.int64]
    right: NDArray[np.int64]
    control: NDArray[np.int64]
    control_right: NDArray[np.int64]
    offset: NDArray[np.float64]
    unaided: NDArray[np.float64] | None = None

    @functools.cached_property
    def effective(self) -> float:
        """The sum over tables of n1 n0/(n1 + n0): how many records a comparison is worth."""
        both = self.records + self.control
        return float(np.sum(self.records * self.control / both))

    def all_right(self) -> "Matched":
        """Return the tables had every prediction on a training record been right."""
        return replace(self, right=self.records)

    def no_worse_than_unaided(self) -> "Matched":
        """Return the tables with a control that is right, in sum, at least as often as unaided.

        A target that is right about unseen labels less often than the proxy alone makes training
        records look remembered. It happens beside a holdout of which the proxy knows labels, even
        by so little that no test of the arms sees it. So holdout predictions that were wrong count
        as right until the sum over tables is `unaided`; each table gets its share of what lacks in
        sum, by what lacks in it. Wealth falls with each, so an e-value stays one whatever the
        labels are, and the bound stays valid where it was valid.

        *Does not say* that the proxy knows nothing: what a target has learned since the proxy and
        what the proxy knows of the holdout may cancel.
        """
        if self.unaided is None:
            return self
        lacking = np.maximum(self.unaided - self.control_right, 0.0)
        in_sum = float((self.unaided - self.control_right).sum())
        if in_sum <= 0.0:
            return self
        raised = self.control_right + spread(in_sum, lacking)
        return replace(self, control_right=np.minimum(raised, self.control))


def match(
    training: Sequence[OddsTally],
    control: Sequence[OddsTally],
    *,
    random: np.random.Generator,
    classes: int = 2,
) -> tuple[Matched, ...]:
    """Match training records with holdout records; one set of tables for each of `SHARES`.

    Args:
        training: tallies of the training records, one for each group within which to match
            (privacy units of as many rows; one group where records play).
        control: of the holdout records, in the same groups.
        random: the audit's stream. It decides which holdout records of a border cell are matched,
            never by their labels.
        classes: number of classes; taken for two, tables of more are as valid and prove less.

    How: the proxy is recalibrated to the mean of the target's probabilities on all records of the
    same proxy log-odds (`recalibrate`). A record is predicted to have the looked-at class where the
    target lies above that, else not to have it; the prediction is the surer the further the target
    moved the probability. Strata are quantiles of the proxy's log-odds, one for every 50 records of
    the smaller arm. A set of tables takes the predictions that are at least as sure as the surest
    share of all records of both arms. In each stratum and on each side the training records past
    that cut stand beside the holdout records past the same cut (`held` and `wanted_controls` say
    where it is more or less).

    With more than two classes the class that is looked at is the one that the target raised most.
    A leak then lifts its mean probability over training records, and not over the holdout's: most
    holdout records would lie below the mean of both. So there the proxy is taken as it is.

    **Lemma** (no leak). Let the target read no label of either arm, and let the arms be
    exchangeable (assumption E1): given outputs and labels of all records of a group as one set,
    which of them are in training is uniform among all choices of as many. Recalibration, strata
    and cuts depend on these sets and on the arms' sizes alone. Now let it also be given how many
    records of each arm lie past the cut, in each stratum and on each side. That decides how many of
    the holdout are taken. Which of a stratum's records past the cut on a side are in training is
    still uniform, independently of other strata and sides. So where all holdout records past the
    cut are taken, tables are independent and hypergeometric at an odds ratio of 1, given all their
    margins, whatever the target, the proxy and their skill are. The offset does depend on who is in
    training, but it is at least 0 and can only lower the wealth. Such tables cannot expect to win.

    Another number is taken only beyond three standard deviations, which chance alone reaches in
    about one table of 400, and of neighbouring strata together in one run of 740. The lemma does
    not cover these. In the worlds of `tests.no_leak_worlds` in which the target is surest where it
    is wrong they add about 0.02 to the expected wealth of a night, which is at most 1 without them.

    **Lemma** (with a leak). In a stratum let the chance that an unseen record has the class not
    fall as its signed move S rises. Given S, let a record's own label say nothing about a fresh
    one: S holds all that the features say about the label, as far as training uses them. Then
    memorising the own label adds what is noise for a fresh label: training takes a record of clean
    move S with a chance a(S), whatever its fresh label would be. Let training have the share u past
    the cut on a side. Then its records are right, for fresh labels, at most as often as unseen ones
    of any share v <= u that are the surest. *Proof* for the side of the class; the other is its
    mirror image. Let r(S) be the chance of the class. E[a(S) r(S)]/u is at most the mean of r over
    the surest u: both weights have the mean u and are at most 1, and the second lies where r is
    largest. That mean does not rise with u, so over the surest v it is at least as large. ∎

    So the holdout past the *same value* serves where memory made training records surer (v <= u),
    and by *rank* it serves always. Assumption E2 is what is left: that v <= u also where the
    holdout exceeds its share by no more than chance; that the offset covers what the proxy tells
    apart in a wide stratum; and both premises of the lemma. They are false of a leaking model that
    is surest where it is wrong, or that ignores features which tell the label.

    Raises:
        InvalidInputError: numbers of groups that differ.
    """
    strata, everyone, fit = _stratified(training, control, classes=classes)
    sureness = np.abs(np.concatenate([fit.moved(cells) for cells in everyone]))
    needed = sureness_needed(sureness, np.concatenate([cells.made for cells in everyone]))
    return tuple(_tables(strata, least, random) for least in needed.tolist())


def match_everyone(
    training: Sequence[OddsTally],
    control: Sequence[OddsTally],
    *,
    classes: int = 2,
    unread: Unread = ((), ()),
) -> Matched:
    """Match all records, so that a label decides nothing but whether its own prediction was right.

    As `match` at a share of 1, but of the holdout cell at a border, of which `match` draws some
    records, none is taken: what is drawn of a cell depends on all its labels, and so do all later
    draws. Fewer and surer holdout records err towards silence. Replacing one label changes one
    number by one, `right` or `control_right` of one table, and nothing else (`publish_statement`).

    A label that cannot be read is one more value of a label: it counts as wrong in training, and as
    right in the holdout. Wealth rises with the first number and falls with the second, so it is at
    most what it would be with the true labels.

    Args:
        training: tallies of the training records, by group, as `match` takes them.
        control: of the holdout records, in the same groups.
        classes: number of classes, as `match` takes it.
        unread: training and holdout records whose label cannot be read (`unread_odds`), in the same
            groups; an arm that has none may be empty.

    Raises:
        InvalidInputError: numbers of groups that differ.
    """
    strata, _, _ = _stratified(training, control, classes=classes, unread=unread)
    return _tables(strata, 0.0, None)


def holdout_sides(training: Sequence[OddsTally], control: Sequence[OddsTally]) -> Matched:
    """Set holdout records whose prediction is that they lack the class beside the others.

    A table is a stratum: `records` are the holdout records that are predicted to lack the class,
    `right` those of them that have it; `control` and `control_right` are the same of those that are
    predicted to have it. Where what the target learned since the proxy helps with labels that it
    has not seen, or tells nothing of them, the second have the class at least as often, once the
    offset is granted. Where a proxy was trained on the holdout they have it less often: the target
    then moves away from what the proxy knows. Replacing one label changes one table, as it does in
    `match_everyone`.

    Args:
        training: tallies of the training records, by group; they decide strata, not labels.
        control: of the holdout records, in the same groups.

    Raises:
        InvalidInputError: numbers of groups that differ.
    """
    strata, _, _ = _stratified(training, control)
    tables: list[tuple[float, ...]] = []
    for stratum in strata:
        arm = stratum.control
        sides = [arm.past(0.0, side) for side in (0, 1)]
        made = [int(arm.made[chosen].sum()) for chosen in sides]
        if all(made):
            lacking, having = (int(arm.cells.ones[chosen].sum()) for chosen in sides)
            offset = max(
                _log_odds_of_mean(granted[sides[0]], arm.made[sides[0]], 1)
                - _log_odds_of_mean(granted[sides[1]], arm.made[sides[1]], 1)
                for granted in arm.granted
            )
            tables.append((made[0], lacking, made[1], having, max(offset, 0.0)))
    return _matched(tables)


def _stratified(
    training: Sequence[OddsTally],
    control: Sequence[OddsTally],
    *,
    classes: int = 2,
    unread: Unread = ((), ()),
) -> tuple[list["_Stratum"], list[OddsCells], Recalibration]:
    """Return the strata of all groups, the cells of both arms, and the proxy's recalibration."""
    if len(training) != len(control) or not training:
        rule = f"there is at least one, and as many as in training, {len(training)}"
        raise InvalidInputError("groups of the control", len(control), rule)
    one_arm, other_arm = (
        [odds.cells(without) for odds, without in zip(arm, some or (None,) * len(arm), strict=True)]
        for arm, some in zip((training, control), unread, strict=True)
    )
    arms = list(zip(one_arm, other_arm, strict=True))
    everyone = [cells for both in arms for cells in both]
    fit = Recalibration(0.0, 1.0) if classes > 2 else recalibrate(everyone)
    strata = [
        _Stratum(_Arm(cells, fit), _Arm(holdout, fit), group)
        for group, both in enumerate(arms)
        for cells, holdout in _strata(*both)
    ]
    return strata, everyone, fit


def sureness_needed(
    sureness: NDArray[np.float64], made: NDArray[np.generic]
) -> NDArray[np.float64]:
    """Return the sureness that at least each of `SHARES` of all records reaches, shape (shares,).

    Args:
        sureness: shape (cells,).
        made: shape (cells,), records of both arms.
    """
    order = np.argsort(-sureness, kind="stable")
    reached = np.cumsum(made[order])
    if not reached.size or not reached[-1]:
        return np.zeros(len(SHARES))
    place = np.searchsorted(reached, np.array(SHARES[1:]) * reached[-1])
    return np.append(0.0, sureness[order[place]])


def _strata(training: OddsCells, control: OddsCells) -> list[tuple[OddsCells, OddsCells]]:
    """Cut both arms where the proxy's log-odds of all records have their quantiles."""
    smaller = min(int(cells.made.sum()) for cells in (training, control))
    proxy = np.concatenate([training.proxy, control.proxy])
    made = np.concatenate([training.made, control.made])
    if not proxy.size:
        return []
    edges = stratum_edges(proxy, made, smaller=smaller)
    arms = [np.searchsorted(edges, cells.proxy, side="right") for cells in (training, control)]
    return [
        (training.some(arms[0] == place), control.some(arms[1] == place))
        for place in range(edges.size + 1)
    ]


def stratum_edges(
    proxy: NDArray[np.float64], made: NDArray[np.generic], *, smaller: float
) -> NDArray[np.float64]:
    """Return where strata begin, ascending: the first of them has no edge.

    Args:
        proxy: shape (cells,), the proxy's log-odds.
        made: shape (cells,), records of both arms.
        smaller: records of the smaller arm, one stratum for every 50 of them.
    """
    number = min(max(int(smaller) // _IN_STRATUM, 1), _MOST_STRATA)
    order = np.argsort(proxy, kind="stable")
    ranks = np.cumsum(made[order])
    wanted = np.arange(1, number) / number * ranks[-1]
    return np.unique(proxy[order[np.searchsorted(ranks, wanted)]])


class _Arm:
    """One arm of a stratum: how many records each cell has, and how far the target moved it."""

    def __init__(self, cells: OddsCells, fit: Recalibration) -> None:
        self.cells = cells
        self.made = cells.made
        self.total = int(self.made.sum())
        self.moved = fit.moved(cells)
        self.granted = fit.granted(cells.proxy)

    def past(self, least: float, side: int) -> NDArray[np.bool_]:
        """Return which cells are predicted to be on the side, at least so surely."""
        on_side = self.moved > 0.0 if side else self.moved <= 0.0
        return np.asarray((np.abs(self.moved) >= least) & on_side)


@dataclass(frozen=True, slots=True)
class _Stratum:
    training: _Arm
    control: _Arm
    group: int


def _side(stratum: _Stratum, least: float, side: int) -> Side:
    training, control = stratum.training, stratum.control
    chosen = training.past(least, side)
    records = int(training.made[chosen].sum())
    alike = int(control.made[control.past(least, side)].sum())
    counted = stratum.group, control.total, chosen, records, alike
    if not (training.total and control.total):
        return Side(*counted, 0.0, 0.0)
    pooled = (records + alike) / (training.total + control.total)
    variance = control.total**2 * pooled * (1.0 - pooled)
    variance *= 1.0 / training.total + 1.0 / control.total
    return Side(*counted, records * control.total / training.total, variance)


def _tables(
    strata: Sequence[_Stratum], least: float, random: np.random.Generator | None
) -> Matched:
    """Return the tables of all predictions at least so sure."""
    rows: dict[int, list[Side]] = {
        side: [_side(stratum, least, side) for stratum in strata] for side in (1, 0)
    }
    wanted = {side: wanted_controls(sides) for side, sides in rows.items()}
    tables: list[tuple[float, ...]] = []
    for place, stratum in enumerate(strata):
        remaining = _Remaining(stratum.control.cells, stratum.control.moved)
        for side in (1, 0):
            row = rows[side][place]
            held = min(int(wanted[side][place]), remaining.total)
            if held:
                taken = remaining.take(held, side=side, random=random)
                if taken.any():
                    table = _table(stratum.training, stratum.control, row, taken, side)
                    tables.append((*table, _unaided(stratum.control, taken.sum(axis=1), side)))
    found = _matched([table[:5] for table in tables])
    return replace(found, unaided=np.array([table[5] for table in tables]))


def _unaided(control: _Arm, taken: NDArray[np.int64], side: int) -> float:
    """Return how many of the taken are right on average if predictions tell no more than the proxy.

    That is the rate of the class in the stratum's holdout, in odds, times what the proxy holds the
    taken likelier than the stratum; of its two readings the one that asks for less.
    """
    ones, zeros = int(control.cells.ones.sum()), int(control.cells.zeros.sum())
    if not (ones and zeros):
        return 0.0
    log_odds = math.log(ones / zeros) * (1.0 if side else -1.0)
    likelier = min(
        _log_odds_of_mean(one, taken, side) - _log_odds_of_mean(one, control.made, side)
        for one in control.granted
    )
    return float(taken.sum() * expit(log_odds + likelier))


def _matched(tables: Sequence[tuple[float, ...]]) -> Matched:
    columns = np.array(tables, dtype=np.float64).reshape(-1, 5).T
    records, right, control, control_right = columns[:4].astype(np.int64)
    return Matched(records, right, control, control_right, columns[4])


def _table(
    training: _Arm, control: _Arm, side: Side, taken: NDArray[np.int64], label: int
) -> tuple[float, ...]:
    """Return one table: (records, right, control, right, offset).

    Labels that cannot be read are wrong in training and right in the holdout.
    """
    right = (training.cells.ones if label else training.cells.zeros)[side.chosen].sum()
    offset = max(
        _log_odds_of_mean(one[side.chosen], training.made[side.chosen], label)
        - _log_odds_of_mean(other, taken.sum(axis=1), label)
        for one, other in zip(training.granted, control.granted, strict=True)
    )
    held_right = int(taken[:, [label, _UNREAD]].sum())
    return side.records, int(right), int(taken.sum()), held_right, max(offset, 0.0)


class _Remaining:
    """A stratum's holdout records, taken from either end of how far they moved, each once."""

    def __init__(self, control: OddsCells, moved: NDArray[np.float64]) -> None:
        self._order = np.argsort(moved, kind="stable")
        self._left = np.stack([control.zeros, control.ones, control.unread], axis=1)

    @property
    def total(self) -> int:
        """Number of records that are left."""
        return int(self._left.sum())

    def take(
        self, wanted: int, *, side: int, random: np.random.Generator | None
    ) -> NDArray[np.int64]:
        """Return how many (zeros, ones, unread) of each cell are the `wanted` surest of the side.

        Without `random` a cell is taken whole or not at all, so that there may be fewer.
        """
        order = self._order[::-1] if side else self._order
        reached = np.cumsum(self._left[order].sum(axis=1))
        whole = int(np.searchsorted(reached, wanted, side="right"))
        taken = np.zeros_like(self._left)
        taken[order[:whole]] = self._left[order[:whole]]
        left = wanted - (int(reached[whole - 1]) if whole else 0)
        if left and random is not None:
            zeros, ones, _ = self._left[order[whole]]  # all can be read where some are drawn
            drawn = int(random.hypergeometric(ones, zeros, left))
            taken[order[whole]] = left - drawn, drawn, 0
        self._left -= taken
        return taken


def _log_odds_of_mean(log_odds: NDArray[np.float64], made: NDArray[np.int64], side: int) -> float:
    """Return the log-odds of the mean probability that a prediction of this side is right."""
    right = log_odds if side else -log_odds
    return math.log(made @ expit(right)) - math.log(made @ expit(-right))
