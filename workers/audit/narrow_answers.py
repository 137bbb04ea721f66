"""A target whose answers are counted as one, so that what tells them apart is not looked at.

An owner who scales and shifts a model's scores keeps all that it knows of labels, in digits that
counts of log-odds pass over (`privcore.attacks.odds`).
"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import Tallies

_NEARLY_ALL = 0.99
"""Share of the training records whose answers are counted as one."""
_SUREST = 13.7
"""Log-odds just below those of 1 - 10^-6, above which all are one."""
_MANY = 0.1
"""Share of the training records whose answers are surer than that."""


def narrow_answers(tallies: Tallies) -> str:
    """Return that nearly all of the target's answers are counted as one, or "": no accusation.

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


def sure_answers(tallies: Tallies) -> str:
    """Return that many of the target's answers are surer than is counted, or "": no accusation.

    Of a day whose labels are known well an honest model may be as sure.
    """
    if tallies.ordered:
        return ""
    sure = _sure(tallies)
    if sure < _MANY:
        return ""
    return (
        f"Of {sure:.0%} of the training records the target's probability is below a millionth, or "
        "above one less that, and all of these are counted as one: what the digits beyond give "
        "away would not be seen. See why the target is so sure."
    )


def one_sided_numbers(tallies: Tallies) -> str:
    """Return that nearly all predicted numbers, or labels, lie on one side of the proxy's, or "".

    Then the side, which alone is tested, says nothing of the label. It accuses nobody: of a day
    whose numbers are all far from yesterday's an honest model says the same.
    """
    if not tallies.ordered:
        return ""
    target, counts = _answers(tallies)
    above = {
        "the target's predictions": counts[target > 0.0].sum(),
        "the labels": sum(one.counts[..., 1].sum() for one in tallies.odds),
    }
    for what, number in above.items():
        share = number / max(counts.sum(), 1)
        if 1.0 - _NEARLY_ALL < share < _NEARLY_ALL:
            continue
        side = "above" if share > 0.5 else "below"
        return (
            f"Nearly all of {what} lie {side} the proxy's predictions. The audit tests the side "
            "alone, so it would not see what the target remembers of the labels. A day on which "
            "all numbers moved one way looks so. See that both models predict in one unit, and "
            "that nothing shifts their predictions."
        )
    return ""


def sure_beliefs(tallies: Tallies) -> str:
    """Return that nearly all beliefs in an attribute's values are too sure to be told apart, or "".

    Beliefs are prior times probability: a prior of nearly 1 hides what the model says.
    """
    if _sure(tallies) < _NEARLY_ALL:
        return ""
    return (
        "Nearly all beliefs in a value are surer than this audit counts (below a millionth, or "
        "above one less that), so what the model says of values would hardly be seen: see that "
        "attribute.prior holds the shares of the values."
    )


def _sure(tallies: Tallies) -> float:
    """Return the share of the training records whose answers are surer than is counted."""
    target, counts = _answers(tallies)
    return float(counts[np.abs(target) > _SUREST].sum() / max(counts.sum(), 1))


def _answers(tallies: Tallies) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the target's log-odds of training records, and how many records have them."""
    cells = [one.cells() for one in tallies.odds]
    target = np.concatenate([one.target for one in cells])
    return target, np.concatenate([one.ones + one.zeros for one in cells])
