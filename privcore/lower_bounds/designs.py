"""Designs of a night's test: records beside a matched holdout, or decoys of the auditor's coin.

Both answer the same questions of the same stakes, so that evidence, windows, standing and verdict
do not care which it was.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import Matched, OddsTally, Predictions, coin_predictions
from privcore.attacks.matching import SHARES
from privcore.attacks.pairing import Paired
from privcore.lower_bounds.betting import bets_epsilon_lower, bets_reach, log_wealth
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.matched import (
    NIGHT_STRATEGIES,
    Tables,
    matched_epsilon_ceiling,
    matched_epsilon_lower,
    matched_log_wealth,
    matched_reaches,
    night_log_wealth,
)
from privcore.lower_bounds.stakes import Stakes, stakes_for

MATCHED = "matched"
"""The headline's method: training records matched with holdout records, under assumption E."""

DECOYS = "decoys"
"""The headline's method where a coin chose labels before training: nothing is assumed."""

PAIRED = "paired"
"""The headline's method for membership: pairs of a training and a holdout record."""

_SURE = 28.0  # a lift beyond what a tally holds


class Design(Protocol):
    """A test of every claim at every epsilon, at stakes that delta can pay."""

    @property
    def method(self) -> str:
        """Name in the record."""

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """Return the stakes that these records can pay, over this many nights."""

    def epsilon_lower(self, stakes: Stakes) -> float:
        """Return the largest epsilon for replacing a label that is rejected."""

    def epsilon_ceiling(self, stakes: Stakes) -> float:
        """Return what it would have been if every prediction had been correct."""

    def reaches(self, point: int, stakes: Stakes) -> bool:
        """Return whether `epsilon_lower` is at least `EPSILONS[point]`: much sooner than it."""

    def all_right(self) -> "Design":
        """Return the test as if every prediction of a training label had been correct."""

    @property
    def held(self) -> int:
        """Number of holdout records, or decoys, of the test: with more of them it proves more."""

    def resized(self, held: int) -> "Design":
        """Return the test as it would be with this many of them, and as many records in all."""

    def leaking(self, epsilon: float) -> "Design":
        """Return it as it would be of a target that leaks epsilon of every training label."""

    def log_wealth(self, epsilon: float, stakes: Stakes) -> float:
        """Return the logarithm of the e-value against replacing a label at epsilon."""

    def night_log_wealth(
        self, epsilons: NDArray[np.float64], stakes: Stakes
    ) -> NDArray[np.float64]:
        """Return those of the strategies that nights multiply, shape (strategies, epsilons)."""


