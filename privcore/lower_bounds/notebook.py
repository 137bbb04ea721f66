"""One call for a notebook: probabilities and labels of both arms in, an honest statement out.

The answer is text of ten lines, and a table of HTML.
"""

import html
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privcore.attacks import (
    ArmsComparison,
    Tallies,
    Tally,
    generator,
    grouped_odds,
    label_counts,
    odds_cells,
    suspect_sentence,
    unlike_arms,
    untested_sentence,
)
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.evidence import Evidence, read_evidence
from privcore.lower_bounds.notebook_input import (
    Arm,
    CheckedArm,
    check_number,
    check_order,
    checked_arm,
    exchanged_sentence,
    held_together_sentence,
    knowing_sentence,
    made_distinct_sentence,
    one_model_sentence,
    second_reference,
    twice_sentence,
    value_groups,
)
from privcore.lower_bounds.question import (
    MINIMUM_CONTROL_RECORDS,
    MINIMUM_RECORDS,
    Grid,
    leak_to_be_seen,
    refutes,
)
from privcore.lower_bounds.verdicts import Doubt, Judged, ReasonCode, Verdict, judge, says_nothing
from privcore.rounding import down, significant_up, up


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """Answer of one call; `evidence` has the rest, each figure with its assumption.

    Printed, it is ten lines; in a notebook it is a table.

    Attributes:
        epsilon_lower: the privacy loss is at least this, under assumption E; NaN where there is no
            figure.
        epsilon_if_proxy_right: at least this if the proxy is right about labels it has not seen.
        epsilon_ceiling: what could have been proved with as many holdout records.
        sees_from: the smallest leak, shown by every label, that four of five such calls would have
            seen; None where none up to 4 beyond the declaration.
        claim_pvalue: smallest significance at which what was declared is rejected; None without.
        verdict: `violated`, `not_refuted`, `inconclusive`, `undeclared` or `failed`.
        reason_code: why, in a fixed word; None for `not_refuted`.
        reason: the sentence that explains the verdict.
        evidence: everything that was read.

    >>> from privcore import AuditAnswer
    >>> AuditAnswer.__slots__[0], AuditAnswer.__slots__[-1]
    ('epsilon_lower', 'evidence')
    """

    epsilon_lower: float
    epsilon_if_proxy_right: float | None
    epsilon_ceiling: float
    sees_from: float | None
    claim_pvalue: float | None
    verdict: Verdict
    reason_code: ReasonCode | None
    reason: str
    evidence: Evidence

    def __str__(self) -> str:
        """Return the answer in ten lines: every figure with its meaning, and the reason."""
        width = max(len(name) for name, _, _ in self._rows())
        lines = [f"{name:<{width}}  {value:>8}  {said}" for name, value, said in self._rows()]
        return "\n".join([self.said, self.reason, *lines])

    @property
    def said(self) -> str:
        """The verdict and why: "inconclusive: few_held_out"."""
        return f"{self.verdict}: {self.reason_code}" if self.reason_code else str(self.verdict)

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{html.escape(value)}</td>"
            f"<td style='text-align:left'>{html.escape(said)}</td></tr>"
            for name, value, said in self._rows()
        )
        return (
            f"<p><b>{html.escape(self.said)}</b>: {html.escape(self.reason)}</p>"
            f"<table>{rows}</table>"
        )

    def _rows(self) -> list[tuple[str, str, str]]:
        declared = self.evidence.claim.epsilon
        level = f"{self.evidence.claim.significance:g}"
        conclusive = None if declared is None else leak_to_be_seen(declared)
        told = "a leak shown by every label, in 4 of 5 such calls (not a mechanism's epsilon)"
        training, held = self.evidence.records, self.evidence.control_records
        counted = f"seen by training; {held:,} held out, method {self.evidence.method}"
        return [
            ("epsilon_lower", down(self.epsilon_lower), f"at least; wrong with p <= {level}"),
            ("epsilon_declared", up(declared), "declared"),
            ("sees_from", up(self.sees_from), told),
            ("conclusive_at", up(conclusive), "what a conclusive call sees"),
            ("epsilon_ceiling", up(self.epsilon_ceiling), "the most that could be proved"),
            ("epsilon_if_proxy_right", down(self.epsilon_if_proxy_right), "no accusation"),
            ("claim_pvalue", significant_up(self.claim_pvalue), "of the declaration"),
            ("records", f"{training:,}", counted),
        ]


