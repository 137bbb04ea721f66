"""Whether an audit that refutes nothing could have refuted a false claim."""


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
