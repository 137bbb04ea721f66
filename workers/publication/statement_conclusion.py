"""Conclusion of a public statement, in words."""

from privcore.rounding import down, guarantee, up
from workers.publication.statement_row import PublicVerdict, Statement


def conclusion_of(made: Statement) -> str:
    """Return what is concluded of a model's day, in words."""
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
    if not made.seeing:
        return (
            f"The declared {declared} is not refuted, and a false declaration would probably have "
            f"looked the same: {_leak_seen(made)} Nothing is concluded."
        )
    return (
        f"The declared {declared} is not refuted. Such an audit could have refuted up to "
        f"{down(made.epsilon_ceiling)}. That is no proof that the guarantee is kept."
    )


def _leak_seen(made: Statement) -> str:
    """Return which leak such an audit would probably have refuted, as a sentence."""
    if made.epsilon_detectable is None:
        return "an audit of this size would probably have refuted no leak."
    return (
        "an audit of this size would probably have refuted a leak of every label of at least "
        f"{up(made.epsilon_detectable)}."
    )
