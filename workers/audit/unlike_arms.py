"""Training records that the holdout has none beside, by what the earlier model says of them."""

import numpy as np
from scipy.special import chdtrc

from privcore.attacks import OddsTally, Tallies

_BINS, _FEWEST = 10, 100
_UNLIKE = 0.1
"""Share of the records that would have to be elsewhere, from which on it is remarked on."""
_BY_CHANCE = 1e-9


def unlike_arms(tallies: Tallies) -> str:
    """Return that the earlier model tells the arms apart, or "": no label is read, and no verdict.

    An owner who holds out the rows of which it is surest leaves nobody to compare others with. Of a
    holdout that is a random part it is equally sure. With more than two classes the looked-at class
    is the target's choice, so nothing is compared.
    """
    if tallies.ordered or tallies.classes != 2:
        return ""
    arms = zip(tallies.odds, tallies.control_odds, strict=True)
    found = [each for one, other in arms if (each := _apart(one, other)) is not None]
    if not found:
        return ""
    records, moved, surprise, freedom = np.sum(found, axis=0)
    if moved < _UNLIKE * records or chdtrc(freedom, surprise) > _BY_CHANCE:
        return ""
    return (
        f"The earlier model answers otherwise of the holdout than of the training records: "
        f"{moved / records:.0%} of these would have to have other answers. So the holdout is not a "
        "random part of the rows, and has few records beside some training records, of which this "
        "bound then says little. Hold out at random."
    )


def _apart(training: OddsTally, control: OddsTally) -> tuple[int, float, float, int] | None:
    """Return training records, how many of them are elsewhere, and chi-square with its freedom."""
    arms = np.stack([odds.counts.sum(axis=(1, 2)) for odds in (training, control)]).astype(float)
    if arms.sum(axis=1).min() < _FEWEST:
        return None
    places = np.cumsum(arms.sum(axis=0)) / arms.sum()
    bins = np.minimum((places * _BINS).astype(int), _BINS - 1)
    counts = np.stack([np.bincount(bins, arm, minlength=_BINS) for arm in arms])
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    moved = 0.5 * float(np.abs(shares[0] - shares[1]).sum()) * training.records
    surprise = float(((counts - expected) ** 2 / expected).sum())
    return training.records, moved, surprise, counts.shape[1] - 1
