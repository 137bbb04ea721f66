"""A holdout that the model was trained on: named as a likely cause, where it looks like one."""

from privcore.attacks import Tallies, surprises

_SURPRISES = 30
_KNOWN = 0.8
_LESS = 0.05
"""Least number of holdout labels that the proxy held unlikely; least share of them that the
target knows; and the most by which its share of training labels may exceed that."""


def holdout_seen(tallies: Tallies) -> str:
    """Return a hint that the holdout was trained on, or "": a sentence, and never an accusation.

    Then matched records compare what was learned with what was learned, and nothing is proved.
    """
    believed = tallies.believed()
    training, holdout = surprises(believed.odds), surprises(believed.control_odds)
    if holdout.records < _SURPRISES or holdout.share < _KNOWN:
        return ""
    if training.records and training.share > holdout.share + _LESS:
        return ""
    return (
        f"Of {holdout.records} holdout labels that the proxy held unlikely, the target knows "
        f"{holdout.share:.0%}, and {training.share:.0%} of such training labels: either it was "
        "trained on the holdout too, and then nothing can be told apart, or the proxy is far out "
        "of date. Hold rows out of training."
    )
