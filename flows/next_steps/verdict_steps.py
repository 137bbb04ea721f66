"""Next steps after a conclusion that is no failure of the audit."""

from flows.next_steps.steps import Role, Step, look, pipeline, setting, training

_OWNER, _ENGINEER, _AUDITOR = Role.OWNER, Role.ENGINEER, Role.AUDITOR

VERIFY = look(_AUDITOR, "Repeat the audit from its inputs with privaudit verify.")
REFUTED: tuple[Step, ...] = (
    VERIFY,
    look(
        _OWNER,
        "Find the first night of the leak, and ask the people who train the model what they "
        "changed before it (docs/how-to/violated.md).",
    ),
    look(
        _ENGINEER,
        "Check what the verdict assumes: the holdout was drawn at random after any sampling, no "
        "earlier model saw it, training read no other label of these rows (other_labels), and the "
        "label column holds what the declaration is about.",
    ),
    setting(_OWNER, "Declare an epsilon above the proven bound, if policy allows that much."),
    training(_OWNER, "Train with a mechanism whose accounted epsilon is the declared one."),
)
NOT_REFUTED: tuple[Step, ...] = (
    look(_OWNER, "Serve the model, and keep the nightly audit: evidence adds up over nights."),
    look(_AUDITOR, "Ask how the declared epsilon was accounted for. This audit does not prove it."),
)
TOO_SMALL: tuple[Step, ...] = (
    setting(_ENGINEER, "Let the labels of several days play together (plan.days)."),
)
DOUBTFUL: tuple[Step, ...] = (
    look(
        _ENGINEER,
        "Read the doubts in the verdict's sentence, and compare what the audit was shown with what "
        "training read.",
    ),
    pipeline(_OWNER, "Let the job that trains write the rows that are audited."),
)
HOLDOUT_SUSPECT: tuple[Step, ...] = (
    look(_ENGINEER, "See whether training leaves out exactly the rows that are called holdout."),
    pipeline(_OWNER, "Draw a new holdout every day, and keep it out of every later training run."),
)
BETS_HELD_BACK: tuple[Step, ...] = (
    look(_ENGINEER, "See whether the earlier model was trained on the holdout's labels."),
    pipeline(_OWNER, "Draw a new holdout every day, at random from the rows trained on."),
)
PROXY_UNFAITHFUL: tuple[Step, ...] = (
    look(_ENGINEER, "See how old the proxy is. A proxy of the day before is more accurate."),
)
UNDECLARED: tuple[Step, ...] = (
    look(_OWNER, "Read what an epsilon promises with privaudit explain --epsilon."),
    setting(_OWNER, "Declare an epsilon in the manifest, for the unit that was audited."),
    setting(_ENGINEER, "Set plan.policy_epsilon to compare all undeclared models with one limit."),
)
PRIVATISED: tuple[Step, ...] = (
    look(
        _AUDITOR,
        "Ask for evidence that the labels were privatised before training. The audit takes that "
        "from the manifest or the settings.",
    ),
    setting(_ENGINEER, "Audit the secret labels instead, if they may be read (label.state)."),
)
VACUOUS: tuple[Step, ...] = (
    setting(_OWNER, "Declare a delta below one over the training records, and an epsilon that "
            "policy allows and that would change some labels."),
    training(_OWNER, "Train with more noise if the mechanism does not account for that."),
)  # fmt: skip
NOT_A_GUARANTEE: tuple[Step, ...] = (
    look(_AUDITOR, "Read why the definition protects no record (docs/reference/numbers.md)."),
    setting(_OWNER, "Declare label_dp or dp instead, with an epsilon that training keeps."),
    training(_OWNER, "Train with a mechanism of differential privacy."),
)
