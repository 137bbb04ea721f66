"""Figures as text, rounded so that the text never claims more than the figure.

What is rounded is the shortest decimal that names the float: 0.29 is 0.29, although the float of
that name lies below it. Every bound that a person reads goes through here.
"""

import functools
import math
from decimal import ROUND_CEILING, ROUND_DOWN, Context, Decimal

ABSENT = "\N{EN DASH}"
"""Text in place of a missing figure; never 0."""
HUGE = 1e9
"""Size from which three digits and an exponent are shown: pages are too narrow for all digits."""
_BEYOND_ZERO = frozenset("123456789∞")


def down(value: float | None, *, decimals: int = 2, beyond: float | None = None) -> str:
    """Return a lower bound as text, rounded towards zero; `ABSENT` for None and NaN.

    A positive bound that would read as zero is shown as "> 0". Where the bound lies `beyond` a
    figure, it has as many more decimals, up to four, as let its text lie there as well.

    >>> down(0.29), down(1.999), down(0.004), down(0.0), down(1.0004, beyond=1.0)
    ('0.29', '1.99', '> 0', '0.00', '1.0004')
    """
    text = _rounded(value, decimals, ROUND_DOWN)
    if value is None or not math.isfinite(value):
        return text
    if beyond is not None and value > beyond:
        while decimals < 4 and Decimal(text) <= Decimal(str(beyond)):
            decimals += 1
            text = _rounded(value, decimals, ROUND_DOWN)
    return "> 0" if 0.0 < value < 1.0 and _reads_zero(text) else text


def up(value: float | None, *, decimals: int = 2) -> str:
    """Return an upper limit as text, rounded up; `ABSENT` for None and NaN.

    >>> up(0.29), up(1.001), up(float("inf"))
    ('0.29', '1.01', '∞')
    """
    return _rounded(value, decimals, ROUND_CEILING)


def exact(value: float | None) -> str:
    """Return a figure that a person stated, as they would write it; `ABSENT` for None and NaN."""
    if value is None or math.isnan(value):
        return ABSENT
    return "∞" if math.isinf(value) else f"{value:g}".replace("e-0", "e-")


def guarantee(epsilon: float | None, delta: float | None) -> str:
    """Return a declared guarantee as text: epsilon, and delta beside it where it is not 0.

    >>> guarantee(0.5, 0.0), guarantee(0.5, 1e-05)
    ('0.5', '0.5 (delta 1e-5)')
    """
    return f"{exact(epsilon)} (delta {exact(delta)})" if delta else exact(epsilon)


def odds_at_least(epsilon: float) -> str:
    """Return what even odds become at a loss of at least `epsilon`, rounded down: "2.4 to 1"."""
    return _odds(epsilon, ROUND_DOWN)


def odds_at_most(epsilon: float) -> str:
    """Return what even odds become at a loss of at most `epsilon`, rounded up: "1.65 to 1"."""
    return _odds(epsilon, ROUND_CEILING)


def percent_up(share: float) -> str:
    """Return an upper limit on a share as a percentage with one decimal, rounded up: "73.2%"."""
    return f"{_rounded(100.0 * share, 1, ROUND_CEILING).removesuffix('.0')}%"


def significant_up(value: float | None) -> str:
    """Return an upper limit with two significant digits, rounded up: 0.000123 -> "0.00013"."""
    if not value or not math.isfinite(value):
        return exact(value)
    place = Decimal(repr(float(value)))
    return exact(float(place.quantize(Decimal(1).scaleb(place.adjusted() - 1), ROUND_CEILING)))


def _rounded(value: float | None, decimals: int, direction: str) -> str:
    if value is None or math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "∞" if value > 0.0 else "-∞"
    stated = Decimal(repr(float(value)))
    if abs(value) >= HUGE:
        return f"{Context(prec=3, rounding=direction).plus(stated):.2e}"
    return str(stated.quantize(_place(decimals), direction))


@functools.cache
def _place(decimals: int) -> Decimal:
    return Decimal(1).scaleb(-decimals)


def _reads_zero(text: str) -> bool:
    """Return whether a figure's text has no digit but 0."""
    return _BEYOND_ZERO.isdisjoint(text)


def _odds(epsilon: float, direction: str) -> str:
    """Word e^epsilon as odds, with two to three significant digits."""
    if epsilon > 12.0:
        return f"{'more than ' if direction == ROUND_DOWN else ''}e^{exact(epsilon)} to 1"
    factor = math.exp(epsilon)
    decimals = 2 if factor < 2.0 else 1 if factor < 10.0 else 0
    return f"{_rounded(factor, decimals, direction)} to 1"
