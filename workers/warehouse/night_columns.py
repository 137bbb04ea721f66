"""Names of columns that nights are made of, and of what is derived from nights together.

Apart from the derivation, since commands that only print what is known need not wait for it.
"""

from workers.warehouse.declaration_changes import DATASET, LABEL_COLUMN
from workers.warehouse.model_verdict import COLUMNS as OF_VERDICTS

WINDOWS = (7, 28)
"""Lengths of windows in days."""
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
    "exploratory",
    "recorded_at",
    "revision",
    "significance",
)
"""Columns of current records that nights are made of."""
OF_COUNTED = ("audit_id", "model", "secret", "day", "significance", "status", "exploratory")
"""Columns of current records by which nights that count are found, and what they say together."""
EPSILON_LOWER = {days: f"epsilon_lower_{days}_days" for days in WINDOWS}
EPSILON_CEILING = f"epsilon_ceiling_{WINDOWS[-1]}_days"
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
CONTRADICTORY = (
    "Stored rows of these nights contradict each other, which no audit writes, so that nothing is "
    "derived from nights together: restore the warehouse from a copy, and see who may write there."
)
"""What is said of nights that cannot be compared."""
