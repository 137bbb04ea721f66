"""Networks that read images: a small one for two processors, ResNet18 and WRN-28-4."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workers.training.networks import Network, Parameters, dense_layers, the_jax

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
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    strides = [1, 1, 2, 1, 2, 1, 2, 1]

    def initial(key: Any) -> Parameters:
        keys = iter(jax.random.split(key, 64))
        blocks = [_block(keys, into, out) for into, out in itertools.pairwise(widths)]
        return _kernel(next(keys), channels, 64), blocks, dense_layers(next(keys), [(512, classes)])

    def logits(parameters: Parameters, images: Any) -> Any:
        stem, blocks, (last,) = parameters
        found = jax.nn.relu(_convolved(images, stem, 1))
        for block, stride in zip(blocks, strides, strict=True):
            inner = _convolved(found, block["first"], stride)
            inner = jax.nn.relu(_normed(inner, block["scales"][0], block["shifts"][0]))
            inner = _convolved(inner, block["second"], 1)
            inner = _normed(inner, block["scales"][1], block["shifts"][1])
            # Where the width changes, the stride does.
            kept = _convolved(found, block["across"], stride) if "across" in block else found
            found = jax.nn.relu(inner + kept)
        return found.mean(axis=(1, 2)) @ last["weight"] + last["bias"]

    return Network(initial, logits)


def wide_resnet28_4(side: int, channels: int, classes: int = 10) -> Network:  # noqa: ARG001  # any side
    """Return WRN-28-4 (Zagoruyko and Komodakis 2016): 28 layers, four times as wide.

    Three groups of four blocks with 64, 128 and 256 channels, which normalise before they convolve.
    Groups of channels are normalised as in `resnet18`.
    """
    jax = the_jax()
    widths = [16, *[64] * 4, *[128] * 4, *[256] * 4]
    strides = [1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1]

    def initial(key: Any) -> Parameters:
        keys = iter(jax.random.split(key, 64))
        blocks = [_block(keys, into, out) for into, out in itertools.pairwise(widths)]
        for block, into in zip(blocks, widths[:-1], strict=True):
            block["scales"] = [np.ones(into, dtype=np.float32), block["scales"][1]]
            block["shifts"] = [np.zeros(into, dtype=np.float32), block["shifts"][1]]
        last = np.ones(256, dtype=np.float32), np.zeros(256, dtype=np.float32)
        stem = _kernel(next(keys), channels, 16)
        return stem, blocks, last, dense_layers(next(keys), [(256, classes)])

    def activated(found: Any, scale: Any, shift: Any) -> Any:
        return jax.nn.leaky_relu(_normed(found, scale, shift), 0.1)

    def logits(parameters: Parameters, images: Any) -> Any:
        stem, blocks, last, (dense,) = parameters
        found = _convolved(images, stem, 1)
        for block, stride in zip(blocks, strides, strict=True):
            start = activated(found, block["scales"][0], block["shifts"][0])
            inner = _convolved(start, block["first"], stride)
            inner = activated(inner, block["scales"][1], block["shifts"][1])
            inner = _convolved(inner, block["second"], 1)
            kept = _convolved(start, block["across"], stride) if "across" in block else found
            found = inner + kept
        return activated(found, *last).mean(axis=(1, 2)) @ dense["weight"] + dense["bias"]

    return Network(initial, logits)


NETWORKS: dict[str, Callable[[int, int], Network]] = {
    "small": small_network,
    "resnet18": resnet18,
    "wrn-28-4": wide_resnet28_4,
}


def _block(keys: Iterator[Any], into: int, out: int) -> dict[str, Any]:
    """Return the first parameters of a residual block of two convolutions."""
    block = {
        "first": _kernel(next(keys), into, out),
        "second": _kernel(next(keys), out, out),
        "scales": np.ones((2, out), dtype=np.float32),
        "shifts": np.zeros((2, out), dtype=np.float32),
    }
    return block | ({"across": _kernel(next(keys), into, out, size=1)} if into != out else {})


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
