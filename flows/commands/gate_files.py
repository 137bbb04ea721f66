"""The file mode of `privaudit gate`: infers columns, audits, decides, and promotes a version."""

import dataclasses
import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import ValidationError

from flows.commands.options import feature_columns
from flows.next_steps import Card, Role, Step, card_of
from flows.policy import acceptance
from flows.run.night_plan import Job, Planned, choose_executor
from flows.settings import PolicySettings, RaySettings
from privcore.attacks.fidelity import predictions_miss_labels
from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.rounding import exact
from workers.audit.file_labels import FileLabels, read_given
from workers.audit.run import run_audit
from workers.lake.layout import Lake
from workers.lake.manifest import MAX_EPSILON, Privacy
from workers.lake.mlflow_registry import Version, check_version, promote
from workers.lake.places import check_uri, local_path
from workers.plan import Plan
from workers.sources.checkpoints.in_place import find_rows, in_place_files
from workers.sources.checkpoints.label_tables import LabelTable
from workers.sources.proposal import propose
from workers.sources.scores.score_tables import DeclaredPrivacy
from workers.sources.tables.table_files import look
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow, Status

ONE_DAY = dt.date(1970, 1, 2)
"""The day of the table. It is always the same, because chance follows from the day: a caller who
asks again on another day gets the same answer."""
_MODEL = "model"


def _without_days(reason: str) -> str:
    """Return a sentence that does not name the days which stand in for those that no one named."""
    eve = ONE_DAY - dt.timedelta(days=1)
    return reason.replace(str(ONE_DAY), "this table").replace(str(eve), "an earlier day")


_SHOW_CONDITIONS = Step(
    Role.ENGINEER,
    "Check what the verdict assumes, which its sentence names; then ask what training changed.",
)


