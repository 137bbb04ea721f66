"""What tests ask of a verdict that is not about how much the audit could see."""

from typing import Any

from privcore.lower_bounds.verdicts import ReasonCode, Verdict


def nothing_wrong(row: Any) -> bool:
    """Return whether an audit, or an answer, refutes and doubts nothing.

    Whether it could have seen a leak is another question, which its size decides.
    """
    if row.verdict == Verdict.NOT_REFUTED:
        return row.reason_code is None
    return row.verdict == Verdict.INCONCLUSIVE and ReasonCode(row.reason_code).by_size
