"""The next-step card of a public statement: of the statement alone, and of no record."""

from flows.next_steps import verdict_steps
from flows.next_steps.card import Card, Conclusion
from flows.next_steps.steps import Role, Step, in_order, look, pipeline, setting
from privcore.rounding import down, guarantee, odds_at_most
from workers.publication.erased import Entry, ErasedStatement, Published
from workers.publication.statement_row import PublicVerdict

_ASK = look(
    Role.AUDITOR,
    "Ask for the opening of the statement, and recompute it from the exact record (privaudit "
    "verify --opening).",
)
_STEPS: dict[PublicVerdict, tuple[Step, ...]] = {
    PublicVerdict.VIOLATED: (_ASK, *verdict_steps.REFUTED[1:]),
    PublicVerdict.DOUBTFUL: (
        look(Role.ENGINEER, "Read the reason in the exact record (privaudit show)."),
        *verdict_steps.BETS_HELD_BACK,
    ),
    PublicVerdict.VACUOUS: verdict_steps.VACUOUS,
    PublicVerdict.NOT_REFUTED: (
        look(Role.AUDITOR, "Do not read this as a proof: noise and few records can hide a leak."),
        _ASK,
    ),
}
NO_STATEMENT = (
    "no statement. Next (privacy engineer, minutes): Read the reason in the exact record "
    "(privaudit show)."
)
"""The line of a day without a statement. Whether there is one depends on no label."""
_MORE = (
    pipeline(Role.OWNER, "Hold out more rows at random, before training."),
    setting(Role.ENGINEER, "Let the labels of several days play together (plan.days)."),
)
_ALLOWS = {
    Conclusion.REFUTED: "Do not release the model under this declaration.",
    Conclusion.NOT_REFUTED: "The statement is no reason against a release under this declaration. "
    "It does not prove that the declaration is kept.",
    Conclusion.INCONCLUSIVE: "The statement is no argument for a release.",
    Conclusion.NO_PROMISE: "Do not rely on this declaration: it protects no label.",
}

_ERASED = Card(
    conclusion=Conclusion.NO_FIGURE,
    figures="",
    allows="The statement was erased, so it allows nothing. This is no acquittal.",
    odds="",
    steps=(
        look(Role.AUDITOR, "Ask who erased the statement, and why; look at bundles made before."),
    ),
)


def statement_card(made: Entry, *, stands_violated: bool = False) -> Card:
    """Return the card of a statement. Whatever it says follows from published statements."""
    if isinstance(made, ErasedStatement):
        return _ERASED
    declared = guarantee(made.epsilon_declared, made.delta_declared)
    conclusion = _concluded(made)
    steps = list(_STEPS[made.verdict])
    if stands_violated:
        conclusion, steps = Conclusion.REFUTED, list(_STEPS[PublicVerdict.VIOLATED])
    elif made.verdict is PublicVerdict.NOT_REFUTED and conclusion is Conclusion.INCONCLUSIVE:
        steps = [*_MORE, *steps]
    return Card(
        conclusion=conclusion,
        figures=f"Declared {declared}. A statement of {made.records:,} training and "
        f"{made.control_records:,} holdout records refutes at most {down(made.epsilon_ceiling)}.",
        allows=_ALLOWS[conclusion],
        odds="As declared, seeing the model turns even odds for a label into at most "
        f"{odds_at_most(made.epsilon_declared)}.",
        steps=in_order(steps),
    )


def _concluded(made: Published) -> Conclusion:
    if made.verdict is PublicVerdict.VIOLATED:
        return Conclusion.REFUTED
    if made.verdict is PublicVerdict.VACUOUS:
        return Conclusion.NO_PROMISE
    return (
        Conclusion.NOT_REFUTED
        if made.verdict is PublicVerdict.NOT_REFUTED and made.seeing
        else Conclusion.INCONCLUSIVE
    )
