"""One call for a notebook: probabilities and labels of both arms in, an honest statement out."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    Context,
    LabelCounts,
    PaperScore,
    Student,
    StudentTallies,
    Tallies,
    fit_student,
    folds_of,
    generator,
    label_counts,
    label_inference,
    learned,
    odds_tally,
    probabilities_of,
    stream_key,
)
from privcore.attacks.hashing import record_streams
from privcore.attacks.student import MOST_CLASSES
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds.choices import Grid
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.evidence import Evidence, read_evidence
from privcore.lower_bounds.verdicts import Verdict, verdict

_REPETITIONS = 10  # of the game, which the answer's figures do not need
_PAPER_DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """Answer of one call; `evidence` has the rest, each figure with its assumption.

    Attributes:
        epsilon_lower: the privacy loss is at least this, under assumption E; NaN where the arms
            differ, and nothing can be concluded.
        epsilon_if_proxy_right: at least this if the proxy is right about labels it has not seen.
        epsilon_ceiling: what could have been proved with as many holdout records.
        claim_pvalue: smallest significance at which what was declared is rejected; None without.
        verdict: `consistent`, `violated`, `proxy_unfaithful`, `undeclared`; or `not_evaluable`
            where the arms differ.
        reason: the sentence that explains the verdict.
        evidence: everything that was read.
    """

    epsilon_lower: float
    epsilon_if_proxy_right: float | None
    epsilon_ceiling: float
    claim_pvalue: float | None
    verdict: Verdict
    reason: str
    evidence: Evidence


class Arm(NamedTuple):
    """Probabilities of both models for the records of one arm, their labels and their features.

    Attributes:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of a model that was not trained on these labels, in
            either arm: the day before's, say. It need not be right, but it must know the labels of
            both arms equally well: a holdout that it was trained on is no comparison.
        labels: shape (records,), class indices from 0, as training saw them before any mechanism.
        context: shape (records, columns), the features, NaN where one is missing; categories as
            whole numbers. With it a student learns from the holdout what the target would say of a
            record that it had not seen (`fit_student`), and half of the stake is bet against that:
            it proves 1.3 to 2 times as much of real learners. The label, the split and the target's
            outputs are no context. It needs catboost.

    >>> import numpy as np
    >>> even = np.full((2, 2), 0.5)
    >>> Arm(target=even, proxy=even, labels=np.array([0, 1])).context is None
    True
    """

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.integer]
    context: NDArray[np.floating] | None = None


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

    Args:
        training: records that training saw.
        control: records of the same kind that it never saw.
        epsilon_declared: what was declared for replacing one label; None where nothing was.
        delta: of the declaration.
        significance: allowed probability that `epsilon_lower` is wrong.
        seed: of the random choice among holdout records that the models see alike, and of folds.

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
            without the other.
        ModuleNotFoundError: there is a context and catboost is not installed.
    """
    if epsilon_declared is not None and not 0.0 <= epsilon_declared < math.inf:
        rule = "what was declared is a finite number, at least 0, or None"
        raise InvalidInputError("epsilon_declared", epsilon_declared, rule)
    claim = Claim(
        family=PureDP() if delta == 0.0 else ApproxDP(),
        delta=delta,
        significance=significance,
        epsilon=epsilon_declared,
    )
    tallies = _tallies(training, control, seed)
    arms = tallies.compare_arms(generator(seed, "arms"))
    evidence = read_evidence(
        tallies,
        claim=claim,
        choice=Grid(),
        paper_delta=_PAPER_DELTA,
        random=generator(seed, "evidence"),
        proxy_doubtful=arms.doubtful,
    )
    conclusion, reason = verdict(evidence, epsilon_declared=epsilon_declared)
    doubts = (arms.doubt_sentence, evidence.misled_sentence)
    reason = " ".join((reason, *filter(None, doubts)))
    if arms.differ:
        looked_at = arms.place if training.target.shape[1] > 2 else 1
        conclusion, reason = Verdict.NOT_EVALUABLE, arms.sentence(f"class {looked_at}")
    return AuditAnswer(
        epsilon_lower=math.nan if arms.differ else evidence.epsilon_lower,
        epsilon_if_proxy_right=evidence.epsilon_if_proxy_right,
        epsilon_ceiling=evidence.epsilon_ceiling,
        claim_pvalue=evidence.claim_pvalue,
        verdict=conclusion,
        reason=reason,
        evidence=evidence,
    )


def _tallies(training: Arm, control: Arm, seed: int) -> Tallies:
    """Play the game on both arms, and count what both models and the student say."""
    classes = training.target.shape[1:]
    if control.target.shape[1:] != classes:
        rule = f"there is a column for each of the training records' classes, {classes}"
        raise InvalidInputError("classes of control.target", control.target.shape[1:], rule)
    game, control_game = (
        label_inference(
            *arm[:3], score=PaperScore(), repetitions=_REPETITIONS, key=stream_key(seed, name)
        )
        for arm, name in ((training, "training"), (control, "control"))
    )
    student, control_student = _student_tallies(training, control, seed)
    counted, control_counted = (_counted(*arm[:3]) for arm in (training, control))
    return Tallies(
        game=game,
        control_game=control_game,
        odds=(odds_tally(*training[:3]),),
        control_odds=(odds_tally(*control[:3]),),
        classes=classes[0],
        student=student,
        control_student=control_student,
        labels=counted,
        control_labels=control_counted,
    )


def _counted(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.integer]
) -> LabelCounts | None:
    return label_counts(proxy, labels) if target.shape[1] > 2 else None


def _student_tallies(
    training: Arm, control: Arm, seed: int
) -> tuple[StudentTallies | None, StudentTallies | None]:
    """Return what both arms come to against a student; None without a context."""
    if training.context is None and control.context is None:
        return None, None
    looked_at = []
    for name, arm in (("training", training), ("control", control)):
        found, records = arm.context, len(arm.labels)
        if found is None or found.ndim != 2 or len(found) != records:
            shape = None if found is None else found.shape
            rule = f"it has a row for each of the {records} records, and both arms have one"
            raise InvalidInputError(f"shape of {name}.context", shape, rule)
        codes = np.zeros((records, 0), dtype=np.int64)
        looked_at.append(Context(np.asarray(found, dtype=np.float64), codes))
    columns, others = (seen.numbers.shape[1] for seen in looked_at)
    if columns != others:
        rule = f"it has the training records' columns, {columns}"
        raise InvalidInputError("columns of control.context", others, rule)
    if training.target.shape[1] > MOST_CLASSES:
        return None, None
    folds = [
        folds_of(record_streams(len(arm.labels), key=stream_key(seed, name, "fold"), indices=None))
        for arm, name in ((training, "training"), (control, "control"))
    ]
    of_target = fit_student(looked_at[1], learned(control.target), folds[1])
    if of_target is None:
        return None, None
    of_proxy = fit_student(looked_at[1], learned(control.proxy), folds[1], of_proxy=True)
    first, second = (
        _against(arm, seen, fold, of_target, of_proxy)
        for arm, seen, fold in zip((training, control), looked_at, folds, strict=True)
    )
    return first, second


def _against(
    arm: Arm,
    seen: Context,
    folds: NDArray[np.int64],
    of_target: Student,
    of_proxy: Student | None,
) -> StudentTallies:
    said = probabilities_of(of_target.predict(seen, folds))
    odds = odds_tally(arm.target, said, arm.labels)
    if of_proxy is None:
        return StudentTallies((odds,), None)
    expected = probabilities_of(of_proxy.predict(seen, folds))
    return StudentTallies((odds,), label_counts(arm.proxy, arm.labels, student=expected))
