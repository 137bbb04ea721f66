"""Joint promise of several guarantees for the same labels."""

import math
from collections.abc import Sequence

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import checked_delta, checked_epsilon

_LARGEST = 100.0
"""Sum of epsilons above which their sum is returned: no finer figure means anything."""


def composed_epsilon(guarantees: Sequence[tuple[float, float]], *, delta: float) -> float:
    """Return an epsilon that all mechanisms together keep at `delta`, rounded up.

    The privacy loss distributions of the worst mechanisms of each (epsilon, delta) are composed
    (dp_accounting, pessimistic rounding; Koskela, Jalko, Honkela 2020; the worst mechanism is that
    of Kairouz, Oh, Viswanath 2015, Theorem 3.4). It is at most the sum of the epsilons, which holds
    where `delta` is at least the sum of the deltas.

    *Assumes* that the mechanisms' coins are independent. Each may know the outputs of those before.

    Args:
        guarantees: epsilon and delta of each, all for the same unit and relation.
        delta: at which the epsilon is asked for.

    Returns:
        0 for no guarantee; infinity where none holds at `delta`.

    >>> composed_epsilon([(1.0, 0.0), (0.5, 0.0)], delta=0.0)
    1.5
    >>> composed_epsilon([(1.0, 1e-6)], delta=0.0)
    inf
    """
    checked_delta(delta)
    for epsilon, each in guarantees:
        checked_epsilon(epsilon)
        checked_delta(each)
        if not math.isfinite(epsilon):
            raise InvalidInputError("epsilon", epsilon, "a declared epsilon is finite")
    total = math.fsum(epsilon for epsilon, _ in guarantees)
    paid = math.fsum(each for _, each in guarantees)
    basic = total if paid <= delta * (1.0 + 1e-12) else math.inf
    if len(guarantees) < 2 or delta == 0.0 or total > _LARGEST:
        return basic
    from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415  # slow to import
    from dp_accounting.pld.common import DifferentialPrivacyParameters  # noqa: PLC0415

    parts = [
        privacy_loss_distribution.from_privacy_parameters(
            DifferentialPrivacyParameters(epsilon, each)
        )
        for epsilon, each in guarantees
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.compose(part)
    return min(basic, float(together.get_epsilon_for_delta(delta)))