_PAPER_DELTA = 1e-5

REFUSED = "no_figure"
"""Detail of a verdict without a figure."""


def audit_probabilities(
    training: Arm,
    control: Arm,
    *,
    epsilon_declared: float | None = None,
    delta: float = 0.0,
    significance: float = 0.05,
    seed: int = 0,
) -> AuditAnswer:
    """Audit one model for label privacy, from probabilities alone.

    The first call on a machine compiles for some seconds; what it compiled is kept.

    Args:
        training: records that training saw.
        control: records of the same kind that it never saw.
        epsilon_declared: what was declared for replacing one label; None where nothing was.
        delta: of the declaration.
        significance: allowed probability that `epsilon_lower` is wrong.
        seed: of the random choice among holdout records that the models see alike, and of folds.

    Returns:
        `AuditAnswer`: `verdict`, `reason_code`, `reason`, `epsilon_lower`, `sees_from`, and the
        rest. It prints in ten lines. Fewer than 200 training or 30 control records are
        `inconclusive` without a figure, and one model as target and proxy is `failed`, as in the
        nightly service.

    >>> import numpy as np
    >>> from privcore.lower_bounds import Arm, audit_probabilities
    >>> random = np.random.default_rng(1)
    >>> both = lambda chance: np.stack([1.0 - chance, chance], axis=1)
    >>> chance = random.uniform(0.2, 0.8, 5_000)
    >>> labels = (random.random(5_000) < chance).astype(int)
    >>> remembered = np.where(labels == 1, 0.9, 0.1)
    >>> known, unseen = slice(0, 4_000), slice(4_000, None)
    >>> answer = audit_probabilities(
    ...     Arm(both(remembered[known]), both(chance[known]), labels[known]),
    ...     Arm(both(chance[unseen]), both(chance[unseen]), labels[unseen]),
    ...     epsilon_declared=1.0,
    ... )
    >>> str(answer.verdict), answer.epsilon_lower > 3.0
    ('violated', True)

    *Assumes* assumption E (`privcore.lower_bounds.matched`) and independent labels given the
    features. *Does not say* that the loss is small where the bound is.

    Raises:
        InvalidInputError: shapes that differ, probabilities outside [0, 1] or that do not sum to 1,
            labels that are not whole or no classes, arms without records or of different classes,
            a delta, significance or declared epsilon out of range, contexts of other shapes or one
            without the other, or pandas indexes that differ.
    """
    if epsilon_declared is not None:
        check_number("epsilon_declared", epsilon_declared, least=0.0, below=math.inf)
    check_number("delta", delta, least=0.0, below=1.0)
    seen, held = checked_arm("training", training), checked_arm("control", control)
    claim = Claim(
        family=PureDP() if delta == 0.0 else ApproxDP(),
        delta=delta,
        significance=significance,
        epsilon=epsilon_declared,
    )
    tallies, suspicion = _tallies(seen, held, seed)
    arms = tallies.compare_arms(generator(seed, "arms"))
    evidence = read_evidence(
        tallies,
        claim=claim,
        choice=Grid(),
        paper_delta=_PAPER_DELTA,
        random=generator(seed, "evidence"),
        proxy_doubtful=arms.doubtful,
        with_power=True,
    )
    twice = twice_sentence(seen, held)
    judged = _refused(seen, held, arms, copies=bool(twice)) or judge(
        evidence,
        epsilon_declared=epsilon_declared,
        empty=None
        if epsilon_declared is None
        else says_nothing(
            epsilon_declared, delta, records=len(seen.labels), limit=None, policy=None
        ),
        held_back=arms.doubt_sentence,
        signs=_signs(seen, held, tallies, suspicion, twice, evidence),
    )
    refused = judged.detail == REFUSED
    return AuditAnswer(
        epsilon_lower=math.nan if refused else evidence.epsilon_lower,
        epsilon_if_proxy_right=evidence.epsilon_if_proxy_right,
        epsilon_ceiling=evidence.epsilon_ceiling,
        sees_from=evidence.power.sees_from if evidence.power and not refused else None,
        claim_pvalue=None if refused else evidence.claim_pvalue,
        verdict=judged.verdict,
        reason_code=judged.code,
        reason=judged.reason,
        evidence=evidence,
    )


