"""Policy of the house: whether `[policy]` of the settings accepts a model that is not_refuted."""

import datetime as dt
from dataclasses import dataclass

import polars as pl

from flows.next_steps import leak_words, seen_from
from flows.settings import PolicySettings
from privcore.lower_bounds.question import Secret
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import exact
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import AuditRow
from workers.warehouse.table_row import typed_rows


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the house's policy accepts a model, and why: by which lines of the policy."""

    accepted: bool
    why: str


def acceptance(
    policy: PolicySettings, night: AuditRow, verdict: Verdict, on: dt.date
) -> Acceptance:
    """Return whether policy accepts a model by its last record, on a day, and by which lines.

    Nothing is accepted but `not_refuted`: policy adds refusals, and takes none back. A figure that
    equals its limit is accepted, one that is not known is not.

    Args:
        policy: of the settings.
        night: the model's last record.
        verdict: of its nights together, after reasons that a caller accepts.
        on: the day (UTC) on which the record's age is judged.
    """
    if verdict is not Verdict.NOT_REFUTED:
        why = f"Not accepted: the verdict is {verdict}, and policy accepts not_refuted alone."
        return Acceptance(accepted=False, why=why)
    declared, age = night.epsilon_declared, (on - night.recorded_at.date()).days
    lines = {
        "max_epsilon": (declared, f"the declared epsilon is {exact(declared)}"),
        "max_sees_from": (seen_from(night), f"its audits see {leak_words(seen_from(night))}"),
        "max_age_days": (age, f"the last record is {age} days old"),
    }
    kept, broken = list[str](), list[str]()
    for name, (figure, said) in lines.items():
        limit = getattr(policy, name)
        if limit is not None:
            keeps = figure is not None and figure <= limit
            (kept if keeps else broken).append(f"{said} (policy.{name}: at most {exact(limit)})")
    if policy.trust is not None:
        said = f"the evidence is {night.trust} (policy.trust: {', '.join(policy.trust)})"
        (kept if night.trust in policy.trust else broken).append(said)
    accepts = "Not accepted" if broken else "Accepted"
    why = f"{accepts}: {'; '.join(broken or kept) or 'the verdict is not_refuted'}."
    return Acceptance(accepted=not broken, why=why)


def refused_by_policy(policy: PolicySettings | None, audits: pl.DataFrame, on: dt.date) -> str:
    """Return why policy refuses a file that its audits clear, by each model's newest; "" if not.

    The audits are as `serving_decision.audits_of` returns them. No policy refuses nothing.
    """
    if policy is None:
        return ""
    of_labels = pl.col("secret").is_in([Secret.LABEL, Secret.RELEASED])
    declared = audits.filter(of_labels, pl.col("epsilon_declared").is_not_null())
    newest = declared.sort("recorded_at").unique(("model", "secret"), keep="last")
    ruled = {
        f"{night.model} on {night.day}": acceptance(policy, night, Verdict.NOT_REFUTED, on)
        for night in typed_rows(AuditedNight, newest.sort("model", "secret"))
    }
    return " ".join(f"{name}: {one.why}" for name, one in ruled.items() if not one.accepted)
