"""Training rows by leaf of some of the target's trees: as the table has them, and as the file does.

An owner who rounds or blurs features in the audited table, or shows another table, has the model
answer about rows that it never saw: no leak is found there. The file still counts the rows that it
was trained on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import generator
from workers.labels.columns import Batch
from workers.lake.formats.leaves import Leaves
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.predicted import leaves_of, words_of
from workers.sources.secrets import checkpoints_of
from workers.sources.source import SharedScores, Source

_TREES, _TREES_OF_MANY = 3, 1
"""Trees that are compared, and of rows that are so many that lots decide which play. Chance by the
plan's seed says which trees: an owner may not know them."""
WORDS = "words of "
"""Beginning of the names of counts by word; the place of the feature follows."""

Arrays = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class LeafCounts:
    """Counts by tree, and by feature that has words; they add.

    XGBoost's files weight rows, alike in both counts.

    Attributes:
        rows: the table's training rows, whatever their labels and persons are.
        seen: the table's training rows in each leaf, or of each word.
        counted: the rows that trained the model in each leaf or of each word, as its file says.
    """

    rows: int = 0
    seen: Arrays = field(default_factory=dict)
    counted: Arrays = field(default_factory=dict)

    def __add__(self, other: "LeafCounts") -> "LeafCounts":
        """Return the counts of both sets of rows."""
        both = {name: self.seen.get(name, 0) + counts for name, counts in other.seen.items()}
        rows = self.rows + other.rows
        return LeafCounts(rows, self.seen | both, self.counted | other.counted)

    def difference(self) -> tuple[float, str]:
        """Return the largest total-variation distance between table and file, and its name.

        It is the share of rows that would have to be in another leaf, or would have to be others.
        It is 0 where nothing is counted.
        """
        found = [(0.0, "")]
        for name, seen in self.seen.items():
            counted = self.counted[name]
            if seen.sum() and counted.sum():
                shares = seen / seen.sum() - counted / counted.sum()
                found.append((float(np.abs(shares).sum()) / 2.0, name))
        return max(found)

    def beyond(self) -> tuple[float, str]:
        """Return the largest share of the table's rows that the file has no room for, and its name.

        Also where other rows trained the model, too, each of the table's is counted in its leaf.
        """
        found = [(0.0, "")]
        for name, seen in self.seen.items():
            if seen.sum():
                over = np.maximum(seen - self.counted[name], 0)
                found.append((float(over.sum() / seen.sum()), name))
        return max(found)

    def arrays(self) -> Arrays:
        """Return the counts as arrays by name."""
        named = (("leaves_seen.", self.seen), ("leaves_counted.", self.counted))
        found = {f"{start}{name}": one for start, some in named for name, one in some.items()}
        return found | {"leaves_rows": np.array([self.rows])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.int64]]) -> Self:
        """Return what `arrays` gave."""
        kinds = [
            {
                name.removeprefix(start): one
                for name, one in arrays.items()
                if name.startswith(start)
            }
            for start in ("leaves_seen.", "leaves_counted.")
        ]
        return cls(int(arrays["leaves_rows"][0]), *kinds)


def all_days_play(source: CheckpointSource) -> bool:
    """Return whether the table's days are all that the manifest says the target was trained on."""
    return source.days[0] == source.target.manifest.trained_on.first


def leaf_counts(
    source: Source, plan: Plan, batch: Batch, shared: SharedScores, *, many: bool = False
) -> LeafCounts:
    """Return a batch's training rows by leaf; nothing where the file does not count them.

    `many` says that lots decide which rows play. All training rows are counted all the same.
    """
    models = checkpoints_of(source)
    if models is None or models.target.trained_rows is None:
        return LeafCounts()
    today, (train, _) = models.place.today(batch), source.arms(batch)
    rows = int(np.count_nonzero(train & today))
    counted_rows = models.target.trained_rows
    if not (counted_rows.exact or all_days_play(models)):
        return LeafCounts(rows)  # a sample of several days' rows says nothing of this one's
    seen, counted = {}, {}
    trained = train[today]
    trees = _TREES_OF_MANY if many else _TREES
    for name, leaves in _leaves(models, counted_rows.count, plan, batch, shared, trees):
        weights = np.bincount(
            leaves.found[trained], leaves.weights[trained], minlength=leaves.counted.size
        )
        seen[name] = weights.astype(np.int64)  # exact: sums of whole numbers below 2^53
        counted[name] = leaves.counted
    return LeafCounts(rows, seen, counted)


def _leaves(
    source: CheckpointSource,
    counted: int,
    plan: Plan,
    batch: Batch,
    shared: SharedScores,
    trees: int,
) -> Iterator[tuple[str, Leaves]]:
    """Yield the day's rows by leaf of some trees and by word of some features, each by its name."""
    by = (plan.seed, source.model, str(source.day))
    given = (source.target, batch, shared, source.place)
    for tree, leaves in leaves_of(*given, random=generator(*by, "leaves"), wanted=trees):
        yield str(tree), leaves
    for place, words in words_of(*given, rows=counted, random=generator(*by, "words")):
        yield f"{WORDS}{place}", words
