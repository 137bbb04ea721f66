"""A target whose probabilities say less of the labels than the classes' shares do, in both arms.

An owner who exchanges features among the rows that are audited has the model answer about rows that
it never saw. No leak is found there, and counts and arms are right.
"""

import math

import numpy as np

from privcore.attacks import OddsTally, Tallies

_LEAST = 0.03
"""Nats of log-loss by which the probabilities are worse, on average."""
_CERTAIN = 3.5
"""Standard errors of that, in each arm: by chance both are seen in one of 10^7 audits."""


def worse_than_shares(tallies: Tallies) -> str:
    """Return that the target's probabilities are worse than constant ones, or "": no accusation.

    A model that fits the noise in privatised labels does the same honestly, so nothing can rest on
    it. Of more than two classes, the class that the target raised most is told from the others.
    """
    training, holdout = _losses(tallies.odds), _losses(tallies.control_odds)
    if training is None or holdout is None:
        return ""
    return (
        "The target's probabilities are further from the labels than the share of each class is, "
        f"on training records (log-loss {training[0]:.2f} beside {training[1]:.2f}) and on holdout "
        f"records ({holdout[0]:.2f} beside {holdout[1]:.2f}). A model that fits noise does so; but "
        "also one that reads other features here than in training (exchanged among rows, or in "
        "other units), and then this bound does not show what it remembers. See that the table "
        "holds the features that training read."
    )


def _losses(odds: tuple[OddsTally, ...]) -> tuple[float, float] | None:
    """Return mean log-loss of the target and of the shares; None unless the former is larger."""
    cells = [one.cells() for one in odds]
    target = np.concatenate([one.target for one in cells])
    log_odds = np.concatenate([target, -target])  # of what the label is: the class, or another
    counts = np.concatenate([one.ones for one in cells] + [one.zeros for one in cells])
    ones, records = counts[: target.size].sum(), counts.sum()
    if not 0 < ones < records:
        return None
    shares = np.repeat([ones / records, 1.0 - ones / records], target.size)
    loss, of_shares = np.logaddexp(0.0, -log_odds), -np.log(shares)
    mean = float(np.average(loss - of_shares, weights=counts))
    variance = float(np.average((loss - of_shares - mean) ** 2, weights=counts))
    if mean < max(_LEAST, _CERTAIN * math.sqrt(variance / records)):
        return None
    return float(np.average(loss, weights=counts)), float(np.average(of_shares, weights=counts))
