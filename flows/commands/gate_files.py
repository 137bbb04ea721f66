"""The file mode of `privaudit gate`: infers columns, audits, decides, and promotes a version."""

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import ValidationError

from flows.commands.options import feature_columns, refuse_missing
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
from workers.lake.manifest import MAX_EPSILON
from workers.lake.mlflow_registry import Version, check_version, promote
from workers.lake.places import check_uri, local_path
from workers.plan import Plan
from workers.sources.checkpoints.in_place import find_rows, in_place_files
from workers.sources.checkpoints.in_place_settings import LabelTable
from workers.sources.proposal import propose
from workers.sources.scores.score_tables import DeclaredPrivacy
from workers.sources.tables.table_files import look
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow, Status

ONE_DAY = dt.date(1970, 1, 2)
"""The day of the table. It is always the same, because chance follows from the day: a caller who
asks again on another day gets the same answer."""
_MODEL = "model"
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


def decide(
    target: str,
    proxy: str,
    table: str,
    *,
    features: Iterable[str] = (),
    max_epsilon: float | None = None,
    declared: float | None = None,
    delta: float = 0.0,
    accepted: Collection[ReasonCode] = (),
    policy: PolicySettings | None = None,
    hand_over_file: bool = False,
    **columns: str | None,
) -> tuple[AuditRow, Decision]:
    """Audit a model file by the nightly audit's own path, and decide whether it may be released.

    Args:
        target: path or URI of the model file that is to be released.
        proxy: the same of an earlier model.
        table: the same of the rows.
        features: NAME=COLUMN of each feature that has another name in the model.
        max_epsilon: the house's limit; None where there is none.
        declared: the owner's epsilon; None where the house's limit stands in.
        delta: of the declaration, or of the limit that stands in.
        accepted: reasons of an inconclusive audit that are taken for not_refuted.
        policy: of the settings; None refuses nothing.
        hand_over_file: whether the file itself goes to others, and is read for labels.
        columns: label, split, holdout and unit, as `attach` takes them.

    Raises:
        TerminalError: a file is missing, or of no known format.
        TransientError: storage or a worker failed in a way that may go away.
    """
    unit = columns.pop("unit", None)
    labels = _labels(table, target, columns, feature_columns(features), unit)
    # The house's limit stands in as a declaration: the rules against an empty delta hold for it.
    epsilon, by = (max_epsilon, MAX_EPSILON) if declared is None else (declared, "--declared")
    said = {"epsilon": epsilon, "delta": delta, "unit": unit or "record", "declared_by": by}
    try:
        privacy = DeclaredPrivacy.model_validate(said).as_privacy()
        # The plan's seed and significance are no one's choice.
        plan = Plan(policy_epsilon=max_epsilon, privacy_unit=unit)
    except ValidationError as error:
        rule = error.errors()[0]["msg"].lower()
        raise typer.BadParameter(f"--max-epsilon, --declared or --delta: {rule}.") from None
    given = in_place_files(target, proxy, labels, day=ONE_DAY, privacy=privacy)
    size = sum(file.size for file in find_rows(labels, _MODEL, ONE_DAY).files)
    planned = Planned(Job(_MODEL, ONE_DAY), external_inputs=given, label_bytes=size)
    with choose_executor([planned], RaySettings()) as executor:
        record = run_audit(
            Lake("."), _MODEL, ONE_DAY, plan=plan, executor=executor, external_inputs=given
        )
        decision = _decision(record, accepted, policy)
        row = record.audit
        if hand_over_file and row.status is Status.EVALUATED:
            found = read_given(given, _MODEL, ONE_DAY, plan=plan, executor=executor)
            decision = with_file(decision, row, found)
    reason, why = _without_days(row.reason), _without_days(decision.why)
    return row.model_copy(update={"reason": reason}), dataclasses.replace(decision, why=why)


def _labels(
    table: str,
    target: str,
    given: dict[str, str | None],
    features: dict[str, str],
    unit: str | None,
) -> LabelTable:
    """Return the table, and what its columns mean, as `attach` infers it."""
    local = local_path(table)
    place = check_uri(table) if local is None else str(local)
    proposal = propose(look(place), given, checkpoints=target, one_day=True)
    refuse_missing(proposal.missing)
    content: dict[str, Any] = {"table": place, "day": None, "columns": features, "unit": unit}
    return LabelTable.model_validate(content | dict(proposal.settings))


