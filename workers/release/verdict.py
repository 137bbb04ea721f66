"""Conclusion of an audit of a release, in a word and in a sentence."""

from dataclasses import dataclass

from workers.release.release_plan import ReleasePlan
from workers.release.targets import TargetsFound

CLAIMS = {
    "idp": "individual differential privacy",
    "group_idp": "group individual differential privacy",
    "bdp": "bootstrap differential privacy",
    "dp": "differential privacy",
}
_STANDARD_ERRORS = 5.0


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """Result of an attack on a table behind a definition's noise; no value of the table is kept.

    Attributes:
        table: name of the table's file.
        plan: what the answers claim.
        epsilon_per_query: budget that each query claimed.
        table_queries: that reading all records took.
        records: of the table; distinct ones for bdp.
        cells_read: share of values that were read correctly. A value counts only if all values of
            its record that were read before it are correct, too.
        records_read: share of records that were read whole.
        targets: what was read of single persons.
        stopped: why the attack ended early; "" where it did not.
        verdict: reconstructed, partly or resisted.
    """

    table: str
    plan: ReleasePlan
    epsilon_per_query: float
    table_queries: int
    records: int
    cells_read: float
    records_read: float
    targets: TargetsFound
    stopped: str
    verdict: str

    @property
    def queries(self) -> int:
        """Number of queries that were answered."""
        return self.table_queries + self.targets.queries

    @property
    def claimed_budget(self) -> float:
        """Budget that all queries claimed, by the definition's own accounting."""
        return self.queries * self.epsilon_per_query

    @property
    def reason(self) -> str:
        """The verdict in one sentence for people who know nothing of differential privacy."""
        definition = self.plan.definition
        many = f"{self.records:,} {'distinct records' if definition == 'bdp' else 'records'}"
        asked = (
            f"{self.table_queries:,} questions that {CLAIMS[definition]} counts as a privacy cost "
            f"of only {self.claimed_budget:.2g}"
        )
        if self.verdict == "reconstructed":
            return f"All {many} were read, every value of them, with {asked}."
        if self.verdict == "partly":
            return f"{self.records_read:.1%} of the {many} were read whole, with {asked}."
        return f"The attack read no more of the {many} than guessing would, with {asked}."


def release_verdict(*, found: int, by_chance: int, records: int, targets: TargetsFound) -> str:
    """Return `reconstructed`, `partly` or `resisted`.

    Args:
        found: records that were reconstructed whole.
        by_chance: how many the same attack gets right where a coin answers every query.
        records: records of the table; distinct ones for bootstrap differential privacy.
        targets: what was read of single persons.

    An attack that gets no more than five standard errors above chance was resisted, unless it read
    most of its targets.
    """
    if found == records:
        return "reconstructed"
    margin = _STANDARD_ERRORS * (2.0 * (by_chance + 1.0)) ** 0.5
    if found > by_chance + margin or 2 * targets.reconstructed > targets.targets:
        return "partly"
    return "resisted"
