"""The re-identification game on small data, played out exactly by going through all training sets.

Izzo et al. (see `privcore.upper_bounds.reidentification_privacy`), Definition 1 and Proposition 2.
An algorithm is given as a table of what it puts out, and how probably, for each training set: with
it the best adversary, its accuracy and so the algorithm's own eta are sums.
"""

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.upper_bounds.priors import checked_distribution

Bools = NDArray[np.bool_]


def training_sets(records: int, *, size: int) -> Bools:
    """Return all training sets of `size` of the records, each as probable as the others.

    Args:
        records: n, at least 1.
        size: k, from 0 to n.

    Returns:
        Shape (comb(n, k), n): whether the training set holds the record.
    """
    checked("records", records, 1, np.inf, "there is at least one record")
    checked("size", size, 0, records, f"a training set has 0 to {records} records")
    sets = list(itertools.combinations(range(records), size))
    members = np.zeros((len(sets), records), dtype=np.bool_)
    for row, chosen in enumerate(sets):
        members[row, list(chosen)] = True
    return members


def optimal_adversary(likelihoods: ArrayLike, *, members: ArrayLike) -> Bools:
    """Return what the best adversary says of each record at each output: that it took part.

    Proposition 2: it says so if the record took part with probability at least 1/2, given the
    output.

    Args:
        likelihoods: shape (training sets, outputs), each output's probability for each training
            set; all training sets are equally probable.
        members: shape (training sets, records), as `training_sets` returns it.

    Returns:
        Shape (records, outputs).
    """
    joint, without = _joint(likelihoods, members)
    return np.asarray(joint >= without)


def optimal_accuracy(likelihoods: ArrayLike, *, members: ArrayLike) -> Floats:
    """Return how often the best adversary is right about each record, in [1/2, 1].

    The integral of Proposition 2: the sum over outputs of the larger of the probabilities that the
    record took part and that it did not, jointly with the output. Arguments and errors are those of
    `optimal_adversary`.

    Returns:
        Shape (records,).
    """
    joint, without = _joint(likelihoods, members)
    return np.asarray(np.minimum(np.maximum(joint, without).sum(axis=1), 1.0))


def reidentification_eta(likelihoods: ArrayLike, *, members: ArrayLike) -> float:
    """Return the least eta for which the algorithm is eta-RIP on these records, exactly.

    Definition 1: the accuracy of the best adversary on the record that it tells best, above that
    of a blind guess. Arguments and errors are those of `optimal_adversary`.

    >>> members = training_sets(2, size=1)
    >>> # Randomized response on which of the two records was trained on, at epsilon 1.
    >>> kept = 1.0 / (1.0 + np.exp(-1.0))
    >>> table = [[kept, 1.0 - kept], [1.0 - kept, kept]]
    >>> round(reidentification_eta(table, members=members), 4)
    0.2311
    """
    share = np.asarray(members, dtype=np.float64).mean(axis=0)
    blind = np.maximum(share, 1.0 - share)
    found = float(np.max(optimal_accuracy(likelihoods, members=members) - blind))
    return max(found, 0.0)


def _joint(likelihoods: ArrayLike, members: ArrayLike) -> tuple[Floats, Floats]:
    """Probabilities of each output jointly with the record's taking part, and not taking part."""
    members = np.asarray(members)
    if members.dtype != np.bool_ or members.ndim != 2 or not members.size:
        rule = "it is an array of booleans of shape (training sets, records)"
        raise InvalidInputError("members", (str(members.dtype), members.shape), rule)
    table = checked_distribution(likelihoods)
    if table.ndim != 2 or len(table) != len(members):
        rule = f"it is ({len(members)}, outputs), a row per training set"
        raise InvalidInputError("shape of likelihoods", table.shape, rule)
    weight = 1.0 / len(members)
    return members.T @ table * weight, (~members).T @ table * weight
