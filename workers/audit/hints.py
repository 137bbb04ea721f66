"""Sentences beside a verdict: causes of a violation that are no leak, and what was not tested."""

import math

import numpy as np
from scipy.special import expit

from privcore.attacks import Matched, OddsTally, Tallies, generator, match, unlike_arms
from privcore.attacks.arms import MOST_COUNTED
from privcore.attacks.student import MOST_CLASSES
from privcore.lower_bounds import Evidence, Secret
from workers.audit.declaration import names_holder
from workers.audit.label_state import declaration_location, label_column_warning
from workers.lake.manifest import OutputCorrection, Privacy
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.secrets import checkpoints_of, correction_of
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds

_NO_RESPONSE = 1e-3
"""Share of responses that are others than the label, below which a correction changes nothing."""


def hints_of(
    source: Source,
    tallies: Tallies,
    evidence: Evidence,
    holds: LabelColumnHolds | None,
    *,
    privacy: Privacy | None,
    plan: Plan,
) -> tuple[Remark, ...]:
    """Return remarks for a person who reads the verdict."""
    kinds = RemarkKind
    models = checkpoints_of(source)
    unserved = _unserved_rounds(0 if models is None else models.target.unserved_rounds)
    hints = remarked(kinds.SERVED_OTHERWISE, unserved)
    if plan.secret is not Secret.LABEL:
        return hints
    violated = privacy is not None and evidence.epsilon_lower > privacy.epsilon
    random = generator(plan.seed, source.model, str(source.day), "reversed")
    correction, unused = (
        correction_of(source),
        _classes_without_labels(len(source.label.classes), tallies),
    )
    hints += (
        *remarked(kinds.CLASSES_EXCHANGED, reversed_labels(tallies, random)),
        *remarked(kinds.ARMS_UNLIKE, unlike_arms(tallies)),
        *remarked(kinds.SERVED_OTHERWISE, _corrected(correction)),
        *remarked(kinds.POWER_LOST, unused),
    )
    changed = _changes(correction, len(source.label.classes))
    if not violated and not changed:
        hints += remarked(kinds.ANSWERS_WORSE_THAN_SHARES, worse_than_shares(tallies))
    if privacy is None:
        return hints
    asked, of_rows = "", ""
    if violated:
        facts = source.facts
        asked = label_column_warning(
            privacy.mechanism.name if privacy.mechanism else None,
            holds,
            said=declaration_location(facts["scores"], facts.get("source")),
            column=repr(source.label.column),
        )
    if plan.privacy_unit is None and names_holder(privacy.unit):
        of_rows = _by_row(privacy.unit, violated=violated, decoys=source.decoys is not None)
    return (
        *hints,
        *remarked(kinds.LABEL_COLUMN_ASKED, asked),
        *remarked(kinds.ROWS_OF_A_HOLDER, of_rows),
    )


def _corrected(correction: OutputCorrection | None) -> str:
    """Return that the audit saw corrected probabilities alone: a strong correction hides a leak."""
    if correction is None:
        return ""
    return (
        "The target's probabilities were audited after the output_correction of its manifest "
        f"(epsilon {correction.epsilon:g}, floor {correction.floor:g}). If anyone gets the "
        "probabilities from before it, they may give away more."
    )


def _changes(correction: OutputCorrection | None, classes: int) -> bool:
    """Return whether a correction changes answers, so that honest ones may look as hidden ones."""
    return correction is not None and (classes - 1) * math.exp(-correction.epsilon) > _NO_RESPONSE


def _unserved_rounds(rounds: int) -> str:
    """Return that the target's file holds rounds that were not audited: somebody may serve them."""
    if not rounds:
        return ""
    return (
        "The target's file says that it was stopped early, so its first rounds of boosting were "
        f"audited, up to the best one, as XGBClassifier serves it. It holds "
        f"{rounds:,} more, which Booster.predict serves: nothing is known "
        "of these. See that nobody serves them, or save the model without them."
    )


def _classes_without_labels(listed: int, tallies: Tallies) -> str:
    """Return that classes without labels cost the audit its student, or looks at the arms."""
    labels, control = tallies.labels, tallies.control_labels
    if labels is None or control is None:
        return ""
    counted = (labels + control).counts[..., 1].sum(axis=(0, 2))
    with_labels = np.count_nonzero(counted)
    if listed > MOST_COUNTED:
        return (
            f"{listed:,} classes are listed, of which the first {MOST_COUNTED:,} were compared "
            f"between the arms; {with_labels:,} of these have labels."
        )
    if listed <= MOST_CLASSES or with_labels > MOST_CLASSES:
        return ""
    return (
        f"{listed:,} classes are listed and {with_labels:,} have labels. With more than "
        f"{MOST_CLASSES} listed classes there is no student, and the bound may be smaller: list "
        "the classes that the model was trained on."
    )


