"""Membership scores that compare the audited model with one reference model.

Each is a fixed choice, and centred: positive says "member", negative "not a member". They are the
attacks that "Observational Auditing of Label Privacy" (arXiv:2511.14084) is compared with, and feed
`membership_inference`. The reference model was trained on other records
of the same distribution: if it saw one of a pair, the score betrays the bit by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class CalibratedLossScore:
    """The reference model's loss minus the target's, less a threshold.

    Watson, Guo, Cormode and Sablayrolles 2022, "On the Importance of Difficulty Calibration in
    Membership Inference Attacks" (arXiv:2111.08440), equation 3 with one reference model: a record
    that is hard for every model is no member for being hard, nor one that is easy.

    Args:
        threshold: what the target's loss falls below the reference's for a record that is as
            likely a member as not, in units of the loss. 0 is right where both models do equally
            well on fresh records; otherwise take the median of the difference over a population
            apart from the game's records.
    """

    threshold: float = 0.0
    name: ClassVar[str] = "calibrated_loss"

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise InvalidInputError("threshold", self.threshold, "it is a finite difference")

    def __call__(
        self, target_losses: NDArray[np.float64], reference_losses: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the scores; all three arrays have shape (records,)."""
        target = _vector("target_losses", target_losses)
        reference = _same("reference_losses", reference_losses, target, "target_losses")
        for name, losses in (("target_losses", target), ("reference_losses", reference)):
            if not np.all(np.isfinite(losses)):
                worst = float(losses[~np.isfinite(losses)][0])
                raise InvalidInputError(name, worst, "a loss is a finite number")
        return reference - target - self.threshold


@dataclass(frozen=True, slots=True)
class RmiaScore:
    """RMIA, offline, one model: how many population records a record's likelihood ratio outdoes.

    Zarifzadeh, Liu and Shokri 2024, "Low-Cost High-Power Membership Inference Attacks"
    (arXiv:2312.03262). With the probabilities that a model gives to a record's own label,

        share(x) = P over z of [ p(x|target) / p(x) >= dominance * p(z|target) / p(z) ],
        p(x) = ((1 + a) p(x|reference) + (1 - a)) / 2, and p(z) likewise,

    where p(x) stands for the mean over models with and without x: the offline variant puts
    a p(x|reference) + 1 - a for a model that was trained on x. A population record of ratio 0 is
    outdone by every record. The score is log-odds of the smoothed share, (count + 1/2) /
    (population + 1), less the log-odds of the threshold. That is the paper's order, and finite;
    log-odds only keep the most confident records apart, which all have shares near 1.

    Args:
        dominance: the paper's factor gamma, above 0.
        slope: the paper's a, in [0, 1]; 1 takes p(x) = p(x|reference). The paper tunes it between
            two reference models, before any game.
        threshold: share at which a record is as likely a member as not, the paper's beta. With
            dominance 1 a fresh record's share is uniform, and 1/2 calls half of them members; a
            larger dominance wants a smaller threshold, taken from another population.
    """

    dominance: float = 1.0
    slope: float = 1.0
    threshold: float = 0.5
    name: ClassVar[str] = "rmia"

    def __post_init__(self) -> None:
        if not 0.0 < self.dominance < np.inf:
            raise InvalidInputError("dominance", self.dominance, "it is a finite factor above 0")
        if not 0.0 <= self.slope <= 1.0:
            raise InvalidInputError("slope", self.slope, "it lies in [0, 1]")
        if not 0.0 < self.threshold < 1.0:
            raise InvalidInputError("threshold", self.threshold, "a share lies in (0, 1)")

    def __call__(
        self,
        target: NDArray[np.float64],
        reference: NDArray[np.float64],
        *,
        population_target: NDArray[np.float64],
        population_reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the scores, shape (records,).

        Args:
            target: shape (records,), p(x|target).
            reference: shape (records,), p(x|reference).
            population_target: shape (population,), p(z|target).
            population_reference: shape (population,), p(z|reference).

        Assumptions: the population has the records' distribution; neither model was trained on
        it, and no record of the game is in it, not even one that is never shown. Both records of
        a pair are held against the same population: two samples differ, and would tell them apart.

        Raises:
            InvalidInputError: probabilities that are NaN or outside [0, 1], shapes that differ, an
                empty population, or a reference probability of 0 with slope 1, which has no ratio.
        """
        ratio = self._ratio("target", target, "reference", reference)
        population = self._ratio(
            "population_target", population_target, "population_reference", population_reference
        )
        if population.size == 0:
            raise InvalidInputError("population_target", (0,), "the population has records")
        outdone = np.searchsorted(np.sort(self.dominance * population), ratio, side="right")
        share = (outdone + 0.5) / (population.size + 1.0)
        scores: NDArray[np.float64] = logit(share) - logit(self.threshold)
        return scores

    def _ratio(
        self,
        target_name: str,
        target: NDArray[np.float64],
        reference_name: str,
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Likelihood of every record under the target, over its likelihood without knowing."""
        target = _probabilities(target_name, _vector(target_name, target))
        reference = _same(reference_name, reference, target, target_name)
        reference = _probabilities(reference_name, reference)
        mean = ((1.0 + self.slope) * reference + (1.0 - self.slope)) / 2.0
        if np.any(mean == 0.0):
            rule = "with slope 1 a record that the reference holds impossible has no ratio"
            raise InvalidInputError(reference_name, 0.0, rule)
        return target / mean


def _vector(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim != 1:
        raise InvalidInputError(name, values.shape, "it has one value per record")
    return values.astype(np.float64)


def _same(
    name: str, values: NDArray[np.float64], other: NDArray[np.float64], other_name: str
) -> NDArray[np.float64]:
    if values.shape != other.shape:
        raise InvalidInputError(name, values.shape, f"it has {other_name}'s shape, {other.shape}")
    return values.astype(np.float64)


def _probabilities(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = (values >= 0.0) & (values <= 1.0)
    if not np.all(inside):
        raise InvalidInputError(name, float(values[~inside][0]), "a probability lies in [0, 1]")
    return values
