"""What is fitted to a sample of rows before the pass: a model's student, or segments of its rows.

    pieces of the labels --> StudentSample --+--> fit --> FittedStudent, which travels with the game
    pieces of the labels --> StudentSample --+

`privcore.attacks.student` says what a student is and why it is valid. Segments are chosen without
labels, by where the target's answers are far from what was expected.
"""

import dataclasses
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import (
    Context,
    SegmentTree,
    Split,
    Student,
    fit_segments,
    fit_student,
    holdout_suspicion,
    probabilities_of,
)
from workers.labels.columns import Batch
from workers.lake.manifest import Feature

MOST_RECORDS = 20_000
"""Holdout rows that a student is fitted to: those of the smallest streams. With
80,000 training and 20,000 holdout rows and labels randomized at 1, bounds of 0.15 rise to 0.19 with
6,000 of these and to 0.36 with all."""

_MOST_WORDS = 255
_FEWEST_OF_A_WORD = 5
_LONGEST_WORD = 200


@dataclass(frozen=True, slots=True, eq=False)
class StudentSample:
    """Some holdout rows of one game, none of them twice; it adds, in any order to the same.

    Args:
        features: what the rows were read as.
        streams: shape (rows,), ascending; the row with the smallest is kept.
        folds: shape (rows,).
        numbers: shape (rows, numeric features).
        words: shape (rows, categorical features), objects.
        target: shape (rows, outputs), what is to be learned: what the target says (`learned`).
        proxy: shape (rows, outputs), what the proxy says.
        labels: shape (rows,), class indices: for the question whether the target knows them, and
            never for the student.
        seen: number of rows that these are the smallest streams of.
    """

    features: tuple[Feature, ...]
    streams: NDArray[np.uint64]
    folds: NDArray[np.int64]
    numbers: NDArray[np.float64]
    words: NDArray[np.object_]
    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]
    seen: int = field(default=0, kw_only=True)

    def __add__(self, other: "StudentSample") -> "StudentSample":
        """Return the sample of both sets of rows."""
        seen = self.seen + other.seen
        if not self.streams.size or not other.streams.size:
            return dataclasses.replace(self if other.streams.size == 0 else other, seen=seen)
        if self.features != other.features:  # a column of two kinds: the scan refuses one
            one = min(self, other, key=lambda sample: repr(sample.features))
            return dataclasses.replace(one, seen=seen)
        both = [
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("streams", "folds", "numbers", "words", "target", "proxy", "labels")
        ]
        kept = np.argsort(both[0], kind="stable")[:MOST_RECORDS]
        return StudentSample(self.features, *(each[kept] for each in both), seen=seen)

    def wanted(self, streams: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the places of other rows that the sum keeps, by their streams, ascending."""
        kept = np.sort(np.argsort(streams, kind="stable")[:MOST_RECORDS])
        full = self.streams.size == MOST_RECORDS
        return kept[streams[kept] < self.streams.max()] if full else kept

    def context(self) -> tuple[tuple[tuple[str, ...], ...], Context]:
        """Return of each categorical feature the words that are told apart, and the context."""
        words = tuple(pl.Series(column.tolist(), dtype=pl.String) for column in self.words.T)
        known = tuple(map(_frequent, words))
        return known, context_of(self.numbers, words, known)

    @classmethod
    def none(cls, *, seen: int = 0) -> "StudentSample":
        """Return a sample without rows of those that were seen; of none, the identity."""
        nothing, whole = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        words = np.zeros((0, 0), dtype=np.object_)
        streams = np.zeros(0, dtype=np.uint64)
        return cls((), streams, whole, nothing, words, nothing, nothing, whole, seen=seen)


@dataclass(frozen=True, slots=True, eq=False)
class FittedStudent:
    """A student with what it needs to read rows.

    Attributes:
        student: of the target.
        of_proxy: a student of the proxy; None of a proxy that is always the same.
        features: the columns it looks at.
        known: of each categorical one the words that it tells apart.
        suspicion: by how many standard errors the target knows labels of the holdout that neither
            student nor proxy does (`holdout_suspicion`).
    """

    student: Student
    of_proxy: Student | None
    features: tuple[Feature, ...]
    known: tuple[tuple[str, ...], ...]
    suspicion: float

    def probabilities(
        self, batch: Batch, rows: NDArray[np.int64], folds: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return what to expect of target and proxy, shape (some rows, 2, classes)."""
        numbers, words = read_context(batch, self.features, rows)
        seen = context_of(numbers, words, self.known)
        target = self.student.predict(seen, folds)
        undecided = np.zeros_like(target)
        proxy = undecided if self.of_proxy is None else self.of_proxy.predict(seen, folds)
        return np.stack([probabilities_of(target), probabilities_of(proxy)], axis=1)


def read_context(
    batch: Batch, features: tuple[Feature, ...], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], tuple[pl.Series, ...]]:
    """Return some rows' numbers, shape (rows, numeric features), and words by column."""
    numeric = [feature for feature in features if feature.kind == "numeric"]
    numbers = np.empty((rows.size, len(numeric)), order="F")
    for place, feature in enumerate(numeric):
        numbers[:, place] = batch.feature(feature).to_numpy()[rows]
    words = tuple(
        batch.feature(feature).gather(rows) for feature in features if feature.kind != "numeric"
    )
    return numbers, words


