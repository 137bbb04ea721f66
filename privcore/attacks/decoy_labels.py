"""Decoy labels: records whose label was chosen by the auditor's coin before training.

Who may touch training can buy a bound that assumes nothing. For a few records a second label is
drawn, from the proxy say, and a coin decides which of the two is trained on. Afterwards an
adversary who sees both labels and the model says which one it was. Nothing but the model can tell:
given the pair, either label was trained on with probability 1/2, whatever the proxy and the data.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from privcore.attacks.odds import OddsTally, Predictions, odds_tally
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels, check_pair, check_probabilities

_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class Decoys:
    """Labels to train on, and the labels they could have been; all arrays have shape (records,).

    Attributes:
        labels: class indices to train on: the decoys' by the coin, all others unchanged.
        others: the label of the pair that is not trained on; -1 where the record is no decoy.
    """

    labels: NDArray[np.int64]
    others: NDArray[np.int64]


def draw_decoys(
    labels: NDArray[np.integer],
    proxy: NDArray[np.float64],
    *,
    share: float,
    random: np.random.Generator,
) -> Decoys:
    """Choose decoys among the records, draw their second labels, and toss their coins.

    Args:
        labels: shape (records,), the true class indices.
        proxy: shape (records, classes), from which second labels are drawn. A good proxy makes
            pairs that only memory can tell apart; a bad one costs power, never validity.
        share: of the records that become decoys, in (0, 1]; half of those with two different
            labels are then trained on a wrong one.
        random: the auditor's coins. The trainer must not be able to foresee them.

    A record whose second label is the same is a decoy that says nothing. It stays one: the records
    whose draw differs are not a fair sample of training.

    Raises:
        InvalidInputError: a share outside (0, 1], or labels or probabilities of a wrong kind.
    """
    if not 0.0 < share <= 1.0:
        raise InvalidInputError("share", share, "it lies above 0 and is at most 1")
    proxy = check_probabilities("proxy", proxy)
    check_labels(labels, proxy.shape)
    chosen = random.random(labels.size) < share
    drawn = (proxy.cumsum(axis=1) < random.random(labels.size)[:, None]).sum(axis=1)
    drawn = np.minimum(drawn, proxy.shape[1] - 1)
    swapped = chosen & (random.random(labels.size) < 0.5)
    true = labels.astype(np.int64)
    return Decoys(
        labels=np.where(swapped, drawn, true),
        others=np.where(chosen, np.where(swapped, true, drawn), -1),
    )


def decoy_tally(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    others: NDArray[np.integer],
) -> OddsTally:
    """Count what both models say of the smaller label of each pair, given the pair.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of a model that never saw these labels; it tells an
            adversary what the target said without them, and nothing that is proved depends on it.
        labels: shape (records,), class indices that were trained on.
        others: shape (records,), the pairs' other labels; pairs of one label are left out.
    """
    target, proxy = check_pair(target, proxy)
    for one in (labels, others):
        check_labels(one, target.shape)
    telling = np.flatnonzero(labels != others)
    trained, other = labels[telling], others[telling]
    smaller, larger = np.minimum(trained, other), np.maximum(trained, other)

    def given_pair(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        pair = np.stack([probabilities[telling, larger], probabilities[telling, smaller]], axis=1)
        held = np.maximum(pair, _SMALLEST)
        shares: NDArray[np.float64] = held / held.sum(axis=1, keepdims=True)
        return shares

    hits = (trained == smaller).astype(np.int64)
    return odds_tally(given_pair(target), given_pair(proxy), hits)


def coin_pvalue(tally: OddsTally) -> float:
    """Return how probable coins as uneven as these are if they were fair.

    A fair coin trains on either label of a pair with probability 1/2, whatever the pair and the
    proxy are. Two exact binomial tests, of the smaller label and of the label that the proxy holds
    more probable, at half the level each. A coin that follows another rule is not found.

    Args:
        tally: of the pairs with two different labels, from `decoy_tally`.
    """
    cells = tally.cells()
    favoured, against = cells.proxy > 0.0, cells.proxy < 0.0
    smaller = int(cells.ones.sum()), int(cells.zeros.sum())
    probable = (
        int(cells.ones[favoured].sum() + cells.zeros[against].sum()),
        int(cells.zeros[favoured].sum() + cells.ones[against].sum()),
    )
    tests = [2.0 * float(bdtr(min(pair), sum(pair), 0.5)) for pair in (smaller, probable)]
    return min(1.0, 2.0 * min(tests))


def coin_predictions(tally: OddsTally) -> Predictions:
    """Return the prediction of each pair: the label whose odds the target raised above the proxy's.

    The prior is the coin's, 1/2, which no model has a part in.
    """
    cells = tally.cells()
    raised = cells.target > cells.proxy
    return Predictions(
        prior=np.zeros(cells.proxy.shape),
        lift=np.abs(cells.target - cells.proxy),
        wrong=np.where(raised, cells.zeros, cells.ones).astype(np.float64),
        right=np.where(raised, cells.ones, cells.zeros).astype(np.float64),
    )
