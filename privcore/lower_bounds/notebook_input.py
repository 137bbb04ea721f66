"""Arms as people have them in a notebook: lists, frames, one column of probabilities, booleans.

Of them follow remarks on the arms' rows (held out together, logged twice, or trained on), and a
second reference: a student of their context.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.attacks import (
    NEAR_DIGITS,
    NEARLY,
    Context,
    StudentTallies,
    ValueSketch,
    distinct_sentence,
    fit_student,
    folds_of,
    grouped_odds,
    hashed_numbers,
    holdout_suspicion,
    label_counts,
    leading_digits,
    learned,
    odds_cells,
    probabilities_of,
    row_sums,
    separation,
    stream_key,
)
from privcore.attacks.hashing import record_streams
from privcore.attacks.known_labels import better_order, exchanged_words, label_fit, proxy_sentence
from privcore.attacks.odds import MOST_GROUPS
from privcore.attacks.student import MOST_CLASSES
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels, check_pair


class Arm(NamedTuple):
    """Probabilities of both models for the records of one arm, their labels and their features.

    Arrays, lists, and series or frames of pandas and polars are taken alike, all in one order of
    rows. Pandas indexes that differ are refused.

    Attributes:
        target: shape (records, classes), the audited model's probabilities; or shape (records,),
            the probability of the second of two classes.
        proxy: the same of a model that was not trained on these labels, in either arm: the day
            before's, say. It need not be right, but it must know the labels of both arms equally
            well: a holdout that it was trained on is no comparison.
        labels: shape (records,), class indices from 0 (also as booleans or as whole floats), as
            training saw them before any mechanism.
        context: shape (records, columns), the features, NaN where one is missing; categories as
            whole numbers. With it a student learns from the holdout what the target would say of a
            record that it had not seen (`fit_student`), and half of the stake is bet against that:
            it proves 1.3 to 2 times as much of real learners. The label, the split and the target's
            outputs are no context.
        other_labels: shape (records,) or (records, columns), other labels of the same rows that
            training read, of few values. Records are then matched within their values, so that what
            these tell of `labels` is no leak.

    >>> import numpy as np
    >>> even = np.full((2, 2), 0.5)
    >>> Arm(target=even, proxy=even, labels=np.array([0, 1])).context is None
    True
    """

    target: ArrayLike
    proxy: ArrayLike
    labels: ArrayLike
    context: ArrayLike | None = None
    other_labels: ArrayLike | None = None


class CheckedArm(NamedTuple):
    """An arm as arrays: probabilities of shape (records, classes), labels of whole numbers."""

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]
    context: NDArray[np.float64] | None
    other_labels: NDArray[Any] | None = None


def checked_arm(name: str, arm: Arm) -> CheckedArm:
    """Return an arm as arrays.

    Args:
        name: of the arm, for the sentence of an error.
        arm: as a person has it.

    Raises:
        InvalidInputError: something that is no such array, shapes that differ, probabilities
            outside [0, 1] or that do not sum to 1, labels that are no classes, no record,
            indexes that differ.
    """
    if not isinstance(arm, tuple) or not 3 <= len(arm) <= 5:
        rule = "it is an Arm(target, proxy, labels): both models' probabilities, and the labels"
        raise InvalidInputError(f"the {name} arm", type(arm).__name__, rule)
    given = {f"{name}.{role}": values for role, values in Arm(*arm)._asdict().items()}
    check_order(given)
    arm = Arm(*arm)
    target, proxy = (
        _probabilities(f"{name}.{role}", values)
        for role, values in (("target", arm.target), ("proxy", arm.proxy))
    )
    if proxy.shape != target.shape:
        rule = f"{name}.target has the shape {target.shape}: give both one row for each record and "
        rule += "one column for each class"
        raise InvalidInputError(f"shape of {name}.proxy", proxy.shape, rule)
    target, proxy = check_pair(target, proxy)
    labels = _labels(f"{name}.labels", arm.labels)
    check_labels(labels, target.shape, name=f"{name}.labels")
    if not len(labels):
        raise InvalidInputError(f"records of {name}", 0, "an arm has at least 1 record")
    context = None if arm.context is None else _numbers(f"{name}.context", arm.context)
    others = None if arm.other_labels is None else np.asarray(arm.other_labels)
    if others is not None and (others.ndim not in {1, 2} or len(others) != len(labels)):
        rule = f"it has a value, or a row of values, for each of the {len(labels)} records"
        raise InvalidInputError(f"shape of {name}.other_labels", others.shape, rule)
    return CheckedArm(target, proxy, labels, context, others)


def check_order(values: Mapping[str, Any]) -> None:
    """Refuse series and frames of pandas whose rows are in different orders, by their indexes.

    Args:
        values: by their names; what has no index of pandas is in the order that it has.

    Raises:
        InvalidInputError: two indexes differ.
    """
    indexed = {name: value.index for name, value in values.items() if hasattr(value, "iloc")}
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if not index.equals(indexed[first]):
            begins = indexed[first][:3].tolist()
            rule = f"that of {first} begins with {begins}: give all rows in one order and with one "
            rule += "index, or to_numpy() of each where they are"
            raise InvalidInputError(
                f"the beginning of the index of {name}", index[:3].tolist(), rule
            )


def value_groups(
    training: CheckedArm, control: CheckedArm
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the group of each record by its other labels, of both arms, and how many there are.

    Raises:
        InvalidInputError: only one arm has other labels, or both together too many values.
    """
    arms = (training, control)
    records = [len(arm.labels) for arm in arms]
    given = [arm.other_labels for arm in arms]
    if given[0] is None and given[1] is None:
        return np.zeros(records[0], np.int64), np.zeros(records[1], np.int64), 1
    columns = [None if each is None else each.reshape(len(each), -1) for each in given]
    one, other = columns
    if one is None or other is None or one.shape[1] != other.shape[1]:
        shapes = [None if each is None else each.shape for each in columns]
        rule = "both arms have the same other labels"
        raise InvalidInputError("shapes of other_labels", shapes, rule)
    found = np.zeros(sum(records), dtype=np.int64)
    for place in range(one.shape[1]):
        both = [str(value) for value in (*one[:, place].tolist(), *other[:, place].tolist())]
        values, codes = np.unique(both, return_inverse=True)
        _, found = np.unique(found * len(values) + codes, return_inverse=True)
    groups = int(found.max()) + 1
    if groups > MOST_GROUPS:
        rule = f"they have at most {MOST_GROUPS}: group their values first"
        raise InvalidInputError("number of values of other_labels", groups, rule)
    return found[: records[0]], found[records[0] :], groups


