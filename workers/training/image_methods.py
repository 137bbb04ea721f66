"""Methods that train image networks with private labels: LP-1ST, with or without prior, and ALIBI.

What "Observational Auditing of Privacy" does not print comes from the code of the papers that it
cites: LP-1ST with mixup (Ghazi et al. 2021), its prior (Wu et al. 2023), ALIBI without augmentation
(Malek et al. 2021).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    LaplaceOneHot,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from workers.training.networks import (
    FittedNetwork,
    Network,
    Reading,
    Schedule,
    fit_network,
    one_hot,
    the_jax,
)

ImageMethodName = Literal["lp-1st", "lp-1st-out-of-domain-prior", "alibi"]
WITH_PRIOR: ImageMethodName = "lp-1st-out-of-domain-prior"
PRIOR_EPSILON = 0.025
"""Epsilon that the prior is measured with, of whatever epsilon the whole has.

Inferred from the code of Wu et al. 2023.
"""
CLUSTERS, COMPONENTS = 50, 50


@dataclass(frozen=True, slots=True)
class ImageMethod:
    """One mechanism at one epsilon.

    Attributes:
        name: `lp-1st`; `lp-1st-out-of-domain-prior`, whose prior is the histogram of labels in each
            of 50 clusters of unlabelled images, with Laplace noise; or `alibi`.
        epsilon: of the whole; infinity is no noise.

    Raises:
        InvalidInputError: an epsilon of which measuring the prior leaves nothing.
    """

    name: ImageMethodName
    epsilon: float

    def __post_init__(self) -> None:
        if self.name == WITH_PRIOR and not self.epsilon > PRIOR_EPSILON:
            rule = (
                f"measuring the prior takes {PRIOR_EPSILON}: choose a larger epsilon, or a method "
                "without a prior"
            )
            raise InvalidInputError("epsilon", self.epsilon, rule)

    def manifest_entry(self, classes: int) -> dict[str, Any] | None:
        """Return the mechanism's name and parameters for a manifest; None without noise."""
        if math.isinf(self.epsilon):
            return None
        if self.name == "lp-1st":
            return RandomizedResponse(self.epsilon, classes).manifest_entry
        if self.name == "alibi":
            return LaplaceOneHot.from_epsilon(self.epsilon, classes).manifest_entry
        # Replacing a label moves one from one bin to another, as it does in a one-hot vector.
        measured = LaplaceOneHot.from_epsilon(PRIOR_EPSILON, classes)
        answered = RandomizedResponseWithPrior(self._answer_epsilon, classes)
        parts = [measured.manifest_entry, answered.manifest_entry]
        return {"name": "composition", "parameters": {"mechanisms": parts}}

    def fit(
        self,
        network: Network,
        pixels: NDArray[np.float32],
        labels: NDArray[np.int64],
        schedule: Schedule,
        *,
        classes: int,
        seed: int,
        random: np.random.Generator,
    ) -> FittedNetwork:
        """Return the network, trained on what the mechanism leaves of the labels."""
        if self.name == "alibi" and not math.isinf(self.epsilon):
            mechanism = LaplaceOneHot.from_epsilon(self.epsilon, classes)
            noisy = mechanism.sample(labels, random).astype(np.float32)
            reading = most_probable_label(mechanism)
            return fit_network(network, pixels, noisy, schedule, seed=seed, reading=reading)
        answers = self._answers(pixels, labels, classes, random)
        return fit_network(network, pixels, one_hot(answers, classes), schedule, seed=seed)

    @property
    def _answer_epsilon(self) -> float:
        return self.epsilon - PRIOR_EPSILON

    def _answers(
        self,
        pixels: NDArray[np.float32],
        labels: NDArray[np.int64],
        classes: int,
        random: np.random.Generator,
    ) -> NDArray[np.int64]:
        if math.isinf(self.epsilon):
            return labels
        if self.name == "lp-1st":
            return RandomizedResponse(self.epsilon, classes).sample(labels, random)
        clusters = clustered(pixels, random)
        priors = cluster_priors(labels, clusters, classes, epsilon=PRIOR_EPSILON, random=random)
        response = RandomizedResponseWithPrior(self._answer_epsilon, classes)
        return response.sample(labels, priors[clusters], random)


def most_probable_label(mechanism: LaplaceOneHot) -> Reading:
    """Return ALIBI's targets: of each noisy vector the most probable label, as a one-hot vector.

    The network's own softmax is the prior; see `LaplaceOneHot.posterior`.
    """
    jax = the_jax()

    def reading(noisy: Any, own: Any) -> Any:
        # The other entries' densities are the same whatever the label is.
        gain = (jax.numpy.abs(noisy) - jax.numpy.abs(noisy - 1.0)) / mechanism.scale
        joint = jax.numpy.log(jax.numpy.maximum(own, 1e-12)) + gain
        return jax.nn.one_hot(joint.argmax(axis=1), noisy.shape[1])

    return reading


def clustered(pixels: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.int64]:
    """Return each image's cluster, shape (images,), by k-means on its principal components.

    It reads no label. The paper clusters the features of a network (DINO) that was trained without
    labels on other images; its weights are not here, so principal components stand in for them.
    """
    flat = pixels.reshape(len(pixels), -1).astype(np.float64)
    flat -= flat.mean(axis=0)
    _, _, directions = np.linalg.svd(flat.T @ flat, hermitian=True)
    components = flat @ directions[:COMPONENTS].T
    _, clusters = kmeans2(components, min(CLUSTERS, len(pixels)), minit="++", seed=random)
    return np.asarray(clusters, dtype=np.int64)


def cluster_priors(
    labels: NDArray[np.int64],
    clusters: NDArray[np.int64],
    classes: int,
    *,
    epsilon: float,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the classes' shares in each cluster, from noisy counts (Laplace, scale 2/epsilon).

    Replacing a label moves two counts by 1: pure epsilon-DP for replacing it. Counts below 0 are
    taken as 0; a cluster of which nothing is left has a uniform prior.

    Returns:
        Shape (clusters, classes).
    """
    counts = np.zeros((clusters.max() + 1, classes))
    np.add.at(counts, (clusters, labels), 1.0)
    noisy = np.maximum(counts + random.laplace(0.0, 2.0 / epsilon, counts.shape), 0.0)
    total = noisy.sum(axis=1, keepdims=True)
    uniform = np.full_like(noisy, 1.0 / classes)
    return np.where(total > 0.0, noisy / np.where(total > 0.0, total, 1.0), uniform)
