"""Worlds in which training reads no label, and the target is right, or wrong where it is surest.

Both arms are drawn alike, so that nothing but chance tells them apart: whatever the target says of
a record, an honest audit must be silent. In `tests.worlds` the target knows part of what is true;
here it may be sure of the opposite, which is what a rule that treats the arms differently counts
as memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, softmax

from flows.study.exam_worlds import Drawn as Arm
from flows.study.exam_worlds import both, drawn, response

Random = np.random.Generator
Numbers = NDArray[np.float64]
Prior = Callable[[int, Random], Numbers]
WithFeatures = tuple[Numbers, Numbers, NDArray[np.int64], Numbers]


def normal(mean: float, spread: float) -> Prior:
    """Log-odds that are normal."""
    return lambda records, random: random.normal(mean, spread, records)


def heavy_tailed(mean: float, spread: float) -> Prior:
    """Student's with two degrees of freedom: many records that the proxy is all but sure of."""
    return lambda records, random: mean + spread * random.standard_t(2.0, records)


def piecewise(*values: float) -> Prior:
    """A proxy of few values, as a tree of few leaves or a table of rates has them."""
    return lambda records, random: random.choice(np.array(values), records)


@dataclass(frozen=True)
class Segment:
    """A part of the records, and where they lie.

    Attributes:
        share: of all records.
        shown: by how much the target's log-odds lie above the proxy's.
        true: by how much the truth's do.
        at: the proxy's log-odds, if they are one number.
    """

    share: float
    shown: float
    true: float
    at: float | None = None


def moved(share: float, before: float, after: float) -> Segment:
    """A segment whose probability moved from one number to another, which the target learned."""
    by = float(logit(after) - logit(before))
    return Segment(share, by, by, float(logit(before)))


@dataclass(frozen=True)
class Unread:
    """A world of which training reads no label.

    Attributes:
        prior: the proxy's log-odds, from how many and a random generator.
        segments: where the target and the truth lie elsewhere; of all other records they agree
            with the proxy.
        noise: standard deviation of what the target adds to all log-odds.
        training: training records.
        control: holdout records.
    """

    prior: Prior
    segments: tuple[Segment, ...]
    noise: float = 0.0
    training: int = 20_000
    control: int = 2_000

    def of(self, training: int, control: int) -> "Unread":
        """Return the world with arms of other sizes."""
        return replace(self, training=training, control=control)

    def parts(self, records: int, random: Random) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the proxy's log-odds, by how much the target's and the truth's differ, and places.

        A record's place, from 0 to 1, says which segment it is in.
        """
        proxy = self.prior(records, random)
        place = random.random(records)
        shown, true, reached = np.zeros(records), np.zeros(records), 0.0
        for segment in self.segments:
            inside = (place >= reached) & (place < reached + segment.share)
            reached += segment.share
            shown[inside], true[inside] = segment.shown, segment.true
            if segment.at is not None:
                proxy[inside] = segment.at
        return proxy, shown + self.noise * random.normal(size=records), true, place

    def arm(self, records: int, random: Random, *, epsilon: float = 0.0) -> Arm:
        """Return (target, proxy, labels) of two classes; above 0, of labels that were read."""
        return self._arm(records, random, epsilon=epsilon)[0]

    def _arm(self, records: int, random: Random, *, epsilon: float) -> tuple[Arm, Numbers]:
        proxy, shown, true, place = self.parts(records, random)
        labels = drawn(proxy + true, random)
        if epsilon:
            shown = shown + epsilon * (2 * response(labels, epsilon, random) - 1)
        return (both(proxy + shown), both(proxy), labels), np.stack([proxy, place], axis=1)

    def classes(self, records: int, random: Random, *, classes: int = 10) -> Arm:
        """Return the same of many classes: one of each record's, any, moves as of two."""
        return self._classes(records, random, classes)[0]

    def _classes(self, records: int, random: Random, classes: int) -> tuple[Arm, Numbers]:
        scores = random.normal(0.0, 1.5, (records, classes))
        _, shown, true, place = self.parts(records, random)
        rows, which = np.arange(records), random.integers(0, classes, records)
        target, truth = scores.copy(), scores.copy()
        target[rows, which] += shown
        truth[rows, which] += true
        proxy, target, truth = (softmax(each, axis=1) for each in (scores, target, truth))
        unit = random.random((records, 1))
        labels = (unit >= truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
        return (target, proxy, labels), np.column_stack([scores, which, place])

    def with_features(
        self, records: int, random: Random, *, classes: int = 2, epsilon: float = 0.0
    ) -> WithFeatures:
        """Return (target, proxy, labels, features).

        Features say what the proxy does, and which segment a record is in less surely than the
        target knows it: so a student that had seen a record would know more of it. One says
        nothing.
        """
        arm, features = (
            self._arm(records, random, epsilon=epsilon)
            if classes == 2
            else self._classes(records, random, classes)
        )
        features[:, -1] += 0.2 * random.normal(size=records)
        return *arm, np.column_stack([features, random.normal(size=records)])

    def draw(self, random: Random) -> tuple[Arm, Arm]:
        """Return both arms."""
        return self.arm(self.training, random), self.arm(self.control, random)


def proxy_off(arm: WithFeatures, random: Random, *, knows: float = 0.0) -> WithFeatures:
    """Return an arm whose proxy errs by 0.4, and knows its labels by so much, in log-odds."""
    target, proxy, labels, features = arm
    off = 0.4 * random.normal(size=len(labels)) + knows * (2 * labels - 1)
    return target, both(logit(proxy[:, 1]) + off), labels, features


FIRST = Unread(
    normal(-1.5, 0.6),
    (moved(0.2, 0.3, 0.9), moved(0.12, 0.001, 0.03), moved(0.08, 0.8, 0.995)),
    training=4_000,
)
"""Three segments drifted, which the target knows: it says what is true of every record."""

WRONG = {
    "even": Unread(normal(0.0, 0.6), (Segment(0.3, 1.0, 2.0), Segment(0.2, 3.0, -2.0))),
    "uneven": Unread(normal(-1.5, 0.6), (Segment(0.2, 2.0, 4.0), Segment(0.1, 5.0, -3.0))),
}
"""Two segments each, of which the target is surest of the one that it learned wrongly."""

DRIFT = (Segment(0.2, 2.0, 2.0), Segment(0.1, -2.5, -2.5))
BADLY = (Segment(0.25, 1.0, 2.0), Segment(0.15, 3.0, -2.0))
PRIORS = {
    "normal": normal(-0.85, 1.0),
    "heavy-tailed": heavy_tailed(-0.85, 1.0),
    "piecewise": piecewise(-4.0, -1.5, 0.0, 0.3, 3.0),
    "3% positives": normal(float(logit(0.03)), 0.7),
}
PROPERTIES = {
    f"{prior}, {name}": Unread(log_odds, segments)
    for prior, log_odds in PRIORS.items()
    for name, segments in (("as it was", ()), ("drift", DRIFT), ("learned badly", BADLY))
}
"""Priors by what became of the segments: the target says the truth, or the opposite of it."""
