"""Networks that read images, and how they are trained with private labels: LP-1ST and ALIBI.

What "Observational Auditing of Privacy" does not print comes from the code of the papers that it
cites: LP-1ST with mixup (Ghazi et al. 2021), its prior (Wu et al. 2023), ALIBI without augmentation
(Malek et al. 2021).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import LaplaceOneHot, RandomizedResponse, RandomizedResponseWithPrior
from workers.training.networks import (
    FittedNetwork,
    Network,
    Parameters,
    Reading,
    Schedule,
    dense_layers,
    fit_network,
    one_hot,
    the_jax,
)

_GROUPS = 8


def small_network(side: int, channels: int, classes: int = 10) -> Network:
    """Return two convolutions of stride 2 (16 and 32 channels) and two connected layers."""
    jax = the_jax()
    flat = 32 * (-(-side // 4)) ** 2

    def initial(key: Any) -> Parameters:
        first, second, dense = jax.random.split(key, 3)
        kernels = [_kernel(first, channels, 16), _kernel(second, 16, 32)]
        return kernels, dense_layers(dense, [(flat, 64), (64, classes)])

    def logits(parameters: Parameters, images: Any) -> Any:
        kernels, (hidden, last) = parameters
        found = images
        for kernel in kernels:
            found = jax.nn.relu(_convolved(found, kernel, 2))
        found = found.reshape(len(found), -1)
        found = jax.nn.relu(found @ hidden["weight"] + hidden["bias"])
        return found @ last["weight"] + last["bias"]

    return Network(initial, logits)


def resnet18(side: int, channels: int, classes: int = 10) -> Network:  # noqa: ARG001  # any side
    """Return ResNet18 (He et al. 2016) for small images: four pairs of blocks, 64 to 512 channels.

    Groups of channels are normalised in place of batches (Wu and He 2018), so that a network stays
    a function of its parameters and one image.
    """
    jax = the_jax()
    strides = [1, 1, 2, 1, 2, 1, 2, 1]

    def logits(parameters: Parameters, images: Any) -> Any:
        stem, blocks, _, (last,) = parameters
        found = jax.nn.relu(_convolved(images, stem, 1))
        for block, stride in zip(blocks, strides, strict=True):
            inner = _convolved(found, block["first"], stride)
            inner = jax.nn.relu(_normed(inner, *block["norms"][0]))
            inner = _normed(_convolved(inner, block["second"], 1), *block["norms"][1])
            # Where the width changes, the stride does.
            kept = _convolved(found, block["across"], stride) if "across" in block else found
            found = jax.nn.relu(inner + kept)
        return found.mean(axis=(1, 2)) @ last["weight"] + last["bias"]

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    return Network(_residual(widths, channels, classes, before=False), logits)


def wide_resnet28_4(side: int, channels: int, classes: int = 10) -> Network:  # noqa: ARG001  # any side
    """Return WRN-28-4 (Zagoruyko and Komodakis 2016): 28 layers, four times as wide.

    Three groups of four blocks with 64, 128 and 256 channels, which normalise before they convolve.
    Groups of channels are normalised as in `resnet18`.
    """
    jax = the_jax()
    strides = [1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1]

    def activated(found: Any, norm: Any) -> Any:
        return jax.nn.leaky_relu(_normed(found, *norm), 0.1)

    def logits(parameters: Parameters, images: Any) -> Any:
        stem, blocks, last, (dense,) = parameters
        found = _convolved(images, stem, 1)
        for block, stride in zip(blocks, strides, strict=True):
            start = activated(found, block["norms"][0])
            inner = activated(_convolved(start, block["first"], stride), block["norms"][1])
            inner = _convolved(inner, block["second"], 1)
            kept = _convolved(start, block["across"], stride) if "across" in block else found
            found = inner + kept
        return activated(found, last).mean(axis=(1, 2)) @ dense["weight"] + dense["bias"]

    widths = [16, *[64] * 4, *[128] * 4, *[256] * 4]
    return Network(_residual(widths, channels, classes, before=True), logits)


NETWORKS: dict[str, Callable[[int, int], Network]] = {
    "small": small_network,
    "resnet18": resnet18,
    "wrn-28-4": wide_resnet28_4,
}


def _residual(
    widths: list[int], channels: int, classes: int, *, before: bool
) -> Callable[[Any], Parameters]:
    """Return what draws a residual network, whose blocks normalise after or before they convolve.

    Its parameters are stem, blocks, what normalises the last block's answer, and the dense layer.
    """

    def initial(key: Any) -> Parameters:
        keys, blocks = iter(the_jax().random.split(key, 64)), []
        for into, out in itertools.pairwise(widths):
            first, second = (_kernel(next(keys), width, out) for width in (into, out))
            norms = [_norm(into if before else out), _norm(out)]
            block = {"first": first, "second": second, "norms": norms}
            if into != out:
                block["across"] = _kernel(next(keys), into, out, size=1)
            blocks.append(block)
        last = _norm(widths[-1]) if before else ()
        stem = _kernel(next(keys), channels, widths[0])
        return stem, blocks, last, dense_layers(next(keys), [(widths[-1], classes)])

    return initial


def _norm(width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.ones(width, dtype=np.float32), np.zeros(width, dtype=np.float32)


def _kernel(key: Any, into: int, out: int, size: int = 3) -> Any:
    """Return a convolution's first kernel (He et al. 2015)."""
    return the_jax().nn.initializers.he_normal()(key, (size, size, into, out))


