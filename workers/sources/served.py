"""Ways to serve a model's probabilities that tell callers less of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class Served:
    """One way: rounded, clipped, or the most probable class alone. It guarantees nothing.

    Attributes:
        digits: after the point that are served; None for all.
        least: a probability below it is served as it; None for any.
        top: whether only the most probable class is served, as if it were sure.
    """

    digits: int | None = None
    least: float | None = None
    top: bool = False

    def __call__(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what callers get, shape (records, classes); each record's add up to 1.

        Raises:
            InvalidInputError: `least` is more than each class can have.
        """
        classes = probabilities.shape[1]
        if self.top:
            return np.asarray(np.eye(classes)[probabilities.argmax(axis=1)])
        shown = probabilities
        if self.digits is not None:
            shown = np.round(shown, self.digits)
        if self.least is not None:
            if self.least * classes >= 1.0:
                raise InvalidInputError("least", self.least, f"{classes} classes cannot have it")
            shown = np.maximum(shown, self.least)
        sums = shown.sum(axis=1, keepdims=True)
        # Of many classes all may be rounded to nothing.
        equal = np.full_like(shown, 1.0 / classes)
        return np.asarray(np.divide(shown, sums, out=equal, where=sums > 0.0))
