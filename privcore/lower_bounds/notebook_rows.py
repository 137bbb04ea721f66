"""Remarks on the rows of a notebook's arms: held out together, logged twice, or trained on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    NEAR_DIGITS,
    NEARLY,
    ValueSketch,
    distinct_sentence,
    hashed_numbers,
    leading_digits,
    row_sums,
    separation,
)
from privcore.lower_bounds.notebook_input import CheckedArm

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
    if training.context is None or control.context is None:
        return ""
    sums = _sums(training, control)
    both = _of_both(training.context, control.context)
    for place in range(min(both.shape[1], _COLUMNS)):
        if ValueSketch.of(hashed_numbers(both[:, place], ""), sums).divided_alike():
            return (
                f"All records of one value of column {place} of the context are in one arm, and "
                "their labels agree more than the proxy expects. The target knows training records "
                "by other records of their value, and control records by none, so a comparison of "
                "single records would accuse it falsely. Hold out single records at random."
            )
    if any(separation(column, sums[:, 0] > 0) >= NEARLY for column in both.T):
        return ""  # a column that tells the arms leaves no value of all columns in both
    for digits in NEAR_DIGITS:
        near = leading_digits(both, digits).view(np.float64)
        if found := ValueSketch.of(_hashed(near), sums).near_held_together():
            return (
                f"Records with nearly the same context are in one arm: {found[0]:,} groups of them "
                f"have records of both, and a control drawn record by record would give "
                f"{found[1]:,.0f}. The target may know training records by others of whoever they "
                "are of, and control records by none, so a comparison of single records could "
                "accuse it falsely. Hold out single records at random."
            )
    return ""


def made_distinct_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that records of one arm were made distinct; "" where it does not look so."""
    if training.context is None or control.context is None:
        return ""
    sums = _sums(training, control)
    sketch = ValueSketch.of(_hashed(_of_both(training.context, control.context)), sums)
    classes = training.target.shape[1]
    expected = sketch.made_distinct(classes)
    return "" if expected is None else distinct_sentence(classes, expected)


def twice_sentence(training: CheckedArm, control: CheckedArm) -> str:
    """Say that records may be there twice; "" where it does not look so."""
    arms = (training, control)
    # The target's answers would tell labels: of forests, rows with equal ones have equal labels.
    seen = [
        arm.proxy if arm.context is None else np.hstack([arm.proxy, arm.context]) for arm in arms
    ]
    share = ValueSketch.of(_hashed(_of_both(*seen)), _sums(*arms)).repeated()
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
    target, proxy = (
        _of_both(getattr(training, name), getattr(control, name)) for name in ("target", "proxy")
    )
    if len(target) < _TO_COMPARE or float(np.abs(target - proxy).max()) > _SAME:
        return ""
    return (
        "The proxy's probabilities are the target's, record for record: give those of a model that "
        "was trained before these labels, like the ones that were served that day."
    )


def _sums(training: CheckedArm, control: CheckedArm) -> NDArray[np.int64]:
    labels, proxy = (
        _of_both(getattr(training, name), getattr(control, name)) for name in ("labels", "proxy")
    )
    seen = min(len(training.labels), _ROWS)
    return row_sums(labels, np.arange(len(labels)) < seen, proxy)


def _hashed(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each row of numbers, shape (rows,)."""
    columns = [hashed_numbers(column, str(place)) for place, column in enumerate(rows.T)]
    found: NDArray[np.uint64] = np.sum(columns, axis=0, dtype=np.uint64)
    return found


def _of_both(training: NDArray[Any], control: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([training[:_ROWS], control[:_ROWS]])
