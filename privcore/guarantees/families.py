"""Guarantees and families of guarantees, as immutable values, and their trade-off functions.

A guarantee whose parameter is left open is a family: `Gaussian()` is every Gaussian trade-off
function, `Gaussian(mu=0.5)` is one of them. All of them speak of *replacing* one record's label
unless a caller says otherwise; label replacement at epsilon implies the simulation-based
add/remove guarantee that the audit tests, at the same epsilon, and not conversely.

*Trade-off functions* are numba kernels: the inverse F of x -> 1 - f(x), for every family. `f(x)` is
the least type-II error of a test with type-I error `x` that tells two neighbouring outputs apart
(Dong, Roth and Su 2022, arXiv:1905.02383). Every F here is convex with F(0) = 0 and F(x) <= x, and
falls as the privacy parameter grows; the searches in `privcore.lower_bounds` rest on these three
facts, and a property test holds each F to them. numba cannot call scipy.special, and a search over
trade-off functions calls the normal distribution millions of times: its two functions are written
here for scalars, and tested against scipy to a few units in the last place.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from numba import njit

from privcore.exceptions import InvalidInputError

# Wichura (1988), Algorithm AS 241, Applied Statistics 37(3): the published coefficients of the
# rational approximation of the normal quantile, highest power first, for three ranges.
# fmt: off
_CENTRE = (
    (
        2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987,
        13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665,
    ),
    (
        5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
        5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0,
    ),
)
_TAIL = (
    (
        0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
        3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835,
    ),
    (
        1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
        0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0,
    ),
)
_FAR_TAIL = (
    (
        2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
        0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
    ),
    (
        2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05,
        0.0007868691311456133, 0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0,
    ),
)
# fmt: on
_SQRT_HALF = math.sqrt(0.5)


@njit(cache=True, inline="always")
def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: float) -> float:
    top, bottom = 0.0, 0.0
    for i in range(8):
        top = top * x + coefficients[0][i]
        bottom = bottom * x + coefficients[1][i]
    return top / bottom


@njit(cache=True)
def normal_cdf(x: float) -> float:
    """Probability that a standard normal variable is at most `x`."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@njit(cache=True)
def normal_quantile(probability: float) -> float:
    """Inverse of `normal_cdf`; minus and plus infinity at 0 and 1 (and beyond)."""
    if probability <= 0.0:
        return -math.inf
    if probability >= 1.0:
        return math.inf
    centred = probability - 0.5
    if abs(centred) <= 0.425:
        return centred * _ratio(_CENTRE, 0.180625 - centred * centred)
    depth = math.sqrt(-math.log(min(probability, 1.0 - probability)))
    size = _ratio(_TAIL, depth - 1.6) if depth <= 5.0 else _ratio(_FAR_TAIL, depth - 5.0)
    return math.copysign(size, centred)


GAUSSIAN, APPROX_DP, LAPLACE = range(3)


Kernel = tuple[int, float, float]
"""One trade-off function as (kind, parameter, delta), so that one compiled kernel serves all.

The parameter is mu or epsilon, whichever the kind has; delta counts for APPROX_DP alone. A plain
tuple: of a named one each compiled function would be made twice.
"""


@njit(cache=True)
def inverse(kind: int, parameter: float, delta: float, x: float) -> float:
    """F(x) for x in [0, 1]: the type-I error at which power `x` is reached at best."""
    if kind == GAUSSIAN:
        return normal_cdf(normal_quantile(x) - parameter)
    if kind == APPROX_DP:
        low = (x - delta) * math.exp(-parameter)
        high = 1.0 - delta - (1.0 - x) * math.exp(parameter)
        return max(0.0, low, high)
    shrink = math.exp(-parameter)
    if x < 0.5:
        return shrink * x
    if x <= 1.0 - 0.5 * shrink:
        return shrink / (4.0 * (1.0 - x))
    return 1.0 - (1.0 - x) / shrink


