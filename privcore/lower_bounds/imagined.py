"""Nights as they would be if every label showed a leak: how strong their evidence would be.

    tallies + design --> imagination --> Imagined.log_wealth(leak) --> means, variances, quantiles

What is imagined are whole nights with the rows of tonight (`imagined_tables` says how), so that
strata, unlucky controls and granted offsets cost what they cost a real night.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, expit, logit

from privcore.attacks import Matched, OddsTally, Predictions, Tallies
from privcore.attacks.arms import LabelCounts
from privcore.attacks.matching import SHARES, recalibrate, stratum_edges
from privcore.attacks.odds import LARGEST, OddsCells
from privcore.lower_bounds.betting import log_wealth
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.designs import DecoyRecords, Design, MatchedRecords, PairedRecords
from privcore.lower_bounds.imagined_tables import DRAWS, ImaginedCells, imagined_log_wealth
from privcore.lower_bounds.matched import (
    GAP_WEIGHTS,
    GAPS,
    LARGEST_GAP,
    NIGHT_GAPS,
    SHARE_WEIGHTS,
    log_mean,
)
from privcore.lower_bounds.stakes import Stakes, stakes_for

_FEWEST, _MOST = 8, 64
_WORTH = 6_000.0
"""Imagined nights times what a night's comparison is worth: less is needed of more records."""
_QUANTILES = 32
_STRATEGIES = len(NIGHT_GAPS) + 1
_WEIGHTS = np.outer(SHARE_WEIGHTS, GAP_WEIGHTS)
_BETS = np.array(NIGHT_GAPS), np.array(GAPS), _WEIGHTS / _WEIGHTS.sum()


