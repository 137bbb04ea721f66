"""Power of an audit: how large a leak it could have seen, and how many records it needs.

A declaration that is not refuted says something only if a false one would probably be refuted. The
ceiling answers that for a perfect attack, which proves much even with ten holdout records. The
power answers it for a leak just beyond the declaration, of every label alike.
"""

import math
from dataclasses import dataclass

from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.designs import DecoyRecords, Design
from privcore.lower_bounds.stakes import EPSILONS

_LARGEST = 12.0
_STEP = 0.01
_RESOLUTION = 1.02
"""Factor by which the answered size may exceed the least that suffices."""


@dataclass(frozen=True, slots=True)
class Power:
    """Power of one audit.

    Attributes:
        epsilon_detectable: about the least leak of every training label that would have refuted the
            declaration (or, where nothing is declared, that would have proved any loss), in five of
            six audits. None where a leak of 12 would not.
        holdout_needed: about how many holdout records (decoys, where there are some) the audit
            needs to be `sensitive`, of as many records in all; None where it is, where nothing is
            declared, and where no number of them suffices.
    """

    epsilon_detectable: float | None
    holdout_needed: int | None


def power_of(design: Design, claim: Claim, *, records: int) -> Power:
    """Return what an audit could have seen.

    Both figures are found by the method of the bound itself: it reads tables as a leaking target
    would leave them (`leaking_tables`), and as another division of the records would fill them
    (`resized_tables`). They are expectations, less one standard error, that plan an audit; they
    prove nothing, and no verdict rests on them.

    *Assumes* a leak of all labels alike. A leak of few labels has to be larger to be seen.

    Args:
        design: of the audit.
        claim: what is tested; without an epsilon, any loss at all.
        records: training and holdout records together.
    """
    if not design.held:
        return Power(None, None)
    limit = claim.epsilon or 0.0
    detectable = _detectable(design, claim, limit)
    if claim.epsilon is None or _sees(design, claim):
        return Power(detectable, None)
    # Beyond one half the training records are the smaller arm; all of them may be decoys.
    most = records + design.held if isinstance(design, DecoyRecords) else records // 2
    return Power(detectable, _size_needed(design, claim, most=most))


def _refuted(design: Design, claim: Claim, leak: float, limit: float) -> bool:
    """Return whether a target that leaks so much, in the claim's terms, is proved above `limit`.

    One point decides that, so the bound itself is not looked for (2.5 times the processor time).
    Nothing is proved above a limit beyond the last point.
    """
    stakes = design.stakes(claim)
    beyond = stakes.first_beyond(limit)
    if beyond == EPSILONS.size:
        return False
    return design.leaking(stakes.replacement(leak)).reaches(beyond, stakes)


def _detectable(design: Design, claim: Claim, limit: float) -> float | None:
    if not _refuted(design, claim, _LARGEST, limit):
        return None
    low, high = limit, _LARGEST
    while high - low > _STEP:
        middle = (low + high) / 2.0
        seen = _refuted(design, claim, middle, limit)
        low, high = (low, middle) if seen else (middle, high)
    return math.ceil(high / _STEP) * _STEP


def _sees(design: Design, claim: Claim) -> bool:
    """Return whether the design is sensitive to the claim's epsilon."""
    epsilon = claim.epsilon or 0.0
    stakes = design.stakes(claim)
    return _refuted(
        design, claim, leak_to_be_seen(epsilon), epsilon
    ) and design.all_right().reaches(stakes.first_beyond(epsilon), stakes)


def _size_needed(design: Design, claim: Claim, *, most: int) -> int | None:
    """Return about the least size at which the design is sensitive; None where none is."""
    low, high = design.held, most
    if high <= low or not _sees(design.resized(high), claim):
        return None
    while high > math.ceil(low * _RESOLUTION) and (middle := math.isqrt(low * high)) > low:
        low, high = (low, middle) if _sees(design.resized(middle), claim) else (middle, high)
    return high


def leak_to_be_seen(epsilon: float) -> float:
    """Return the leak that a test of the claim `epsilon` has to see.

    Twice the claim, and at most 1 more.

    >>> leak_to_be_seen(0.5), leak_to_be_seen(2.0)
    (1.0, 3.0)
    """
    return min(2.0 * epsilon, epsilon + 1.0)


def sensitive(
    *, epsilon: float, epsilon_ceiling: float | None, epsilon_detectable: float | None
) -> bool:
    """Return whether an audit that refutes nothing of a claim could have refuted it.

    A perfect attack could have proved more than the claim (the ceiling), and a leak of
    `leak_to_be_seen` would probably have refuted it. A holdout of a few records fails the second.

    Args:
        epsilon: the claim's, above 0 or 0.
        epsilon_ceiling: of the audit; None where there is no figure.
        epsilon_detectable: as in `privcore.lower_bounds.power.Power`.

    >>> sensitive(epsilon=1.0, epsilon_ceiling=3.0, epsilon_detectable=1.8)
    True
    >>> sensitive(epsilon=1.0, epsilon_ceiling=0.8, epsilon_detectable=None)
    False
    """
    if epsilon_ceiling is None or epsilon_detectable is None:
        return False
    return epsilon_ceiling > epsilon and epsilon_detectable <= leak_to_be_seen(epsilon)
