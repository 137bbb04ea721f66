"""One call for a notebook: probabilities and labels of both arms in, an honest statement out."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import PaperScore, Tallies, generator, label_inference, odds_tally, stream_key
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
    """What one call says; `evidence` has the rest, each figure with its assumption.

    Attributes:
        epsilon_lower: the privacy loss is at least this, under assumption E, whatever the proxy.
        epsilon_if_proxy_right: at least this if the proxy is right about labels it has not seen.
        epsilon_ceiling: what could have been proved with so many holdout records.
        claim_pvalue: smallest significance at which what was declared is rejected; None without.
        verdict: `consistent`, `violated`, `proxy_unfaithful` or `undeclared`.
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


def audit_probabilities(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    control_target: NDArray[np.float64],
    control_proxy: NDArray[np.float64],
    control_labels: NDArray[np.integer],
    epsilon_declared: float | None = None,
    delta: float = 0.0,
    significance: float = 0.05,
    seed: int = 0,
) -> AuditAnswer:
    """Audit one model for label privacy, from probabilities alone.

    Args:
        target: shape (records, classes), the audited model's probabilities of training records.
        proxy: shape (records, classes), those of a model that was not trained on these labels: the
            day before's, say. It need not be right.
        labels: shape (records,), class indices from 0, as training saw them before any mechanism.
        control_target: shape (control records, classes), of records that training never saw.
        control_proxy: shape (control records, classes).
        control_labels: shape (control records,).
        epsilon_declared: what was declared for replacing one label; None where nothing was.
        delta: of the declaration.
        significance: allowed probability that `epsilon_lower` is wrong.
        seed: of the random choice among holdout records that the models see alike.

    >>> import numpy as np
    >>> from privcore.lower_bounds import audit_probabilities
    >>> random = np.random.default_rng(1)
    >>> both = lambda chance: np.stack([1.0 - chance, chance], axis=1)
    >>> chance = random.uniform(0.2, 0.8, 5_000)
    >>> labels = (random.random(5_000) < chance).astype(int)
    >>> remembered = np.where(labels == 1, 0.9, 0.1)
    >>> known, unseen = slice(0, 4_000), slice(4_000, None)
    >>> answer = audit_probabilities(
    ...     both(remembered[known]),
    ...     both(chance[known]),
    ...     labels[known],
    ...     control_target=both(chance[unseen]),
    ...     control_proxy=both(chance[unseen]),
    ...     control_labels=labels[unseen],
    ...     epsilon_declared=1.0,
    ... )
    >>> str(answer.verdict), answer.epsilon_lower > 3.0
    ('violated', True)

    *Assumes* assumption E (`privcore.lower_bounds.matched`) and independent labels given the
    features. *Does not say* that the loss is small where the bound is.

    Raises:
        InvalidInputError: shapes that differ, probabilities outside [0, 1] or that do not sum to 1,
            labels that are not whole or no classes, arms without records or of different classes,
            a delta, significance or declared epsilon out of range.
    """
    if epsilon_declared is not None and not 0.0 <= epsilon_declared < math.inf:
        rule = "what was declared is a finite number, at least 0, or None"
        raise InvalidInputError("epsilon_declared", epsilon_declared, rule)
    if control_target.shape[1:] != target.shape[1:]:
        rule = f"there is a column for each of the target's classes, {target.shape[1:]}"
        raise InvalidInputError("classes of control_target", control_target.shape[1:], rule)
    claim = Claim(
        family=PureDP() if delta == 0.0 else ApproxDP(),
        delta=delta,
        significance=significance,
        epsilon=epsilon_declared,
    )
    training, control = (target, proxy, labels), (control_target, control_proxy, control_labels)
    game, control_game = (
        label_inference(
            *arm, score=PaperScore(), repetitions=_REPETITIONS, key=stream_key(seed, name)
        )
        for arm, name in ((training, "training"), (control, "control"))
    )
    tallies = Tallies(
        game=game,
        control_game=control_game,
        odds=(odds_tally(*training),),
        control_odds=(odds_tally(*control),),
        classes=target.shape[1],
    )
    evidence = read_evidence(
        tallies,
        claim=claim,
        choice=Grid(),
        paper_delta=_PAPER_DELTA,
        random=generator(seed, "evidence"),
    )
    conclusion, reason = verdict(evidence, epsilon_declared=epsilon_declared)
    return AuditAnswer(
        epsilon_lower=evidence.epsilon_lower,
        epsilon_if_proxy_right=evidence.epsilon_if_proxy_right,
        epsilon_ceiling=evidence.epsilon_ceiling,
        claim_pvalue=evidence.claim_pvalue,
        verdict=conclusion,
        reason=reason,
        evidence=evidence,
    )