def _by_row(unit: str, *, violated: bool, decoys: bool) -> str:
    """Return what a bound for single rows says of a declaration for a holder of several rows."""
    advice = f"To test all rows of one {unit!r}, set plan.privacy_unit to the column that names it."
    if not violated:
        return (
            f"The declaration is for one {unit!r}, and single rows were tested: all rows of one "
            f"{unit!r} together may lose more. {advice}"
        )
    if decoys:  # coins are independent, whatever the rows are
        return ""
    return (
        f"The declaration is for one {unit!r}, which implies the same for each of its rows. The "
        f"test of rows assumes that the labels of one {unit!r} are independent given the "
        f"features. {advice}"
    )


_REVERSED = 6.0
"""Standard errors; by chance more is seen in one of 10^9 audits."""


def reversed_labels(tallies: Tallies, random: np.random.Generator) -> str:
    """Return that the target seems to know labels the wrong way round, or "": no accusation.

    Its predictions must be right less often on training records than on matched holdout records,
    and less often than the proxy alone expects. The first by itself says nothing: an honest model
    that remembers noise predicts training records by that noise, and is right half of the time,
    where holdout records are predicted by what holds for all records. Noise is not wrong more often
    than the proxy expects of the same predictions. So bets on the opposite cannot be made, either:
    they would accuse that model.
    """
    beside = match(tallies.odds, tallies.control_odds, random=random, classes=tallies.classes)[0]
    right, expected, deviation = _against_proxy(tallies.odds)
    if right > expected - _REVERSED * deviation or _lead(beside) > -_REVERSED:
        return ""
    return (
        f"The target knows training labels the wrong way round: where the earlier model expects "
        f"{expected:,.0f} of its predictions to be right, {right:,.0f} are. What it remembers can "
        "be read by turning its answers round, and this bound does not see it. See that the "
        "classes are in the order of the model's probabilities, and that it was trained on the "
        "labels that are audited."
    )


def _against_proxy(odds: tuple[OddsTally, ...]) -> tuple[float, float, float]:
    """Return how many predictions are right, how many the proxy expects, and the deviation."""
    right = expected = variance = 0.0
    for one in odds:
        made = one.predictions()
        chance, records = expit(made.prior), made.right + made.wrong
        right += float(made.right.sum())
        expected += float(records @ chance)
        variance += float(records @ (chance * (1.0 - chance)))
    return right, expected, math.sqrt(variance)


def _lead(tables: Matched) -> float:
    """Return by how many standard errors training records are right more often than holdout's."""
    total = tables.records + tables.control
    share = (tables.right + tables.control_right) / np.maximum(total, 1)
    spread = tables.records * tables.control * share * (1.0 - share) / np.maximum(total - 1, 1)
    variance = float(spread.sum())
    more = float((tables.right - tables.records * share).sum())
    return more / math.sqrt(variance) if variance > 0.0 else 0.0


_WORSE = 0.03
"""Nats of log-loss by which the probabilities are worse, on average."""
_SURELY_WORSE = 3.5
"""Standard errors of that, in each arm: by chance both are seen in one of 10^7 audits."""


def worse_than_shares(tallies: Tallies) -> str:
    """Return that the target's probabilities are worse than constant ones, or "": no accusation.

    A model that fits the noise in privatised labels does the same honestly, so nothing can rest on
    it. Of more than two classes, the class that the target raised most is told from the others.
    """
    training, holdout = _losses(tallies.odds), _losses(tallies.control_odds)
    if training is None or holdout is None:
        return ""
    return (
        "The target's probabilities are further from the labels than the share of each class is, "
        f"on training records (log-loss {training[0]:.2f} beside {training[1]:.2f}) and on holdout "
        f"records ({holdout[0]:.2f} beside {holdout[1]:.2f}). A model that fits noise does so; but "
        "also one that reads other features here than in training (exchanged among rows, or in "
        "other units), and then this bound does not show what it remembers. See that the table "
        "holds the features that training read."
    )


def _losses(odds: tuple[OddsTally, ...]) -> tuple[float, float] | None:
    """Return mean log-loss of the target and of the shares; None unless the former is larger."""
    cells = [one.cells() for one in odds]
    target = np.concatenate([one.target for one in cells])
    log_odds = np.concatenate([target, -target])  # of what the label is: the class, or another
    counts = np.concatenate([one.ones for one in cells] + [one.zeros for one in cells])
    ones, records = counts[: target.size].sum(), counts.sum()
    if not 0 < ones < records:
        return None
    shares = np.repeat([ones / records, 1.0 - ones / records], target.size)
    loss, of_shares = np.logaddexp(0.0, -log_odds), -np.log(shares)
    mean = float(np.average(loss - of_shares, weights=counts))
    variance = float(np.average((loss - of_shares - mean) ** 2, weights=counts))
    if mean < max(_WORSE, _SURELY_WORSE * math.sqrt(variance / records)):
        return None
    return float(np.average(loss, weights=counts)), float(np.average(of_shares, weights=counts))
