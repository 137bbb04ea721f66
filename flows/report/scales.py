"""Scales: from values to pixels, and round values with their labels."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BENT: Mapping[str, Callable[[float], float]] = {
    "linear": float,
    "sqrt": math.sqrt,
    "log": math.log,
}
_ARRAYS_BENT: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "linear": np.asarray,
    "sqrt": np.sqrt,
    "log": np.log,
}
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Scale:
    """Map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    kind: str = "linear"

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; the middle where the scale has one value.

        Raises:
            ValueError: a scale of logarithms or square roots has no place for it.
        """
        bent = _BENT[self.kind]
        low, high = bent(self.low), bent(self.high)
        share = (bent(value) - low) / (high - low) if high != low else 0.5
        return self.start + share * (self.end - self.start)

    def places(self, values: NDArray[np.float64]) -> list[float]:
        """Return the pixels of many values, NaN where a value is NaN.

        Raises:
            FloatingPointError: a scale of logarithms or square roots has no place for one.
        """
        low, high = _BENT[self.kind](self.low), _BENT[self.kind](self.high)
        with np.errstate(invalid="raise", divide="raise"):
            bent = _ARRAYS_BENT[self.kind](values)
        share = (bent - low) / (high - low) if high != low else np.where(np.isnan(bent), bent, 0.5)
        places: list[float] = (self.start + share * (self.end - self.start)).tolist()
        return places


def round_values(low: float, high: float, count: int) -> tuple[list[float], int]:
    """Return some `count` round values from `low` to `high`, and the decimals that they need.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    span = high - low
    if not (math.isfinite(span) and span > 0.0):
        return [], 0
    rough = span / count
    power = math.floor(math.log10(rough))
    error = rough / 10.0**power
    factor = next((f for f, least in ((10, 50), (5, 10), (2, 2)) if error >= math.sqrt(least)), 1)
    step = factor * 10.0**power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [step * place for place in range(first, last + 1)], decimals


def labelled(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return round values from `low` to `high` with the same decimals in all labels."""
    values, decimals = round_values(low, high, count)
    if high >= 1e6:
        return [(value, f"{value:.3g}") for value in values]
    return [(value, f"{value + 0.0:,.{decimals}f}") for value in values]


def shortened(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return round values with labels that end in k, M or G where they are large."""
    return [(value, _shortened(value)) for value in round_values(low, high, count)[0]]


def _shortened(value: float) -> str:
    size, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s), (1.0, ""))
    return f"{value / size:.6g}{prefix}"


def percent(values: list[float]) -> list[tuple[float, str]]:
    """Return shares with labels in per cent."""
    return [(value, f"{value:.0%}") for value in values]


def of_hundred(values: list[float]) -> list[tuple[float, str]]:
    """Return per cents, given as such, with their labels."""
    return [(value, f"{value:g}%") for value in values]