def check_number(name: str, value: object, *, least: float, below: float) -> None:
    """Raise `InvalidInputError` unless a value is a finite number in [least, below)."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not least <= float(value) < below:  # type: ignore[arg-type]
        upper = "finite" if math.isinf(below) else f"below {below:g}"
        raise InvalidInputError(name, value, f"it is a number, at least {least:g} and {upper}")


def exchanged_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that probabilities fit labels in another order of the classes; "" where they do not."""
    labels, *said = _both(training, control, "labels", "target", "proxy")
    orders = [better_order(each, labels) for each in said]
    named = zip(("target's", "proxy's"), orders, strict=True)
    roles = [role for role, order in named if order is not None]
    if not roles:
        return ""
    order = orders[0] or orders[1] or ()
    return exchanged_words(roles, [str(place) for place in order]) + (
        "give columns and labels that name the classes in one order."
    )


def knowing_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that the proxy knows training labels (target and proxy swapped, say); "" where not."""
    fits = [label_fit(arm.proxy, arm.labels) for arm in (training, control)]
    return proxy_sentence([(fits[0], fits[1])], "the training records")


def _check_there(name: str, values: Any) -> None:
    """Refuse a masked array with values that are missing: numpy reads what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        missing = int(np.asarray(values.mask).sum())
        raise InvalidInputError(name, f"{missing} missing values", "every record has its value")


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return anything that numpy reads as numbers; a column of lists becomes two dimensions."""
    _check_there(name, values)
    try:
        array = np.asarray(values)
        if array.dtype == object and array.ndim == 1 and len(array):
            array = np.stack([np.asarray(row, dtype=np.float64) for row in array])
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        rule = "it is an array, a list, a series or a frame of numbers, one row for each record"
        raise InvalidInputError(name, type(values).__name__, rule) from None


def _probabilities(name: str, values: Any) -> NDArray[np.float64]:
    array = _numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        return array
    if array.size and not (array.min() >= 0.0 and array.max() <= 1.0):
        worst = float(array[~((array >= 0.0) & (array <= 1.0))][0])
        rule = "a probability of the second class lies in [0, 1] (scores and log-odds are none)"
        raise InvalidInputError(name, worst, rule)
    return np.stack([1.0 - array, array], axis=1)


def _labels(name: str, values: Any) -> NDArray[np.int64]:
    rule = "labels are whole numbers: 0 for the first column of the probabilities, 1 for the second"
    _check_there(name, values)
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        first = np.asarray(array.ravel()[0]).item() if array.size else None
        raise InvalidInputError(name, first, rule) from None
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if array.dtype.kind not in "fO" or not whole.all():
        worst = np.asarray(array.ravel()[int(np.argmin(whole))]).item() if array.size else None
        raise InvalidInputError(name, worst, rule)
    return numbers.astype(np.int64)


_ROWS = 1 << 16
"""The first rows of an arm that are looked at."""
_COLUMNS = 24
"""The first columns of the context whose values are looked at."""
_TO_COMPARE, _SAME = 100, 1e-6
"""Records that two models agree on by no accident, and by how much they may differ."""


def held_together_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that all rows of one value of the context are in one arm, and alike; "" where none are.

    The target then knows training records by other records of their value, and control records by
    none: an honest model would be accused. So are records with nearly the same numbers in all
    columns. *Does not see* persons whom neither tells.
    """
    if training.context is None:
        return ""
    sums = _sums(training, control)
    (both,) = _both(training, control, "context")
    for place in range(min(both.shape[1], _COLUMNS)):
        if ValueSketch.of(hashed_numbers(both[:, place], ""), sums).divided_alike():
            return (
                f"All records of one value of column {place} of the context are in one arm, and "
                "their labels agree more than the earlier model expects. The target knows training "
                "records by others of their value, and holdout records by none, so a comparison of "
                "single records would accuse it falsely. Hold out single records at random."
            )
    if any(separation(column, sums[:, 0] > 0) >= NEARLY for column in both.T):
        return ""  # a column that tells the arms leaves no value of all columns in both
    for digits in NEAR_DIGITS:
        near = leading_digits(both, digits).view(np.float64)
        if found := ValueSketch.of(_hashed(near), sums).near_held_together():
            return (
                f"Records with nearly the same context are in one arm: {found[0]:,} groups of them "
                f"have records of both, and a holdout drawn record by record would give "
                f"{found[1]:,.0f}. The target may know training records by others of whoever they "
                "are of, and holdout records by none, so a comparison of single records could "
                "accuse it falsely. Hold out single records at random."
            )
    return ""


