"""Sentences beside a verdict: causes of a violation that are no leak, and what was not tested."""

import functools
import math
import operator

import numpy as np

from privcore.attacks import Tallies, answer_jump, copied_sentence, generator
from privcore.attacks.arms import MOST_COUNTED
from privcore.attacks.copied_answers import COPIED
from privcore.attacks.student import MOST_CLASSES
from privcore.lower_bounds import Evidence, Secret
from workers.audit.beside_decoys import beside_decoys
from workers.audit.beside_game import beside_game
from workers.audit.declaration import names_holder
from workers.audit.holdout_seen import holdout_seen
from workers.audit.label_state import declaration_location, label_column_warning
from workers.audit.narrow_answers import (
    narrow_answers,
    one_sided_numbers,
    sure_answers,
    sure_beliefs,
)
from workers.audit.reversed_labels import reversed_labels
from workers.audit.unlike_arms import unlike_arms
from workers.audit.worse_than_shares import worse_than_shares
from workers.lake.manifest import OutputCorrection, Privacy
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.secrets import checkpoints_of
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds

_PAIR, _SELDOM = 2, 0.01
"""Classes that answers are compared in, and the share of the labels below which one is none."""
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
    if plan.secret is not Secret.LABEL:
        sure = sure_beliefs(tallies) if plan.secret is Secret.ATTRIBUTE else ""
        return (*remarked(kinds.ANSWERS_UNCOUNTED, sure), *_of_the_file(source))
    violated = privacy is not None and evidence.epsilon_lower > privacy.epsilon
    # Of supplied probabilities the diagnostics of the pass say as much, and more.
    diagnosed = source.facts["scores"] == "supplied" and source.gives_chances
    random = generator(plan.seed, source.model, str(source.day), "reversed")
    unused = _classes_without_labels(len(source.label.classes), tallies)
    # A student tells a holdout that was trained on from a day that is unlike the one before.
    tested = tallies.student is not None and not tallies.ordered
    known = kinds.KNOWN_ANEW if tested else kinds.HOLDOUT_KNOWN
    hints = (
        *remarked(known, "" if diagnosed else holdout_seen(tallies)),
        *remarked(kinds.ANSWERS_REVERSED, reversed_labels(tallies, random)),
        *remarked(kinds.ARMS_UNLIKE, unlike_arms(tallies)),
        *remarked(kinds.OUTPUT_CORRECTED, _corrected(source.output_correction)),
        *_of_the_file(source),
        *remarked(kinds.CLASSES_UNUSED, unused),
        *(() if violated else _unrefuted(source, tallies, privacy, plan)),
    )
    if privacy is None:
        return hints
    decoys = beside_decoys(source, tallies, evidence, epsilon=privacy.epsilon, plan=plan)
    of_rows = ""
    if plan.privacy_unit is None and names_holder(privacy.unit):
        of_rows = _by_row(privacy.unit, violated=violated, decoys=source.decoys is not None)
    return (
        *hints,
        *(_refuted(source, tallies, holds, privacy) if violated else ()),
        *remarked(kinds.DECOYS_CONTRADICTED, decoys),
        *remarked(kinds.ROWS_OF_A_HOLDER, of_rows),
    )


def _unrefuted(
    source: Source, tallies: Tallies, privacy: Privacy | None, plan: Plan
) -> tuple[Remark, ...]:
    """Return signs that a bound which refutes nothing does not show all that is remembered."""
    kinds = RemarkKind
    found: tuple[Remark, ...] = ()
    changed = _changes(source.output_correction, len(source.label.classes))
    if source.gives_chances and not changed:
        uncounted = narrow_answers(tallies) or sure_answers(tallies)
        found += remarked(kinds.ANSWERS_WORSE_THAN_SHARES, worse_than_shares(tallies))
        found += remarked(kinds.ANSWERS_UNCOUNTED, uncounted)
        found += remarked(kinds.LABELS_COPIED, _copied_answers(tallies))
    found += remarked(kinds.ANSWERS_UNCOUNTED, one_sided_numbers(tallies))
    if plan.privacy_unit is None and plan.days == 1:  # else records are matched
        found += remarked(kinds.GAME_SHOWS_MORE, beside_game(tallies, privacy))
    return found


def _refuted(
    source: Source, tallies: Tallies, holds: LabelColumnHolds | None, privacy: Privacy
) -> tuple[Remark, ...]:
    """Return causes of a refutation that are no leak."""
    facts = source.facts
    asked = label_column_warning(
        privacy.mechanism.name if privacy.mechanism else None,
        holds,
        said=declaration_location(facts["scores"], facts.get("source")),
        column=repr(source.label.column),
    )
    return (
        *remarked(RemarkKind.LABEL_COLUMN_ASKED, asked),
        *remarked(RemarkKind.LABELS_REWRITTEN, _rewritten_labels(tallies)),
    )


def _copied_answers(tallies: Tallies) -> str:
    """Return that labels of the holdout may be the target's own answers, or "": no accusation."""
    if tallies.ordered or tallies.classes != 2:
        return ""
    whole = functools.reduce(operator.add, tallies.control_odds)
    return copied_sentence(answer_jump(whole))


def _rewritten_labels(tallies: Tallies) -> str:
    """Return that labels of training records may be the target's own answers, or ""."""
    if tallies.ordered or tallies.classes != _PAIR or tallies.decoys is not None:
        return ""
    jump = answer_jump(functools.reduce(operator.add, tallies.odds))
    if jump <= COPIED:
        return ""
    return (
        f"Labels of training records jump where the target's answer turns ({jump:.1f} standard "
        "errors), as labels do that somebody replaced by its answers after training: then an "
        "innocent model looks right on training rows alone. Before the bound is believed, see who "
        "may write these labels, and compare them with those that training read."
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


def _of_the_file(source: Source) -> tuple[Remark, ...]:
    """Return what of the target's file was not asked, whatever the secret is."""
    models = checkpoints_of(source)
    if models is None:
        return ()
    return (
        *remarked(RemarkKind.ROUNDS_UNSERVED, _unserved_rounds(models.target.unserved_rounds)),
        *remarked(RemarkKind.ROWS_MIXED, _mixed_rows(models.target.mixes_rows)),
    )


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


def _mixed_rows(node: str) -> str:
    """Return that the target's file may answer otherwise about a row beside rows not asked with."""
    if not node:
        return ""
    return (
        "Rows of a batch may meet in the target's file: "
        f"{node} is not shown to keep them apart. Some rows were scored beside "
        "others, too, and answered alike; beside more rows than that, or others, the file may say "
        "what this audit did not see. Convert the model to operators that take each row by itself."
    )


def _classes_without_labels(listed: int, tallies: Tallies) -> str:
    """Return that classes without labels cost the audit its student, or looks at the arms."""
    labels, control = tallies.labels, tallies.control_labels
    if labels is None or control is None:
        return ""
    counted = (labels + control).counts[..., 1].sum(axis=(0, 2))
    with_labels = np.count_nonzero(counted)
    common = np.count_nonzero(counted >= _SELDOM * counted.sum())
    if listed > MOST_COUNTED:
        return (
            f"{listed:,} classes are listed, of which the first {MOST_COUNTED:,} were compared "
            f"between the arms; {with_labels:,} of these have labels."
        )
    if common <= _PAIR < listed <= MOST_CLASSES:
        have, see = "have labels", "list the classes that have labels"
        if with_labels > common:
            have, see = "have 1% of the labels or more", "see whose labels the others are"
        return (
            f"{listed:,} classes are listed and {common:,} {have}. Whether labels of the holdout "
            f"are the target's own answers is looked for in two classes alone: {see}."
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
