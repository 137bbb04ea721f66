"""Estimate of today's model for a record that it had *not* seen, learned without any label.

Yesterday's model is a poor estimate of that: general patterns that today's model learned since look
like memory of single records. Here the estimate is learned from the holdout. A student predicts the
target's output from a record's features. It is fitted to holdout records in folds, so that it never
saw the record that it is asked about, in either arm. It is a second reference beside the proxy.

A student of the proxy is fitted alike. It says what the features tell of the proxy's answer; what
is left of that answer is noise, or labels that the proxy knows (`compare_arms`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from privcore.attacks.oblivious_trees import CodeTables, ObliviousTrees, TreeSize
from privcore.attacks.odds import FLOOR
from privcore.exceptions import InvalidInputError

FOLDS = 5
"""Parts of the holdout: of each, the student of the others is asked."""

MOST_CLASSES = 20
"""The most classes for which there is a student: what it learns has a part for each of them."""

FEWEST = 100
"""The fewest holdout records with which there is a student."""

_TREES = TreeSize(75, levels=6, rate=0.2)
"""Twice as many trees at half the rate prove as much and cost twice as much."""
_TREES_OF_PROXY = TreeSize(50, levels=6, rate=0.25)
"""These find what 150 trees do of a proxy that learned the holdout."""
_FEW_RECORDS = 2_000
_TREES_OF_FEW = TreeSize(100, levels=4, rate=0.05)
"""Simpler trees for fewer records than that: on flights, of 190 holdout records a night,
14 nights of a model that keeps epsilon 2 prove 0.65 without a student, 0.70 and 0.80 with each."""
_PRIOR_RECORDS = 10.0  # what a category's mean is held by


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Inputs of a student: features of records, never a label, a split or the target.

    Args:
        numbers: shape (records, columns), NaN where one is missing.
        codes: shape (records, other columns), whole numbers that name categories, from 0; -1 for
            one that is not known.
    """

    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]

    def some(self, rows: NDArray[np.generic]) -> "Context":
        """Return the context of some of the records."""
        return Context(self.numbers[rows], self.codes[rows])


@dataclass(frozen=True, slots=True, eq=False)
class _Pupil:
    """One fold's trees, and how they read codes of categories: by what the target says of each."""

    trees: ObliviousTrees
    tables: CodeTables


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """A fitted student, one part for each fold.

    Attributes:
        outputs: numbers that it predicts of a record.
        parts: shape (FOLDS,): each was fitted to the records of the other folds.
    """

    outputs: int
    parts: tuple[_Pupil, ...]

    def predict(self, context: Context, folds: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what was learned, shape (records, outputs), by the part of each record's fold.

        Args:
            context: of the records, with the columns that the student was fitted to.
            folds: shape (records,), from 0 to `FOLDS` - 1.
        """
        columns, codes = _columns(context), np.ascontiguousarray(context.codes.T)
        made = np.empty((folds.size, self.outputs))
        for fold, part in enumerate(self.parts):
            rows = np.flatnonzero(folds == fold)
            part.trees.write(made, columns, codes, part.tables, rows=rows)
        return made


def fit_student(
    context: Context,
    outputs: NDArray[np.float64],
    folds: NDArray[np.integer],
    *,
    of_proxy: bool = False,
) -> Student | None:
    """Fit what a model says of holdout records on what they are.

    The answer is None where nothing can be learned: from fewer than `FEWEST` records, of no
    features, or where features or outputs are all the same.

    *Why it is valid.* The student reads features and the target's outputs of holdout records, and
    no label. It is fixed before any is read. A training record and a holdout record of one fold are
    both strangers to that fold's part, so it treats both alike: apart from their own labels' memory
    they are exchangeable given the part, if the arms are (E1). Fitted to the record itself it would
    know the holdout's outputs and not those of training (it then accuses the innocent in most
    audits), and fitted to training records it would learn the labels of their neighbours.

    *Assumes* folds by the unit that was held out: rows of one person are in one fold. What is
    common to a person's rows would else be known of the holdout's rows alone.

    Args:
        context: of holdout records.
        outputs: shape (records, outputs), what the target says (`learned`), or the proxy.
        folds: shape (records,), from 0 to `FOLDS` - 1, from names and never from labels.
        of_proxy: whether these are the proxy's, of which fewer trees are learned.

    Raises:
        InvalidInputError: shapes that differ, or folds that there are not.
    """
    records = folds.size
    if len(context.numbers) != records or len(context.codes) != records or len(outputs) != records:
        sizes = (len(context.numbers), len(context.codes), len(outputs), records)
        rule = "context, outputs and folds are of the same records"
        raise InvalidInputError("records of numbers, codes, outputs and folds", sizes, rule)
    if records and not 0 <= folds.min() <= folds.max() < FOLDS:
        ends = int(folds.min()), int(folds.max())
        raise InvalidInputError("folds", ends, f"they are from 0 to {FOLDS - 1}")
    if records < FEWEST or context.numbers.shape[1] + context.codes.shape[1] == 0:
        return None
    others = [np.flatnonzero(folds != fold) for fold in range(FOLDS)]
    if min(rows.size for rows in others) == 0:  # all rows are one person's
        return None
    size = _TREES_OF_PROXY if of_proxy else _TREES
    parts = [_fit(context.some(rows), outputs[rows], size) for rows in others]
    fitted = tuple(part for part in parts if part is not None)
    return Student(outputs.shape[1], fitted) if len(fitted) == FOLDS else None


def learned(target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a student learns of probabilities: log-odds, or centred logarithms.

    Args:
        target: shape (records, classes).

    Returns:
        Shape (records, 1) with two classes, else (records, classes).
    """
    held = np.clip(target, FLOOR, 1.0 - FLOOR)
    if target.shape[1] == 2:
        return np.asarray(logit(held[:, 1:]))
    logarithms = np.log(held)
    return np.asarray(logarithms - logarithms.mean(axis=1, keepdims=True))