def _without_days(text: str) -> str:
    """Return sentences that do not name the days which stand in for those that no one named."""
    eve = ONE_DAY - dt.timedelta(days=1)
    return text.replace(str(ONE_DAY), "this table").replace(str(eve), "an earlier day")


def _decision(
    record: AuditRecord, accepted: Collection[ReasonCode], policy: PolicySettings | None
) -> Decision:
    """Return whether a model may be released by one audit, which is in no warehouse.

    An audit whose target's predictions do not follow the label, which may be another column, is
    inconclusive, and so is one that policy refuses.
    """
    row, card = record.audit, card_of(record.audit)
    if card.code is ReasonCode.THIS_NIGHT:  # there is no record that could be verified
        card = dataclasses.replace(card, step=_SHOW_CONDITIONS)
    why = " ".join(filter(None, (row.reason, card.allows, card.stands_on)))
    if card.verdict is Verdict.NOT_REFUTED and _misses_labels(record):
        card = _another(row, ReasonCode.ANSWERS_DOUBTFUL)
        why = (
            "The target's predictions do not follow this label on the holdout: name the column "
            f"that the model was trained on. {card.figures}"
        )
    taken = card.verdict is Verdict.INCONCLUSIVE and card.code in accepted
    verdict = Verdict.NOT_REFUTED if taken else card.verdict
    if verdict is Verdict.NOT_REFUTED and policy and ReasonCode.OVER_POLICY not in accepted:
        ruled = acceptance(policy, row, verdict, row.recorded_at.date())
        if not ruled.accepted:
            refused = _another(row, ReasonCode.OVER_POLICY)
            return Decision(Verdict.INCONCLUSIVE, refused, f"{ruled.why} {why}")
    return Decision(verdict, card, why)


def _misses_labels(record: AuditRecord) -> bool:
    tenths = [row for row in record.reliability if row.role == "target"]
    return predictions_miss_labels(
        [row.records for row in tenths],
        [row.predicted for row in tenths],
        [row.observed for row in tenths],
    )


def _another(row: AuditRow, code: ReasonCode) -> Card:
    """Return the card of an audit that ends with another reason than its own."""
    return card_of(row.model_copy(update={"verdict": code.verdict, "reason_code": code}))


def with_file(decision: Decision, row: AuditRow, found: FileLabels) -> Decision:
    """Return a decision on a file that is handed over: of the model's answers, and of its bytes.

    A file whose leaves hold the sums of the table's own labels, by more than randomized response
    at the limit would, is `violated`, whatever the answers say. Too few changed labels refute
    nothing here, since a mechanism that changes classes unlike may keep the limit, and clear
    nothing. One that cannot be read is as its answers are.
    """
    why = f"{decision.why} With the file itself: {found.sentence}"
    read, limit = found.response, row.epsilon_declared
    refuted = read is not None and limit is not None and read.epsilon_low > limit
    if refuted and found.are_the_tables:
        code = ReasonCode.MECHANISM_NOT_APPLIED
        why = (
            f"Whoever gets the file reads the table's labels, beyond what epsilon {exact(limit)} "
            f"allows. {found.sentence} If a mechanism made them, that says nothing of the secret "
            "ones."
        )
    elif refuted and decision.verdict is Verdict.NOT_REFUTED:
        code = ReasonCode.ANSWERS_DOUBTFUL
    else:
        return dataclasses.replace(decision, why=why)
    return Decision(code.verdict, dataclasses.replace(_another(row, code), step=_KEEP_FILE), why)


def promoted(version: Version, row: AuditRow) -> str:
    """Tag the version that holds the audited bytes, move its alias, and return what was done.

    Raises:
        TerminalError: the version is not the target's, or the registry refuses it.
    """
    if row.target_sha256 is None or row.epsilon_declared is None:
        raise TerminalError("The audit names no file or limit, so no version is promoted.")
    check_version(version, row.target_sha256)
    tags = {
        "gate": str(Verdict.NOT_REFUTED),
        "epsilon_declared": repr(row.epsilon_declared),
        "delta_declared": repr(row.delta_declared or 0.0),
        "label": row.label_column or "",
        "target_sha256": row.target_sha256,
        "method_version": str(METHOD_VERSION),
    }
    promote(version, {f"privaudit.{name}": value for name, value in tags.items()})
    moved = f", and {version.alias} names it now" if version.alias else ""
    return f"Version {version.number} of {version.name} in MLflow is tagged{moved}."
