"""The membership game: trained on, or fresh from the same distribution?"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.hashing import record_streams
from privcore.attacks.replays import Deal, outcome_cells, replay
from privcore.attacks.tally import Tally
from privcore.exceptions import InvalidInputError


def membership_inference(
    members: NDArray[np.float64],
    nonmembers: NDArray[np.float64],
    *,
    repetitions: int,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Tally:
    """Show one record of each pair, `repetitions` times, and count the guesses at membership.

    The observational game of Kalemaj et al. 2025, "Observational Auditing of Label Privacy"
    (arXiv:2511.14084), for whole records. A pair is a training record and a record that training
    never saw. A fair bit, flipped after training, decides which one the adversary is shown; it
    guesses "member" where the shown record's score is positive, "not a member" where it is
    negative, and by a fair coin at exactly 0. Its confidence is `|score|`.

    Flipping after training makes the bit fair and independent of the model; what must be argued is
    that *the shown record* does not betray it either. Assumptions:

    1. Both records of a pair have the same distribution given the rest of the training data, and
       pairs are independent. Fresh records of the same source and time are; generated ones are
       up to the generator's total-variation distance, which is the claim's `shift`. Then a shown
       record is as likely under either bit, and only the model can tell: if training is
       epsilon-DP for *replacing* a record, the odds of the bit given the model, the shown records
       and all other bits are at most e^epsilon.
    2. A score is a function, fixed beforehand, of the model, of the shown record and of data apart
       from all pairs: reference models and population were drawn without looking at them.

    The scores `members - nonmembers` and their negative play the game in which both records are
    shown in random order; the same odds bound it, and no threshold has to be chosen.

    Args:
        members: shape (pairs,), scores of the training records; any unit, infinite if certain.
        nonmembers: shape (pairs,), scores of the records that training never saw.
        repetitions: how often the game is replayed with fresh bits.
        key: the random stream, from `stream_key`.
        indices: shape (pairs,), the pairs' indices in the stream; 0, 1, ... by default. With
            them any sharding of the pairs gives the same tally.

    The answer does not say how much a *stronger* score would have found, and one of a drifted or
    badly generated set of non-members says nothing about training at all.

    Raises:
        InvalidInputError: scores that are NaN or not one per pair, no repetitions.

    >>> import numpy as np
    >>> from privcore.attacks import stream_key
    >>> tally = membership_inference(
    ...     np.array([3.0, 2.0]), np.array([-1.0, -0.5]), repetitions=2, key=stream_key(0, "game")
    ... )
    >>> tally.correct.sum(axis=1).tolist()
    [2, 2]
    """
    members, nonmembers = _scores("members", members), _scores("nonmembers", nonmembers)
    if nonmembers.shape != members.shape:
        rule = f"there is one per member, so their shape is {members.shape}"
        raise InvalidInputError("nonmembers", nonmembers.shape, rule)
    pairs = np.stack([nonmembers, members], axis=1)
    cells = outcome_cells(pairs, np.ones(members.size, dtype=np.int64))
    deal = Deal(
        # One counterfactual, the non-member, has no border to another.
        outcomes=np.ascontiguousarray(cells[:, [0, 2]]),
        borders=np.zeros((0, members.size), dtype=np.uint64),
        streams=record_streams(members.size, key=key, indices=indices),
    )
    return replay(deal, repetitions=repetitions)


def _scores(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim != 1:
        raise InvalidInputError(name, values.shape, "it has one score per record")
    if np.any(np.isnan(values)):
        raise InvalidInputError(name, float("nan"), "a score is a number")
    return np.ascontiguousarray(values, dtype=np.float64)
