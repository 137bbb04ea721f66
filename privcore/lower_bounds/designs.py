"""Designs of a night's test: records beside a matched holdout, or decoys of the auditor's coin.

Both answer the same questions of the same stakes, so that evidence, windows, standing and verdict
do not care which it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import OddsTally, Predictions, coin_predictions
from privcore.attacks.matching import SHARES
from privcore.lower_bounds.betting import Stakes, bets_epsilon_lower, log_wealth, stakes_for
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.matched import (
    NIGHT_STRATEGIES,
    Tables,
    matched_epsilon_ceiling,
    matched_epsilon_lower,
    matched_log_wealth,
    night_log_wealth,
)

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

    def all_right(self) -> "Design":
        """Return the test as if every prediction of a training label had been correct."""

    @property
    def held(self) -> int:
        """Number of holdout records, or decoys, of the test: with more of them it proves more."""

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

    def all_right(self) -> "MatchedRecords":
        """See `Design`."""
        return replace(self, tables=[one.all_right() for one in self.tables])

    @property
    def held(self) -> int:
        """See `Design`."""
        return self.records if self.control is None else self.control

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

    def all_right(self) -> "PerfectDecoys":
        """See `Design`."""
        return PerfectDecoys(self.tally)

    @property
    def held(self) -> int:
        """See `Design`."""
        return self.tally.records

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
