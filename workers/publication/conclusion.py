"""What a public statement concludes, in words."""

from privcore.rounding import down, guarantee, up
from workers.publication.erased import Entry, ErasedStatement
from workers.publication.statement_row import PublicVerdict, Statement

_REVISED = (
    "This is revision {}, with other noise: an earlier statement may have refuted the same, so see "
    "all of them."
)


def conclusion_of(made: Entry | None) -> str:
    """Return what is concluded of a model's day, in words; None where nothing was published."""
    if made is None:
        return (
            "No statement was published for this day. People who may read the labels find the "
            "reason in the exact record (privaudit show)."
        )
    if isinstance(made, ErasedStatement):
        return (
            f"The statement was erased on {made.erased_at:%Y-%m-%d}, and nothing is concluded of "
            f"this day. The reason given: {made.reason}"
        )
    return _of_statement(made)


def _of_statement(made: Statement) -> str:
    declared = guarantee(made.epsilon_declared, made.delta_declared)
    if made.verdict is PublicVerdict.VIOLATED:
        return (
            f"The declared {declared} is refuted (p = {up(made.pvalue, decimals=4)}). The "
            "statement is private for labels, so it holds no figure of the audit itself: people "
            "who may read the labels find these in the exact record."
        )
    if made.verdict is PublicVerdict.VACUOUS:
        return f"The declared {declared} says nothing of so many records, whatever was audited."
    if made.verdict is PublicVerdict.DOUBTFUL:
        return (
            f"What the test assumes is doubtful (p = {up(made.premises_pvalue, decimals=4)}), so "
            "nothing is concluded: labels of training and holdout records may differ, or an "
            "earlier model may have seen the holdout."
        )
    if made.epsilon_ceiling < made.epsilon_declared:
        return (
            f"The declared {declared} is not refuted, and so few records could not refute it: an "
            f"audit of this size refutes at most {up(made.epsilon_ceiling)}. Nothing is concluded."
        )
    revised = "" if made.revision == 1 else f" {_REVISED.format(made.revision)}"
    return (
        f"The declared {declared} is not refuted. Such an audit could have refuted up to "
        f"{down(made.epsilon_ceiling)}. That is no proof that the guarantee is kept."
        f"{revised}"
    )
