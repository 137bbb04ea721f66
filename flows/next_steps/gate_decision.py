"""The decision of `privaudit gate` about one audit: whether a model may be released."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from flows.next_steps.card import Card, card_of
from flows.next_steps.steps import Role, Step
from privcore.attacks.fidelity import predictions_miss_labels
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from workers.warehouse.schema import AuditRecord

CODES = {
    Verdict.NOT_REFUTED: 0,
    Verdict.VIOLATED: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.UNDECLARED: 2,
    Verdict.FAILED: 3,
}
"""Exit codes of a command that asks whether a model may be released: 0 alone says that it may."""
_SHOW_CONDITIONS = Step(
    Role.ENGINEER,
    "Check what the verdict assumes, which its sentence names; then ask what training changed.",
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


def decision_of(record: AuditRecord, accepted: Collection[ReasonCode] = ()) -> Decision:
    """Return whether a model may be released by one audit.

    An audit whose target's predictions do not follow the label, which may be another column, is
    inconclusive.

    Args:
        record: of the audit, which is in no warehouse.
        accepted: reasons of an inconclusive audit that are taken for not_refuted.
    """
    card = card_of(record.audit)
    if card.code is ReasonCode.THIS_NIGHT:  # there is no record that could be verified
        card = dataclasses.replace(card, step=_SHOW_CONDITIONS)
    why = f"{record.audit.reason} {card.allows}"
    if card.verdict is Verdict.NOT_REFUTED and (other := _other_label(record)):
        code = ReasonCode.ANSWERS_DOUBTFUL
        doubted = record.audit.model_copy(
            update={"verdict": Verdict.INCONCLUSIVE, "reason_code": code}
        )
        card = card_of(doubted)
        why = f"{other} {card.figures}"
    taken = card.verdict is Verdict.INCONCLUSIVE and card.code in set(accepted)
    return Decision(Verdict.NOT_REFUTED if taken else card.verdict, card, why)


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
