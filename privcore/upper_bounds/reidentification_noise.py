"""Noise that makes any training procedure re-identification private, and the wrapper that adds it.

Izzo et al. (see `privcore.upper_bounds.reidentification_privacy`), the theorem on noise addition,
its corollary for coordinates of different scales, and Algorithm 1, as printed and as we would run
it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.upper_bounds.reidentification_privacy import (
    checked_eta,
    optimised_noise_scale,
    rip_noise_scale,
)

Train = Callable[[NDArray[Any]], ArrayLike]
Noise = Callable[..., Floats]


def isotropic_noise(
    dimension: int,
    *,
    deviation: float,
    eta: float,
    generator: np.random.Generator,
    moment: float = 2.0,
) -> Floats:
    """Return one draw with density proportional to exp(-||x||_2 / (c deviation)).

    Its radius is Gamma(dimension, c deviation), so it grows with the dimension; its direction is
    uniform. c is `rip_noise_scale(eta, moment=moment)`.

    Args:
        dimension: of the output, at least 1.
        deviation: sigma, at least 0, with E ||output - mean||_2^moment <= sigma^moment over random
            halves.
        eta: in (0, 1/2].
        generator: the source of randomness.
        moment: at least 1.

    Returns:
        Shape (dimension,).
    """
    checked("dimension", dimension, 1, np.inf, "an output has at least one coordinate")
    checked("deviation", deviation, 0.0, np.finfo(np.float64).max, "it is finite, at least 0")
    scale = float(rip_noise_scale(eta, moment=moment)) * deviation
    return np.asarray(generator.gamma(dimension, scale) * _direction(dimension, generator))


def anisotropic_noise(
    deviations: ArrayLike,
    *,
    eta: float,
    generator: np.random.Generator,
    scale: Callable[[float], ArrayLike] = rip_noise_scale,
) -> Floats:
    """Return one draw of noise that is larger where the output varies more.

    The theorem for moment 2 in the norm ||x|| = sqrt(mean of (x_i/sigma_i)^2), where the output's
    distance from its mean has E distance^2 <= 1: density proportional to exp(-||x||/c) with
    c = (7.5/eta)^2. In that norm the radius is Gamma(dimension, c). A coordinate that never
    varies gets no noise.

    Args:
        deviations: shape (dimension,), sigma_i, at least each coordinate's standard deviation over
            random halves.
        eta: in (0, 1/2].
        generator: the source of randomness.
        scale: c from eta: the theorem's, or `least_noise_scale`, which suffices in this norm too.

    Returns:
        Shape (dimension,).
    """
    deviations = _checked_deviations(deviations)
    radius = generator.gamma(deviations.size, float(np.asarray(scale(eta))))
    return _scattered(radius, deviations, generator)


def laplace_radius_noise(
    deviations: ArrayLike, *, eta: float, generator: np.random.Generator
) -> Floats:
    """Return one draw of the published anisotropic noise, whose radius is Laplace((6.16/eta)^2).

    The norm and the uniform direction are those of `anisotropic_noise`; only the radius differs,
    and does not grow with the dimension. In one dimension that is the theorem's noise. In d it is
    not, and it does *not* give eta-RIP once sqrt(d) is of the order of (6.16/eta)^2: averaging
    coordinates then removes the noise (a test shows the attack). It is here to be compared.

    Arguments, shape and errors are those of `anisotropic_noise`.
    """
    deviations = _checked_deviations(deviations)
    radius = generator.laplace(0.0, float(optimised_noise_scale(eta)))
    return _scattered(radius, deviations, generator)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateOutput:
    """An output with noise; made by `reidentification_private`.

    Attributes:
        output: what training returned on one random half, plus noise.
        deviations: the estimated standard deviation of each coordinate; itself not private.
        eta: what would be guaranteed if the estimates were not below the true deviations.
    """

    output: Floats
    deviations: Floats
    eta: float


def reidentification_private(
    train: Train,
    records: ArrayLike,
    *,
    eta: float,
    generator: np.random.Generator,
    halves: int = 32,
    noise: Noise = anisotropic_noise,
    mapper: Callable[[Train, list[NDArray[Any]]], Iterable[ArrayLike]] = map,
) -> PrivateOutput:
    """Return a training procedure's output on a random half of the records, with noise.

    After Izzo et al., Algorithm 1 (as printed: `printed_reidentification_private`): train on
    `halves` random halves of all records, take each coordinate's standard deviation, train on one
    more half, and add noise to that. The deviations are *estimated* here, on the
    same records: the guarantee is conditional on their not being too small, and nothing tests that.
    Rare halves with wild outputs are just what an estimate misses. Only `output` may be published.

    Args:
        train: from an array of records to an array of floats, always of one shape. It must not
            keep state, and its own randomness is its own affair.
        records: shape (records, ...); indices do if `train` looks the records up itself.
        eta: in (0, 1/2].
        generator: draws the halves and the noise; with the same seed the same halves, whatever
            the mapper.
        halves: B, how many outputs the deviations are estimated from, at least 2.
        noise: called as noise(deviations, eta=..., generator=...).
        mapper: like the built-in `map`; it may call `train` on halves in parallel, and keeps order.

    Raises:
        InvalidInputError: a value out of its range, fewer than 2 records, or an output that is
            not finite or changes its shape.
    """
    checked_eta(eta, least=np.nextafter(0.0, 1.0))
    checked("halves", halves, 2, np.inf, "a deviation needs at least two outputs")
    records = np.asarray(records)
    if records.ndim == 0 or len(records) < 2:
        raise InvalidInputError("records", records.shape, "a half needs at least two records")
    drawn = [_half(records, generator) for _ in range(halves + 1)]
    *others, output = _outputs(mapper(train, drawn), expected=halves + 1)
    deviations = np.std(others, axis=0, ddof=1)
    added = noise(deviations.ravel(), eta=eta, generator=generator)
    return PrivateOutput(output + added.reshape(output.shape), deviations, eta)


def printed_reidentification_private(
    train: Train,
    records: ArrayLike,
    *,
    eta: float,
    generator: np.random.Generator,
    halves: int = 32,
) -> PrivateOutput:
    """Return what Izzo et al., Algorithm 1, returns, step by step as it is printed.

    It draws the training half once. B halves *of that half* give one number sigma, the root of the
    summed variances of all coordinates; the noise is a Laplace((7.5/eta)^2 sigma) radius times a
    uniform direction of length 1. It stands here to be compared with `reidentification_private`,
    which differs in three things. Halves of the half are smaller, and for a mean vary sqrt(2) times
    as much as halves of all records, but they say nothing of what the other records would have
    changed. One sigma drowns quiet coordinates in the noise of loud ones. And a Laplace radius is
    the theorem's noise in one dimension alone (see `laplace_radius_noise`).

    Args:
        train: as in `reidentification_private`.
        records: shape (records, ...), at least 4.
        eta: in (0, 1/2].
        generator: draws the halves and the noise.
        halves: B, how many outputs sigma is estimated from, at least 2.

    Returns:
        `deviations` has shape (): it is sigma.

    Raises:
        InvalidInputError: as in `reidentification_private`, or fewer than 4 records.
    """
    scale = float(rip_noise_scale(checked_eta(eta, least=np.nextafter(0.0, 1.0))))
    checked("halves", halves, 2, np.inf, "a deviation needs at least two outputs")
    records = np.asarray(records)
    if records.ndim == 0 or len(records) < 4:
        raise InvalidInputError("records", records.shape, "a half of a half needs four records")
    training = _half(records, generator)
    drawn = [_half(training, generator) for _ in range(halves)]
    *others, output = _outputs(map(train, [*drawn, training]), expected=halves + 1)
    sigma = np.sqrt(np.var(others, axis=0, ddof=1).sum())
    direction = _direction(output.size, generator).reshape(output.shape)
    noise = generator.laplace(0.0, scale * sigma) * direction
    return PrivateOutput(output + noise, np.asarray(sigma), eta)


def _half(records: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Random half of the records, the smaller one of an odd number."""
    half: NDArray[Any] = records[generator.permutation(len(records))[: len(records) // 2]]
    return half


def _outputs(found: Iterable[ArrayLike], *, expected: int) -> list[Floats]:
    """Return what training returned: `expected` arrays of one shape, all finite."""
    outputs = [np.asarray(output, dtype=np.float64) for output in found]
    shapes = sorted({output.shape for output in outputs})
    if len(outputs) != expected or len(shapes) != 1:
        raise InvalidInputError("shapes of outputs", shapes, f"{expected} outputs share one")
    if not all(np.isfinite(output).all() for output in outputs):
        raise InvalidInputError("output", np.nan, "training returns finite numbers")
    return outputs


def _direction(dimension: int, generator: np.random.Generator) -> Floats:
    """Uniform direction in this many dimensions."""
    normal = generator.standard_normal(dimension)
    return np.asarray(normal / np.linalg.norm(normal))


def _scattered(radius: float, deviations: Floats, generator: np.random.Generator) -> Floats:
    """Vector of this radius in the norm sqrt(mean of (x_i/sigma_i)^2), in a random direction."""
    dimension = deviations.size
    return np.asarray(radius * np.sqrt(dimension) * deviations * _direction(dimension, generator))


def _checked_deviations(deviations: ArrayLike) -> Floats:
    rule = "a standard deviation is finite and at least 0"
    largest = np.finfo(np.float64).max
    deviations = checked("deviations", deviations, 0.0, largest, rule)
    if deviations.ndim != 1 or deviations.size == 0:
        raise InvalidInputError("shape of deviations", deviations.shape, "it is (dimension,)")
    return deviations
