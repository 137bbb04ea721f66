"""Re-identification privacy (RIP): how well anyone tells who took part.

Izzo, Yoon, Arik and Zou, "Provable Re-identification Privacy", published as "Provable Membership
Inference Privacy", TMLR 2024. A half of a fixed dataset is drawn at random and trained on; with
eta-RIP no reader of the output guesses whether a given record was in that half with more than
1/2 + eta probability. It is an average over halves: weaker than differential privacy, which
holds for every half, and silent about any secret but membership.

*Noise* makes any training procedure re-identification private: the theorem on noise addition, its
corollary for coordinates of different scales, and Algorithm 1, as printed and as we would run it.

*Proposition 9*, where RIP needs far less noise than DP: the statistic of a half is the reciprocal
of its sum, and the n records are the powers of two from 2^0 to 2^(n-2) and one number
A = sqrt(p) - (2^0 + ... + 2^(n/2-2)), where p = 1/comb(n, n/2). The half of A and the n/2 - 1
smallest powers sums to sqrt(p), so its statistic is sqrt(comb(n, n/2)); every other half gives a
number in (0, 1]. One half in comb(n, n/2) thus makes the sensitivity grow like 2^(n/2), while the
standard deviation over halves stays near 1.

*The game* on small data (Definition 1 and Proposition 2) is played out exactly by going through all
training sets. An algorithm is given as a table of what it puts out, and how probably, for each
training set: with it the best adversary, its accuracy and so the algorithm's own eta are sums.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked, checked_delta, checked_epsilon
from privcore.upper_bounds.priors import checked_distribution


def rip_eta(epsilon: ArrayLike, *, delta: ArrayLike = 0.0) -> Floats:
    """Return the eta of re-identification privacy that DP implies, tightly.

    `1/(1 + e^-epsilon) - 1/2`, the guess accuracy above a half; the membership advantage is twice
    as much. Computed as tanh(epsilon/2)/2, which keeps its digits near 0. With delta it is half
    the largest total variation, `tanh(epsilon/2)/2 + delta/(1 + e^epsilon)` (Kairouz, Oh and
    Viswanath 2015, arXiv:1311.0776): mixtures over halves are no farther apart than their parts.

    Args:
        epsilon: at least 0, any shape, under replacement of a record; infinity gives 1/2.
        delta: in [0, 1), any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range or NaN.

    >>> float(rip_eta(1.0).round(4))
    0.2311
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    above = np.tanh(epsilon / 2.0) / 2.0
    return np.asarray(above + delta * (0.5 - above))[()]


