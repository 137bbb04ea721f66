"""Promise of the declared guarantee, in the two or three sentences that matter to a reader."""

from collections.abc import Iterable

from flows.report.figures import count, percent
from privcore.rounding import percent_up
from workers.warehouse.schema import AuditRow, PromiseRow

CONFIDENT = 0.1
"""The guess fraction that sentences are about; where the game had none such, the nearest."""


def promise_sentences(night: AuditRow, promises: Iterable[PromiseRow]) -> list[str]:
    """Return what a night's declaration promises, and how near the audit's attack came to it."""
    rows = list(promises)
    sentences = []
    declared = _fair_label(rows, "declared")
    if declared is not None:
        sentences.append(
            "Under the declared guarantee, nobody guesses a label that was 50/50 with more than "
            f"{percent_up(declared)} success{_accounted(rows, declared)}."
        )
    games = [row for row in rows if _is(row, "declared", "correct_guesses")]
    if games:
        confident = min(games, key=lambda row: abs((row.parameter or 0.0) - CONFIDENT))
        sentences.append(_nearness(confident, night))
    return sentences


def _fair_label(rows: list[PromiseRow], guarantee: str) -> float | None:
    """Success on a fair label."""
    found = [r.value for r in rows if _is(r, guarantee, "success_bound") and r.parameter == 0.5]
    return found[0] if found else None


def _is(row: PromiseRow, guarantee: str, quantity: str) -> bool:
    return row.guarantee == guarantee and row.quantity == quantity


def _accounted(rows: list[PromiseRow], declared: float) -> str:
    """Say what the mechanism's parameters promise, where that is visibly less."""
    accounted = _fair_label(rows, "accounted")
    if accounted is None or percent_up(accounted) == percent_up(declared):
        return ""
    return f", and by its mechanism's own parameters with no more than {percent_up(accounted)}"


def _nearness(game: PromiseRow, night: AuditRow) -> str:
    """Say how many of the surest guesses may be right, and how many of the attack's were."""
    confidence = "" if night.significance is None else f" ({percent(1.0 - night.significance)})"
    achieved = game.achieved or 0.0
    beside = "more than that" if achieved > game.value else "within that"
    return (
        f"Of its {count(game.guesses)} surest guesses, an attacker has at most "
        f"{count(int(game.value))} right, with high confidence{confidence}; the audit\u2019s "
        f"attack had {achieved:.1f} on average, {beside}."
    )