@dataclass(frozen=True, slots=True)
class MatchedRecords:
    """Training records beside matched holdout records; `matched_epsilon_lower` has the proof.

    Args:
        tables: from `match`; with a student those against it after those against the proxy.
        records: training records that play.
        control: holdout records.
        classes: number of classes.
        proxy_doubtful: whether bets against the proxy may not win.
        choices: records among which the target chose each of them, on average (`Stakes`).
    """

    tables: Sequence[Tables]
    records: int
    control: int | None
    classes: int
    method: str = MATCHED
    proxy_doubtful: bool = False
    choices: float = 1.0

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """See `Design`."""
        return stakes_for(
            claim,
            records=self.records,
            choices=self.choices,
            control=self.control,
            classes=self.classes,
            nights=nights,
            references=len(self.tables) // len(SHARES),
        )

    def epsilon_lower(self, stakes: Stakes) -> float:
        """See `Design`."""
        return matched_epsilon_lower(self.tables, stakes=stakes, proxy_doubtful=self.proxy_doubtful)

    def epsilon_ceiling(self, stakes: Stakes) -> float:
        """See `Design`."""
        return matched_epsilon_ceiling(
            self.tables, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def reaches(self, point: int, stakes: Stakes) -> bool:
        """See `Design`."""
        return matched_reaches(
            self.tables, point, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def all_right(self) -> "MatchedRecords":
        """See `Design`."""
        return replace(self, tables=[one.all_right() for one in self.tables])

    @property
    def held(self) -> int:
        """See `Design`."""
        return self.records if self.control is None else self.control

    def resized(self, held: int) -> "MatchedRecords":
        """See `Design`; what is held out is not trained on."""
        training = self.records + self.held - held
        factors = {"records": training / max(self.records, 1), "held": held / max(self.held, 1)}
        tables = resized_tables(self.tables, **factors)
        if self.control is None:  # the smaller arm of a design of pairs
            return replace(self, tables=tables, records=held)
        return replace(self, tables=tables, records=training, control=held)

    def leaking(self, epsilon: float) -> "MatchedRecords":
        """See `Design`."""
        return replace(self, tables=leaking_tables(self.tables, epsilon))

    def log_wealth(self, epsilon: float, stakes: Stakes) -> float:
        """See `Design`."""
        return matched_log_wealth(
            self.tables, epsilon, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def night_log_wealth(
        self, epsilons: NDArray[np.float64], stakes: Stakes
    ) -> NDArray[np.float64]:
        """See `Design`."""
        return night_log_wealth(
            self.tables, epsilons=epsilons, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )


@dataclass(frozen=True, slots=True)
class PairedRecords(MatchedRecords):
    """Pairs of a training and a holdout record, for membership; `pair` has the reasoning.

    Args:
        tables: from `pair`.
        records: of the smaller arm: at most this many pairs pay for delta.
    """

    control: None = None
    classes: int = 2
    method: str = PAIRED


@dataclass(frozen=True, slots=True)
class DecoyRecords:
    """Bets on which label of each pair was trained on, at the coin's prior of 1/2.

    *Theorem.* Let each decoy's label be chosen from its pair by a fair coin, independent of the
    pair and of all else. Given the pairs and all other labels, what was trained on is uniform over
    the pairs, so that 1/2 is the true chance of every prediction without the model, and
    `bets_epsilon_lower` holds with that prior: no proxy, no holdout, no likeness of records, no
    independence of true labels enters. *Proof.* Whatever the joint law of truth and draw,
    P(a trained on, pair {a, b}) = P(truth a, draw b)/2 + P(truth b, draw a)/2, which is the same
    for b; and coins are independent of each other. ∎

    *Assumes* that the coins were fair, unknown to training, and fixed before it (the commitment),
    and that what the label column holds is what was trained on. Decoys of one person may be
    several: each is a replaced label, which a guarantee for persons covers.

    Args:
        tally: from `decoy_tally`.
    """

    tally: OddsTally
    method: str = DECOYS

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """See `Design`; of a pair, one of two labels is predicted whatever the classes."""
        return stakes_for(claim, records=self.tally.records, classes=2, nights=nights)

    def epsilon_lower(self, stakes: Stakes) -> float:
        """See `Design`."""
        return bets_epsilon_lower(self._predictions(), stakes=stakes)

    def epsilon_ceiling(self, stakes: Stakes) -> float:
        """See `Design`."""
        return self.all_right().epsilon_lower(stakes)

    def reaches(self, point: int, stakes: Stakes) -> bool:
        """See `Design`."""
        return bets_reach(self._predictions(), point, stakes=stakes)

    def all_right(self) -> "PerfectDecoys":
        """See `Design`."""
        return PerfectDecoys(self.tally)

    @property
    def held(self) -> int:
        """See `Design`."""
        return self.tally.records

    def resized(self, held: int) -> "DecoyRecords":
        """See `Design`; a training record more is a decoy."""
        return replace(self, tally=resized_tally(self.tally, held / max(self.tally.records, 1)))

    def leaking(self, epsilon: float) -> "ImaginedDecoys":
        """See `Design`."""
        return ImaginedDecoys(self.tally, leak=epsilon)

    def log_wealth(self, epsilon: float, stakes: Stakes) -> float:
        """See `Design`."""
        return float(
            log_wealth(self._predictions(), epsilons=np.array([epsilon]), stakes=stakes)[0]
        )

    def night_log_wealth(
        self, epsilons: NDArray[np.float64], stakes: Stakes
    ) -> NDArray[np.float64]:
        """See `Design`; the mean over beliefs is one strategy, which stands for all of them."""
        wealth = log_wealth(self._predictions(), epsilons=epsilons, stakes=stakes)
        return np.tile(wealth, (NIGHT_STRATEGIES, 1))

    def _predictions(self) -> Predictions:
        return coin_predictions(self.tally)


class PerfectDecoys(DecoyRecords):
    """Decoys of a model that knows every label, and is therefore also sure of it."""

    def _predictions(self) -> Predictions:
        told = coin_predictions(self.tally)
        made = told.right + told.wrong
        return replace(told, lift=np.full(made.shape, _SURE), wrong=0.0 * made, right=made)


@dataclass(frozen=True, slots=True)
class ImaginedDecoys(DecoyRecords):
    """Imagined decoys, as many as these, of a target that leaks the same of each.

    Args:
        leak: epsilon for replacing a label.
    """

    leak: float = 0.0

    def _predictions(self) -> Predictions:
        right = leaking_right(self.tally.records, self.leak)
        lift, prior = np.array([self.leak]), np.zeros(1)
        return Predictions(
            prior, lift, np.array([float(self.tally.records - right)]), np.array([float(right)])
        )


# Tables as another audit would leave them: expectations from tonight's, on which no verdict rests.
_MARGIN = 2.0
"""An imagined leak is this many standard errors less lucky than it is on average."""


def resized_tables(
    tables: Sequence[Matched | Paired], *, records: float, held: float
) -> tuple[Matched | Paired, ...]:
    """Return tables as multiples of the training and holdout records would fill them.

    Strata, sides, offsets and shares of right predictions stay.
    """
    return tuple(_resized(one, records, held) for one in tables)


def resized_tally(tally: OddsTally, factor: float) -> OddsTally:
    """Return a tally of `factor` times the records, distributed over its cells alike."""
    counts = _times(tally.counts.ravel(), factor).reshape(tally.counts.shape)
    return OddsTally(int(counts.sum()), counts)


def leaking_tables(
    tables: Sequence[Matched | Paired], epsilon: float
) -> tuple[Matched | Paired, ...]:
    """Return tables as a target would leave them that leaks `epsilon` of every training label.

    A training record's prediction is then right with e^epsilon times the odds that unseen records
    of its table show tonight, less one standard error of their ratio. Pairs show odds of 1.

    Args:
        tables: as matched.
        epsilon: for replacing a label.
    """
    return tuple(_leaking(one, epsilon) for one in tables)


def leaking_right(records: int, epsilon: float) -> int:
    """Return how many of fair pairs a target tells that leaks `epsilon`, less a standard error."""
    chance = float(expit(epsilon))
    error = math.sqrt(records * chance * (1.0 - chance))
    return max(0, math.floor(records * chance - _MARGIN * error))


def _resized(one: Matched | Paired, records: float, held: float) -> Matched | Paired:
    if isinstance(one, Paired):
        return Paired(_times(one.records, held), _times(one.right, held))
    made = np.maximum(_times(one.records, records), 1)
    control = np.maximum(_times(one.control, held), 1)
    return Matched(
        made,
        np.minimum(_times(one.right, records), made),
        control,
        np.minimum(_times(one.control_right, held), control),
        one.offset,
        one.may_win,
    )


def _leaking(one: Matched | Paired, epsilon: float) -> Matched | Paired:
    if isinstance(one, Paired):
        told = [leaking_right(int(records), epsilon) for records in one.records]
        return Paired(one.records, np.array(told, dtype=np.int64))
    if not one.records.size:
        return one
    unseen = (one.control_right + 0.5) / (one.control + 1.0)
    weight = one.records * one.control / (one.records + one.control)
    error = 1.0 / math.sqrt(float(weight @ (unseen * (1.0 - unseen))))
    chance = expit(logit(unseen) + epsilon - _MARGIN * error)
    right = np.diff(np.floor(np.cumsum(one.records * chance)), prepend=0.0).astype(np.int64)
    return replace(one, right=np.minimum(right, one.records))


def _times(counts: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """Return counts times a factor as whole numbers whose running sums are off by less than 1."""
    sums = np.floor(np.cumsum(counts) * factor + 1e-9)
    times: NDArray[np.int64] = np.diff(sums, prepend=0.0).astype(np.int64)
    return times
