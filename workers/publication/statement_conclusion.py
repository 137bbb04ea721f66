"""Conclusion of a public statement, in words."""

from privcore.rounding import down, exact, guarantee, up
from workers.publication.erased import Entry, ErasedStatement, Published
from workers.publication.statement_row import PublicVerdict, Statement
from workers.publication.threshold_night import ThresholdNight

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
    return _of_night(made) if isinstance(made, ThresholdNight) else _of_statement(made)


def leak_seen(made: Published) -> str:
    """Return which leak such an audit would probably have refuted, as a sentence."""
    if made.epsilon_detectable is None:
        return "an audit of this size would probably have refuted no leak."
    return (
        "an audit of this size would probably have refuted a leak of every label of at least "
        f"{up(made.epsilon_detectable)}."
    )


def _of_night(made: ThresholdNight) -> str:
    declared = guarantee(made.epsilon_declared, made.delta_declared)
    place = f"night {made.test_night} of at most {made.test_nights}"
    if made.verdict is PublicVerdict.VACUOUS:
        return f"The declared {declared} says nothing of so many records, whatever was audited."
    if not made.alarm:
        last = " The test is over: the next night begins a new one." if made.ends_test else ""
        return (
            f"The test over nights has not refuted a declaration so far ({place}; tonight's is "
            f"{declared}). The answer holds no figure, and it proves no guarantee: a leak that "
            f"stays below the noisy threshold every night is never found. Tonight {leak_seen(made)}"
            f"{last}"
        )
    over = "The test is over: the next night begins a new one, which is charged anew."
    assumed = up(made.premises_pvalue or 0.0, decimals=4)
    if made.verdict is PublicVerdict.DOUBTFUL:
        return (
            f"The test over nights has an alarm ({place}), but what it assumes is doubtful (p = "
            f"{assumed}), so nothing is concluded: labels of training and holdout records may "
            f"differ, or an earlier model may have seen the holdout. {over}"
        )
    return (
        f"The declared {declared} is refuted by the test over nights ({place}). The chance that "
        f"the whole test refutes true declarations is at most {exact(made.significance)}. People "
        f"who may read the labels find figures in the exact record. {over}"
    )


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
    if not made.seeing:
        return (
            f"The declared {declared} is not refuted, and a false declaration would probably have "
            f"looked the same: {leak_seen(made)} Nothing is concluded.{revised}"
        )
    return (
        f"The declared {declared} is not refuted. Such an audit could have refuted up to "
        f"{down(made.epsilon_ceiling)}. That is no proof that the guarantee is kept."
        f"{revised}"
    )