def rip_epsilon(eta: ArrayLike) -> Floats:
    """Return the largest epsilon at which epsilon-DP implies eta-RIP, the inverse of `rip_eta`.

    `log((1 + 2 eta)/(1 - 2 eta))`. It does not say that eta-RIP implies epsilon-DP: it does not,
    for any epsilon.

    Args:
        eta: in [0, 1/2], any shape; 1/2 gives infinity.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * np.arctanh(2.0 * checked_eta(eta)))[()]


def rip_noise_scale(eta: ArrayLike, *, moment: ArrayLike = 2.0) -> Floats:
    """Return the published noise scale c = (7.5/eta)^(1 + 2/moment) that gives eta-RIP.

    Izzo et al., the theorem on noise addition: let the output's distance from its mean, in any
    norm and over random halves, have E distance^moment <= sigma^moment. Then noise with density
    proportional to exp(-||x||/(c sigma)) in that norm makes the output eta-RIP.

    Args:
        eta: in (0, 1/2], any shape.
        moment: at least 1, any shape that broadcasts; infinity for a distance that never exceeds
            sigma.
    """
    rule = "a moment's order is at least 1"
    power = 1.0 + 2.0 / checked("moment", moment, 1.0, np.inf, rule)
    return np.asarray((7.5 / checked_eta(eta, least=np.nextafter(0.0, 1.0))) ** power)[()]


def optimised_noise_scale(eta: ArrayLike) -> Floats:
    """Return the published noise scale for moment 2 with its better constant, (6.16/eta)^2.

    Izzo et al., Corollary 8, which says that optimising the theorem's bounds numerically gives 6.16
    in place of 7.5. It is the scale of their Figure 1.

    Args:
        eta: in (0, 1/2], any shape.
    """
    return np.asarray((6.16 / checked_eta(eta, least=np.nextafter(0.0, 1.0))) ** 2)[()]


def least_noise_scale(eta: ArrayLike) -> Floats:
    """Return a noise scale that suffices for eta-RIP too, c = 1/(2 eta), by a shorter proof.

    Not from the paper. Let the noise be as in `rip_noise_scale`, with sigma at least the *mean*
    distance. Noise around an output at distance t from the mean, and around the mean, have
    densities within a factor e^(t/c sigma), so their total variation is at most
    tanh(t / (2 c sigma)) <= t / (2 c sigma). Output distributions with and without the record
    both are mixtures, and each half of them has weight 1/2, so they differ by at most
    2 E[t] / (2 c sigma) <= 1/c in total variation, and a guess is right with probability at most
    1/2 + 1/(2 c). For eta = 0.1 and moment 2 it needs 1/1125 of the published noise.

    Args:
        eta: in (0, 1/2], any shape.
    """
    return np.asarray(0.5 / checked_eta(eta, least=np.nextafter(0.0, 1.0)))[()]


def checked_eta(eta: ArrayLike, *, least: float = 0.0) -> Floats:
    """Return `eta` as floats in [least, 1/2]."""
    interval = "(0, 1/2]" if least > 0.0 else "[0, 1/2]"
    return checked("eta", eta, least, 0.5, f"eta lies in {interval}")


Train = Callable[[NDArray[Any]], ArrayLike]
Noise = Callable[..., Floats]


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
    varies gets no noise. With sigma/sqrt(dimension) in each coordinate it is the theorem's noise in
    the Euclidean norm, where E ||output - mean||^2 <= sigma^2.

    Args:
        deviations: shape (dimension,), sigma_i, at least each coordinate's standard deviation over
            random halves.
        eta: in (0, 1/2].
        generator: the source of randomness.
        scale: c from eta: the theorem's, of any moment, or `least_noise_scale`, which suffices in
            this norm too.

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
    """

    output: Floats
    deviations: Floats


