"""From evidence to a verdict on what was declared."""

import math
from enum import StrEnum

from privcore.lower_bounds.evidence import Evidence


class Verdict(StrEnum):
    """What one audit concludes."""

    CONSISTENT = "consistent"
    VIOLATED = "violated"
    PROXY_UNFAITHFUL = "proxy_unfaithful"
    UNDECLARED = "undeclared"
    NOT_EVALUABLE = "not_evaluable"


def verdict(evidence: Evidence, *, epsilon_declared: float | None) -> tuple[Verdict, str]:
    """Return the verdict and the sentence that explains it.

    - `violated`: the headline exceeds the declaration, and so does what is left when all that the
      control wins without memorisation is granted to the adversary.
    - `proxy_unfaithful`: the headline or the game's bound exceeds the declaration, but the control
      explains it: the proxy does not know the day's labels well enough for a conclusion.
    - `consistent`: neither does. This refutes nothing and proves nothing: the ceiling says how
      much could have been found.
    - `undeclared`: a bound, and nothing to hold it against; `proxy_unfaithful` instead where the
      game proves a leak, the control game does too, and nothing of it is left.
    """
    lower, game = evidence.epsilon_lower, evidence.game.epsilon_lower
    control = evidence.control_game.epsilon_lower
    if epsilon_declared is None:
        if control > 0.0 and game > 0.0 and min(lower, evidence.epsilon_calibrated) == 0.0:
            return Verdict.PROXY_UNFAITHFUL, (
                f"The game proves {_down(game)}, but {_down(control)} on records that training "
                "never saw, and nothing is left when that is granted."
            )
        return Verdict.UNDECLARED, (
            f"The privacy loss is at least {_down(lower)}; nothing was declared."
        )
    if lower > epsilon_declared and evidence.epsilon_calibrated > epsilon_declared:
        return Verdict.VIOLATED, (
            f"The privacy loss is at least {_down(lower)}, more than the declared "
            f"{epsilon_declared:g}, also when the control's success is granted to the adversary."
        )
    if max(lower, game) > epsilon_declared:
        return Verdict.PROXY_UNFAITHFUL, (
            f"The adversary's success exceeds what the declared {epsilon_declared:g} allows "
            f"({_down(max(lower, game))}), but its success on records that training never saw "
            f"explains all but {_down(min(lower, evidence.epsilon_calibrated))}."
        )
    return Verdict.CONSISTENT, (
        f"The bound of {_down(lower)} does not exceed the declared {epsilon_declared:g}; at most "
        f"{_down(evidence.epsilon_ceiling)} could have been proved."
    )


def _down(value: float) -> str:
    """Three decimals, rounded towards zero as a lower bound must be."""
    return f"{math.floor(value * 1000.0) / 1000.0:.3f}"
