"""Cost of published statements to each label, and the refusal of one that would cost too much."""

import datetime as dt
from fractions import Fraction

import polars as pl

from privcore.attacks import same_holdout
from privcore.exceptions import TerminalError
from privcore.publication import exactly
from workers.publication.erased import Entry, Published

OUTSIDE = "/"
"""The address of a table outside the lake has one; a dataset's name in the lake has none."""


_AGAIN = (
    " The holdout comes again from earlier nights, so its labels are charged on each of them: hold "
    "out new rows every day, or set plan.labels_recur and nights_per_test."
)
_UNTOLD = (
    " Nothing tells whether its holdout comes again, so it is taken to: name scores.context or "
    "scores.record, or hold out rows that differ."
)


_TRAINED_AGAIN = (
    " Training rows come again from earlier nights, so their labels are charged on each of them: "
    "set plan.labels_recur and nights_per_test."
)


class OverspentError(TerminalError):
    """A statement would cost a label more than all statements together may."""


def outside(dataset: str) -> pl.Expr:
    """Return which entries may be about the same labels as a dataset's."""
    if OUTSIDE in dataset:
        return pl.col("dataset").str.contains(OUTSIDE, literal=True)
    return pl.col("dataset") == dataset


def check_charge(
    made: Published,
    known: list[Entry],
    epsilon_per_label: float,
    *,
    also: frozenset[dt.date] = frozenset(),
) -> None:
    """Refuse a statement that would cost a label too much, beside those that may share labels.

    An erased statement stays charged: it was read. If erasing gave the charge back, erasing and
    asking again would draw new noise as often as anybody wants.

    A label of a day takes part in all statements whose days include it; one that recurs may take
    part in all of its dataset. If sketches say that this holdout was another day's, its labels were
    there on that day, and took part in what was published of that day by any model.
    Where a statement has no sketch, its holdout is taken for that of all statements of its dataset.
    `also` are other days on which the training rows were there, too (`days_again`).
    *Does not see* that less than about half of a holdout comes again, or that the same rows come
    under other features; nor, of models with different features, those of days on which this model
    published nothing.

    Tables outside the lake are taken for one dataset, since the scores of several models commonly
    lie in a table each, beside the same labels. A sum of floats would be a little off, so fractions
    are added. A later answer of a test over nights adds nothing: the first one paid for all of
    them.

    Raises:
        OverspentError: a label would be charged more.
    """
    if not made.charge:
        return
    again = [one for one in known if _comes_again(one, made)]
    days = (also | set(made.label_days)).union(*(one.label_days for one in again))
    shares = [
        one
        for one in known
        if made.labels_recur or one.labels_recur or days & set(one.label_days) or _untold(one, made)
    ]
    spent: Fraction = sum((one.charge for one in shares), start=Fraction())
    outside = (
        " Tables outside the lake are taken to hold the same labels."
        if OUTSIDE in made.dataset
        else ""
    )
    if spent + made.charge > exactly(epsilon_per_label):
        told = _UNTOLD if made.holdout_sketch is None else _AGAIN if again else ""
        told = _TRAINED_AGAIN if also else told
        raise OverspentError(
            f"The labels of {made.dataset} took part in {len(shares)} statements that cost "
            f"{float(spent):g} together; one more of {made.epsilon_public:g} would exceed "
            f"publication.epsilon_per_label, {epsilon_per_label:g}. Nothing is published for "
            f"{made.model} on {made.day}: raise that limit only if the labels' owners agree."
            f"{outside}{told}"
        )


def _comes_again(one: Entry, made: Published) -> bool:
    """Return whether the holdout of a statement was that of an earlier one, of other days."""
    sketches = one.holdout_sketch, made.holdout_sketch
    other_days = not set(one.label_days) & set(made.label_days)
    return other_days and same_holdout(sketches)[1] == 0


def _untold(one: Entry, made: Published) -> bool:
    """Return whether nothing says that two statements have different holdouts."""
    return None in {one.holdout_sketch, made.holdout_sketch}
