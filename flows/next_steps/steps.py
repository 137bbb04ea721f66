"""The one first step of each reason, and the role that takes it: the same wherever it is read."""

import datetime as dt
import math
from dataclasses import dataclass
from enum import StrEnum

from privcore.lower_bounds.verdicts import ReasonCode
from privcore.rounding import down
from workers.warehouse.schema import AuditRow


class Role(StrEnum):
    """Role that takes a step."""

    OWNER = "model owner"
    ENGINEER = "privacy engineer"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do first."""

    role: Role
    text: str


_STEPS = {
    ReasonCode.THIS_NIGHT: Step(
        Role.AUDITOR,
        "Do not serve it; repeat the audit from its inputs: privaudit verify {audit_id}.",
    ),
    ReasonCode.NIGHTS_TOGETHER: Step(
        Role.OWNER,
        "Do not serve it; find the first night of the leak on its page of the report.",
    ),
    ReasonCode.EARLIER_NIGHT: Step(
        Role.OWNER,
        "Do not serve it; read which night it was: privaudit show --model {model} --all.",
    ),
    ReasonCode.NIGHTS_NEEDED: Step(
        Role.ENGINEER, "Wait: nights like these are conclusive together{from_day}."
    ),
    ReasonCode.FEW_HELD_OUT: Step(Role.OWNER, "{hold_out}"),
    ReasonCode.TOO_SMALL: Step(
        Role.ENGINEER, "Let the labels of several days play together (plan.days)."
    ),
    ReasonCode.NIGHTS_REPEAT: Step(
        Role.OWNER, "Draw a new holdout every day: the same rows add nothing."
    ),
    ReasonCode.LEARNER_FORGETS: Step(
        Role.AUDITOR,
        "Ask how epsilon was accounted for: this learner shows no more without any mechanism.",
    ),
    ReasonCode.PROXY_WRONG: Step(
        Role.ENGINEER,
        "Use the model of the day before as the proxy, and see that it never read the holdout.",
    ),
    ReasonCode.HOLDOUT_SUSPECT: Step(
        Role.ENGINEER, "See whether training leaves out exactly the rows that are called holdout."
    ),
    ReasonCode.ARMS_UNLIKE: Step(
        Role.OWNER, "Draw the holdout at random, after any sampling of rows."
    ),
    ReasonCode.PERSONS_SPLIT: Step(
        Role.ENGINEER, "Set plan.privacy_unit to the column of the person, and keep each row once."
    ),
    ReasonCode.ANSWERS_DOUBTFUL: Step(
        Role.ENGINEER,
        "Compare label, classes and columns with those of training; audit the model's file where "
        "a table of its answers was audited.",
    ),
    ReasonCode.ROWS_UNACCOUNTED: Step(
        Role.OWNER, "Let the job that trains write the rows that are audited."
    ),
    ReasonCode.CHOSEN_PLAN: Step(Role.ENGINEER, "Run it again without a plan of your own."),
    ReasonCode.DECLARATION_EMPTY: Step(
        Role.OWNER, "Declare label_dp with a delta below one over the rows, and a smaller epsilon."
    ),
    ReasonCode.DELTA_DECIDES: Step(Role.OWNER, "Declare a smaller delta."),
    ReasonCode.OVER_POLICY: Step(
        Role.OWNER, "Train with, and declare, at most what policy allows (plan.policy_epsilon)."
    ),
    ReasonCode.NOTHING_DECLARED: Step(
        Role.OWNER, "Declare an epsilon for the audited unit{below}."
    ),
    ReasonCode.LABELS_PRIVATISED: Step(
        Role.AUDITOR, "Ask for evidence that labels were privatised before training."
    ),
    ReasonCode.MODEL_MISSING: Step(
        Role.OWNER, "See whether the day's training ended, and where its model lies."
    ),
    ReasonCode.MODEL_UNREADABLE: Step(Role.OWNER, "Open the model's file with privaudit check."),
    ReasonCode.PROXY_UNUSABLE: Step(
        Role.ENGINEER, "Name an earlier model as the proxy, from before the day's labels."
    ),
    ReasonCode.LABELS_MISSING: Step(
        Role.ENGINEER, "See whether the day's labels were written, _SUCCESS last."
    ),
    ReasonCode.SCORES_WRONG: Step(
        Role.OWNER, "See whether the scoring job ended, and look at the record that is named."
    ),
    ReasonCode.SETUP_WRONG: Step(Role.ENGINEER, "Correct the column or setting that is named."),
    ReasonCode.MANIFEST_WRONG: Step(
        Role.OWNER, "Correct the field that is named (privaudit manifest writes one)."
    ),
    ReasonCode.NOT_RUN: Step(Role.ENGINEER, "Audit the day afterwards: privaudit backfill."),
}

SERVE = Step(Role.OWNER, "Serve the model, and keep the nightly audit: evidence adds up.")
"""What to do where nothing is wrong and nothing is missing."""


def step_of(code: ReasonCode | None, row: AuditRow, conclusive_on: dt.date | None = None) -> Step:
    """Return what to do first.

    Args:
        code: why the verdict is what it is; None for `not_refuted`.
        row: the record.
        conclusive_on: day from which on nights together are conclusive, where it is known.
    """
    if code is None:
        return SERVE
    step, proved = _STEPS[code], row.epsilon_lower
    text = step.text.format(
        audit_id=row.audit_id[:8],
        model=row.model,
        hold_out=_hold_out(row),
        below=f"; one below {down(proved)} would be refuted" if proved else "",
        from_day=f" from {conclusive_on} on" if conclusive_on else "",
    )
    return Step(step.role, text)


def _hold_out(row: AuditRow) -> str:
    """Say how many more rows, or decoys, the next audit needs."""
    decoys = row.decoy_records is not None
    there = (row.decoy_records if decoys else row.control_records) or 0
    more = "" if row.holdout_needed is None else f"about {_rounded_up(row.holdout_needed - there)} "
    if decoys:
        return f"Draw {more}more decoys with two different labels (privaudit decoys)."
    return f"Hold out {more}more rows of a day like this one, at random, before training."


def _rounded_up(rows: int) -> str:
    """Return a number of rows with two digits, rounded up: 1,873 -> "1,900"."""
    unit = 10 ** max(0, len(str(max(rows, 1))) - 2)
    return f"{math.ceil(max(rows, 1) / unit) * unit:,}"
