"""Training records that the holdout has none beside, by what the earlier model says of them."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from privcore.attacks.tallies import Tallies

_BINS, _FEWEST = 10, 100
_UNLIKE = 0.1
"""Share of the records that would have to be elsewhere, from which on it is remarked on."""
_BY_CHANCE = 1e-9


def unlike_arms(tallies: Tallies) -> str:
    """Return that the earlier model tells the arms apart, or "": no label is read.

    An owner who holds out the rows of which it is surest leaves nobody to compare others with. Of a
    holdout that is a random part it is equally sure. Of more than two classes that one counts which
    the arms differ most in.
    """
    classes = [
        np.sum(found, axis=0)
        for arms in _by_class(tallies)
        if (found := [each for both in arms if (each := _apart(both)) is not None])
    ]
    told = [
        (moved / records, records, moved)
        for records, moved, surprise, freedom in classes
        if moved >= _UNLIKE * records and chdtrc(freedom, surprise) * len(classes) <= _BY_CHANCE
    ]
    if not told:
        return ""
    _, records, moved = max(told)
    return (
        f"The earlier model answers otherwise of the holdout than of the training records: "
        f"{moved / records:.0%} of these would have to have other answers. So the holdout is not a "
        "random part of the rows, and has few records beside some training records, of which this "
        "bound then says little. Hold out at random."
    )


def _by_class(tallies: Tallies) -> list[list[NDArray[np.float64]]]:
    """Return both arms' records by what the earlier model says of a class, by class and group."""
    labels, control = tallies.labels, tallies.control_labels
    if labels is None or control is None:
        arms = zip(tallies.odds, tallies.control_odds, strict=True)
        both = ([one.counts.sum(axis=(1, 2)) for one in pair] for pair in arms)
        return [[np.stack(pair).astype(float) for pair in both]]
    counts = np.stack([one.counts.sum(axis=-1) for one in (labels, control)]).astype(float)
    return [[*counts[:, :, place].transpose(1, 0, 2)] for place in range(counts.shape[2])]


def _apart(arms: NDArray[np.float64]) -> tuple[float, float, float, int] | None:
    """Return training records, how many of them are elsewhere, and chi-square with its freedom."""
    if arms.sum(axis=1).min() < _FEWEST:
        return None
    places = np.cumsum(arms.sum(axis=0)) / arms.sum()
    bins = np.minimum((places * _BINS).astype(int), _BINS - 1)
    counts = np.stack([np.bincount(bins, arm, minlength=_BINS) for arm in arms])
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    moved = 0.5 * float(np.abs(shares[0] - shares[1]).sum()) * arms[0].sum()
    surprise = float(((counts - expected) ** 2 / expected).sum())
    return float(arms[0].sum()), moved, surprise, counts.shape[1] - 1