def made_distinct_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that records of one arm were made distinct; "" where it does not look so."""
    if training.context is None:
        return ""
    (context,) = _both(training, control, "context")
    sketch = ValueSketch.of(_hashed(context), _sums(training, control))
    classes = training.target.shape[1]
    expected = sketch.made_distinct(classes)
    return "" if expected is None else distinct_sentence(classes, expected)


def twice_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that records may be there twice; "" where it does not look so."""
    # The target's answers would tell labels: of forests, rows with equal ones have equal labels.
    roles = ("proxy",) if training.context is None else ("proxy", "context")
    seen = np.hstack(_both(training, control, *roles))
    share = ValueSketch.of(_hashed(seen), _sums(training, control)).repeated()
    if not share:
        return ""
    alike = "predictions" if training.context is None else "features"
    return (
        f"Records may be logged twice: {share:.0%} of them have the {alike} and the label of "
        "another record. If each copy gets noise of its own, the label of one event may lose twice "
        "what is declared for a record, although the mechanism works as declared. Keep one record "
        "of each event."
    )


def one_model_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that target and proxy are one model; "" where they differ, or records are few.

    What the target knows the proxy then knows, too, and nothing is told apart.
    """
    target, proxy = _both(training, control, "target", "proxy")
    if len(target) < _TO_COMPARE or float(np.abs(target - proxy).max()) > _SAME:
        return ""
    return (
        "The earlier model's probabilities are the target's, record for record: give those of a "
        "model that was trained before these labels, like the ones that were served that day."
    )


def _sums(training: CheckedArm, control: CheckedArm) -> NDArray[np.int64]:
    labels, proxy = _both(training, control, "labels", "proxy")
    seen = min(len(training.labels), _ROWS)
    return row_sums(labels, np.arange(len(labels)) < seen, proxy)


def _hashed(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each row of numbers, shape (rows,)."""
    columns = [hashed_numbers(column, str(place)) for place, column in enumerate(rows.T)]
    found: NDArray[np.uint64] = np.sum(columns, axis=0, dtype=np.uint64)
    return found


def _both(training: CheckedArm, control: CheckedArm, *roles: str) -> list[NDArray[Any]]:
    """Return what the first rows of both arms are in each role, training's before the control's."""
    arms = (training, control)
    return [np.concatenate([getattr(arm, role)[:_ROWS] for arm in arms]) for role in roles]


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

    def against(
        arm: CheckedArm, seen: Context, fold: NDArray[np.int64], group: NDArray[np.int64]
    ) -> StudentTallies:
        said = probabilities_of(of_target.predict(seen, fold))
        odds = grouped_odds(odds_cells(arm.target, said, arm.labels), group, groups[2])
        if of_proxy is None:
            return StudentTallies(odds, None)
        expected = probabilities_of(of_proxy.predict(seen, fold))
        return StudentTallies(odds, label_counts(arm.proxy, arm.labels, student=expected))

    first, second = map(against, (training, control), looked_at, folds, groups[:2])
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
