"""Segments of one audited model's rows, in which a leak is looked for.

Features and the models' answers choose them, by a sample of rows of both arms; no label and no arm
does (`privcore.attacks.segments`). All rows are divided by a tree of splits, by single features and
by how many of their values are unusual.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import Context, SegmentTree, Split, fit_segments
from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.scan.fitted_student import StudentSample, context_of, read_context

_RARE = 0.01
"""Numbers beyond the quantiles of this share at either end are unusual, as are rarer categories."""
_MOST_RARE = 0.2
"""Where more rows than this share hold rare categories, these are usual in their column."""
_UNUSUAL = (
    "rows without unusual values",
    "rows with one unusual value",
    "rows with several unusual values",
)

Grouping = tuple[tuple[str, ...], NDArray[np.int64]]
"""Names of groups, ascending, and each row's place among them."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSegments:
    """Segments, with what is needed to find a row's.

    Attributes:
        features: the columns that are looked at.
        known: of each categorical one the words that are told apart.
        trees: divisions by features.
        usual: shape (numeric features, 2), between which numbers are usual.
        rare: of each categorical feature, which codes are rare (`Context`).
    """

    features: tuple[Feature, ...]
    known: tuple[tuple[str, ...], ...]
    trees: tuple[SegmentTree, ...]
    usual: NDArray[np.float64]
    rare: tuple[tuple[int, ...], ...]

    def groups(self, batch: Batch) -> tuple[Grouping, ...]:
        """Return the segments of a batch's rows, by each division of all rows."""
        numbers, words = read_context(batch, self.features, np.arange(len(batch.table)))
        context = context_of(numbers, words, self.known)
        return (
            *(
                (tuple(f"{place:03d}" for place in range(len(tree.leaves))), tree.segments(context))
                for tree in self.trees
            ),
            _by_name(_UNUSUAL, np.minimum(self._unusual(context), len(_UNUSUAL) - 1)),
        )

    @property
    def divisions(self) -> int:
        """The number of times that all rows are divided."""
        return len(self.trees) + 1

    def words(self, division: int, name: str) -> str:
        """Return the name of a group in words, by the number of its division."""
        if division >= len(self.trees):
            return name
        asked: dict[str, list[tuple[Split, bool]]] = {}
        for split, answer in self.trees[division].leaves[int(name)]:
            asked.setdefault(self._column(split), []).append((split, answer))
        return ", ".join(self._condition(column, each) for column, each in asked.items()) or "all"

    def _column(self, split: Split) -> str:
        kind = "numeric" if split.code is None else "categorical"
        return [each.name for each in self.features if each.kind == kind][split.column]

    def _condition(self, column: str, asked: list[tuple[Split, bool]]) -> str:
        """Return in words what is answered about one column; a missing number is above all."""
        coded = {split.code: answer for split, answer in asked if split.code is not None}
        if coded:
            known = self.known[asked[0][0].column]
            words = [known[code] for code, answer in coded.items() if answer == any(coded.values())]
            return f"{column} is {'' if any(coded.values()) else 'none of '}{', '.join(words)}"
        given = [(split.border, answer) for split, answer in asked if split.border is not None]
        low = max((border for border, answer in given if not answer), default=None)
        high = min((border for border, answer in given if answer), default=None)
        if high is None:
            return f"{column} > {low:g}"
        return f"{column} <= {high:g}" if low is None else f"{low:g} < {column} <= {high:g}"

    def _unusual(self, context: Context) -> NDArray[np.int64]:
        """Return how many values of each row are unusual; one that is missing is not."""
        low, high = self.usual.T
        found = ((context.numbers < low) | (context.numbers > high)).sum(axis=1)
        for codes, rare in zip(context.codes.T, self.rare, strict=True):
            found = found + np.isin(codes, rare)
        return np.asarray(found, dtype=np.int64)


def fitted_segments(sample: StudentSample, *, share: float) -> FittedSegments:
    """Return the segments of a sample, whose `target` is how far the target moved."""
    known, context = sample.context()
    trees = fit_segments(context, sample.target[:, 0], share=share)
    columns = [column[~np.isnan(column)] for column in context.numbers.T]
    usual = [
        np.quantile(column, (_RARE, 1.0 - _RARE)) if column.size else (-np.inf, np.inf)
        for column in columns
    ]
    rare = tuple(_rare(codes) for codes in context.codes.T)
    return FittedSegments(sample.features, known, trees, np.array(usual).reshape(-1, 2), rare)


def _rare(codes: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the codes of a column that few rows have; none where together these are many."""
    values, counts = np.unique(codes, return_counts=True)
    # What is not among the known words is rare, whatever the sample holds of it.
    few = (counts < _RARE * codes.size) | (values < 0)
    if counts[few].sum() > _MOST_RARE * codes.size:
        return ()
    return (-1, *(value for value in values[few].tolist() if value >= 0))


def _by_name(names: tuple[str, ...], places: NDArray[np.int64]) -> Grouping:
    """Return a grouping with its names ascending, as tallies of groups ask for."""
    ascending = sorted(names)
    return tuple(ascending), np.array([ascending.index(name) for name in names])[places]
