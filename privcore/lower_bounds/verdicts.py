"""From evidence to a verdict on what was declared."""

from enum import StrEnum

from privcore.lower_bounds.evidence import Evidence


class Verdict(StrEnum):
    """What one audit concludes."""

    CONSISTENT = "consistent"
    VIOLATED = "violated"
    PROXY_UNFAITHFUL = "proxy_unfaithful"
    UNDECLARED = "undeclared"
    NOT_EVALUABLE = "not_evaluable"


def verdict(
    audit: Evidence, control: Evidence, *, epsilon_calibrated: float, epsilon_declared: float | None
) -> tuple[Verdict, str]:
    """Return the verdict and the sentence that explains it.

    - `violated`: the headline bound exceeds what was declared, and still does when the control
      game's success is granted to the adversary as prior knowledge.
    - `proxy_unfaithful`: it exceeds it, but the control game explains that; or nothing was
      declared, and the control game, where nothing can be memorised, itself proves a leak that
      explains the audit's.
    - `consistent`: the bound does not exceed the declaration. This refutes nothing and proves
      nothing: the ceiling says how much could have been found.
    - `undeclared`: a bound, and nothing to hold it against.
    """
    bound = f"{audit.epsilon_lower:.3f}"
    if epsilon_declared is None:
        if control.epsilon_lower > 0.0 and epsilon_calibrated == 0.0:
            return Verdict.PROXY_UNFAITHFUL, (
                "The control game, played on records that training never saw, proves "
                f"{control.epsilon_lower:.3f} by itself and explains the bound of {bound}."
            )
        return Verdict.UNDECLARED, f"The privacy loss is at least {bound}; nothing was declared."
    if audit.epsilon_lower <= epsilon_declared:
        return Verdict.CONSISTENT, (
            f"The bound of {bound} does not exceed the declared {epsilon_declared:g}; "
            f"at most {audit.epsilon_ceiling:.3f} could have been proved."
        )
    if epsilon_calibrated <= epsilon_declared:
        return Verdict.PROXY_UNFAITHFUL, (
            f"The bound of {bound} exceeds the declared {epsilon_declared:g}, but what the control "
            f"game wins without memorisation explains it: {epsilon_calibrated:.3f} remains."
        )
    return Verdict.VIOLATED, (
        f"The privacy loss is at least {bound}, more than the declared {epsilon_declared:g}; "
        f"with the control's success as prior knowledge, {epsilon_calibrated:.3f}."
    )
