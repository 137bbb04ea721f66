"""Plan of an audit of a release: its inputs besides the table; part of its `audit_id`."""

from typing import Literal

from pydantic import Field, model_validator

from privcore.attacks import Disagreement, NotZeroOrOne
from privcore.attacks.query_adversary import NoiseRule
from privcore.mechanisms import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    QueryMechanism,
)
from workers.strict_model import StrictModel

Definition = Literal["idp", "group_idp", "bdp", "dp"]
_SMALL_EPSILON = 1e-10
_QUERIES_PER_CELL = 256  # far above what a search asks: all are paid for beforehand


class ReleasePlan(StrictModel):
    """Claim of the answers, and the attack on them."""

    definition: Definition
    """What the answers claim: idp, group_idp, bdp, or dp (the honest control)."""
    k: int = Field(default=1, ge=1)
    """Group size of group_idp; 1 for idp."""
    epsilon: float = Field(gt=0.0, allow_inf_nan=False)
    """Budget that all answers together may claim."""
    precision: float = Field(default=0.01, gt=0.0)
    """Width to which floating-point columns are read."""
    targets: tuple[dict[str, str], ...] = ()
    """Persons, each by some columns' values, to be attacked singly."""
    seed: int = Field(default=0, ge=0)
    """Seed of the mechanism's noise."""

    @model_validator(mode="after")
    def _check_group_size(self) -> "ReleasePlan":
        if self.definition != "group_idp" and self.k != 1:
            raise ValueError(f"k is {self.k}, but only group_idp has a group size: leave it out.")
        return self

    def mechanism(self) -> QueryMechanism:
        """Return the mechanism that the definition recommends."""
        if self.definition == "bdp":
            return BootstrapLaplace()
        return NoisyCountThreshold() if self.definition == "dp" else KLaplace(self.k)

    def rule(self) -> NoiseRule:
        """Return how an attacker tells noise from none in the mechanism's answers."""
        return Disagreement() if self.definition == "dp" else NotZeroOrOne()

    def adversary_k(self) -> int:
        """Return the group size that the adversary reckons with."""
        return 0 if self.definition == "bdp" else self.k

    def epsilon_per_query(self, shape: tuple[int, ...]) -> float:
        """Return a budget for each query at which all of them cannot spend more than `epsilon`."""
        cells = (shape[0] + len(self.targets)) * shape[1]
        share = min(_SMALL_EPSILON, self.epsilon / (_QUERIES_PER_CELL * cells))
        return share / self.rule().repetitions
