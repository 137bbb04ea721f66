"""Test of assumption E1: both arms' labels are alike, given what the proxy says.

    training records --> LabelCounts --+
                                       +--> compare_arms --> ArmsComparison
    holdout records ---> LabelCounts --+

No target's output on training records is read, so no leak of the audited model is ever taken for a
difference of the arms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtr

from privcore.attacks.counts import Counts
from privcore.attacks.odds import PROXY_BINS, OddsTally, proxy_bins
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels

_COARSE = 4  # bins of the odds tally to one of these: a quarter of log-odds
BINS = PROXY_BINS // _COARSE
"""Bins of what the proxy says of a class, each of a quarter in log-odds."""

MOST_COUNTED = 1_024
"""The most classes that are counted; of more, the first ones."""

MOST_TESTED = 32
"""The most classes that are tested; of more counted ones, those with the most labels."""

LEVEL = 1e-4
"""P-value below which arms are called different: by chance in one of 10,000 audits."""

DOUBTFUL = 0.01
"""P-value below which bets against the proxy may not win (`matched_epsilon_lower`)."""

SMALL, KNOWN = 200, 0.05
"""Size of a small holdout, and the chance up to which the proxy seems to know its labels: bets
against it may then not win. Of a larger one that chance is `DOUBTFUL`."""

REMEDY_OF_HELD_BACK = (
    "Draw a new holdout every day, and give the features: bound and ceiling rest on the student "
    "alone, and are 0 where there is none."
)
"""Sentence after one that says why bets against the proxy could not win."""

_OF_STUDENT = 8  # bins of the odds tally to one of the student's: half a log-odds
_APART = 12  # quarters of log-odds that the proxy may lie above or below the student
_SIDES = 2 * _APART + 1
PAIR_BINS = PROXY_BINS // _OF_STUDENT * _SIDES
"""Bins of what a student and the proxy say of a class together."""

_DRAWS, _DRAWS_OF_A_TEST = 200_000, 30_000
_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts(Counts):
    """Number of records with each label, by what the proxy says of it; counts of both arms add.

    Args:
        counts: shape (groups, classes, bins, 2): by the group within which records are matched, the
            class, the bin of the proxy's log-odds of the class; records of another label, before
            those of the class. With two classes the second alone is counted. There are `BINS`, or
            with a student `PAIR_BINS` of what both say.
    """

    counts: NDArray[np.int64]

    @classmethod
    def zero(cls, *, groups: int, classes: int, student: bool = False) -> "LabelCounts":
        """Return the counts of no records, the identity of addition."""
        counted = min(classes, MOST_COUNTED) if classes > 2 else 1
        bins = PAIR_BINS if student else BINS
        return cls(np.zeros((groups, counted, bins, 2), dtype=np.int64))

    @classmethod
    def of_odds(cls, odds: Sequence[OddsTally]) -> "LabelCounts":
        """Return the counts of two classes, which the odds of each group hold already."""
        found = [one.by_proxy().reshape(BINS, _COARSE, 2).sum(axis=1) for one in odds]
        return cls(np.stack(found)[:, None])

    def by_student(self) -> "LabelCounts":
        """Return the counts by what the student alone says, in bins of half a log-odds."""
        groups, classes = self.counts.shape[:2]
        return LabelCounts(self.counts.reshape(groups, classes, -1, _SIDES, 2).sum(axis=3))


@dataclass(frozen=True, slots=True)
class ArmsComparison:
    """Difference between the labels of the two arms, given what the proxy says.

    Attributes:
        pvalue: the chance of so large a difference if chance alone divided the arms.
        place: of the class that differs most, among those counted.
        log_odds: by how much its odds are larger among training records than among holdout records
            of the same bins (Mantel and Haenszel 1959), as a logarithm.
        beyond_features: whether the proxy knows one arm better, beyond what a student says.
        holdout_known: the chance that the proxy seems to know the holdout's labels so much better
            than those of training, if chance alone divided the arms.
        known_level: the chance up to which that makes the proxy doubtful.
        leans: whether the proxy knows one arm better, rather than that base rates differ.
    """

    pvalue: float
    place: int
    log_odds: float
    beyond_features: bool = False
    holdout_known: float = 1.0
    known_level: float = KNOWN
    leans: bool = False

    @property
    def differ(self) -> bool:
        """True if chance alone gives such a difference in fewer than one of 10,000 audits."""
        return self.pvalue <= LEVEL

    @property
    def doubtful(self) -> bool:
        """True if chance seldom gives that difference: bets against the proxy may then not win."""
        return self.pvalue <= DOUBTFUL or self.holdout_known <= self.known_level

    @property
    def doubt(self) -> float:
        """The smaller of both p-values that decide whether the proxy is doubtful."""
        return min(self.pvalue, self.holdout_known)

    @property
    def doubt_sentence(self) -> str:
        """Say that bets against the proxy could not win; empty where they could."""
        if not self.doubtful:
            return ""
        return (
            "Bets against the earlier model could not win, as it may know labels of one side: "
            f"given what it says, chance alone seldom divides labels so (p = {self.doubt:.1g}). "
            f"{REMEDY_OF_HELD_BACK}"
        )

    def sentence(self, label: str) -> str:
        """Return what was seen, its likely causes and what to do, for the label's name."""
        if self.beyond_features:
            return (
                "The earlier model knows labels of one side better than of the other, beyond what "
                f"the features say (p = {self.pvalue:.1g}). Matching cannot mend that. The usual "
                "cause is that an earlier model was trained on the holdout: draw a new holdout "
                "every day, from the rows that training would take."
            )
        times = math.exp(abs(self.log_odds))
        where, other = (
            ("training", "the holdout") if self.log_odds > 0.0 else ("the holdout", "training")
        )
        return (
            "The labels of training and holdout records differ, given what the earlier model says "
            f"of them: the odds of {label} are {times:.2f} times as large in {where} as in {other},"
            f" or the earlier model knows one side better (p = {self.pvalue:.1g}). Matching cannot "
            "mend that. Usual causes: training rows were sampled by their label (declare the rates "
            "in [models.sampling]), the holdout is not a random part of the rows that training "
            "takes, or an earlier model was trained on the holdout (draw a new one every day)."
        )