def fitted(sample: StudentSample) -> FittedStudent | None:
    """Return the student of a sample; None where nothing can be learned from it."""
    known, context = sample.context()
    student = fit_student(context, sample.target, sample.folds)
    if student is None:
        return None
    said = student.predict(context, sample.folds)
    suspicion = holdout_suspicion(sample.target, said, sample.proxy, sample.labels)
    of_proxy = fit_student(context, sample.proxy, sample.folds, of_proxy=True)
    return FittedStudent(student, of_proxy, sample.features, known, suspicion)


def as_objects(words: tuple[pl.Series, ...], rows: int) -> NDArray[np.object_]:
    """Return columns of words as one array; words too long to tell apart are one."""
    found = np.full((rows, len(words)), "", dtype=np.object_)
    for place, column in enumerate(words):
        found[:, place] = _shortened(column).to_list()
    return found


def context_of(
    numbers: NDArray[np.float64], words: tuple[pl.Series, ...], known: tuple[tuple[str, ...], ...]
) -> Context:
    """Return what rows hold, with words as their places among those that are `known`."""
    codes = np.full((len(numbers), len(words)), -1, dtype=np.int64, order="F")
    for place, (column, names) in enumerate(zip(words, known, strict=True)):
        if names:
            told = _shortened(column).cast(pl.Enum(names), strict=False)
            codes[:, place] = told.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return Context(numbers, codes)


def _shortened(words: pl.Series) -> pl.Series:
    """Return words by which they are told apart; looking for a long one is a tenth of cutting."""
    long = (words.str.len_bytes() > _LONGEST_WORD).any()
    return words.str.slice(0, _LONGEST_WORD) if long else words


def _frequent(words: pl.Series) -> tuple[str, ...]:
    """Return the most frequent words, in an order that follows from them alone."""
    counted = words.alias("word").drop_nulls().value_counts(name="count")
    first = counted.sort("count", "word", descending=[True, False]).head(_MOST_WORDS)
    return tuple(first.filter(pl.col("count") >= _FEWEST_OF_A_WORD)["word"])


_RARE = 0.01
"""Numbers beyond the quantiles of this share at either end are unusual, as are rarer categories."""
_MOST_RARE = 0.2
"""Where more rows than this share hold rare categories, these are usual in their column."""
_UNUSUAL = ("rows with one unusual value", "rows with several unusual values",
            "rows without unusual values")  # fmt: skip

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
            (_UNUSUAL, (np.minimum(self._unusual(context), 2) - 1) % len(_UNUSUAL)),
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
