"""Nights as they would be if every label showed a leak: how strong their evidence would be.

    tallies + design --> imagination --> Imagined.log_wealth(leak) --> means, variances, quantiles

What is imagined are whole nights with the rows of tonight (`imagined_tables` says how), so that
strata, unlucky controls and granted offsets cost what they cost a real night.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import OddsTally, Tallies
from privcore.attacks.arms import LabelCounts
from privcore.attacks.matching import (
    SHARES,
    fit_near,
    recalibrate,
    spread,
    stratum_edges,
    sureness_needed,
)
from privcore.attacks.odds import FLOOR, LARGEST, PROXY_BINS, OddsCells
from privcore.attacks.unit_records import information_gain
from privcore.lower_bounds.betting import Stakes
from privcore.lower_bounds.imagined_tables import DRAWS, ImaginedCells, imagined_log_wealth
from privcore.lower_bounds.matched import (
    GAP_WEIGHTS,
    GAPS,
    LARGEST_GAP,
    NIGHT_GAPS,
    SHARE_WEIGHTS,
    MatchedRecords,
    PairedRecords,
    log_mean,
)

_FEWEST, _MOST = 8, 64
_WORTH = 6_000.0
"""Imagined nights times what a night's comparison is worth: less is needed of more records."""
_NORMAL = np.array([-1.42, -0.54, 0.0, 0.54, 1.42])
"""Means of a normal distribution's fifths, of unit variance."""
_LITTLE = 0.1
_STRATEGIES = len(NIGHT_GAPS) + 1
_WEIGHTS = np.outer(SHARE_WEIGHTS, GAP_WEIGHTS)
_BETS = np.array(NIGHT_GAPS), np.array(GAPS), _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRows:
    """Records by what a reference says of them; every array has shape (cells,).

    Attributes:
        group: within which they are matched, ascending.
        proxy: the reference's log-odds of the looked-at class, ascending in each group.
        log_odds: the same as labels of both arms show them: of a label that training never saw.
        records: training records.
        held: holdout records.
        offered: in proportion, how often the target had such a record to choose from.
    """

    group: NDArray[np.int64]
    proxy: NDArray[np.float64]
    log_odds: NDArray[np.float64]
    records: NDArray[np.int64]
    held: NDArray[np.int64]
    offered: NDArray[np.float64]

    def divided(self, shares: NDArray[np.float64]) -> "ReferenceRows":
        """Return as many records of each group and arm, distributed in proportion to `shares`."""
        made = np.zeros((2, shares.size), dtype=np.int64)
        for group in np.unique(self.group):
            here = self.group == group
            for arm, whole in enumerate((self.records[here].sum(), self.held[here].sum())):
                made[arm, here] = spread(float(whole), shares[here])
        return replace(self, records=made[0], held=made[1])

    def times(self, records: float, held: float) -> "ReferenceRows":
        """Return multiples of the training and holdout records, in whole numbers."""
        return replace(self, records=_times(self.records, records), held=_times(self.held, held))


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedRecords:
    """Nights with the rows of tonight and new labels, all of which show one leak.

    Args:
        design: of the audit.
        references: the proxy, and a student where there is one.
        wins: of each, whether bets against it may win.
    """

    design: MatchedRecords
    references: Sequence[ReferenceRows]
    wins: Sequence[bool]

    @property
    def most(self) -> int:
        """The most holdout records that there can be of as many records in all.

        Beyond one half the training records are the smaller arm.
        """
        return (self.design.records + self.design.held) // 2

    def resized(self, held: int) -> "ImaginedRecords":
        """Return the nights with this many holdout records, and as many records in all."""
        training = self.design.records + self.design.held - held
        factors = training / max(self.design.records, 1), held / max(self.design.held, 1)
        return ImaginedRecords(
            replace(self.design, records=training, control=held),
            [one.times(*factors) for one in self.references],
            self.wins,
        )

    def log_wealth(
        self, leak: float, epsilon: float, stakes: Stakes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the log e-values of each night against `epsilon`: (nights, references, 3).

        As `night_log_wealth` orders them for one reference; leak and epsilon are for replacing a
        label.
        """
        worth = 1.0 / (1.0 / max(self.design.records, 1) + 1.0 / max(self.design.held, 1))
        half = math.ceil(min(max(_WORTH / worth, _FEWEST), _MOST) / 2.0)
        made = []
        for place, rows in enumerate(self.references):
            if not rows.proxy.size:
                made.append(np.zeros((2 * half, _STRATEGIES)))
                continue
            drawn = random.random((half, DRAWS, rows.proxy.size))
            made.append(
                imagined_log_wealth(
                    np.concatenate([drawn, 1.0 - drawn]),
                    cells_at(rows, leak, classes=self.design.classes, choices=self.design.choices),
                    log_odds=epsilon,
                    log_cap=min(stakes.log_cap(epsilon), LARGEST_GAP),
                    bets=_BETS,
                    wins=self.wins[place],
                )
            )
        return np.stack(made, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedPairs:
    """The same nights of pairs of a training and a holdout record.

    Args:
        design: of the audit.
        pairs: in each of `SHARES`, from all to the surest.
    """

    design: PairedRecords
    pairs: NDArray[np.int64]

    @property
    def most(self) -> int:
        """As in `ImaginedRecords`; there are as many records beside the smaller arm, or more."""
        return self.design.records

    def resized(self, held: int) -> "ImaginedPairs":
        """Return the nights with this many pairs."""
        factor = held / max(self.design.records, 1)
        return ImaginedPairs(replace(self.design, records=held), _times(self.pairs, factor))

    def log_wealth(
        self, leak: float, epsilon: float, stakes: Stakes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the log e-values of each night, as `ImaginedRecords` does of one reference."""
        steps = self.pairs - np.append(self.pairs[1:], 0)
        told = random.binomial(steps, expit(leak), (_MOST, steps.size))
        right = np.cumsum(told[:, ::-1], axis=1)[:, ::-1]
        cap = min(stakes.log_cap(epsilon), LARGEST_GAP)

        def bets(place: int, units: Sequence[float]) -> NDArray[np.float64]:
            gaps = np.minimum(np.array(units) / math.sqrt(max(self.pairs[place], 1)), cap)
            growth = np.log1p(expit(epsilon) * np.expm1(gaps))
            return np.asarray(right[:, place, None] * gaps - self.pairs[place] * growth)

        own = np.concatenate([bets(place, GAPS) for place in range(len(SHARES))], axis=1)
        mean = log_mean(own.T, _WEIGHTS.ravel())
        return np.concatenate([bets(0, NIGHT_GAPS), mean[:, None]], axis=1)[:, None]


Imagined = ImaginedRecords | ImaginedPairs


def imagine(design: MatchedRecords, tallies: Tallies) -> Imagined | None:
    """Return nights like that of a design; None where its records are not known by class.

    Args:
        design: of the audit.
        tallies: from which it was made.
    """
    if isinstance(design, PairedRecords):
        pairs = np.array([int(one.records.sum()) for one in design.tables])
        return ImaginedPairs(design, pairs)
    bets = tallies.bet_on
    students = [one for one in (bets.student, bets.control_student) if one is not None]
    odds = [[bets.odds, bets.control_odds], [one.odds for one in students]]
    several = tallies.classes > 2
    known = [_known(arms[1], several=several) for arms in odds if arms]
    counts = [np.stack([[one.by_proxy() for one in arm] for arm in arms]) for arms in odds if arms]
    if several:  # which class is looked at depends on the leak
        labels = [[bets.labels, bets.control_labels]]
        labels += [[one.labels and one.labels.by_student() for one in students]]
        found = [_labelled(*arms) for arms in labels if arms]
        counts = [one for one in found if one is not None]
        if len(counts) < len(known):
            return None
    chosen = design.choices > 1.0 and not several
    offered = [_offered(arms, design.choices) if chosen else None for arms in odds if arms]
    references = [_rows(*each) for each in zip(counts, known, offered, strict=True)]
    return ImaginedRecords(design, references, [not design.proxy_doubtful, True])


def _labelled(*arms: LabelCounts | None) -> NDArray[np.int64] | None:
    """Return both arms' counts of more than two classes, where a record counts once for each."""
    found = [one.counts.sum(axis=1) for one in arms if one is not None]
    return np.stack(found) if len(found) == len(arms) else None


def _rows(
    counts: NDArray[np.int64], known: NDArray[np.float64], offered: NDArray[np.float64] | None
) -> ReferenceRows:
    """Return the occupied cells of both arms' counts, and what labels show of each.

    Args:
        counts: records by arm, group, bin of the reference's log-odds, and having the class.
        known: what the target may know of a label besides (`_known`), in log-odds.
        offered: of what the target chose the records: of training then by their labels, too.
            Shape (groups, bins); None where it chose none.
    """
    made = counts.sum(axis=-1)
    group, place = np.nonzero(made.sum(axis=0))
    proxy = (place + 0.5) * (2.0 * LARGEST / counts.shape[2]) - LARGEST
    zeros, ones = counts[int(offered is not None) :, group, place].sum(axis=0).T.astype(float)
    mean = ones / np.maximum(zeros + ones, 1.0)
    fit = fit_near(np.stack([np.ones_like(proxy), proxy], axis=1), mean, zeros + ones)
    log_odds = np.clip(fit[0] + max(fit[1], 0.0) * proxy, -LARGEST, LARGEST)
    made = made[:, group, place]
    weights = made.sum(axis=0).astype(float) if offered is None else offered[group, place]
    if known.size > 1:
        group, proxy, log_odds, weights = (
            np.repeat(one, known.size) for one in (group, proxy, log_odds, weights)
        )
        made = np.stack([_times(np.repeat(one, known.size), 1.0 / known.size) for one in made])
        log_odds = _spread(log_odds, np.tile(known, log_odds.size // known.size))
    some = made.any(axis=0)
    records, held = made[:, some]
    return ReferenceRows(group[some], proxy[some], log_odds[some], records, held, weights[some])


def _offered(arms: Sequence[Sequence[OddsTally]], choices: float) -> NDArray[np.float64]:
    """Return in proportion what the target had to choose from, shape (groups, bins).

    With F the distribution of what it gained in the records that it chose, one of r records with
    the gain g was chosen in proportion to F(g)^((r - 1)/r): so often it stands for itself.
    """
    cells = [[one.cells() for one in arm] for arm in arms]
    flat = [one for arm in cells for one in arm]
    gain = np.concatenate([_gain(expit(one.target), expit(one.proxy)) for one in flat])
    made = np.concatenate([one.made for one in flat]).astype(float)
    order = np.argsort(gain, kind="stable")
    below = np.empty(gain.size)
    below[order] = (np.cumsum(made[order]) - made[order] / 2.0) / made.sum()
    weights = made / below ** ((choices - 1.0) / choices)
    offered = np.zeros((len(cells[0]), PROXY_BINS))
    first = 0
    for arm in cells:
        for group, one in enumerate(arm):
            place = np.rint((one.proxy + LARGEST) * (PROXY_BINS / (2.0 * LARGEST)) - 0.5)
            some = weights[first : first + one.proxy.size]
            offered[group] += np.bincount(place.astype(np.int64), some, PROXY_BINS)
            first += one.proxy.size
    return offered


def _gain(said: NDArray[np.float64], proxy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the target says beyond the proxy, in nats, by the rule that chooses records."""
    pairs = (
        np.stack([1.0 - one, one], axis=-1).reshape(-1, 2)
        for one in (said, np.broadcast_to(proxy, said.shape))
    )
    return information_gain(*pairs).reshape(said.shape)


def _spread(log_odds: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log-odds given what else is known; their mean probability stays about the same.

    A logistic curve that is averaged over normal log-odds of variance v is one whose log-odds are
    divided by sqrt(1 + 0.346 v) (Zeger, Liang and Albert 1988).
    """
    return np.asarray(log_odds * math.sqrt(1.0 + 0.346 * float(known.var())) + known)


def _known(control: Sequence[OddsTally], *, several: bool) -> NDArray[np.float64]:
    """Return what the target knows of unseen labels beyond the reference, in log-odds.

    A logistic regression of the holdout's labels on the reference, and on where the target lies
    beside it, says which part of that variance is knowledge: none, where the target moved by noise.
    What chance makes of that part is taken off. The answer has equally likely values of a normal
    distribution; or the one value 0 where it is too little to matter. Records count by
    how open their label is: the others are where forests whose trees agree say 0 or 1. Of
    `several` classes the one is counted that was raised most.
    """
    cells = [one.cells() for one in control if one.records]
    if not cells:
        return np.zeros(1)
    proxy, target, zeros, ones = (
        np.concatenate([getattr(one, name) for one in cells]).astype(float)
        for name in ("proxy", "target", "zeros", "ones")
    )
    made, design = zeros + ones, np.stack([np.ones_like(proxy), proxy], axis=1)
    chance = expit(design @ fit_near(design, ones / made, made))
    weights = made * chance * (1.0 - chance)
    plane = np.array([0.0, 1.0])
    if not several:
        near = (design.T * weights) @ design + np.eye(2)
        plane = np.linalg.solve(near, design.T @ (weights * target))
    beside = target - design @ plane
    columns = np.column_stack([design, beside])
    fit = fit_near(columns, ones / made, made)
    chance = expit(columns @ fit)
    error = 1.0 / (1.0 + float((made * chance * (1.0 - chance)) @ beside**2))
    part = max(fit[2] - 2.0 * error / max(fit[2], _LITTLE), 0.0)
    deviation = math.sqrt(part * max(part, 1.0) * np.average(beside**2, weights=weights))
    return deviation * _NORMAL if deviation >= _LITTLE else np.zeros(1)


def cells_at(
    rows: ReferenceRows, leak: float, *, classes: int, choices: float = 1.0
) -> ImaginedCells:
    """Return what a target says that remembers all labels by randomized response at the leak.

    Args:
        rows: of one reference.
        leak: for replacing a label.
        classes: number of classes.
        choices: records among which the target chose each of them, on average: those of which it
            says most, so that answers are chosen that surprise.
    """
    kept = 1.0 / (1.0 + (classes - 1) * math.exp(-leak))
    other = (1.0 - kept) / (classes - 1)
    chance = expit(rows.log_odds)
    asked = chance * kept + (1.0 - chance) * other
    right = np.stack([chance * (1.0 - kept) / (1.0 - asked), chance * kept / asked])
    said = expit(rows.log_odds + leak)
    # On average over answers the target says the chance.
    says = np.stack([(chance - asked * said) / (1.0 - asked), said])
    if choices > 1.0:
        shares = _chosen(says, expit(rows.proxy), asked, rows.offered, choices)
        asked, rows = shares[1] / shares.sum(axis=0), rows.divided(shares.sum(axis=0))
    every = rows.records + rows.held
    told = np.stack([1.0 - asked, asked]) * every
    fitted = rows.proxy  # of more than two classes the proxy is taken as it is
    if classes == 2:
        mean, none = logit((1.0 - asked) * says[0] + asked * says[1]), np.zeros_like(every)
        fitted = recalibrate([OddsCells(rows.proxy, mean, every, none, none)]).apply(fitted)
    moved = says - expit(fitted)
    if classes > 2:
        told *= _raised_most(moved, told, float(every.sum()) / classes)
    least = sureness_needed(np.abs(moved).ravel(), told.ravel())
    levels = (np.abs(moved)[..., None] >= least).sum(axis=-1)
    levels[told == 0.0] = 0
    return ImaginedCells(
        _strata(rows, told.sum(axis=0)),
        # Arrays with gaps would have kernels of their own compiled, for seconds.
        np.ascontiguousarray(rows.records),
        np.ascontiguousarray(rows.held),
        chance,
        asked,
        right,
        np.clip(expit(np.stack([fitted, rows.proxy])), FLOOR, 1.0 - FLOOR),
        levels,
        (moved > 0.0).astype(np.int64),
    )


def _chosen(
    says: NDArray[np.float64],
    proxy: NDArray[np.float64],
    asked: NDArray[np.float64],
    offered: NDArray[np.float64],
    choices: float,
) -> NDArray[np.float64]:
    """Return in proportion which records, with which answer, a target chooses by what it gains.

    Of r records the one is chosen of which it says most beyond the proxy. With F the distribution
    of that in chosen records, one that gained g is chosen in proportion to F(g)^((r - 1)/r).
    """
    gain = _gain(says, proxy)
    order, alone = np.argsort(gain, axis=None), offered * np.stack([1.0 - asked, asked])
    shares = alone
    for _ in range(8):
        weights = shares.ravel()[order]
        below = np.empty(gain.size)
        below[order] = (np.cumsum(weights) - weights / 2.0) / weights.sum()
        shares = alone * below.reshape(gain.shape) ** ((choices - 1.0) / choices)
    return np.asarray(shares)


def _raised_most(
    moved: NDArray[np.float64], told: NDArray[np.float64], records: float
) -> NDArray[np.bool_]:
    """Return of which answers a class is looked at: those that raise it most, one for each record.

    A record looks at the class that its target raised most. Where nothing but the answer raises
    one, that is the answer. Where the target knows more than the proxy, others compete: on average
    a record has one class that is raised beyond a common size.
    """
    order = np.argsort(-moved.ravel(), kind="stable")
    chosen = np.zeros(moved.size, dtype=bool)
    chosen[order] = np.cumsum(told.ravel()[order]) <= records * (1.0 + 1e-9)
    return chosen.reshape(moved.shape) & (moved > 0.0)


def _strata(rows: ReferenceRows, told: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the stratum of each cell; those of each group begin where `match` begins them."""
    strata, first = np.zeros(rows.proxy.size, dtype=np.int64), 0
    share = told / np.maximum(rows.records + rows.held, 1)
    for group in np.unique(rows.group):
        here = rows.group == group
        smaller = min((share * rows.records)[here].sum(), (share * rows.held)[here].sum())
        edges = stratum_edges(rows.proxy[here], told[here], smaller=smaller)
        strata[here] = first + np.searchsorted(edges, rows.proxy[here], side="right")
        first += edges.size + 1
    return strata


def _times(counts: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """Return counts times a factor as whole numbers whose running sums are off by less than 1."""
    sums = np.floor(np.cumsum(counts) * factor + 1e-9)
    times: NDArray[np.int64] = np.diff(sums, prepend=0.0).astype(np.int64)
    return times
