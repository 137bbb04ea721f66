"""What an audit of a release concludes, in a word and in a sentence."""

from workers.release.targets import TargetsFound

CLAIMS = {
    "idp": "individual differential privacy",
    "group_idp": "group individual differential privacy",
    "bdp": "bootstrap differential privacy",
    "dp": "differential privacy",
}
_STANDARD_ERRORS = 5.0


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


def release_sentence(
    verdict: str,
    definition: str,
    *,
    share: float,
    budget: float,
    queries: int,
    records: int,
    asked_again: int | None = None,
    values: float | None = None,
) -> str:
    """Return one sentence for people who know nothing of differential privacy.

    `values` is the share of all values that was read where the attack ended before the last column.
    """
    claim = CLAIMS[definition]
    kind = "distinct records" if definition == "bdp" else "records"
    asked = f"{queries:,} questions that {claim} counts as a privacy cost of only {budget:.2g}"
    if asked_again:
        asked += f"; it was checked by asking about {asked_again:,} records again"
    if verdict == "reconstructed":
        return f"All {records:,} {kind} were read, every value of them, with {asked}."
    if verdict == "partly":
        return f"{share:.1%} of the {records:,} {kind} were read whole, with {asked}."
    if values is not None:
        return f"{values:.0%} of all values were read before the attack ended, with {asked}."
    return f"The attack read no more of the {records:,} {kind} than guessing would, with {asked}."