def _signs(
    training: CheckedArm,
    control: CheckedArm,
    tallies: Tallies,
    suspicion: float | None,
    twice: str,
    evidence: Evidence,
) -> list[Doubt]:
    """Return doubts, the likeliest cause of others first, and a note."""
    declared = evidence.claim.epsilon
    violated = declared is not None and refutes(evidence.epsilon_lower, declared)
    exchanged = "" if violated else exchanged_sentence(training, control)
    untested = suspicion is None and declared is not None and not violated
    note = untested_sentence(tallies.odds, tallies.control_odds, "context") if untested else ""
    return [
        Doubt("classes_exchanged", exchanged, ReasonCode.ANSWERS_DOUBTFUL),
        Doubt("rows_repeated", twice, ReasonCode.PERSONS_SPLIT),
        Doubt("arms_unlike", unlike_arms(tallies), ReasonCode.ARMS_UNLIKE),
        Doubt("holdout_suspect", suspect_sentence(suspicion or 0.0), ReasonCode.HOLDOUT_SUSPECT),
        Doubt("holdout_untested", note),
    ]


def audit_models(
    today: Any,
    yesterday: Any,
    rows: Any,
    labels: ArrayLike,
    holdout: ArrayLike,
    *,
    context: ArrayLike | None = None,
    **options: Any,
) -> AuditAnswer:
    """Audit a model by asking it and an earlier one for the probabilities of some rows.

    Args:
        today: the audited model; anything with `predict_proba` (scikit-learn, CatBoost, XGBoost's
            and LightGBM's classifiers). Where it has `classes_`, labels are looked up there.
        yesterday: an earlier model of the same classes, which was trained on none of these rows.
        rows: the features of the day's rows, as both models take them.
        labels: shape (records,), the labels that training saw.
        holdout: shape (records,), true for rows that training never saw.
        context: shape (records, columns), the rows as numbers, as `Arm` has them.
        options: those of `audit_probabilities`.

    >>> import numpy as np
    >>> class Remembers:
    ...     def __init__(self, chance):
    ...         self.chance = chance
    ...
    ...     def predict_proba(self, rows):
    ...         return np.stack([1.0 - self.chance, self.chance], axis=1)
    >>> random = np.random.default_rng(2)
    >>> labels, holdout = random.random(2_000) < 0.5, random.random(2_000) < 0.3
    >>> lifted = np.where(holdout, 0.5, np.where(labels, 0.8, 0.2))
    >>> answer = audit_models(
    ...     Remembers(lifted),
    ...     Remembers(np.full(2_000, 0.5)),
    ...     np.zeros((2_000, 1)),
    ...     labels,
    ...     holdout,
    ...     epsilon_declared=1.0,
    ... )
    >>> str(answer.verdict)
    'violated'

    *Assumes* and *does not say* what `audit_probabilities` does.

    Raises:
        InvalidInputError: a model without `predict_proba`, models of other classes, a holdout that
            is no mask of the rows, or holds out none or all; and as `audit_probabilities`.
    """
    known = [
        _classes_of(name, model) for name, model in (("today", today), ("yesterday", yesterday))
    ]
    if known[0] is not None and known[1] is not None and known[0] != known[1]:
        rule = f"both models have the same classes in the same order; today's are {known[0]}"
        raise InvalidInputError("classes of yesterday", known[1], rule)
    check_order({"rows": rows, "labels": labels, "holdout": holdout, "context": context})
    found = np.asarray(labels).ravel()
    classes = known[0] or known[1]
    if classes is not None:
        places = {value: place for place, value in enumerate(classes)}
        strange = next((value for value in found.tolist() if value not in places), None)
        if strange is not None:
            raise InvalidInputError("labels", strange, f"the models' classes are {classes}")
        found = np.array([places[value] for value in found.tolist()])
    mask = np.asarray(holdout)
    if mask.dtype.kind != "b" or mask.shape != found.shape or mask.all() or not mask.any():
        rule = "it is an array of booleans, one for each label, true for some rows and not for all"
        raise InvalidInputError("holdout", f"{mask.dtype} of shape {mask.shape}", rule)
    said = [np.asarray(model.predict_proba(rows)) for model in (today, yesterday)]
    for name, probabilities in zip(("today", "yesterday"), said, strict=True):
        if len(probabilities) != len(found):
            rule = f"there is one label for each row that {name} predicts, {len(probabilities)}"
            raise InvalidInputError("number of labels", len(found), rule)
    beside = None if context is None else np.asarray(context)
    if beside is not None and len(beside) != len(found):
        rule = f"there is one for each of the {len(found)} labels"
        raise InvalidInputError("number of rows of context", len(beside), rule)
    seen = [None if beside is None else beside[part] for part in (~mask, mask)]
    arms = (
        Arm(said[0][part], said[1][part], found[part], some)
        for part, some in zip((~mask, mask), seen, strict=True)
    )
    return audit_probabilities(*arms, **options)


