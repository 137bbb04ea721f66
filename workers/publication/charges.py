"""Cost of published statements to each label, and the refusal of one that would cost too much."""

from collections.abc import Sequence
from fractions import Fraction

from privcore.attacks import same_holdout
from privcore.exceptions import TerminalError
from privcore.publication import exactly
from workers.publication.statement_row import Statement

_OUTSIDE = "/"
"""The address of a table outside the lake has one; a dataset's name in the lake has none."""
_AGAIN = (
    " The holdout comes again from earlier nights, so its labels are charged on each of them: hold "
    "out new rows every day."
)
_UNTOLD = (
    " Nothing tells whether its holdout comes again, so it is taken to: name scores.context or "
    "scores.record, or hold out rows that differ."
)


class OverspentError(TerminalError):
    """A statement would cost a label more than all statements together may."""


def check_charge(made: Statement, known: Sequence[Statement], epsilon_per_label: float) -> None:
    """Refuse a statement that would cost a label too much, beside those that may share labels.

    A label of a day takes part in all statements whose days include it; one that recurs
    (`plan.labels_recur`) may take part in all of its dataset. If sketches say that this holdout was
    another day's, its labels were there on that day, and took part in what was published of that
    day by any model. Where a statement has no sketch, its holdout is taken for that of all
    statements of its dataset.
    *Does not see* that training rows come again where `plan.labels_recur` does not say so, that
    less than about half of a holdout comes again, or that the same rows come under other features;
    nor, of models with different features, those of days on which this model published nothing.

    Tables outside the lake are taken for one dataset, since the scores of several models commonly
    lie in a table each, beside the same labels. A sum of floats would be a little off, so fractions
    are added.

    Raises:
        OverspentError: a label would be charged more.
    """
    known = [one for one in known if _same_dataset(one, made)]
    again = [one for one in known if _comes_again(one, made)]
    days = set(made.label_days).union(*(one.label_days for one in again))
    shares = [
        one
        for one in known
        if made.labels_recur or one.labels_recur or days & set(one.label_days) or _untold(one, made)
    ]
    spent: Fraction = sum((one.charge for one in shares), start=Fraction())
    outside = (
        " Tables outside the lake are taken to hold the same labels."
        if _OUTSIDE in made.dataset
        else ""
    )
    if spent + made.charge > exactly(epsilon_per_label):
        told = _UNTOLD if made.holdout_sketch is None else _AGAIN if again else ""
        raise OverspentError(
            f"The labels of {made.dataset} took part in {len(shares)} statements that cost "
            f"{float(spent):g} together; one more of {made.epsilon_public:g} would exceed "
            f"publication.epsilon_per_label, {epsilon_per_label:g}. Nothing is published for "
            f"{made.model} on {made.day}: raise that limit only if the labels' owners agree."
            f"{outside}{told}"
        )


def _same_dataset(one: Statement, made: Statement) -> bool:
    if _OUTSIDE in made.dataset:
        return _OUTSIDE in one.dataset
    return one.dataset == made.dataset


def _comes_again(one: Statement, made: Statement) -> bool:
    """Return whether the holdout of a statement was that of an earlier one, of other days."""
    sketches = one.holdout_sketch, made.holdout_sketch
    other_days = not set(one.label_days) & set(made.label_days)
    return other_days and same_holdout(sketches)[1] == 0


def _untold(one: Statement, made: Statement) -> bool:
    """Return whether nothing says that two statements have different holdouts."""
    return None in {one.holdout_sketch, made.holdout_sketch}
