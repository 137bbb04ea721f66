"""The second reference of a notebook's arms: a student of their context."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    Context,
    Student,
    StudentTallies,
    fit_student,
    folds_of,
    grouped_odds,
    holdout_suspicion,
    label_counts,
    learned,
    odds_cells,
    probabilities_of,
    stream_key,
)
from privcore.attacks.hashing import record_streams
from privcore.attacks.student import MOST_CLASSES
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.notebook_input import CheckedArm

Groups = tuple[NDArray[np.int64], NDArray[np.int64], int]
"""The group of each training and of each control record, and how many there are."""


class SecondReference(NamedTuple):
    """Tallies of both arms against a second reference; None without one.

    Attributes:
        training: of the training records.
        control: of the control records.
        suspicion: how surely the target knows control labels beyond its student, in standard
            errors (`holdout_suspicion`); None without a student.
    """

    training: StudentTallies | None = None
    control: StudentTallies | None = None
    suspicion: float | None = None


def second_reference(
    training: CheckedArm, control: CheckedArm, seed: int, groups: Groups
) -> SecondReference:
    """Return both arms against a student of the context; without one, nothing.

    `groups` are those within which records are matched (`value_groups`).

    Raises:
        InvalidInputError: contexts of other shapes or one without the other, or one that has the
            label as a column.
    """
    if training.context is None and control.context is None:
        return SecondReference()
    looked_at = []
    for name, arm in (("training", training), ("control", control)):
        found, records = arm.context, len(arm.labels)
        if found is None or found.ndim != 2 or len(found) != records:
            shape = None if found is None else found.shape
            rule = f"it has a row for each of the {records} records, and both arms have one"
            raise InvalidInputError(f"shape of {name}.context", shape, rule)
        codes = np.zeros((records, 0), dtype=np.int64)
        looked_at.append(Context(np.asarray(found, dtype=np.float64), codes))
    columns, others = (seen.numbers.shape[1] for seen in looked_at)
    if columns != others:
        rule = f"it has the training records' columns, {columns}"
        raise InvalidInputError("columns of control.context", others, rule)
    _check_no_label_among(
        np.concatenate([seen.numbers for seen in looked_at]),
        np.concatenate([training.labels, control.labels]),
    )
    if training.target.shape[1] > MOST_CLASSES:
        return SecondReference()
    folds = [
        folds_of(record_streams(len(arm.labels), key=stream_key(seed, name, "fold"), indices=None))
        for arm, name in ((training, "training"), (control, "control"))
    ]
    of_target = fit_student(looked_at[1], learned(control.target), folds[1])
    if of_target is None:
        return SecondReference()
    of_proxy = fit_student(looked_at[1], learned(control.proxy), folds[1], of_proxy=True)
    first, second = (
        _against(arm, seen, fold, of_target, of_proxy, each, groups[2])
        for arm, seen, fold, each in zip(
            (training, control), looked_at, folds, groups[:2], strict=True
        )
    )
    said = of_target.predict(looked_at[1], folds[1])
    suspicion = holdout_suspicion(
        learned(control.target), said, learned(control.proxy), control.labels
    )
    return SecondReference(first, second, suspicion)


def _check_no_label_among(context: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    """Refuse a column that has a value of its own for each label: a student would be told it."""
    seen, first = np.unique(labels, return_index=True)
    for place, column in enumerate(context.T):
        said = column[first]
        told = np.unique(said).size == seen.size > 1
        if told and (column == said[np.searchsorted(seen, labels)]).all():
            rule = "a context never holds it: leave that column out"
            raise InvalidInputError(f"column {place} of the context", "the label", rule)


def _against(
    arm: CheckedArm,
    seen: Context,
    folds: NDArray[np.int64],
    of_target: Student,
    of_proxy: Student | None,
    groups: NDArray[np.int64],
    number: int,
) -> StudentTallies:
    said = probabilities_of(of_target.predict(seen, folds))
    odds = grouped_odds(odds_cells(arm.target, said, arm.labels), groups, number)
    if of_proxy is None:
        return StudentTallies(odds, None)
    expected = probabilities_of(of_proxy.predict(seen, folds))
    return StudentTallies(odds, label_counts(arm.proxy, arm.labels, student=expected))