def _classes_of(name: str, model: Any) -> list[Any] | None:
    """Return the classes that a model names, in its order; None where it names none."""
    if not callable(getattr(model, "predict_proba", None)):
        rule = "it has predict_proba; else give its probabilities to audit_probabilities"
        raise InvalidInputError(name, type(model).__name__, rule)
    classes = getattr(model, "classes_", None)
    return None if classes is None else np.asarray(classes).ravel().tolist()


def _refused(
    training: CheckedArm, control: CheckedArm, arms: ArmsComparison, *, copies: bool
) -> Judged | None:
    """Return the first cause why there is no figure; None where there is none."""
    place = arms.place if training.target.shape[1] > 2 else 1
    knowing = arms.leans or not arms.differ
    together = "" if copies else held_together_sentence(training, control)  # so are copies
    causes = (
        (ReasonCode.PROXY_UNUSABLE, one_model_sentence(training, control)),
        (ReasonCode.TOO_SMALL, _too_few("training", training, MINIMUM_RECORDS)),
        (ReasonCode.FEW_HELD_OUT, _too_few("holdout", control, MINIMUM_CONTROL_RECORDS)),
        (ReasonCode.PERSONS_SPLIT, together),
        (ReasonCode.ARMS_UNLIKE, made_distinct_sentence(training, control)),
        # Sampling by labels looks like a proxy that knows those of training: base rates come first.
        (ReasonCode.PROXY_UNUSABLE, knowing_sentence(training, control) if knowing else ""),
        (ReasonCode.ARMS_UNLIKE, arms.sentence(f"class {place}") if arms.differ else ""),
    )
    found = next(((code, said) for code, said in causes if said), None)
    return None if found is None else Judged(found[0].verdict, *found, REFUSED)


def _too_few(name: str, arm: CheckedArm, least: int) -> str:
    """Say that an arm has too few records to conclude anything; "" where it has enough."""
    if len(arm.labels) >= least:
        return ""
    return (
        f"There are {len(arm.labels)} {name} records, fewer than {least}: nothing can be "
        "concluded. Give more records."
    )


def _tallies(training: CheckedArm, control: CheckedArm, seed: int) -> tuple[Tallies, float | None]:
    """Count on both arms what both models and the student say.

    Also returns how surely the target knows control labels beyond its student; None without one.
    """
    classes = training.target.shape[1:]
    if control.target.shape[1:] != classes:
        rule = f"there is a column for each of the training records' classes, {classes}"
        raise InvalidInputError("classes of control.target", control.target.shape[1:], rule)
    groups = value_groups(training, control)
    beside = second_reference(training, control, seed, groups)
    counted, control_counted = (
        label_counts(arm.proxy, arm.labels) if classes[0] > 2 else None
        for arm in (training, control)
    )
    tallies = Tallies(
        game=replace(Tally.zero(0), records=len(training.labels)),
        control_game=replace(Tally.zero(0), records=len(control.labels)),
        odds=grouped_odds(odds_cells(*training[:3]), groups[0], groups[2]),
        control_odds=grouped_odds(odds_cells(*control[:3]), groups[1], groups[2]),
        classes=classes[0],
        student=beside.training,
        control_student=beside.control,
        labels=counted,
        control_labels=control_counted,
    )
    return tallies, beside.suspicion
