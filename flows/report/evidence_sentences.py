"""Evidence from the rows beside an audit, in words."""

from collections.abc import Iterable, Sequence

from flows.report.plots.one_audit import FAMILIES
from flows.report.sentences import count, percent
from privcore.rounding import down, percent_up
from workers.warehouse.schema import AuditRow, BoundRow, PromiseRow, SliceRow

CONFIDENT = 0.1
"""The guess fraction that sentences are about; where the game had none such, the nearest."""


def family_name(family: str) -> str:
    """Return how a family of guarantees is called in text."""
    return FAMILIES.get(family, (family, ""))[0]


def curve_sentence(night: AuditRow, bounds: Sequence[BoundRow]) -> str:
    """Return where the game's bound is largest, in the family that the claim is tested in."""
    best = {
        arm: max(
            (row for row in bounds if row.arm == arm and row.family == night.family),
            key=lambda row: row.epsilon_lower,
            default=None,
        )
        for arm in ("audit", "control")
    }
    audit, control = best["audit"], best["control"]
    if audit is None:
        return ""
    if audit.epsilon_lower == 0.0:
        found = "At no share of guesses does the game prove a leak"
    else:
        found = (
            f"The game proves most, {down(audit.epsilon_lower)}, where the adversary guesses on "
            f"{percent(audit.fraction)} of the records: {audit.correct:.1f} of "
            f"{count(audit.guesses)} guesses are right on average"
        )
    if control is None:
        return f"{found}."
    if control.epsilon_lower > 0.0:
        return f"{found}; on the control it proves {down(control.epsilon_lower)}."
    return f"{found}{', nor' if audit.epsilon_lower == 0.0 else '; it proves none'} on the control."


def fidelity_sentence(night: AuditRow) -> str:
    """Return how well both models predict labels that neither was trained on; "" without it."""
    target, proxy = night.target_log_loss, night.proxy_log_loss
    if target is None or proxy is None:
        return ""
    than = "less well than" if proxy > target else "no worse than"
    return (
        f"On holdout records the proxy\u2019s log-loss is {proxy:.3f} nats and the target\u2019s "
        f"{target:.3f} (lower is better): the proxy predicts them {than} today\u2019s model."
    )


def slices_sentence(night: AuditRow, slices: Sequence[SliceRow]) -> str:
    """Return how many slices were audited, and how many were too small to be shown."""
    if not slices and not night.suppressed_slices:
        return ""
    parts = []
    if slices:
        worst = max(slices, key=lambda row: row.epsilon_lower)
        where = f"{worst.column} is {worst.value or 'empty'}"
        most = f"Most is proved where {where}: {down(worst.epsilon_lower)}."
        parts += [
            most if worst.epsilon_lower > 0.0 else "In no slice is a leak proved.",
            "The significance is shared by all slices, so one of them proves less than the whole.",
        ]
    if night.suppressed_slices:
        number = night.suppressed_slices
        parts.append(
            f"{number} slice{' has' if number == 1 else 's have'} too few records and "
            f"{'is' if number == 1 else 'are'} not shown."
        )
    return " ".join(parts)


def assumed(night: AuditRow) -> str:
    """Return what the bound of a night assumes."""
    if night.method == "decoys":
        return "It holds if the coins of the decoys were fair, and fixed before training."
    if night.secret == "membership":  # noqa: S105
        return "It holds if the rows were split into training and holdout at random."
    return (
        "It holds if the holdout was drawn at random from the rows trained on, no earlier model "
        "saw it, and fresh labels would have been predicted no better than those of matched "
        "holdout records."
    )


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
