"""The normal distribution for numba kernels, in double precision on scalars.

numba cannot call scipy.special, and a search over trade-off functions calls these two millions of
times. Both are tested against scipy to a few units in the last place.
"""

import math

from numba import njit

# Wichura (1988), Algorithm AS 241, Applied Statistics 37(3): the published coefficients of the
# rational approximation of the normal quantile, highest power first, for three ranges.
_CENTRE = (
    (
        2509.0809287301227,
        33430.57558358813,
        67265.7709270087,
        45921.95393154987,
        13731.69376550946,
        1971.5909503065513,
        133.14166789178438,
        3.3871328727963665,
    ),
    (
        5226.495278852854,
        28729.085735721943,
        39307.89580009271,
        21213.794301586597,
        5394.196021424751,
        687.1870074920579,
        42.31333070160091,
        1.0,
    ),
)
_TAIL = (
    (
        0.0007745450142783414,
        0.022723844989269184,
        0.2417807251774506,
        1.2704582524523684,
        3.6478483247632045,
        5.769497221460691,
        4.630337846156546,
        1.4234371107496835,
    ),
    (
        1.0507500716444169e-09,
        0.0005475938084995345,
        0.015198666563616457,
        0.14810397642748008,
        0.6897673349851,
        1.6763848301838038,
        2.053191626637759,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.0103343992922881e-07,
        2.7115555687434876e-05,
        0.0012426609473880784,
        0.026532189526576124,
        0.29656057182850487,
        1.7848265399172913,
        5.463784911164114,
        6.657904643501103,
    ),
    (
        2.0442631033899397e-15,
        1.421511758316446e-07,
        1.8463183175100548e-05,
        0.0007868691311456133,
        0.014875361290850615,
        0.1369298809227358,
        0.599832206555888,
        1.0,
    ),
)
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
