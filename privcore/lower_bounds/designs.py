"""Designs of a night's test: records beside a matched holdout, or pairs of records of both arms.

Both answer the same questions of the same stakes, so that evidence, windows, standing and verdict
do not care which it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.matching import SHARES
from privcore.lower_bounds.betting import Stakes, stakes_for
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.matched import (
    Tables,
    matched_epsilon_ceiling,
    matched_epsilon_lower,
    matched_log_wealth,
    night_log_wealth,
)

MATCHED = "matched"
"""The headline's method: training records matched with holdout records, under assumption E."""

PAIRED = "paired"
"""The headline's method for membership: pairs of a training and a holdout record."""


@dataclass(frozen=True, slots=True)
class MatchedRecords:
    """Training records beside matched holdout records; `matched_epsilon_lower` has the proof.

    A test of every claim at every epsilon, at stakes that delta can pay.

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
        """Return the stakes that these records can pay, over this many nights."""
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
        """Return the largest epsilon for replacing a label that is rejected."""
        return matched_epsilon_lower(self.tables, stakes=stakes, proxy_doubtful=self.proxy_doubtful)

    def epsilon_ceiling(self, stakes: Stakes) -> float:
        """Return what it would have been if every prediction had been correct."""
        return matched_epsilon_ceiling(
            self.tables, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def all_right(self) -> "MatchedRecords":
        """Return the test as if every prediction of a training label had been correct."""
        return replace(self, tables=[one.all_right() for one in self.tables])

    @property
    def held(self) -> int:
        """Number of holdout records of the test: with more of them it proves more."""
        return self.records if self.control is None else self.control

    def log_wealth(self, epsilon: float, stakes: Stakes) -> float:
        """Return the logarithm of the e-value against replacing a label at epsilon."""
        return matched_log_wealth(
            self.tables, epsilon, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def night_log_wealth(
        self, epsilons: NDArray[np.float64], stakes: Stakes
    ) -> NDArray[np.float64]:
        """Return those of the strategies that nights multiply, shape (strategies, epsilons)."""
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
