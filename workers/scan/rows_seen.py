"""Rows that a day holds several times: by all their features, and by features nearly alike."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.labels.columns import Batch
from workers.lake.manifest import Feature

MOST_KEPT = 1 << 21
"""Of more different rows than these, those with the smallest hashes are counted."""

_DIGITS = 2
"""Numbers that agree in as many significant digits are nearly alike."""


@dataclass(frozen=True, slots=True, eq=False)
class HashCounts:
    """The number of times that hashes came, as far as "once" or "several times"; it adds.

    A hash among the smallest of a sum is among the smallest of each part that holds it, so what is
    kept of it is whole, whatever the order of addition.

    Attributes:
        hashes: shape (different,), ascending, at most `MOST_KEPT`.
        several: shape (different,), whether it came more than once.
    """

    hashes: NDArray[np.uint64]
    several: NDArray[np.bool_]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> "HashCounts":
        """Return the counts of some rows."""
        values, counts = np.unique(hashes, return_counts=True)
        return cls(values[:MOST_KEPT], counts[:MOST_KEPT] > 1)

    def __add__(self, other: "HashCounts") -> "HashCounts":
        """Return the counts of both sets of rows."""
        both = np.concatenate([self.hashes, other.hashes])
        values, place, counts = np.unique(both, return_inverse=True, return_counts=True)
        several = counts > 1
        several[place[np.concatenate([self.several, other.several])]] = True
        return HashCounts(values[:MOST_KEPT], several[:MOST_KEPT])

    def came_again(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return of some rows whether there are more like them, as far as was counted."""
        if not self.hashes.size:
            return np.zeros(hashes.size, dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.asarray((self.hashes[place] == hashes) & self.several[place])


@dataclass(frozen=True, slots=True)
class RowsSeen:
    """Counts of rows by all of their features, and by these nearly; it adds."""

    same: HashCounts
    near: HashCounts

    @classmethod
    def of(cls, batch: Batch, features: tuple[Feature, ...], rows: NDArray[np.int64]) -> "RowsSeen":
        """Return the counts of some rows of a batch."""
        return cls(*(HashCounts.of(each[rows]) for each in _hashes(batch, features)))

    def __add__(self, other: "RowsSeen") -> "RowsSeen":
        """Return the counts of both sets of rows."""
        return RowsSeen(self.same + other.same, self.near + other.near)

    def alike(self, batch: Batch, features: tuple[Feature, ...]) -> NDArray[np.int64]:
        """Return of each row of a batch 2 if others have its features, 1 if nearly, else 0."""
        same, near = _hashes(batch, features)
        several = self.same.came_again(same)
        return np.where(several, 2, self.near.came_again(near).astype(np.int64))


def _hashes(
    batch: Batch, features: tuple[Feature, ...]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a hash of each row by its features, and one by these to two digits."""
    columns = [batch.feature(each).alias(str(place)) for place, each in enumerate(features)]
    numeric = [str(place) for place, each in enumerate(features) if each.kind == "numeric"]
    frame = pl.DataFrame(columns)
    near = frame.with_columns(pl.col(numeric).cast(pl.Float64).round_sig_figs(_DIGITS))
    return frame.hash_rows().to_numpy(), near.hash_rows().to_numpy()
