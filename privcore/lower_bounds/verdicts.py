"""From evidence to a verdict on what was declared."""

from enum import StrEnum

from privcore.lower_bounds.evidence import Evidence
from privcore.lower_bounds.secret import Secret
from privcore.rounding import at_least, down


class Verdict(StrEnum):
    """What one audit concludes."""

    CONSISTENT = "consistent"
    VIOLATED = "violated"
    PROXY_UNFAITHFUL = "proxy_unfaithful"
    UNDECLARED = "undeclared"
    PRIVATISED = "privatised"
    NOT_A_GUARANTEE = "not_a_guarantee"
    NOT_EVALUABLE = "not_evaluable"


_UNDECLARED = {
    Secret.LABEL: "nothing was declared",
    Secret.ATTRIBUTE: "nothing was declared of features",
    Secret.MEMBERSHIP: "nothing was declared of whole records",
}


def verdict(
    evidence: Evidence, *, epsilon_declared: float | None, by_policy: bool = False
) -> tuple[Verdict, str]:
    """Return the verdict and the sentence that explains it.

    `by_policy` says that not the model's owner declared the epsilon, but the house for all models
    that declare nothing: the verdict is the same, the sentence says so.

    - `violated`: the headline exceeds the declaration. It needs no faith in the proxy, only
      assumption E, or with decoys nothing.
    - `consistent`: it does not. This refutes nothing and proves nothing: the ceiling says how much
      could have been found.
    - `proxy_unfaithful`: no conclusion. The holdout is too small to refute the declaration whatever
      happened, bets that believe the proxy exceed it, and the same bets on the holdout show that
      the proxy is wrong. Never with decoys, whose test asks no proxy.
    - `undeclared`: a bound, and nothing to hold it against.
    """
    lower, believed = evidence.epsilon_lower, evidence.epsilon_if_proxy_right
    control, ceiling = evidence.control_epsilon_if_proxy_right, evidence.epsilon_ceiling
    if epsilon_declared is None:
        what = _UNDECLARED[evidence.claim.secret]
        return Verdict.UNDECLARED, f"{_proved(lower)}; {what}."
    declared = f"the declared {epsilon_declared:g}"
    if by_policy:
        declared = f"the {epsilon_declared:g} declared by policy"
    if lower > epsilon_declared:
        proved = at_least(lower, beyond=epsilon_declared)
        return Verdict.VIOLATED, (
            f"The privacy loss is at least {proved}, more than {declared}, {_grounds(evidence)}."
        )
    if ceiling > epsilon_declared:
        beside = "refutes nothing of" if lower == 0.0 else "does not exceed"
        return Verdict.CONSISTENT, (
            f"{_proved(lower)}, which {beside} {declared}; at most {down(ceiling)} could have "
            "been proved."
        )
    decoys = evidence.decoy_records
    enough, more = (
        (f"{evidence.control_records} holdout records", "hold out more")
        if decoys is None
        else (f"{decoys} decoys", "draw more")
    )
    unable = (
        f"With {enough} {f'at most {down(ceiling)}' if ceiling else 'nothing'} can be proved, "
        f"so no attack could refute {declared}: {more}."
    )
    if decoys is not None or believed is None or control is None:
        return Verdict.CONSISTENT, unable
    if believed > epsilon_declared and control > 0.0:
        return Verdict.PROXY_UNFAITHFUL, (
            f"{unable} If the proxy were right the loss would be at least {down(believed)}; but "
            f"by the same reckoning it would be at least {down(control)} for records that "
            "training never saw, so the proxy is wrong."
        )
    return Verdict.CONSISTENT, unable


def _proved(epsilon_lower: float) -> str:
    if epsilon_lower == 0.0:
        return "No privacy loss is proved"
    return f"The privacy loss is at least {down(epsilon_lower)}"


def _grounds(evidence: Evidence) -> str:
    if evidence.decoy_records is None:
        return "compared with records that training never saw"
    return f"by {evidence.decoy_records} labels that a coin chose before training"


def privatised(evidence: Evidence, mechanism: str) -> tuple[Verdict, str]:
    """Return the verdict on labels that `mechanism` had privatised before training saw them.

    Training post-processes them, so no bound refutes the guarantee that they bring, and this one
    speaks of the privatised labels alone: it says what training gives away of these.
    """
    lost = f"at least {down(evidence.epsilon_lower)} is lost, which refutes nothing"
    return Verdict.PRIVATISED, (
        f"The labels were privatised by {mechanism} before training saw them, so nothing that "
        "training does can break what that guarantees. Of the privatised labels themselves "
        f"{lost if evidence.epsilon_lower else 'no loss is proved'}."
    )


def not_a_guarantee(evidence: Evidence, definition: str) -> tuple[Verdict, str]:
    """Return the verdict on a definition under which every record can be read at any epsilon.

    Individual, group individual and bootstrap differential privacy: no bound can refute what
    promises nothing. "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy".
    """
    return Verdict.NOT_A_GUARANTEE, (
        f"The manifest declares {definition}, under which all records can be read at any epsilon: "
        f"it is no guarantee. {_proved(evidence.epsilon_lower)}."
    )
