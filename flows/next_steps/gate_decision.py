"""The decision of `privaudit gate` about one audit: whether a model may be released."""

import dataclasses
from dataclasses import dataclass

from flows.next_steps.card import DOUBTFUL_ARMS, Card, Conclusion, card_of
from flows.next_steps.steps import VERIFY
from privcore.attacks.fidelity import predictions_miss_labels
from privcore.lower_bounds import MISLED
from workers.remark import doubts_among
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.serving_decision import Gate

_ANSWERS = {
    Conclusion.NOT_REFUTED: Gate.PASS,
    Conclusion.REFUTED: Gate.FAIL,
    Conclusion.NO_PROMISE: Gate.FAIL,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether a model may be released, and its reason."""

    answer: Gate
    why: str
    card: Card


def decision_of(record: AuditRecord) -> Decision:
    """Return whether a model may be released by one audit.

    It passes only where nothing refutes the declaration and a false one would probably have been
    refuted (`sensitive`). A doubtful audit is inconclusive. So is one whose arms, or what the
    target does on the holdout, keep bets against the proxy from winning: that is what a proxy looks
    like that was trained on the holdout, which an owner can arrange. One of 100 honest audits looks
    so by chance. And so is one whose target's predictions do not follow the label, which may be
    another column.
    """
    row = record.audit
    card = card_of(row)
    # There is no record that could be verified.
    steps = tuple(step for step in card.steps if step is not VERIFY)
    card = dataclasses.replace(card, steps=steps)
    answer = _ANSWERS.get(card.conclusion, Gate.INCONCLUSIVE)
    why = row.reason if row.epsilon_lower is None else f"{card.figures} {card.allows}"
    if answer is Gate.FAIL and card.conclusion is Conclusion.NO_PROMISE:
        why = f"{row.reason} {card.allows}"
    doubt = _doubt(row) or _other_label(record)
    if (answer is Gate.PASS or card.conclusion is Conclusion.DOUBTFUL) and doubt:
        return Decision(Gate.INCONCLUSIVE, f"{doubt} {card.figures}", card)
    return Decision(answer, why, card)


def _doubt(row: AuditRow) -> str:
    """Return why an audit that refutes nothing acquits no model, or ""."""
    if doubts := doubts_among(row.remarks):
        return " ".join(kind.meaning for kind in doubts)
    if row.arms_pvalue is not None and row.arms_pvalue <= DOUBTFUL_ARMS:
        return (
            "A random split would rarely divide the records between training and holdout like this "
            f"(p = {row.arms_pvalue:.2g}), so bets against the proxy could not win."
        )
    if row.misled_pvalue is not None and row.misled_pvalue <= MISLED:
        return (
            "On the holdout the target's predictions move away from the labels, as if the proxy "
            "had been trained on the holdout, so bets against the proxy could not win."
        )
    return ""


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