class _Found(NamedTuple):
    """Test results for one class alone; `leans` and `holdout_known` as in `ArmsComparison`."""

    pvalue: float  # exact where tables were drawn
    approximate: float  # by chi-square, which tells apart what no drawn table reached
    leans: bool
    holdout_known: float = 1.0


def label_counts(
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    student: NDArray[np.float64] | None = None,
    group: int = 0,
    groups: int = 1,
) -> LabelCounts:
    """Count the labels of one arm's records by what is said of them.

    Args:
        proxy: shape (records, classes), probabilities by a model that never saw these labels.
        labels: shape (records,), class indices from 0.
        student: shape (records, classes), the proxy's student's (`privcore.attacks.student`); with
            it records are counted by what it says, and by how far the proxy lies above that.
        group: that all of these records are of.
        groups: how many there are.

    Raises:
        InvalidInputError: labels that are no classes, a group that there is not, or a student of
            another shape.
    """
    check_labels(labels, proxy.shape)
    if not 0 <= group < groups:
        raise InvalidInputError("group", group, f"groups are from 0 to {groups - 1}")
    if student is not None and student.shape != proxy.shape:
        raise InvalidInputError("shape of student", student.shape, f"it is {proxy.shape}")
    classes = proxy.shape[1]
    found = LabelCounts.zero(groups=groups, classes=classes, student=student is not None)
    if labels.size:
        counted = slice(1, 2) if classes == 2 else slice(0, MOST_COUNTED)
        bins = proxy_bins(np.ascontiguousarray(proxy[:, counted]))
        if student is None:
            bins //= _COARSE
        else:
            said = proxy_bins(np.ascontiguousarray(student[:, counted]))
            apart = np.clip((bins - said + _COARSE // 2) // _COARSE, -_APART, _APART)
            bins = said // _OF_STUDENT * _SIDES + apart + _APART
        _count(bins, labels.astype(np.int64) - (counted.start or 0), found.counts[group])
    return found


def compare_arms(
    training: LabelCounts,
    control: LabelCounts,
    *,
    random: np.random.Generator,
    beside: tuple[LabelCounts, LabelCounts] | None = None,
) -> ArmsComparison:
    """Test that chance alone divided the records into training and holdout (assumption E1).

    Given a bin's sizes and labels, the training records of the class are then hypergeometric,
    whatever the proxy is worth. Summed over bins are what was observed less what was expected, once
    as it is and once weighted by the bin's distance from the centre: the first finds arms of
    another base rate (records sampled by their label, two sources), the second a proxy that knows
    one arm better (a holdout that yesterday's model was trained on). Both together are compared
    with their variances: chi-square with two degrees of freedom. Where that comes to less than 10
    times `LEVEL`, tables are drawn anew, so that the p-value is exact (a Monte Carlo test, Barnard
    1963): where few records have the label, one of them may be ten standard errors. Of several
    classes the smallest p-value counts, times their number (Bonferroni). Of more than
    `MOST_TESTED` classes those with the most labels in both arms together are tested. The test is
    given these sums, so the choice does not change its size, and classes that are listed and have
    no labels do not displace the others.

    A proxy that was trained on the holdout shows first in the second sum, and on one side. That
    side is asked by itself (`holdout_known`): no audit is refused for it, but bets against the
    proxy may not win. Two degrees of freedom and both sides would ask for six times the evidence.

    With the proxy's student the same is asked of bins of what both say, weighted by how far the
    proxy lies above its student, and the smaller p-value counts twice. The student says what the
    features tell of the proxy, so that what is left of it is its noise, and labels that it knows:
    of 5,000 training and 400 holdout records, all of which the proxy had learned by a quarter in
    log-odds, 49 of 50 audits are found, 9 without it (`docs/evidence/statistics.md`). It is fitted
    to the proxy's outputs on holdout records, to no label, and treats both arms alike, so the test
    has the
    same size whatever leaks. The target's student would not do: through the target it knows a
    little of training labels, and a true leak would look like arms that differ.

    Args:
        training: of the training records.
        control: of the holdout records.
        random: a stream of its own, for the tables that are drawn.
        beside: the counts of both arms, training first, with the proxy's student; None without.

    *Assumes* records that are independent of each other: one record of each person.
    *Does not say* that the arms are alike where it is silent: without a student half a golden
    holdout is found in 19 of 20 audits of 5,000 holdout records, a quarter of one in 4 of 20.

    Raises:
        InvalidInputError: counts of other groups or classes.
    """
    tests = [(training, control), *([beside] if beside is not None else [])]
    found = [_compared(*arms, random=random, tests=len(tests)) for arms in tests]
    strongest = min(found, key=lambda one: (one[1].pvalue, one[0].approximate))[1]
    small = int(control.counts[:, 0].sum()) < SMALL
    return replace(
        strongest,
        holdout_known=min(one.holdout_known for _, one in found),
        known_level=KNOWN if small else DOUBTFUL,
    )


def _compared(
    training: LabelCounts, control: LabelCounts, *, random: np.random.Generator, tests: int
) -> tuple[_Found, ArmsComparison]:
    """Return what is found by one kind of bins, as one of a number of tests."""
    if training.counts.shape != control.counts.shape:
        rule = f"both arms have the same groups and classes, {training.counts.shape}"
        raise InvalidInputError("shape of the control's counts", control.counts.shape, rule)
    groups, _, bins = training.counts.shape[:3]
    paired = bins == PAIR_BINS
    centres = np.tile(np.arange(bins, dtype=np.float64) % (_SIDES if paired else bins), groups)
    best, known = (_Found(math.inf, math.inf, leans=False), ArmsComparison(1.0, 0, 0.0)), 1.0
    labelled = (training.counts + control.counts)[..., 1].sum(axis=(0, 2))
    tested = np.sort(np.argsort(-labelled, kind="stable")[:MOST_TESTED])
    for place in tested.tolist():
        one, other = (each.counts[:, place].reshape(-1, 2) for each in (training, control))
        found = _tested(one, other, centres, tested.size * tests, random)
        known = min(known, found.holdout_known * tested.size * tests)
        if found[:2] < best[0][:2]:
            pvalue = min(1.0, found.pvalue * tested.size * tests)
            apart = _common_log_odds(one, other)
            beyond = paired and found.leans
            best = found, ArmsComparison(pvalue, place, apart, beyond, leans=found.leans)
    return best[0], replace(best[1], holdout_known=known)


def _tested(
    training: NDArray[np.int64],
    control: NDArray[np.int64],
    centres: NDArray[np.float64],
    tests: int,
    random: np.random.Generator,
) -> _Found:
    """Test one class of several; arms have shape (bins, 2)."""
    sizes, held, ones = training.sum(axis=1), control.sum(axis=1), (training + control)[:, 1]
    total = sizes + held
    used = (sizes > 0) & (held > 0) & (ones > 0) & (ones < total)
    if not used.any():
        return _Found(1.0, 1.0, leans=False)
    sizes, held, ones, total = (each[used] for each in (sizes, held, ones, total))
    share = ones / total
    variance = sizes * held * share * (1.0 - share) / (total - 1)
    centred = centres[used] - np.average(centres[used], weights=variance)
    weights = np.stack([np.ones_like(centred), centred / max(float(np.abs(centred).max()), 1.0)])
    # Centred, the two sums are uncorrelated, and each is compared with its own variance.
    scale = weights**2 @ variance
    tells = scale[1] > 1e-9  # else one bin holds all
    weights = weights[scale > 1e-9] / np.sqrt(scale[scale > 1e-9])[:, None]

    def deviations(observed: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((observed - sizes * share) @ weights.T)

    signed = deviations(training[used, 1])
    parts = signed**2
    found, leans = float(parts.sum()), bool(parts[-1] > parts[0])
    known = float(ndtr(signed[-1])) if tells else 1.0
    approximate = float(gammaincc(len(weights) / 2.0, found / 2.0))  # chi-square
    if approximate * tests >= 10.0 * LEVEL:
        return _Found(approximate, approximate, leans, known)
    draws, reached = max(_DRAWS, tests * _DRAWS_OF_A_TEST), 0
    at_once = max(1, _AT_ONCE // sizes.size)
    for start in range(0, draws, at_once):
        drawn = random.hypergeometric(
            ones, total - ones, sizes, (min(at_once, draws - start), sizes.size)
        )
        squares = (deviations(drawn) ** 2).sum(axis=-1)
        reached += int((squares >= found * (1.0 - 1e-12)).sum())
    return _Found((1 + reached) / (1 + draws), approximate, leans, known)


def _common_log_odds(training: NDArray[np.int64], control: NDArray[np.int64]) -> float:
    """Return the common log odds ratio of the bins' tables; half a record is added to both."""
    total = np.maximum((training + control).sum(axis=1), 1)
    more = float((training[:, 1] * control[:, 0] / total).sum()) + 0.5
    less = float((training[:, 0] * control[:, 1] / total).sum()) + 0.5
    return math.log(more / less)


@njit(cache=True, nogil=True)
def _count(bins: NDArray[np.int64], labels: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    records, classes = bins.shape
    for i in range(records):
        for label in range(classes):
            counts[label, bins[i, label], np.int64(labels[i] == label)] += 1
