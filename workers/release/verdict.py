"""Conclusion of an audit of a release, in a word and in a sentence."""

from dataclasses import dataclass

from workers.release.release_plan import ReleasePlan
from workers.release.targets import TargetsFound
from workers.versions import CODE_VERSION, METHOD_VERSION

CLAIMS = {
    "idp": "individual differential privacy",
    "group_idp": "group individual differential privacy",
    "bdp": "bootstrap differential privacy",
    "dp": "differential privacy",
}
_STANDARD_ERRORS = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """Result of an attack, in shares of what there is.

    Attributes:
        records: of the table; distinct ones where existence is read.
        columns: of the table.
        queries: answered up to each column, in the order of reading.
        cells: share of all values that were right by then.
        whole: share of records that were read whole.
        targets: what was read of single persons.
        stopped: why it ended early; None where it did not.
    """

    records: int
    columns: int
    queries: tuple[int, ...]
    cells: tuple[float, ...]
    whole: float
    targets: TargetsFound
    stopped: str | None = None

    @property
    def last_query(self) -> int:
        """Number of queries that reading all records took."""
        return max(self.queries, default=0)


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


def release_sentence(verdict: str, definition: str, found: Found, *, budget: float) -> str:
    """Return one sentence for people who know nothing of differential privacy.

    `budget` is what the definition counts for all queries.
    """
    claim = CLAIMS[definition]
    kind = "distinct records" if definition == "bdp" else "records"
    asked = (
        f"{found.last_query:,} questions that {claim} counts as a privacy cost of only {budget:.2g}"
    )
    if verdict == "reconstructed":
        return f"All {found.records:,} {kind} were read, every value of them, with {asked}."
    if verdict == "partly":
        return f"{found.whole:.1%} of the {found.records:,} {kind} were read whole, with {asked}."
    return (
        f"The attack read no more of the {found.records:,} {kind} than guessing would, with "
        f"{asked}."
    )


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """Result of an attack on a table behind a definition's noise; no value of the table is kept.

    Attributes:
        table: name of the table's file.
        definition: what the answers claim.
        group_size: records that may change under group_idp; 1 for other definitions.
        epsilon_declared: budget that all answers together may claim.
        epsilon_per_query: budget that each query claimed.
        claimed_budget: budget that all queries claimed, by the definition's own accounting.
        queries: that were answered.
        records: of the table; distinct ones for bdp.
        columns: of the table.
        cells_reconstructed: share of values that were read correctly. A value counts only if all
            values of its record that were read before it are correct, too.
        records_reconstructed: share of records that were read whole.
        targets: what was read of single persons.
        progress_budget: budget claimed when each column was read, in the order of reading.
        progress_cells: share of all values that had been read correctly by then.
        stopped: why the attack ended early; None where it did not.
        verdict: reconstructed, partly or resisted.
        reason: the verdict in one sentence.
    """

    table: str
    definition: str
    group_size: int
    epsilon_declared: float
    epsilon_per_query: float
    claimed_budget: float
    queries: int
    records: int
    columns: int
    cells_reconstructed: float
    records_reconstructed: float
    targets: TargetsFound
    progress_budget: tuple[float, ...]
    progress_cells: tuple[float, ...]
    stopped: str | None
    verdict: str
    reason: str
    method_version: str = METHOD_VERSION
    code_version: str = CODE_VERSION

    @classmethod
    def of(
        cls, plan: ReleasePlan, found: Found, *, table: str, epsilon: float, verdict: str
    ) -> "ReleaseAudit":
        """Return the audit of what an attack with `epsilon` for each query found."""
        queries = found.last_query + found.targets.queries
        budget = queries * epsilon
        return cls(
            table=table,
            definition=plan.definition,
            group_size=plan.k,
            epsilon_declared=plan.epsilon,
            epsilon_per_query=epsilon,
            claimed_budget=budget,
            queries=queries,
            records=found.records,
            columns=found.columns,
            cells_reconstructed=found.cells[-1] if found.cells else 0.0,
            records_reconstructed=found.whole,
            targets=found.targets,
            progress_budget=tuple(count * epsilon for count in found.queries),
            progress_cells=found.cells,
            stopped=found.stopped,
            verdict=verdict,
            reason=release_sentence(verdict, plan.definition, found, budget=budget),
        )
