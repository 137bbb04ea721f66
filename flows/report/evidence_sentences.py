"""Evidence from the rows beside an audit, in words: curve, proxy, scores, slices."""

from collections.abc import Sequence

from flows.report.figures import count, percent
from flows.report.plots.curve import FAMILIES
from privcore.rounding import down
from workers.warehouse.schema import AuditRow, BoundRow, SliceRow


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
