"""Features that nearly duplicate the split, the label or the person of a record.

`split`, the label and the privacy unit are refused as features by name. A copy under another name,
or one with some noise, is looked for in the rows and said in the record.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import NEARLY, separation
from workers.exceptions import NotEvaluableError
from workers.labels.columns import SPLIT, Batch
from workers.lake.manifest import Feature
from workers.looks.look import Findings, Look, Seen
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.source import Source, context_features

_ROWS = 4096
_LOOKED_AT = 1024
"""Number of a file's first rows, at equal distances: their order may hide one kind."""
_LEAST = 50
"""Rows of each kind, without which nothing is said of labels."""
_FEW = 10
_FEW_ROWS = 40
_ROWS_OF_A_WORD = 8
"""Rows of each split, in all, and for each word, without which nothing is said of the split: of 10
and 30 rows chance puts 99% of the pairs in one order with probability 2e-8."""
_MOST_WORDS = 64
_NAMED = 5


@dataclass(frozen=True, slots=True)
class NearCopies(Look):
    """Counts of the files in which a feature all but gave a column away; they add.

    Attributes:
        judged: files with enough rows of each kind, by column.
        found: files in which a feature revealed the column, by feature and column.
    """

    judged: Counter[str]
    found: Counter[tuple[str, str]]

    @classmethod
    def see(cls, seen: Seen) -> "NearCopies | None":
        """Return what the rows that begin an inspected file say."""
        if not seen.opened.inspected or seen.batch.place[1:] != (0, 0):
            return None
        return near_copies(seen.batch, seen.source, seen.plan.privacy_unit)

    @property
    def tell_split(self) -> bool:
        """True if a feature tells which rows were held out."""
        return any(column == SPLIT for column, _ in self._told())

    def remarks(self, found: Findings) -> tuple[Remark, ...]:
        """Return what was found in most files that could be judged."""
        return remarked(RemarkKind.FEATURE_COPIES, self.sentence())

    def sentence(self) -> str:
        """Say what was found in most files that could be judged; "" where nothing was."""
        told = self._told()
        if not told:
            return ""
        named = ", ".join(f"{feature!r} tells {column!r}" for column, feature in told[:_NAMED])
        more = f" (and {len(told) - _NAMED} more)" if len(told) > _NAMED else ""
        return (
            f"Features that nearly copy what a model must not know: {named}{more}. Such a model "
            "can answer audited records differently: train it without them."
        )

    def _told(self) -> list[tuple[str, str]]:
        """Return columns with the features that tell them in most files that could be judged."""
        return sorted(
            (column, feature)
            for (feature, column), files in self.found.items()
            if 2 * files > self.judged[column]
        )


def near_copies(batch: Batch, source: Source, unit: str | None) -> NearCopies:
    """Return which features nearly copy the label, split or privacy unit in a file's start.

    A feature separates two kinds of rows if ordering the rows by it puts 99% of all pairs of both
    kinds in one order (the area under the ROC curve). Of several classes, the most frequent is
    compared with all others. A missing number is less than any other. A split is judged from 10
    rows of each kind on. A feature copies a privacy unit if 99% of its values are
    the same text. A copy that is hidden better (by a function of several features) is not found.

    Args:
        batch: the rows that begin a file.
        source: whose features, or context, and label the batch holds.
        unit: the privacy unit's column, if there is one.
    """
    batch = Batch(batch.table.slice(0, _ROWS), batch.path, batch.place)
    first = batch.table.num_rows
    rows = np.arange(0, first, max(1, first // _LOOKED_AT))
    train, holdout = (arm[rows] for arm in source.arms(batch))
    classes = source.labels(batch)[0][rows]
    known, played = classes >= 0, train | holdout
    most = np.bincount(classes[known]).argmax() if known.any() else 0
    told = {
        SPLIT: (rows[played], train[played]),
        source.label.column: (rows[known], classes[known] == most),
    }
    judged: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    features = source.features or _readable(batch, context_features(source, batch))
    for column, (chosen, kinds) in told.items():
        rarer = min(np.count_nonzero(kinds), np.count_nonzero(~kinds))
        few = rarer < _LEAST
        if few and (column != SPLIT or rarer < _FEW or len(kinds) < _FEW_ROWS):
            continue
        copies = [
            feature.name for feature in features if separates(batch.feature(feature)[chosen], kinds)
        ]
        found.update((name, column) for name in copies)
        if copies or not few:  # few rows never outvote many
            judged[column] += 1
    if unit is not None and rows.size >= _LEAST:
        judged[unit] += 1
        found.update((name, unit) for name in _same_text(batch, features, unit, rows))
    return NearCopies(judged, found)


def _readable(batch: Batch, context: tuple[Feature, ...]) -> tuple[Feature, ...]:
    """Return what can be read of a context, which no audit needs whole."""
    found = []
    for feature in context:
        with contextlib.suppress(NotEvaluableError):
            batch.feature(feature)
            found.append(feature)
    return tuple(found)


def separates(values: pl.Series, kinds: NDArray[np.bool_]) -> bool:
    """Return whether the values tell both kinds; of few rows, many words do so by chance."""
    few = np.count_nonzero(kinds) < _LEAST or np.count_nonzero(~kinds) < _LEAST
    if few and values.dtype == pl.String and values.n_unique() * _ROWS_OF_A_WORD > len(values):
        return False
    return _separation(values, kinds) >= NEARLY


def _separation(values: pl.Series, kinds: NDArray[np.bool_]) -> float:
    """Return the share of pairs of both kinds that the values order alike, 0.5 to 1."""
    if values.dtype == pl.String:
        words = values.unique()
        if len(words) > _MOST_WORDS:
            return 0.5
        codes = values.cast(pl.Enum(words)).to_physical().to_numpy()
        return separation((np.bincount(codes, kinds) / np.bincount(codes))[codes], kinds)
    return separation(values.fill_null(np.nan).to_numpy().astype(np.float64), kinds)


def _same_text(
    batch: Batch, features: tuple[Feature, ...], unit: str, rows: NDArray[np.int64]
) -> Iterator[str]:
    people = batch.column(unit)[rows].cast(pl.String)
    for feature in features:
        stored = batch.column(feature.name)[rows]
        if stored.dtype.is_float():
            continue
        same = (stored.cast(pl.String) == people).fill_null(value=False)
        if float(same.mean()) >= NEARLY:  # type: ignore[arg-type]  # of booleans
            yield feature.name
