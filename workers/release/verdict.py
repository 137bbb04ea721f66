"""Conclusion of an audit of a release, in a word and in a sentence."""

from dataclasses import dataclass

from workers.release.targets import TargetsFound

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
        asked_again: how many records were asked about again to see whether they were read right;
            None where the table was there to compare with.
        stopped: why it ended early; None where it did not.
        ended_after: columns that were read before it ended; None where all were.
        remark: what else there is to say of its answers; a sentence, or empty.
    """

    records: int
    columns: int
    queries: tuple[int, ...]
    cells: tuple[float, ...]
    whole: float
    targets: TargetsFound
    asked_again: int | None = None
    stopped: str | None = None
    ended_after: int | None = None
    remark: str = ""

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
    if found.asked_again:
        asked += f"; it was checked by asking about {found.asked_again:,} records again"
    if verdict == "reconstructed":
        return f"All {found.records:,} {kind} were read, every value of them, with {asked}."
    if verdict == "partly":
        return f"{found.whole:.1%} of the {found.records:,} {kind} were read whole, with {asked}."
    if found.ended_after:
        return (
            f"{found.cells[-1]:.0%} of all values were read before the attack ended, with {asked}."
        )
    return (
        f"The attack read no more of the {found.records:,} {kind} than guessing would, with "
        f"{asked}."
    )
