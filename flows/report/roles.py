"""Sentences for each role behind a verdict: assumptions, what settles it, and what was known."""

from flows.next_steps import Role
from flows.report.figures import count, long_day, short_days
from workers.warehouse.schema import AuditRow


def behind(night: AuditRow) -> list[tuple[Role, str]]:
    """Return who may ask something about a night with figures, and the answer."""
    answers = [(Role.ENGINEER, _assumed(night)), (Role.ENGINEER, _settles(night))]
    return [*answers, (Role.AUDITOR, _known(night))]


def _assumed(night: AuditRow) -> str:
    if night.method == "decoys":
        return "Assumed: the coins of the decoys were fair, and fixed before training."
    if night.secret == "membership":  # noqa: S105
        return "Assumed: the rows were split into training and holdout at random."
    return (
        "Assumed: the holdout was drawn at random from the rows trained on, no earlier model saw "
        "it, and fresh labels would have been predicted no better than those of matched holdout "
        "records."
    )


def _settles(night: AuditRow) -> str:
    if night.holdout_needed:
        return (
            f"A conclusion needs about {count(night.holdout_needed)} holdout records if the number "
            f"of all records stays the same; there were {count(night.control_records)}."
        )
    return "Decoys settle a doubt about these assumptions: their bound needs none of them."


def _known(night: AuditRow) -> str:
    days = short_days(night.label_days) if night.label_days else long_day(night.day)
    parts = [f"Known when: the labels are of {days}"]
    if night.proxy_day:
        parts.append(f"the proxy of {long_day(night.proxy_day)}")
    if night.declared_by and night.epsilon_declared is not None:
        when = f" on {long_day(night.declared_at.date())}" if night.declared_at else ""
        parts.append(f"the declaration was made by {night.declared_by}{when}")
    parts.append(f"the record was committed on {night.recorded_at:%Y-%m-%d at %H:%M} UTC")
    return "; ".join(parts) + "."