class Imagined(Protocol):
    """Nights with the rows of tonight and new labels, all of which show one leak."""

    @property
    def held(self) -> int:
        """Number of holdout records, or of decoys: with more of them a night proves more."""

    @property
    def most(self) -> int:
        """The most of them that there can be of as many records in all."""

    def resized(self, held: int) -> "Imagined":
        """Return the nights with this many of them, and as many records in all."""

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """Return the stakes that these records can pay, over this many nights."""

    def log_wealth(
        self, leak: float, epsilon: float, stakes: Stakes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the log e-values of each night against `epsilon`: (nights, references, 3).

        As `night_log_wealth` orders them for one reference; leak and epsilon are for replacing a
        label.
        """


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRows:
    """Records by what a reference says of them; every array has shape (cells,).

    Attributes:
        group: within which they are matched, ascending.
        proxy: the reference's log-odds of the looked-at class, ascending in each group.
        log_odds: the same as labels of both arms show them: of a label that training never saw.
        records: training records.
        held: holdout records.
    """

    group: NDArray[np.int64]
    proxy: NDArray[np.float64]
    log_odds: NDArray[np.float64]
    records: NDArray[np.int64]
    held: NDArray[np.int64]

    def times(self, records: float, held: float) -> "ReferenceRows":
        """Return multiples of the training and holdout records, in whole numbers."""
        return replace(self, records=_times(self.records, records), held=_times(self.held, held))


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedRecords:
    """See `Imagined`; of training records that are matched with a holdout.

    Args:
        design: of the audit.
        references: the proxy, and a student where there is one.
        wins: of each, whether bets against it may win.
    """

    design: MatchedRecords
    references: Sequence[ReferenceRows]
    wins: Sequence[bool]

    @property
    def held(self) -> int:
        """See `Imagined`."""
        return self.design.held

    @property
    def most(self) -> int:
        """See `Imagined`; beyond one half the training records are the smaller arm."""
        return (self.design.records + self.design.held) // 2

    def resized(self, held: int) -> "ImaginedRecords":
        """See `Imagined`."""
        training = self.design.records + self.design.held - held
        factors = training / max(self.design.records, 1), held / max(self.design.held, 1)
        return ImaginedRecords(
            replace(self.design, records=training, control=held),
            [one.times(*factors) for one in self.references],
            self.wins,
        )

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """See `Imagined`."""
        return self.design.stakes(claim, nights=nights)

    def log_wealth(
        self, leak: float, epsilon: float, stakes: Stakes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """See `Imagined`."""
        worth = 1.0 / (1.0 / max(self.design.records, 1) + 1.0 / max(self.design.held, 1))
        half = math.ceil(min(max(_WORTH / worth, _FEWEST), _MOST) / 2.0)
        made = []
        for place, rows in enumerate(self.references):
            drawn = random.random((half, DRAWS, rows.proxy.size))
            made.append(
                imagined_log_wealth(
                    np.concatenate([drawn, 1.0 - drawn]),
                    cells_at(rows, leak, self.design.classes),
                    log_odds=epsilon,
                    log_cap=min(stakes.log_cap(epsilon), LARGEST_GAP),
                    bets=_BETS,
                    wins=self.wins[place],
                )
            )
        return np.stack(made, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedPairs:
    """See `Imagined`; of pairs of a training and a holdout record.

    Args:
        design: of the audit.
        pairs: in each of `SHARES`, from all to the surest.
    """

    design: PairedRecords
    pairs: NDArray[np.int64]

    @property
    def held(self) -> int:
        """See `Imagined`."""
        return self.design.held

    @property
    def most(self) -> int:
        """See `Imagined`; there are as many records beside the smaller arm, or more."""
        return self.design.records

    def resized(self, held: int) -> "ImaginedPairs":
        """See `Imagined`."""
        factor = held / max(self.design.records, 1)
        return ImaginedPairs(replace(self.design, records=held), _times(self.pairs, factor))

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """See `Imagined`."""
        return self.design.stakes(claim, nights=nights)

    def log_wealth(
        self, leak: float, epsilon: float, stakes: Stakes, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """See `Imagined`."""
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


@dataclass(frozen=True, slots=True, eq=False)
class ImaginedDecoys:
    """See `Imagined`; of decoys.

    Args:
        held: how many decoys there are.
        most: how many records can be decoys.
    """

    held: int
    most: int

    def resized(self, held: int) -> "ImaginedDecoys":
        """See `Imagined`; a training record more is a decoy."""
        return replace(self, held=held)

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """See `Imagined`."""
        return stakes_for(claim, records=self.held, classes=2, nights=nights)

    def log_wealth(
        self,
        leak: float,
        epsilon: float,
        stakes: Stakes,
        random: np.random.Generator,  # noqa: ARG002  # quantiles need none
    ) -> NDArray[np.float64]:
        """See `Imagined`; the nights are the quantiles of how many are right."""
        quantiles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        right = np.ceil(bdtrik(quantiles, self.held, expit(leak)))
        made = [
            log_wealth(
                Predictions(
                    np.zeros(1), np.array([leak]), np.array([self.held - told]), np.array([told])
                ),
                epsilons=np.array([epsilon]),
                stakes=stakes,
            )
            for told in right
        ]
        return np.tile(np.array(made)[:, None], (1, 1, _STRATEGIES))


def imagine(design: Design, tallies: Tallies) -> Imagined | None:
    """Return nights like that of a design; None where its records are not known by class.

    Args:
        design: of the audit.
        tallies: from which it was made.
    """
    if isinstance(design, DecoyRecords):
        records = tallies.game.records + tallies.control_game.records
        return ImaginedDecoys(design.held, records + design.held)
    if isinstance(design, PairedRecords):
        pairs = np.array([int(one.records.sum()) for one in design.tables])
        return ImaginedPairs(design, pairs)
    if not isinstance(design, MatchedRecords):
        return None
    bets = tallies.bet_on
    counts: list[NDArray[np.int64] | None] = [_counts(bets.odds, bets.control_odds)]
    students = [one for one in (bets.student, bets.control_student) if one is not None]
    if students:
        counts.append(_counts(*(one.odds for one in students)))
    if tallies.classes > 2:  # which class was looked at depends on the leak
        labels = [bets.labels, bets.control_labels]
        taught = [one.labels and one.labels.by_student() for one in students]
        counts = [_labelled(*each) for each in (labels, taught) if each]
    references = [_rows(one) for one in counts if one is not None]
    if len(references) < len(counts):
        return None
    last = design.tables[-1]
    second = not isinstance(last, Matched) or last.may_win
    return ImaginedRecords(design, references, [not design.proxy_doubtful, second])


def _counts(*arms: Sequence[OddsTally]) -> NDArray[np.int64]:
    """Return records by arm, group, bin of the reference's log-odds, and having the class."""
    # Label by label: all at once, the sum takes fifteen times as long.
    return np.stack(
        [
            [
                np.stack([one.counts[..., label].sum(axis=1) for label in (0, 1)], axis=1)
                for one in arm
            ]
            for arm in arms
        ]
    )


def _labelled(*arms: LabelCounts | None) -> NDArray[np.int64] | None:
    """Return the same of more than two classes, where a record counts once for each."""
    found = [one.counts.sum(axis=1) for one in arms if one is not None]
    return np.stack(found) if len(found) == len(arms) else None


def _rows(counts: NDArray[np.int64]) -> ReferenceRows:
    """Return the occupied cells of both arms' counts, and what labels show of each."""
    made = counts.sum(axis=-1)
    group, place = np.nonzero(made.sum(axis=0))
    proxy = (place + 0.5) * (2.0 * LARGEST / counts.shape[2]) - LARGEST
    zeros, ones = counts[:, group, place].sum(axis=0).T
    with np.errstate(divide="ignore"):
        seen = logit(ones / (zeros + ones))
    labelled = OddsCells(proxy, seen, zeros, ones, np.zeros_like(ones))
    fit = recalibrate([labelled])
    return ReferenceRows(group, proxy, fit.apply(proxy), *made[:, group, place])


def cells_at(rows: ReferenceRows, leak: float, classes: int) -> ImaginedCells:
    """Return what a target says that remembers all labels by randomized response at the leak."""
    kept = 1.0 / (1.0 + (classes - 1) * math.exp(-leak))
    other = (1.0 - kept) / (classes - 1)
    chance = expit(rows.log_odds)
    asked = chance * kept + (1.0 - chance) * other
    # Of two classes the recalibrated proxy is the target's mean; of more it is taken as it is.
    fitted = rows.log_odds if classes == 2 else rows.proxy
    moved = expit(rows.log_odds + np.array([[-leak], [leak]])) - expit(fitted)
    told = np.stack([1.0 - asked, asked]) * (rows.records + rows.held)
    if classes > 2:
        told[0] = 0.0  # of more classes the one that is looked at is the answer
    sureness, made = np.abs(moved), told.ravel()
    order = np.argsort(-sureness.ravel(), kind="stable")
    reached = np.cumsum(made[order])
    least = sureness.ravel()[order[np.searchsorted(reached, np.array(SHARES[1:]) * reached[-1])]]
    levels = 1 + (sureness[..., None] >= least).sum(axis=-1)
    if classes > 2:
        levels[0] = 0
    return ImaginedCells(
        _strata(rows, told.sum(axis=0)),
        rows.records,
        rows.held,
        chance,
        kept,
        other,
        expit(np.stack([fitted, rows.proxy])),
        levels,
        (moved > 0.0).astype(np.int64),
    )


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