def check_delta(delta: float) -> None:
    """Raise `InvalidInputError` unless `delta` lies in [0, 1)."""
    if not 0.0 <= delta < 1.0:
        raise InvalidInputError("delta", delta, "delta lies in [0, 1)")


def _check_parameter(name: str, value: float | None) -> None:
    if value is not None and not value >= 0.0:
        raise InvalidInputError(name, value, "a privacy parameter is at least 0")


def _chosen(name: str, value: float | None) -> float:
    if value is None:
        raise InvalidInputError(name, value, "this is a family: choose a member with a value")
    return value


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian differential privacy: as hard as telling N(0, 1) from N(mu, 1).

    Dong, Roth and Su 2022 (arXiv:1905.02383), Definition 4. Rejecting every Gaussian trade-off
    function up to mu does *not* refute an (epsilon, delta) claim: other functions satisfy it.

    >>> round(Gaussian(1.0).epsilon_at(delta=1e-5), 2)
    4.38
    """

    mu: float | None = None
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _check_parameter("mu", self.mu)

    def member(self, parameter: float, *, delta: float = 0.0) -> "Gaussian":
        """Return the guarantee with mu = `parameter`; `delta` plays no part."""
        del delta
        return Gaussian(parameter)

    def epsilon_at(self, *, delta: float) -> float:
        """Return the least epsilon such that (epsilon, delta)-DP follows; infinite at delta 0."""
        check_delta(delta)
        mu = _chosen("mu", self.mu)
        if mu == 0.0:
            return 0.0
        if delta == 0.0 or math.isinf(mu):
            return math.inf
        return float(_gaussian_epsilon(mu, delta))

    def kernel(self) -> Kernel:
        """Return the trade-off function as numbers for `privcore.guarantees.families`."""
        return GAUSSIAN, _chosen("mu", self.mu), 0.0


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy, as its own trade-off function.

    f(x) = max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)): Wasserman and Zhou 2010;
    Dong, Roth and Su 2022, Proposition 3. As a family its delta is the one that a caller asks for.

    >>> ApproxDP(1.0, 1e-5).epsilon_at(delta=1e-5)
    1.0
    """

    epsilon: float | None = None
    delta: float = 0.0
    name: ClassVar[str] = "approx_dp"

    def __post_init__(self) -> None:
        _check_parameter("epsilon", self.epsilon)
        check_delta(self.delta)

    def member(self, parameter: float, *, delta: float = 0.0) -> "ApproxDP":
        """Return the guarantee (`parameter`, `delta`)."""
        return ApproxDP(parameter, delta)

    def epsilon_at(self, *, delta: float) -> float:
        """Return the least epsilon at another delta; infinite below this guarantee's own."""
        check_delta(delta)
        return _relaxed(_chosen("epsilon", self.epsilon), self.delta, delta)

    def kernel(self) -> Kernel:
        """Return the trade-off function as numbers for `privcore.guarantees.families`."""
        epsilon = _chosen("epsilon", self.epsilon)
        return APPROX_DP, epsilon, self.delta


@dataclass(frozen=True, slots=True)
class PureDP:
    """Pure differential privacy: (epsilon, 0).

    Its trade-off function is that of randomized response, the worst mechanism that it allows.

    >>> PureDP(2.0).epsilon_at(delta=0.0)
    2.0
    """

    epsilon: float | None = None
    name: ClassVar[str] = "pure_dp"

    def __post_init__(self) -> None:
        _check_parameter("epsilon", self.epsilon)

    def member(self, parameter: float, *, delta: float = 0.0) -> "PureDP":
        """Return the guarantee with epsilon = `parameter`; `delta` plays no part."""
        del delta
        return PureDP(parameter)

    def epsilon_at(self, *, delta: float) -> float:
        """Return the least epsilon such that (epsilon, delta)-DP follows."""
        check_delta(delta)
        return _relaxed(_chosen("epsilon", self.epsilon), 0.0, delta)

    def kernel(self) -> Kernel:
        """Return the trade-off function as numbers for `privcore.guarantees.families`."""
        return APPROX_DP, _chosen("epsilon", self.epsilon), 0.0