def reidentification_private(
    train: Train,
    records: ArrayLike,
    *,
    eta: float,
    generator: np.random.Generator,
    halves: int = 32,
    noise: Noise = anisotropic_noise,
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
        generator: draws the halves and the noise.
        halves: B, how many outputs the deviations are estimated from, at least 2.
        noise: called as noise(deviations, eta=..., generator=...).

    Raises:
        InvalidInputError: a value out of its range, fewer than 2 records, or an output that is
            not finite or changes its shape.
    """
    checked_eta(eta, least=np.nextafter(0.0, 1.0))
    records = _divisible(records, halves, least=2, rule="a half needs at least two records")
    drawn = [_half(records, generator) for _ in range(halves + 1)]
    *others, output = _outputs(train, drawn)
    deviations = np.std(others, axis=0, ddof=1)
    added = noise(deviations.ravel(), eta=eta, generator=generator)
    return PrivateOutput(output + added.reshape(output.shape), deviations)


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
    scale = float(rip_noise_scale(eta))
    records = _divisible(records, halves, least=4, rule="a half of a half needs four records")
    training = _half(records, generator)
    drawn = [_half(training, generator) for _ in range(halves)]
    *others, output = _outputs(train, [*drawn, training])
    sigma = np.sqrt(np.var(others, axis=0, ddof=1).sum())
    direction = _direction(output.size, generator).reshape(output.shape)
    noise = generator.laplace(0.0, scale * sigma) * direction
    return PrivateOutput(output + noise, np.asarray(sigma))


def _divisible(records: ArrayLike, halves: int, *, least: int, rule: str) -> NDArray[Any]:
    """Return the records, of which there are enough to estimate a deviation."""
    checked("halves", halves, 2, np.inf, "a deviation needs at least two outputs")
    records = np.asarray(records)
    if records.ndim == 0 or len(records) < least:
        raise InvalidInputError("records", records.shape, rule)
    return records


def _half(records: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Random half of the records, the smaller one of an odd number."""
    half: NDArray[Any] = records[generator.permutation(len(records))[: len(records) // 2]]
    return half


def _outputs(train: Train, halves: list[NDArray[Any]]) -> list[Floats]:
    """Return what training returned of each half: arrays of one shape, all finite."""
    outputs = [np.asarray(train(half), dtype=np.float64) for half in halves]
    shapes = sorted({output.shape for output in outputs})
    if len(shapes) != 1:
        raise InvalidInputError("shapes of outputs", shapes, f"{len(outputs)} outputs share one")
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


# Up to here all halves are gone through: 2^21 sums, in a tenth of a second.
_ENUMERATED = 22


@dataclass(frozen=True, slots=True)
class NoiseNeeded:
    """Laplace noise that the statistic needs, in its own units; made by `noise_needed`.

    Attributes:
        records: n.
        eta: what either noise guarantees.
        deviation: sigma, the statistic's standard deviation over random halves.
        sensitivity: its largest change when one record of a half is replaced.
        rip_scale: scale of the noise that gives eta-RIP by Corollary 8, (6.16/eta)^2 sigma.
        dp_scale: scale of the noise that gives epsilon-DP at epsilon = `rip_epsilon(eta)`, where
            DP implies the same eta: sensitivity/epsilon.
    """

    records: int
    eta: float
    deviation: float
    sensitivity: float
    rip_scale: float
    dp_scale: float


def reciprocal_sum_sensitivity(records: int) -> float:
    """Return the largest change of the statistic between two halves that differ in one record.

    `sqrt(comb(n, n/2)) - 1/(2^(n-2) + 2^(n/2-1) - 1)`, exactly: from the one half that sums to
    sqrt(p), to the one where the largest power stands in A's place.

    Args:
        records: n, even, from 4 to 1,000.
    """
    half = _checked_records(records) // 2
    replaced = (1 << (records - 2)) + (1 << (half - 1)) - 1
    return math.sqrt(math.comb(records, half)) - 1 / replaced


def reciprocal_sum_deviation(records: int) -> float:
    """Return the statistic's standard deviation over random halves, never below the true one.

    Up to 22 records by enumeration of all halves. Above, by bounds: E[X^2] = 1 + p R with
    R = sum of 1/s^2 over all other halves' sums s, and E[X] >= sqrt(p). The sums are distinct
    whole numbers (plus sqrt(p)) of at least m = 2^(n/2-2), with A or without, so that R is at most
    2/m^2 + 2/m. What is left open is below 1e-7 of the answer at 24 records and 1e-12 at 36.

    Args:
        records: n, even, from 4 to 1,000.
    """
    half = _checked_records(records) // 2
    rare = 1 / math.comb(records, half)
    if records > _ENUMERATED:
        least = math.ldexp(1.0, half - 2)
        # The rounding up outweighs the few rounding errors of one such sum.
        return math.sqrt(1.0 + 2.0 * rare * (1.0 / least**2 + 1.0 / least) - rare) * (1.0 + 1e-15)
    sums = np.arange(1, 1 << (records - 1))
    powers = np.bitwise_count(sums)
    with_odd_one = sums[powers == half - 1] - ((1 << (half - 1)) - 1) + math.sqrt(rare)
    statistics = 1.0 / np.concatenate([with_odd_one, sums[powers == half]])
    return float(np.std(statistics))


def noise_needed(records: int, *, eta: float = 0.1) -> NoiseNeeded:
    """Return a point of Figure 1 of Izzo et al.: noise for eta-RIP against noise for DP.

    Args:
        records: n, even, from 4 to 1,000; the figure has 36 to 48.
        eta: in (0, 1/2).

    >>> found = noise_needed(36, eta=0.01)
    >>> round(found.dp_scale / found.rip_scale, 1)
    6.3
    """
    deviation = reciprocal_sum_deviation(records)
    sensitivity = reciprocal_sum_sensitivity(records)
    return NoiseNeeded(
        records=records,
        eta=eta,
        deviation=deviation,
        sensitivity=sensitivity,
        rip_scale=float(optimised_noise_scale(eta)) * deviation,
        dp_scale=sensitivity / float(rip_epsilon(eta)),
    )


def _checked_records(records: int) -> int:
    checked("records", records, 4, 1_000, "a number from 4 to 1,000")
    if records % 2:
        raise InvalidInputError("records", records, "halves need an even number")
    return records


Bools = NDArray[np.bool_]


def training_sets(records: int, *, size: int) -> Bools:
    """Return all training sets of `size` of the records, each as probable as the others.

    Args:
        records: n, at least 1.
        size: k, from 0 to n.

    Returns:
        Shape (comb(n, k), n): whether the training set holds the record.
    """
    checked("records", records, 1, np.inf, "there is at least one record")
    checked("size", size, 0, records, f"a training set has 0 to {records} records")
    sets = list(itertools.combinations(range(records), size))
    members = np.zeros((len(sets), records), dtype=np.bool_)
    for row, chosen in enumerate(sets):
        members[row, list(chosen)] = True
    return members


def optimal_adversary(likelihoods: ArrayLike, *, members: ArrayLike) -> Bools:
    """Return what the best adversary says of each record at each output: that it took part.

    Proposition 2: it says so if the record took part with probability at least 1/2, given the
    output.

    Args:
        likelihoods: shape (training sets, outputs), each output's probability for each training
            set; all training sets are equally probable.
        members: shape (training sets, records), as `training_sets` returns it.

    Returns:
        Shape (records, outputs).
    """
    joint, without = _joint(likelihoods, members)
    return np.asarray(joint >= without)


def optimal_accuracy(likelihoods: ArrayLike, *, members: ArrayLike) -> Floats:
    """Return how often the best adversary is right about each record, in [1/2, 1].

    The integral of Proposition 2: the sum over outputs of the larger of the probabilities that the
    record took part and that it did not, jointly with the output. Arguments and errors are those of
    `optimal_adversary`.

    Returns:
        Shape (records,).
    """
    joint, without = _joint(likelihoods, members)
    return np.asarray(np.minimum(np.maximum(joint, without).sum(axis=1), 1.0))


def reidentification_eta(likelihoods: ArrayLike, *, members: ArrayLike) -> float:
    """Return the least eta for which the algorithm is eta-RIP on these records, exactly.

    Definition 1: the accuracy of the best adversary on the record that it tells best, above that
    of a blind guess. Arguments and errors are those of `optimal_adversary`.

    >>> members = training_sets(2, size=1)
    >>> # Randomized response on which of the two records was trained on, at epsilon 1.
    >>> kept = 1.0 / (1.0 + np.exp(-1.0))
    >>> table = [[kept, 1.0 - kept], [1.0 - kept, kept]]
    >>> round(reidentification_eta(table, members=members), 4)
    0.2311
    """
    share = np.asarray(members, dtype=np.float64).mean(axis=0)
    blind = np.maximum(share, 1.0 - share)
    found = float(np.max(optimal_accuracy(likelihoods, members=members) - blind))
    return max(found, 0.0)


def _joint(likelihoods: ArrayLike, members: ArrayLike) -> tuple[Floats, Floats]:
    """Probabilities of each output jointly with the record's taking part, and not taking part."""
    members = np.asarray(members)
    if members.dtype != np.bool_ or members.ndim != 2 or not members.size:
        rule = "it is an array of booleans of shape (training sets, records)"
        raise InvalidInputError("members", (str(members.dtype), members.shape), rule)
    table = checked_distribution(likelihoods)
    if table.ndim != 2 or len(table) != len(members):
        rule = f"it is ({len(members)}, outputs), a row per training set"
        raise InvalidInputError("shape of likelihoods", table.shape, rule)
    weight = 1.0 / len(members)
    return members.T @ table * weight, (~members).T @ table * weight
