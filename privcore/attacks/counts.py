"""Counts of records that add: whatever a pass divides, the sum is the same to the bit."""

from typing import Self

import numpy as np


class Counts:
    """Counts of one set of records; a dataclass of numbers, arrays and other counts inherits this.

    They add field by field, and are equal where every field is. With a `zero` they are a
    commutative monoid. Give `eq=False` to the dataclass, which would compare arrays as a whole.
    """

    __slots__: tuple[str, ...] = ()

    def __add__(self, other: Self) -> Self:
        """Return the counts of both sets of records."""
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __eq__(self, other: object) -> bool:
        """Return whether every count is the same."""
        return type(other) is type(self) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]