def _convolved(images: Any, kernel: Any, stride: int) -> Any:
    return the_jax().lax.conv_general_dilated(
        images, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _normed(found: Any, scale: Any, shift: Any) -> Any:
    """Return values with mean 0 and variance 1 in each image's groups of channels."""
    grouped = found.reshape(*found.shape[:3], _GROUPS, -1)
    mean = grouped.mean(axis=(1, 2, 4), keepdims=True)
    spread = grouped.var(axis=(1, 2, 4), keepdims=True)
    return ((grouped - mean) / (spread + 1e-5) ** 0.5).reshape(found.shape) * scale + shift


ImageMethodName = Literal["lp-1st", "lp-1st-out-of-domain-prior", "alibi"]
WITH_PRIOR: ImageMethodName = "lp-1st-out-of-domain-prior"
PRIOR_EPSILON = 0.025
"""Epsilon that the prior is measured with, of whatever epsilon the whole has.

Inferred from the code of Wu et al. 2023.
"""
CLUSTERS, COMPONENTS = 50, 50


@dataclass(frozen=True, slots=True)
class ImageMethod:
    """One mechanism at the epsilon of the whole, of which infinity is no noise.

    The prior of `lp-1st-out-of-domain-prior` is the histogram of labels in each of 50 clusters of
    unlabelled images, with Laplace noise.

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
        response = RandomizedResponseWithPrior(self.epsilon - PRIOR_EPSILON, classes)
        return response.sample(labels, priors[clusters], random)


def most_probable_label(mechanism: LaplaceOneHot) -> Reading:
    """Return ALIBI's targets: of each noisy vector the most probable label, as a one-hot vector.

    The network's own softmax is the prior of Bayes' rule.
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

    Their shape is (clusters, classes). Replacing a label moves two counts by 1: pure epsilon-DP for
    replacing it. Counts below 0 are taken as 0; a cluster of which nothing is left has a uniform
    prior.
    """
    counts = np.zeros((clusters.max() + 1, classes))
    np.add.at(counts, (clusters, labels), 1.0)
    noisy = np.maximum(counts + random.laplace(0.0, 2.0 / epsilon, counts.shape), 0.0)
    total = noisy.sum(axis=1, keepdims=True)
    uniform = np.full_like(noisy, 1.0 / classes)
    return np.where(total > 0.0, noisy / np.where(total > 0.0, total, 1.0), uniform)
