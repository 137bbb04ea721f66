"""Leaks that a public test could have refuted, found without labels.

The answers come from numbers of records and from what the models say, which are public. They are
expectations that judge how much a silent test says; no verdict rests on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import Matched, Tallies
from privcore.lower_bounds.stakes import Stakes
from privcore.publication.noisy_wealth import NoisyWealth

_STEP = 0.01
_LARGEST_CEILING = 20.0
_LARGEST_LEAK = 12.0
_FAIR = 0.5


@dataclass(frozen=True, slots=True)
class PublicTest:
    """A test of declared epsilons whose answer has noise.

    Attributes:
        evidence: returns the figure, without noise, that tables have against a declared epsilon.
        refutes: whether the test refutes with this figure, read as if it held its noise.
        deviation: standard deviation of the noise, in units of the figure.
    """

    evidence: Callable[[Matched, float], NoisyWealth]
    refutes: Callable[[NoisyWealth], bool]
    deviation: float


def largest_refuted(tables: Matched, test: PublicTest) -> float:
    """Return the largest declared epsilon that these numbers of records could refute.

    Every prediction on a training record is then right and half of those on holdout records are;
    the noise is 0. The answer is a multiple of 0.01, rounded down, and at most 20.
    """
    best = replace(tables, right=tables.records, control_right=tables.control // 2)

    def refuted(epsilon: float) -> bool:
        return test.refutes(test.evidence(best, epsilon))

    low, high = 0.0, _LARGEST_CEILING
    if not refuted(low):
        return 0.0
    while high - low > _STEP / 2.0:
        between = (low + high) / 2.0
        low, high = (between, high) if refuted(between) else (low, between)
    return int(low / _STEP) * _STEP


def least_leak_seen(
    tables: Matched, test: PublicTest, *, epsilon: float, stakes: Stakes, right: float
) -> float | None:
    """Return about the least leak of every label with which the test refutes the declaration.

    A leak is what the target tells of each training label, in the declaration's terms: the odds
    that a prediction is right are e^leak times those on holdout records. The figure is lowered by
    one standard deviation, in which both the labels and the noise have a part. So about five of six
    tests of such a leak refute. None if a leak of 12 is not seen.

    Args:
        tables: of the audit; of them, numbers of records and offsets are read.
        test: the test.
        epsilon: what is declared.
        stakes: of the claim.
        right: chance that a prediction on a holdout record is right (`chance_right`).

    *Assumes* a leak of all labels alike. A leak of few labels has to be larger to be seen.
    """

    def seen(leak: float) -> bool:
        figures = [
            test.evidence(_leaking(tables, stakes.replacement(leak), right, lucky), epsilon)
            for lucky in (0.0, -1.0)
        ]
        lowered = math.hypot(figures[0].figure - figures[1].figure, test.deviation)
        figure = math.floor(figures[0].figure - lowered)
        return test.refutes(replace(figures[0], figure=figure))

    if not tables.records.size or not seen(_LARGEST_LEAK):
        return None
    low, high = epsilon, _LARGEST_LEAK
    while high - low > _STEP:
        middle = (low + high) / 2.0
        low, high = (low, middle) if seen(middle) else (middle, high)
    return math.ceil(high / _STEP) * _STEP


def chance_right(tallies: Tallies) -> float:
    """Return the chance of a right prediction on holdout records as the proxy expects it.

    It is the chance r of at least one half for which r(1 - r), what a comparison gains of a
    record, is the mean of p(1 - p), with p the proxy's probability of the looked-at class. Where an
    order stands for the proxy's probabilities it is one half. No label is read.
    """
    cells = [tally.cells() for tally in tallies.bet_on.with_unread().control_odds]
    weights = np.concatenate([one.made for one in cells])
    if tallies.ordered or not weights.sum():
        return _FAIR
    chances = expit(np.concatenate([one.proxy for one in cells]))
    spread = float(weights @ (chances * (1.0 - chances))) / float(weights.sum())
    return _FAIR + math.sqrt(max(_FAIR**2 - spread, 0.0))


def _leaking(tables: Matched, leak: float, right: float, lucky: float) -> Matched:
    """Return tables as a leaking target leaves them, luckier by a number of standard deviations."""
    odds = float(logit(np.clip(right, _FAIR, 1.0 - 1e-6)))
    error = lucky / math.sqrt(max(tables.effective * right * (1.0 - right), 1e-9))
    chance = expit(odds + tables.offset + leak + error)
    return replace(
        tables, right=_whole(tables.records * chance), control_right=_whole(tables.control * right)
    )


def _whole(expected: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return integers with the same sum, rounded down, each within one of what is expected."""
    return np.diff(np.floor(np.cumsum(expected)), prepend=0.0).astype(np.int64)
