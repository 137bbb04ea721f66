"""A target whose answers differ by less than an audit counts: their last digits are not looked at.

An owner who scales and shifts a model's scores keeps all that it knows of labels, in digits that
counts of log-odds pass over (`privcore.attacks.odds`).
"""

from privcore.attacks import Tallies

_NEARLY_ALL = 0.99
"""Share of the training records whose answers lie in two adjacent cells of counts."""


def narrow_answers(tallies: Tallies) -> str:
    """Return that nearly all of the target's answers are counted as one, or "": never a verdict.

    A model that learned nearly nothing answers so honestly.
    """
    if tallies.ordered:  # of which no probabilities are known
        return ""
    # One axis after the other: both at once take thirty times as long.
    counts = sum(one.counts.sum(axis=0).sum(axis=1) for one in tallies.odds)
    if (counts[:-1] + counts[1:]).max() < _NEARLY_ALL * counts.sum():
        return ""
    return (
        "Nearly all of the target's probabilities lie within a quarter of log-odds, which is about "
        "as fine as this audit counts: what smaller differences give away would not be seen. A "
        "model that learned nearly nothing answers so. See that nothing scales or shifts its "
        "answers."
    )
