"""Cost of published statements to each label, and the refusal of one that would cost too much."""

from fractions import Fraction

import polars as pl

from privcore.exceptions import TerminalError
from privcore.publication import exactly
from workers.publication.erased import Entry, Published

OUTSIDE = "/"
"""The address of a table outside the lake has one; a dataset's name in the lake has none."""


class OverspentError(TerminalError):
    """A statement would cost a label more than all statements together may."""


def outside(dataset: str) -> pl.Expr:
    """Return which entries may be about the same labels as a dataset's."""
    if OUTSIDE in dataset:
        return pl.col("dataset").str.contains(OUTSIDE, literal=True)
    return pl.col("dataset") == dataset


def check_charge(made: Published, known: list[Entry], epsilon_per_label: float) -> None:
    """Refuse a statement that would cost a label too much, beside those that may share labels.

    An erased statement stays charged: it was read. If erasing gave the charge back, erasing and
    asking again would draw new noise as often as anybody wants.

    A label of a day takes part in all statements whose days include it; one that recurs may take
    part in all of its dataset. Tables outside the lake are taken for one dataset, since the scores
    of several models commonly lie in a table each, beside the same labels. A sum of floats would
    be a little off, so fractions are added. A later answer of a test over nights adds nothing: the
    first one paid for all of them.

    Raises:
        OverspentError: a label would be charged more.
    """
    if not made.charge:
        return
    days = set(made.label_days)
    shares = [
        one for one in known if made.labels_recur or one.labels_recur or days & set(one.label_days)
    ]
    spent: Fraction = sum((one.charge for one in shares), start=Fraction())
    outside = (
        " Tables outside the lake are taken to hold the same labels."
        if OUTSIDE in made.dataset
        else ""
    )
    if spent + made.charge > exactly(epsilon_per_label):
        raise OverspentError(
            f"The labels of {made.dataset} took part in {len(shares)} statements that cost "
            f"{float(spent):g} together; one more of {made.epsilon_public:g} would exceed "
            f"publication.epsilon_per_label, {epsilon_per_label:g}. Nothing is published for "
            f"{made.model} on {made.day}: raise that limit only if the labels' owners agree."
            f"{outside}"
        )
