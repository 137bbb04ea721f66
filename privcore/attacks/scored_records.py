"""Records of one shard as both models see them, with what decides their draws."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.attacks.hashing import record_streams


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRecords:
    """Some records of one shard, with both models' probabilities.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.
        key: the shard's stream, as in `label_inference`.
        indices: shape (records,), the records' indices in the shard; 0, 1, ... by default.
        group: that all of the shard's records are of: a day's, where several days play.
    """

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.integer]
    key: int
    indices: NDArray[np.integer] | None = None
    group: int = 0

    def of(self, rows: NDArray[np.integer]) -> "ScoredRecords":
        """Return some of the records, by their places."""
        return ScoredRecords(
            self.target.take(rows, axis=0),  # several times as fast as [rows]
            self.proxy.take(rows, axis=0),
            self.labels[rows],
            self.key,
            rows if self.indices is None else self.indices[rows],
            self.group,
        )

    def checked_pair(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' probabilities as contiguous doubles, labels checked as well."""
        pair = check_pair(self.target, self.proxy)
        check_labels(self.labels, pair[0].shape)
        return pair

    def streams(self) -> NDArray[np.uint64]:
        """Return the records' random streams, shape (records,)."""
        return record_streams(self.labels.size, key=self.key, indices=self.indices)
