"""Steps that a reader can try next, by verdict and by the fixed word of a reason."""

from dataclasses import dataclass
from enum import StrEnum

from workers.exceptions import Reason


class Role(StrEnum):
    """Role that does a step."""

    OWNER = "model owner"
    ENGINEER = "privacy engineer"
    AUDITOR = "auditor"


class Effort(StrEnum):
    """Effort that a step costs, the cheapest first."""

    READING = "minutes"
    SETTING = "a setting"
    PIPELINE = "a change of the pipeline"
    TRAINING = "a new training run"


_ORDER = list(Effort)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to try."""

    cost: Effort
    role: Role
    text: str


def in_order(steps: list[Step]) -> tuple[Step, ...]:
    """Return the steps, the cheapest first; steps of one cost stay as they are."""
    return tuple(sorted(steps, key=lambda step: _ORDER.index(step.cost)))


def look(role: Role, text: str) -> Step:
    """Return a step that costs minutes."""
    return Step(Effort.READING, role, text)


def setting(role: Role, text: str) -> Step:
    """Return a step that changes a setting."""
    return Step(Effort.SETTING, role, text)


def pipeline(role: Role, text: str) -> Step:
    """Return a step that changes what data the audit gets."""
    return Step(Effort.PIPELINE, role, text)


def training(role: Role, text: str) -> Step:
    """Return a step that trains the model again."""
    return Step(Effort.TRAINING, role, text)


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

_AGAIN = "Then run the audit again (privaudit run)."
_STEPS: dict[Reason, list[Step]] = {
    Reason.MISSING_TARGET: [
        look(_OWNER, "See whether the day's training run ended, and where it stored its model."),
        setting(_ENGINEER, "Correct the model's path in the settings, and try privaudit check."),
    ],
    Reason.MISSING_PROXY: [
        look(_OWNER, "Find an earlier checkpoint of the model, and store it under its day."),
        setting(_ENGINEER, "Raise plan.proxy_within_days if that checkpoint is older."),
    ],
    Reason.MISSING_LABELS: [
        look(_ENGINEER, "See whether the day's labels were written, _SUCCESS last."),
        setting(_ENGINEER, "Set a later deadline if the labels come later than it."),
    ],
    Reason.DIGEST_MISMATCH: [
        look(_AUDITOR, "Ask who changed the model file after its manifest was written."),
        pipeline(_OWNER, "Store the model again with a manifest of its own digest."),
    ],
    Reason.MANIFEST_INVALID: [
        look(_OWNER, "Correct the field that the reason names (privaudit manifest writes one)."),
    ],
    Reason.CHECKPOINT_INVALID: [
        look(_OWNER, "See whether the model file loads in its framework. Then store it again."),
        pipeline(_OWNER, "Store a format that privaudit reads, or supply scores instead."),
    ],
    Reason.LABEL_INVALID: [
        look(_ENGINEER, "Compare the label column's values with the classes that the model has."),
        pipeline(_ENGINEER, "Correct the job that writes the label column."),
    ],
    Reason.FEATURE_INVALID: [
        look(_ENGINEER, "Compare the column that the reason names with the model's features."),
        pipeline(_ENGINEER, "Correct the job that writes the column."),
    ],
    Reason.LABELS_UNREADABLE: [
        look(_ENGINEER, "Open the file that the reason names. If it is damaged, write it again."),
    ],
    Reason.PROBABILITIES_INVALID: [
        look(_OWNER, "Score the record that the reason names: its probabilities are not valid."),
        pipeline(_OWNER, "Correct the scoring job: the probabilities of a row add up to 1."),
    ],
    Reason.TOO_FEW_RECORDS: [
        setting(_ENGINEER, "Let the labels of several days play together (plan.days)."),
        pipeline(_OWNER, "Hold out more rows at random, before training."),
    ],
    Reason.NO_HOLDOUT: [
        setting(_ENGINEER, "Name the rows that training left out (holdout, or the column split)."),
        pipeline(_OWNER, "Hold out rows at random, before training."),
    ],
    Reason.PROXY_SAW_THE_DAY: [
        setting(_ENGINEER, "Name an earlier model as the proxy, from before the day's labels."),
        pipeline(_OWNER, "Keep each day's model file, so that the next audit has an earlier one."),
    ],
    Reason.TARGET_MISSED_THE_DAY: [
        look(_OWNER, "See on which days the model was trained, and audit one of those."),
        setting(_ENGINEER, "Correct trained_on in the manifest if it names the wrong days."),
    ],
    Reason.DECLARED_TOO_LITTLE: [
        look(_OWNER, "Account for the mechanism's parameters with privaudit explain --mechanism."),
        setting(_OWNER, "Declare at least what the mechanism accounts for."),
        training(_OWNER, "Train with more noise if the declared epsilon has to stay."),
    ],
    Reason.NAME_INVALID: [
        setting(_ENGINEER, "Rename the model or the dataset as the reason says."),
    ],
    Reason.DEADLINE: [
        look(_ENGINEER, "Audit the day afterwards (privaudit backfill)."),
        setting(_ENGINEER, "Set a later deadline, or give the audit more workers."),
    ],
    Reason.UNIT_INVALID: [
        look(_ENGINEER, "Open the column of the privacy unit: the reason says what is wrong."),
        pipeline(_ENGINEER, "Store the unit as text or as an integer, and hold out whole units."),
    ],
    Reason.PATH_OUTSIDE: [
        setting(_ENGINEER, "Name a path inside the configured place. No other place is read."),
    ],
    Reason.TOO_LARGE: [
        look(_ENGINEER, "Compare the file's size with the limit that the reason names."),
        pipeline(_ENGINEER, "Write smaller files or row groups."),
    ],
    Reason.ACCOUNTING_LIMIT: [
        look(_OWNER, "Compare the declared parameters with those that training really used."),
        setting(_OWNER, "Declare the epsilon without a mechanism if the parameters are right."),
    ],
    Reason.PATH_UNREADABLE: [
        look(_ENGINEER, "Try the path with privaudit check, which names what is at fault."),
    ],
    Reason.LABELS_CHANGED: [
        look(_ENGINEER, "Find the job that wrote the labels during the audit. " + _AGAIN),
        pipeline(_ENGINEER, "Write a day's labels once, and _SUCCESS last."),
    ],
    Reason.TABLE_UNSUPPORTED: [
        look(_ENGINEER, "Read which feature of the table privaudit cannot read."),
        pipeline(_ENGINEER, "Write the table without it, or a copy in Parquet."),
    ],
    Reason.SCORES_MISSING: [
        look(_OWNER, "See whether the scoring job of target and proxy ended for this day."),
        setting(_ENGINEER, "Correct the columns and tables that the settings name for the scores."),
    ],
    Reason.RECORD_REPEATED: [
        look(_ENGINEER, "Find the record that the reason names in the table more than once."),
        pipeline(_ENGINEER, "Write one row for each record, or name a column that is unique."),
    ],
    Reason.RECORD_UNJOINED: [
        look(_ENGINEER, "Compare the record's name in both tables: they do not join."),
        pipeline(_ENGINEER, "Write the same record names in both tables, of the same type."),
    ],
    Reason.PROXY_IS_TARGET: [
        setting(_ENGINEER, "Name an earlier model as the proxy: this one is the target itself."),
    ],
    Reason.DECOYS_CHANGED: [
        look(_AUDITOR, "Ask who changed the decoys' labels after they were committed to."),
        training(_OWNER, "Draw decoys again (privaudit decoys), and train on them as written."),
    ],
    Reason.LABEL_STATE: [
        look(_OWNER, "Say what the label column holds: the secret labels, or privatised ones."),
        setting(_ENGINEER, "Set label.state in the manifest, or scores.label_state."),
    ],
    Reason.ARMS_DIFFER: [
        look(_ENGINEER, "See how the holdout was chosen. Its labels differ from training's."),
        pipeline(_OWNER, "Draw the holdout at random, after any sampling of rows."),
    ],
    Reason.HELD_OUT_TOGETHER: [
        setting(_ENGINEER, "Set plan.privacy_unit to the column whose values were held out whole."),
        pipeline(_OWNER, "Hold out single rows at random if single rows are to be audited."),
    ],
}
ERROR_STEPS = (
    look(_ENGINEER, "Run the audit again with privaudit --debug run. The log has the traceback."),
    look(_AUDITOR, "Do not read this night as a zero: nothing was measured."),
)
"""Steps to try after an unexpected error."""


def steps_for(code: str | None) -> tuple[Step, ...]:
    """Return what to try next, the cheapest first; for no known word, what holds for an error."""
    known = next((reason for reason in Reason if reason == code), None)
    return ERROR_STEPS if known is None else in_order(_STEPS[known])
