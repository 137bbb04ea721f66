"""Verdict on a declaration, from evidence."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from privcore.lower_bounds.secret import Secret
from privcore.rounding import at_least, down, guarantee

if TYPE_CHECKING:  # the words of verdicts are also read where no evidence is
    from privcore.lower_bounds.evidence import Evidence


class Verdict(StrEnum):
    """Conclusion of one audit.

    >>> str(Verdict.VIOLATED)
    'violated'
    """

    CONSISTENT = "consistent"
    VIOLATED = "violated"
    DOUBTFUL = "doubtful"
    PROXY_UNFAITHFUL = "proxy_unfaithful"
    UNDECLARED = "undeclared"
    PRIVATISED = "privatised"
    VACUOUS = "vacuous"
    NOT_A_GUARANTEE = "not_a_guarantee"
    NOT_EVALUABLE = "not_evaluable"


_ANY_CHANGED = 0.01
"""Labels that randomized response changes on average, below which it changes none of them."""
_UNDECLARED = {
    Secret.LABEL: "nothing was declared",
    Secret.ATTRIBUTE: "nothing was declared of features",
    Secret.MEMBERSHIP: "nothing was declared of whole records",
}


def verdict(
    evidence: "Evidence",
    *,
    epsilon_declared: float | None,
    by_policy: bool = False,
    undeclared: str = "",
    vacuous: str = "",
    held_back: str = "",
) -> tuple[Verdict, str]:
    """Return the verdict and the sentences that explain it, the cause first.

    Args:
        evidence: what the tallies prove.
        epsilon_declared: the epsilon to hold the bound against; None where there is none.
        by_policy: the house declared the epsilon for all models that declare nothing. The verdict
            is the same, the sentence says so.
        undeclared: why there is no epsilon to hold the bound against, where the reason is another
            one than that nothing was declared; without a full stop.
        vacuous: why the declaration says nothing, as `says_nothing` returns it; "" where it says
            something.
        held_back: why bets against the proxy could not win (`ArmsComparison.doubt_sentence`), ""
            where they could. It is the cause where nothing at all could be proved, and is said
            last where the student could.

    The verdicts:

    - `violated`: the headline exceeds the declaration. The sentence states the conditions: the
      holdout was drawn at random from the rows trained on, after any sampling, no earlier model saw
      it (assumption E1), and training read no other label of these rows. It also assumes E2
      (docs/evidence/statistics.md). With decoys it assumes neither.
    - `vacuous`: it does not, and the declaration says nothing. No bound can refute it, so that it
      is not refuted is no news. The same verdict stands where the owner's delta alone prevents a
      refutation: at delta 0 the same records would refute the declared epsilon. A mechanism that
      keeps its declaration meets that with a probability of at most the significance plus what
      delta allows on as many records.
    - `consistent`: it does not. This refutes nothing and proves nothing: the ceiling says how much
      could have been found.
      Beside signs that a leak may be hidden, `doubted` makes it `doubtful`.
    - `proxy_unfaithful`: no conclusion. The holdout is too small to refute the declaration whatever
      happened, bets that believe the proxy exceed it, and the same bets on the holdout show that
      the proxy is wrong. Never with decoys, whose test asks no proxy.
    - `undeclared`: a bound, and nothing to hold it against.
    """
    why = evidence.misled_sentence or held_back
    conclusion, reason = _judged(evidence, epsilon_declared, by_policy, undeclared, vacuous, why)
    return conclusion, reason if why in reason else f"{reason} {why}"


def _judged(
    evidence: "Evidence",
    epsilon_declared: float | None,
    by_policy: bool,  # noqa: FBT001  # as of `verdict`
    undeclared: str,
    vacuous: str,
    held_back: str,
) -> tuple[Verdict, str]:
    """Return the verdict and its sentences, as `verdict` states them."""
    lower, ceiling = evidence.epsilon_lower, evidence.epsilon_ceiling
    if epsilon_declared is None:
        what = undeclared or _UNDECLARED[evidence.claim.secret]
        return Verdict.UNDECLARED, f"{_proved(lower)}; {what}."
    declared = _declared(evidence, epsilon_declared, by_policy=by_policy)
    if lower > epsilon_declared:
        proved = at_least(lower, beyond=epsilon_declared)
        return Verdict.VIOLATED, (
            f"The privacy loss is at least {proved}, more than {declared}, {_grounds(evidence)}."
        )
    if vacuous:
        return Verdict.VACUOUS, f"{vacuous} {_proved(lower)}."
    if not by_policy and (told := _kept_by_delta(evidence, epsilon_declared)):
        return Verdict.VACUOUS, f"{told} {_proved(lower)}."
    if ceiling > epsilon_declared:
        beside = "refutes nothing of" if lower == 0.0 else "does not exceed"
        return Verdict.CONSISTENT, (
            f"{_proved(lower)}, which {beside} {declared}; at most {down(ceiling)} could have "
            "been proved."
        )
    return _unable(evidence, epsilon_declared, declared, held_back)


def doubted(
    evidence: "Evidence",
    conclusion: Verdict,
    reason: str,
    *,
    doubts: Sequence[tuple[str, str]],
    notes: Sequence[tuple[str, str]] = (),
) -> tuple[Verdict, str]:
    """Return the verdict and its sentences with signs that a leak may be hidden, and with notes.

    `consistent` beside a doubt would acquit a model of which nothing is known. No sign accuses, so
    that other verdicts stay. Where nothing is concluded, the first doubt is the cause, and its
    sentences come first; the others are named by their words.

    Args:
        evidence: what the tallies prove.
        conclusion: without these signs, as `verdict` returns it with its `reason`.
        reason: see there.
        doubts: each doubt's word and its sentences, "" where there is none; the likeliest cause of
            others first.
        notes: the same of what is no doubt.
    """
    doubts, notes = ([each for each in some if each[1]] for some in (doubts, notes))
    if not doubts or conclusion not in {Verdict.CONSISTENT, Verdict.PROXY_UNFAITHFUL}:
        return conclusion, " ".join([reason, *(said for _, said in (*doubts, *notes))])
    (word, cause), *others = *doubts, *notes
    proved = _proved(evidence.epsilon_lower)
    nothing = f"So nothing is concluded: {proved[0].lower()}{proved[1:]}."
    more = ", ".join(dict.fromkeys(other for other, _ in others if other != word))
    sentences = (cause, nothing, f"Also seen: {more}." if more else "")
    changed = Verdict.DOUBTFUL if conclusion is Verdict.CONSISTENT else conclusion
    return changed, " ".join(filter(None, sentences))


def _unable(
    evidence: "Evidence", epsilon: float, declared: str, held_back: str
) -> tuple[Verdict, str]:
    """Return the verdict where not even a perfect attack could have refuted the declaration."""
    believed, control = evidence.epsilon_if_proxy_right, evidence.control_epsilon_if_proxy_right
    ceiling, decoys = evidence.epsilon_ceiling, evidence.decoy_records
    enough, more = (
        (f"{evidence.control_records} holdout records", "hold out more")
        if decoys is None
        else (f"{decoys} decoys", "draw more")
    )
    unable = (
        f"With {enough} {f'at most {down(ceiling)}' if ceiling else 'nothing'} can be proved, "
        f"so no attack could refute {declared}: {more}."
    )
    if held_back and ceiling == 0.0:
        unable = f"{held_back} So nothing could refute {declared}."
    if decoys is not None or believed is None or control is None:
        return Verdict.CONSISTENT, unable
    if believed > epsilon and control > 0.0:
        return Verdict.PROXY_UNFAITHFUL, (
            f"{unable} If the proxy were right the loss would be at least {down(believed)}; but "
            f"by the same reckoning it would be at least {down(control)} for records that "
            "training never saw, so the proxy is wrong."
        )
    return Verdict.CONSISTENT, unable


def says_nothing(
    epsilon: float, delta: float, *, records: int, limit: float | None, policy: float | None
) -> str:
    """Return why a declaration says nothing of these records, in one sentence; "" where it does.

    At delta a mechanism may publish each record's label with that probability. With a delta of
    1/records or more it may publish one label every night, and keep its guarantee. At an epsilon
    above the logarithm of 100 times the records it may publish all labels nearly every night.

    Args:
        epsilon: declared.
        delta: declared.
        records: training records.
        limit: the delta from which on a declaration says nothing; 1/records where None.
        policy: the largest epsilon that the house allows; None where it sets none.

    >>> says_nothing(100.0, 0.0, records=1000, limit=None, policy=None)[:61]
    'The declaration says nothing: at its epsilon of 100, randomiz'
    >>> says_nothing(1.0, 1e-6, records=1000, limit=None, policy=2.0)
    ''
    """
    if delta > 0.0 and delta >= (1.0 / max(records, 1) if limit is None else limit):
        most = (
            f"1 over the {records:,} training records"
            if limit is None
            else f"the {limit:g} of plan.delta_limit"
        )
        return (
            f"The declaration says nothing: its delta of {delta:g} is not below {most}, so whole "
            "labels may be published under it. Declare a smaller delta."
        )
    if records * math.exp(-epsilon) < _ANY_CHANGED:
        return (
            f"The declaration says nothing: at its epsilon of {epsilon:g}, randomized response "
            f"changes none of {records:,} labels in 99 of 100 nights. Declare a smaller epsilon."
        )
    if policy is not None and epsilon > policy:
        return (
            f"The declaration says nothing: its epsilon of {epsilon:g} is larger than the "
            f"{policy:g} that policy allows. Declare at most that, and keep it."
        )
    return ""


def _kept_by_delta(evidence: "Evidence", epsilon: float) -> str:
    """Return that the declared delta alone prevents a refutation, in one sentence, or ""."""
    pure, delta = evidence.epsilon_lower_without_delta, evidence.claim.delta
    if pure is None or pure <= epsilon:
        return ""
    return (
        f"The declared epsilon of {epsilon:g} stands by its delta of {delta:g} alone: at delta 0 "
        f"the loss of the same {evidence.records:,} training records would be at least "
        f"{at_least(pure, beyond=epsilon)}. Declare a smaller delta."
    )


def _declared(evidence: "Evidence", epsilon: float, *, by_policy: bool) -> str:
    """Name what the bound is held against, with its delta."""
    words = guarantee(epsilon, evidence.claim.delta)
    return f"the {words} declared by policy" if by_policy else f"the declared {words}"


def _proved(epsilon_lower: float) -> str:
    if epsilon_lower == 0.0:
        return "No privacy loss is proved"
    return f"The privacy loss is at least {down(epsilon_lower)}"


def _grounds(evidence: "Evidence") -> str:
    if evidence.decoy_records is None:
        drawn = "if the holdout was drawn at random from the rows trained on, after any sampling, "
        if evidence.claim.secret is not Secret.LABEL:
            return f"{drawn}and no earlier model saw it"
        return f"{drawn}no earlier model saw it, and training read no other label of these rows"
    return f"by {evidence.decoy_records} labels that a coin chose before training"


def privatised(evidence: "Evidence", mechanism: str) -> tuple[Verdict, str]:
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


def not_a_guarantee(evidence: "Evidence", definition: str) -> tuple[Verdict, str]:
    """Return the verdict on a definition under which every record can be read at any epsilon.

    Individual, group individual and bootstrap differential privacy: no bound can refute what
    promises nothing. "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy".
    """
    return Verdict.NOT_A_GUARANTEE, (
        f"The manifest declares {definition}, under which all records can be read at any epsilon: "
        f"it is no guarantee. {_proved(evidence.epsilon_lower)}."
    )
