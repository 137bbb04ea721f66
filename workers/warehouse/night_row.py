"""What a model's nights say together, up to each of them: its columns, as they are stored."""

import datetime as dt

from pydantic import Field

from workers.strict_model import StrictModel
from workers.warehouse.model_verdict import COLUMNS as OF_VERDICTS
from workers.warehouse.table_row import Moment, TableRow

DATASET, LABEL_COLUMN = "dataset", "label_column"
"""Columns that name the dataset whose labels are audited, and the label's column."""
TRUST = "trust"
"""Column of the mode of trust."""
WINDOW = 28
"""Length of a window in days."""
NAMED = ("audit_id", "model", "day")
OF_AUDITS = (
    *NAMED,
    "secret",
    "verdict",
    *OF_VERDICTS,
    "delta_declared",
    "mechanism",
    DATASET,
    LABEL_COLUMN,
    TRUST,
    "exploratory",
    "recorded_at",
    "revision",
    "significance",
)
"""Columns of current records that nights are made of."""
OF_COUNTED = ("audit_id", "model", "secret", "day", "significance", "status", "exploratory")
"""Columns of current records by which nights that count are found, and what they say together."""
EPSILON_LOWER = "epsilon_lower_28_days"
EPSILON_CEILING = "epsilon_ceiling_28_days"
AVERAGED = "nights_averaged"
EPSILON_STANDING = "epsilon_standing"
VERDICT = "verdict_together"
REASON_CODE = "reason_code_together"
REFUTED = "refuted_together"
SEES_FROM = "sees_from_together"
NIGHTS = "nights_together"
CONCLUSIVE_ON = "conclusive_on"
DRILL_REFUTED = "drill_refuted_after"
DECLARATION_CHANGE = "declaration_change"
NIGHTS_REMARK = "nights_remark"


class NightsTogether(StrictModel):
    """Columns that the nights up to one of them add to it."""

    epsilon_lower_28_days: float | None = None
    """Bound over the 28 days up to this one, under this day's claim; 0 where none."""
    epsilon_ceiling_28_days: float | None = None
    """The most that the nights of these 28 days could have proved together, with their holdouts, if
    every prediction on a training record had been correct."""
    nights_averaged: bool | None = None
    """Whether labels or the holdout come again within these 28 days, so that nights are averaged
    and not multiplied."""
    epsilon_standing: float | None = None
    """Bound from all nights since family, delta, relation or the method last changed, at most 128,
    with delta 28; it may be watched every day and never falls. The larger one where a night's first
    audit is another than the one that counts. 0 where none."""
    refuted_together: bool | None = None
    """Whether all nights, each held against what was declared for it, refute that every declaration
    was true, as they count or as each was first audited."""
    nights_together: int | None = None
    """How many declared nights stand together, this one included."""
    sees_from_together: float | None = None
    """The smallest leak, shown by every label of all these nights, with which they would have
    refuted the declarations in four of five cases, or this night alone would have. Null where even
    a leak of 4 beyond the declaration would not have been seen."""
    conclusive_on: dt.date | None = None
    """Day from which on nights like these will be conclusive together, where that is within 28
    nights and they are not. Null elsewhere."""
    drill_refuted_after: int | None = None
    """On which of its nights the drill, the same learner without a mechanism, was refuted; 0 where
    on none. Null without a drill."""
    verdict_together: str | None = None
    """The model's verdict: that of its nights together up to this one. A violation stands for 28
    days, until a night resolves it, also beside a night that failed."""
    reason_code_together: str | None = None
    """Why, as a fixed word. Null for not_refuted."""
    declaration_change: str | None = None
    """How the declaration, or whose labels are audited, differs from the model's evaluated night
    before, in words. Null where it does not."""
    nights_remark: str | None = None
    """That the holdout comes again from this night on, in words. Null elsewhere."""


class NightRow(TableRow, NightsTogether):
    """One row per counted night and commit that changed what the nights up to it say together."""

    model: str
    """Name of the audited model."""
    day: dt.date
    """Day whose training labels were audited."""
    folded_at: Moment
    """Time at which this was derived, UTC; the latest row of an audit counts."""
    rows_known: int = Field(ge=0)
    """Audits, confirmations and withdrawals of the model, and of its drills, by then: a reader who
    finds more derives anew."""
