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

    - `consistent`: the bound does not exceed the declaration. This refutes nothing and proves
      nothing: the ceiling says how much could have been found.
    - `violated`: the bound exceeds the declaration, and the control game does not explain it: on
      records that training never saw, the adversary proves nothing, or what it wins there, granted
      as prior knowledge, still leaves more than was declared.
    - `proxy_unfaithful`: the control game proves a leak where nothing can be memorised, and that
      explains what the audit found.
    - `undeclared`: a bound, and nothing to hold it against.

    A silent control is not a faithful proxy proved: it has fewer records than the audit, so a
    small infidelity can escape it. `epsilon_calibrated` says what is left if all that the control
    won is taken at face value.
    """
    bound = f"{audit.epsilon_lower:.3f}"
    control_leaks = control.epsilon_lower > 0.0
    if epsilon_declared is None:
        if control_leaks and epsilon_calibrated == 0.0:
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
    if control_leaks and epsilon_calibrated <= epsilon_declared:
        return Verdict.PROXY_UNFAITHFUL, (
            f"The bound of {bound} exceeds the declared {epsilon_declared:g}, but the control game "
            f"proves {control.epsilon_lower:.3f} without memorisation and explains it."
        )
    return Verdict.VIOLATED, (
        f"The privacy loss is at least {bound}, more than the declared {epsilon_declared:g}; the "
        f"control game on {control.records} records proves {control.epsilon_lower:.3f}."
    )