_KEEP_FILE = Step(
    Role.OWNER,
    "Keep the file and give answers only, or train on labels that a mechanism has changed.",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether a model may be released, and its reason.

    Attributes:
        verdict: not_refuted is the only one with which it may.
        card: of the audit.
        why: in sentences.
    """

    verdict: Verdict
    card: Card
    why: str

    @property
    def said(self) -> str:
        """The decision in a few words."""
        accepted = self.verdict is Verdict.NOT_REFUTED and self.card.code is not None
        return f"{self.verdict}: {self.card.code}, accepted" if accepted else self.card.said


def decision_of(
    record: AuditRecord, accepted: Collection[ReasonCode] = (), policy: PolicySettings | None = None
) -> Decision:
    """Return whether a model may be released by one audit.

    An audit whose target's predictions do not follow the label, which may be another column, is
    inconclusive, and so is one that policy refuses.

    Args:
        record: of the audit, which is in no warehouse.
        accepted: reasons of an inconclusive audit that are taken for not_refuted.
        policy: of the settings; None refuses nothing.
    """
    card = card_of(record.audit)
    if card.code is ReasonCode.THIS_NIGHT:  # there is no record that could be verified
        card = dataclasses.replace(card, step=_SHOW_CONDITIONS)
    why = " ".join(filter(None, (record.audit.reason, card.allows, card.stands_on)))
    if card.verdict is Verdict.NOT_REFUTED and (other := _other_label(record)):
        card = _another(record.audit, ReasonCode.ANSWERS_DOUBTFUL)
        why = f"{other} {card.figures}"
    taken = card.verdict is Verdict.INCONCLUSIVE and card.code in set(accepted)
    verdict = Verdict.NOT_REFUTED if taken else card.verdict
    if verdict is Verdict.NOT_REFUTED and policy and ReasonCode.OVER_POLICY not in set(accepted):
        ruled = acceptance(policy, record.audit, verdict, record.audit.recorded_at.date())
        if not ruled.accepted:
            refused = _another(record.audit, ReasonCode.OVER_POLICY)
            return Decision(Verdict.INCONCLUSIVE, refused, f"{ruled.why} {why}")
    return Decision(verdict, card, why)


def with_file(decision: Decision, row: AuditRow, found: FileLabels) -> Decision:
    """Return a decision on a file that is handed over: of the model's answers, and of its bytes.

    A file whose leaves hold the sums of the table's own labels, by more than randomized response
    at the limit would, is `violated`, whatever the answers say. Too few changed labels refute
    nothing here, since a mechanism that changes classes unlike may keep the limit, and clear
    nothing. One that cannot be read is as its answers are.
    """
    why = f"{decision.why} With the file itself: {found.sentence}"
    read, limit = found.response, row.epsilon_declared
    if read is None or limit is None or not read.epsilon_low > limit:
        return dataclasses.replace(decision, why=why)
    if found.are_the_tables:
        code = ReasonCode.MECHANISM_NOT_APPLIED
        why = (
            f"Whoever gets the file reads the table's labels, beyond what epsilon {exact(limit)} "
            f"allows. {found.sentence} If a mechanism made them, that says nothing of the secret "
            "ones."
        )
    elif decision.verdict is Verdict.NOT_REFUTED:
        code = ReasonCode.ANSWERS_DOUBTFUL
    else:
        return dataclasses.replace(decision, why=why)
    return Decision(code.verdict, dataclasses.replace(_another(row, code), step=_KEEP_FILE), why)


def _another(row: AuditRow, code: ReasonCode) -> Card:
    """Return the card of an audit that ends with another reason than its own."""
    return card_of(row.model_copy(update={"verdict": code.verdict, "reason_code": code}))


def _other_label(record: AuditRecord) -> str:
    """Return that the target's predictions do not follow the label, or ""."""
    tenths = [row for row in record.reliability if row.role == "target"]
    misses = predictions_miss_labels(
        [row.records for row in tenths],
        [row.predicted for row in tenths],
        [row.observed for row in tenths],
    )
    if not misses:
        return ""
    return (
        "The target's predictions do not follow this label on the holdout: name the column that "
        "the model was trained on."
    )


_FLAGS = {"label": "--label", "holdout": "--split or --holdout"}


@dataclass(frozen=True, slots=True)
class FileGate:
    """Request of a caller: files, what the columns mean, and what the bound is held against.

    Attributes:
        target: path or URI of the model file that is to be released.
        proxy: the same of an earlier model.
        table: the same of the rows.
        label: column of the label; None, as of the other columns, where the user named none.
        split: column of the words train and holdout.
        holdout: rule for holdout rows.
        unit: column that says whose record each is; None where rows are audited.
        features: NAME=COLUMN of each feature that has another name in the model.
        max_epsilon: the house's limit; None where there is none.
        declared: the owner's epsilon; None where the house's limit stands in.
        delta: of the declaration, or of the limit that stands in.
        accepted: reasons of an inconclusive audit that are taken for not_refuted.
        policy: of the settings; None refuses nothing.
        hand_over_file: whether the file itself goes to others, and is read for labels.
    """

    target: str
    proxy: str
    table: str
    label: str | None = None
    split: str | None = None
    holdout: str | None = None
    unit: str | None = None
    features: tuple[str, ...] = ()
    max_epsilon: float | None = None
    declared: float | None = None
    delta: float = 0.0
    accepted: frozenset[ReasonCode] = frozenset()
    policy: PolicySettings | None = None
    hand_over_file: bool = False

    def decide(self) -> tuple[AuditRow, Decision]:
        """Audit the target by the nightly audit's own path, and return the row and the decision.

        Raises:
            TerminalError: a file is missing, or of no known format.
            TransientError: storage or a worker failed in a way that may go away.
        """
        labels, (privacy, plan) = self._labels(), self._limit()
        given = in_place_files(self.target, self.proxy, labels, day=ONE_DAY, privacy=privacy)
        size = sum(file.size for file in find_rows(labels, _MODEL, ONE_DAY).files)
        planned = Planned(Job(_MODEL, ONE_DAY), external_inputs=given, label_bytes=size)
        with choose_executor([planned], RaySettings()) as executor:
            record = run_audit(
                Lake("."), _MODEL, ONE_DAY, plan=plan, executor=executor, external_inputs=given
            )
            row = record.audit.model_copy(update={"reason": _without_days(record.audit.reason)})
            record = record.model_copy(update={"audit": row})
            decision = decision_of(record, self.accepted, self.policy)
            if self.hand_over_file and row.status is Status.EVALUATED:
                found = read_given(given, _MODEL, ONE_DAY, plan=plan, executor=executor)
                decision = with_file(decision, row, found)
        return row, decision

    def _limit(self) -> tuple[Privacy, Plan]:
        """Return what the bound is held against, and the plan of the audit.

        The house's limit stands in as a declaration, so that the rules against a delta that says
        nothing hold for it, too. The plan's seed and significance are no one's choice.
        """
        epsilon, by = self.declared, "--declared"
        if epsilon is None:
            epsilon, by = self.max_epsilon, MAX_EPSILON
        unit = self.unit or "record"
        declared = {"epsilon": epsilon, "delta": self.delta, "unit": unit, "declared_by": by}
        try:
            privacy = DeclaredPrivacy.model_validate(declared).as_privacy()
            return privacy, Plan(policy_epsilon=self.max_epsilon, privacy_unit=self.unit)
        except ValidationError as error:
            rule = error.errors()[0]["msg"].lower()
            raise typer.BadParameter(f"--max-epsilon, --declared or --delta: {rule}.") from None

    def _labels(self) -> LabelTable:
        """Return the table, and what its columns mean, as `attach` infers it."""
        local = local_path(self.table)
        place = str(local) if local is not None else check_uri(self.table)
        given: dict[str, Any] = {"label": self.label, "split": self.split, "holdout": self.holdout}
        proposal = propose(look(place), given, checkpoints=self.target, one_day=True)
        if proposal.missing:
            flags = ", ".join(_FLAGS[key] for key in proposal.missing)
            sentences = "; ".join(proposal.missing.values()).rstrip(".")
            raise typer.BadParameter(f"Give {flags} ({sentences}).")
        content = {"day": None, "columns": feature_columns(self.features), "unit": self.unit}
        return LabelTable.model_validate({"table": place, **content, **proposal.settings})


def promoted(version: Version, row: AuditRow) -> str:
    """Tag the version that holds the audited bytes, move its alias, and return what was done.

    Raises:
        TerminalError: the version is not the target's, or the registry refuses it.
    """
    if row.target_sha256 is None or row.epsilon_declared is None:
        raise TerminalError("The audit names no file or limit, so no version is promoted.")
    check_version(version, row.target_sha256)
    promote(
        version,
        {
            "privaudit.gate": str(Verdict.NOT_REFUTED),
            "privaudit.epsilon_declared": repr(row.epsilon_declared),
            "privaudit.delta_declared": repr(row.delta_declared or 0.0),
            "privaudit.label": row.label_column or "",
            "privaudit.target_sha256": row.target_sha256,
            "privaudit.method_version": str(METHOD_VERSION),
        },
    )
    moved = f", and {version.alias} names it now" if version.alias else ""
    return f"Version {version.number} of {version.name} in MLflow is tagged{moved}."