@dataclass(frozen=True, slots=True)
class Laplace:
    """Trade-off of telling Laplace(0, 1) from Laplace(epsilon, 1).

    Dong, Roth and Su 2022, Proposition A.6: the exact trade-off function of the Laplace mechanism
    with sensitivity epsilon and scale 1, which is epsilon-DP and less revealing than its worst.

    >>> Laplace(1.0).epsilon_at(delta=0.0)
    1.0
    """

    epsilon: float | None = None
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        _check_parameter("epsilon", self.epsilon)

    def member(self, parameter: float, *, delta: float = 0.0) -> "Laplace":
        """Return the guarantee with epsilon = `parameter`; `delta` plays no part."""
        del delta
        return Laplace(parameter)

    def epsilon_at(self, *, delta: float) -> float:
        """Return the least epsilon such that (epsilon, delta)-DP follows.

        The hockey-stick divergence of two Laplace densities at distance epsilon_0 is
        1 - e^((epsilon - epsilon_0)/2); it is solved for epsilon.
        """
        check_delta(delta)
        return max(0.0, _chosen("epsilon", self.epsilon) + 2.0 * math.log1p(-delta))

    def kernel(self) -> Kernel:
        """Return the trade-off function as numbers for `privcore.guarantees.families`."""
        return LAPLACE, _chosen("epsilon", self.epsilon), 0.0


Family = Gaussian | ApproxDP | PureDP | Laplace
Guarantee = Family
"""A family whose parameter is given."""


@njit(cache=True)
def _mills(t: float) -> float:
    """Phi(-t) over the normal density at t, by its continued fraction where t is large."""
    if t < 5.0:
        return math.sqrt(2.0 * math.pi) * math.exp(0.5 * t * t) * normal_cdf(-t)
    value = t
    for k in range(40, 0, -1):
        value = t + k / value
    return 1.0 / value


@njit(cache=True)
def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Least epsilon of mu-Gaussian DP at `delta`, both above 0: the scalar `gaussian_epsilon`.

    delta(epsilon) = Phi(-a) - phi(a) Mills(a + mu) with a = epsilon/mu - mu/2, since the density
    at a + mu is e^-epsilon times that at a. Its logarithm is concave (it is a log-concave density
    integrated twice), so Newton's steps from a value too large fall monotonically to the root,
    and the answer is not too small beyond rounding.
    """
    if math.erf(mu / math.sqrt(8.0)) <= delta:
        return 0.0
    target = math.log(delta)
    a = max(-normal_quantile(delta), -0.5 * mu)
    while True:
        density = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
        beyond = _mills(a + mu)
        # Mills' ratio keeps the digits of a small delta, the distribution those of a large one.
        reached = density * (_mills(a) - beyond) if a > 0.0 else normal_cdf(-a) - density * beyond
        lower = a - (target - math.log(reached)) * reached / (density * beyond * mu)
        if not lower < a - 1e-15 * max(1.0, abs(a)):
            return mu * (a + 0.5 * mu)
        a = lower


def _relaxed(epsilon: float, delta: float, delta_asked: float) -> float:
    """Epsilon of f_(epsilon, delta) at `delta_asked`.

    Its hockey-stick divergence at epsilon' <= epsilon is
    delta + (1 - delta) (e^epsilon - e^epsilon') / (e^epsilon + 1), solved for epsilon'.
    """
    if delta_asked < delta:
        return math.inf
    if epsilon == 0.0 or math.isinf(epsilon) or delta_asked == delta:
        return epsilon
    excess = (delta_asked - delta) / (1.0 - delta) * (1.0 + math.exp(-epsilon))
    return max(0.0, epsilon + math.log1p(-excess)) if excess < 1.0 else 0.0
