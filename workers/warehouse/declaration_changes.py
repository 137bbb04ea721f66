"""Changes of a model's declaration from one audited night to the next, in words."""

from collections.abc import Mapping
from typing import Any

COLUMNS = ("epsilon_declared", "delta_declared", "neighbors", "mechanism")
"""Columns of a declaration that are compared."""
DATASET, LABEL_COLUMN = "dataset", "label_column"
"""Columns that name the dataset whose labels are audited, and the label's column."""
CLASSES = "classes"
"""Column with the number of the label's classes, where it is known."""
_OTHERWISE = {
    DATASET: "Audited were labels of {was} until {until}, and are those of {now} on {day}: "
    "see that training saw these.",
    LABEL_COLUMN: "Audited was the label column {was!r} until {until}, and is {now!r} on {day}: "
    "see that training used it as its label.",
    # Only nights with as many classes are in one window: a class that no row has begins anew.
    CLASSES: "The label had {was} classes until {until}, and has {now} on {day}: "
    "bounds over several nights begin anew.",
}
_WORDS = {"replace": "replacing", "add_remove": "adding or removing", "simulate": "simulating"}


def declaration_change(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    """Return how what a night is held against differs from the night before; None where alike.

    A first night differs from nothing. The mechanism is named where nothing else differs. A
    manifest also says whose labels are audited, in which column and with how many classes. Another
    dataset or column is a change like any other, because the model may never have seen it.

    >>> night = {
    ...     "epsilon_declared": 3.6,
    ...     "delta_declared": 0.0,
    ...     "neighbors": "replace",
    ...     "mechanism": None,
    ...     "day": "2026-04-01",
    ... }
    >>> declaration_change(night, night | {"epsilon_declared": 8.0, "day": "2026-04-02"})
    'Declared was 3.6 for replacing until 2026-04-01, and is 8 for replacing on 2026-04-02.'
    """
    if before is None:
        return None
    changes = (
        _declared_otherwise(before, now),
        *(_manifest_otherwise(before, now, column) for column in _OTHERWISE),
    )
    return " ".join(filter(None, changes)) or None


def _declared_otherwise(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if all(_compared(before, name) == _compared(now, name) for name in COLUMNS):
        return ""
    was, is_now = _worded(before), _worded(now)
    if was == is_now:
        was, is_now = (
            f"{words} by {night['mechanism'] or 'no named mechanism'}"
            for words, night in ((was, before), (is_now, now))
        )
    return f"Declared was {was} until {before['day']}, and is {is_now} on {now['day']}."


def _manifest_otherwise(before: Mapping[str, Any], now: Mapping[str, Any], column: str) -> str:
    was, is_now = before.get(column), now.get(column)
    if was is None or is_now is None or was == is_now:
        return ""
    return _OTHERWISE[column].format(was=was, now=is_now, until=before["day"], day=now["day"])


def _compared(night: Mapping[str, Any], name: str) -> Any:
    """Return a part of a declaration; the relation of none is not compared."""
    return None if night["epsilon_declared"] is None else night[name]


def _worded(night: Mapping[str, Any]) -> str:
    if night["epsilon_declared"] is None:
        return "nothing"
    delta = night["delta_declared"]
    beside = f" (delta {_every_digit(delta)})" if delta else ""
    return f"{_every_digit(night['epsilon_declared'])}{beside} for {_WORDS[night['neighbors']]}"


def _every_digit(value: float) -> str:
    """Return a number as it was declared: 3.6 and 3.600000001 must not read alike."""
    return repr(value).removesuffix(".0")