def probabilities_of(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities that outputs stand for, the inverse of `learned`."""
    if outputs.shape[1] == 1:
        return np.concatenate([expit(-outputs), expit(outputs)], axis=1)
    return np.asarray(softmax(outputs, axis=1))


def folds_of(streams: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the fold of each record or person, by its stream."""
    return ((streams >> np.uint64(33)) % np.uint64(FOLDS)).astype(np.int64)


def _fit(context: Context, outputs: NDArray[np.float64], size: TreeSize) -> _Pupil | None:
    """Return one fold's part; None where the features, or the outputs, are all the same."""
    means = tuple(_means(codes, outputs) for codes in context.codes.T)
    size = size if len(outputs) >= _FEW_RECORDS else _TREES_OF_FEW
    trees = ObliviousTrees.fit(_design(context, means), outputs, size)
    if trees is None:
        return None
    return _Pupil(trees, trees.tabulated(means, context.numbers.shape[1]))


def _means(codes: NDArray[np.int64], outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean output of each code, held near the mean of all; the last is of none."""
    size = int(codes.max()) + 2
    places = np.where(codes < 0, size - 1, codes)
    records = np.bincount(places, minlength=size)[:, None]
    sums = np.stack([np.bincount(places, column, minlength=size) for column in outputs.T], axis=1)
    return np.asarray((sums + _PRIOR_RECORDS * outputs.mean(axis=0)) / (records + _PRIOR_RECORDS))


def _columns(context: Context) -> NDArray[np.float32]:
    """Return the numbers as trees take them, shape (columns, records)."""
    with np.errstate(over="ignore"):  # what no float of four bytes holds is infinite to trees
        return np.ascontiguousarray(context.numbers.T, dtype=np.float32)


def _design(context: Context, means: tuple[NDArray[np.float64], ...]) -> NDArray[np.float32]:
    """Return what trees learn from, shape (columns, records): numbers, and means of categories."""
    codes = zip(context.codes.T, means, strict=True)
    made = [mean[np.where(each < 0, len(mean) - 1, each)].T for each, mean in codes]
    with np.errstate(over="ignore"):
        words = [np.asarray(each, dtype=np.float32) for each in made]
    return np.ascontiguousarray(np.concatenate([_columns(context), *words]))
