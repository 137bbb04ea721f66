"""Verdict on a declaration, from evidence: five words, and why in a fixed word and in sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from privcore.lower_bounds.question import Secret, conclusive, leak_to_be_seen, refutes
from privcore.rounding import down, exact, guarantee, up

if TYPE_CHECKING:  # the words of verdicts are also read where no evidence is
    from privcore.lower_bounds.evidence import Evidence


class Verdict(StrEnum):
    """Conclusion of one audit, or of a model's nights together.

    Attributes:
        meaning: in a sentence.

    >>> [str(word) for word in Verdict]
    ['violated', 'failed', 'inconclusive', 'not_refuted', 'undeclared']
    """

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        """Return a word with its meaning; a stored word is looked up without it."""
        verdict = str.__new__(cls, word)
        verdict._value_ = word
        verdict.meaning = meaning
        return verdict

    VIOLATED = "violated", "The declaration is refuted."
    FAILED = "failed", "There is no figure: an input, a setting or the audit itself is at fault."
    INCONCLUSIVE = (
        "inconclusive",
        "There is no saying: a false declaration would probably have looked the same.",
    )
    NOT_REFUTED = (
        "not_refuted",
        "Nothing refutes the declaration, and a larger leak would probably have been seen.",
    )
    UNDECLARED = "undeclared", "There is a bound, and nothing to hold it against."


class Trust(StrEnum):
    """Mode of an audit's evidence: who supplied it. It decides how far "nothing found" reaches."""

    SELF = "self"
    INDEPENDENT = "independent"
    CONTROLLED = "controlled"

    @property
    def stands_on(self) -> str:
        """What `not_refuted` stands on, in a sentence."""
        return _STANDS_ON[self]


_STANDS_ON = {
    Trust.SELF: "It stands on evidence that the model's owner supplied: it stops mistakes, and no "
    "owner who chooses rows, holdout or earlier model.",
    Trust.INDEPENDENT: "It stands on the label platform's rows, labels and keyed split, and on the "
    "registry's times: no owner's choice among these hid a leak, but another model under the day's "
    "name, or a code in the model, may.",
    Trust.CONTROLLED: "It stands on labels that the platform privatised before the owner got them: "
    "true of every model that is trained on them, and of no other source of the same labels.",
}


class Cause(StrEnum):
    """Kind of a reason: what a reader has to do about it.

    `SIZE` goes away by itself or with more records, so that nothing is wrong. `DOUBT` is a sign of
    a mistake, and `DECLARATION` is a declaration that nothing could refute.
    """

    SIZE = "size"
    DOUBT = "doubt"
    DECLARATION = "declaration"
    OTHER = "other"


class ReasonCode(StrEnum):
    """Why a verdict is what it is, in a fixed word; each has one first step.

    Attributes:
        verdict: the only verdict that has this reason.
        cause: its kind.
        meaning: in a sentence.

    >>> str(ReasonCode.FEW_HELD_OUT.verdict), str(ReasonCode.FEW_HELD_OUT.cause)
    ('inconclusive', 'size')
    """

    verdict: Verdict
    cause: Cause
    meaning: str

    def __new__(
        cls,
        word: str,
        verdict: Verdict = Verdict.FAILED,
        cause: Cause = Cause.OTHER,
        meaning: str = "",
    ) -> Self:
        """Return a word with what belongs to it; a stored word is looked up without that."""
        code = str.__new__(cls, word)
        code._value_ = word
        code.verdict, code.cause, code.meaning = verdict, cause, meaning
        return code

    @property
    def by_size(self) -> bool:
        """True where nothing is wrong: more of the same evidence would answer."""
        return self.cause is Cause.SIZE

    # fmt: off
    THIS_NIGHT = ("this_night", Verdict.VIOLATED, Cause.OTHER,
        "This night alone refutes the declaration.")
    MECHANISM_NOT_APPLIED = ("mechanism_not_applied", Verdict.VIOLATED, Cause.OTHER,
        "The model's file holds the table's labels, which the declared mechanism did not change.")
    NIGHTS_TOGETHER = ("nights_together", Verdict.VIOLATED, Cause.OTHER,
        "The nights together refute what was declared for them.")
    EARLIER_NIGHT = ("earlier_night", Verdict.VIOLATED, Cause.OTHER,
        "An earlier night refuted the same declaration, and no night since has resolved that.")
    NIGHTS_NEEDED = ("nights_needed", Verdict.INCONCLUSIVE, Cause.SIZE,
        "A few more nights like these will be conclusive together.")
    FEW_HELD_OUT = ("few_held_out", Verdict.INCONCLUSIVE, Cause.SIZE,
        "Too few records are held out.")
    TOO_SMALL = ("too_small", Verdict.INCONCLUSIVE, Cause.SIZE,
        "There are too few records, and to hold out more of them would not help.")
    NIGHTS_REPEAT = ("nights_repeat", Verdict.INCONCLUSIVE, Cause.SIZE,
        "The same labels or the same holdout come again, so that nights do not add up.")
    LEARNER_FORGETS = ("learner_forgets", Verdict.INCONCLUSIVE, Cause.SIZE,
        "The drill, the same learner without a mechanism, is not refuted either.")
    PROXY_WRONG = ("proxy_wrong", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Bets against the earlier model could not win, or it is wrong about the day's labels.")
    HOLDOUT_SUSPECT = ("holdout_suspect", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Training may have seen the holdout, or the holdout was not drawn at random.")
    ARMS_UNLIKE = ("arms_unlike", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Training and holdout records differ by more than training.")
    PERSONS_SPLIT = ("persons_split", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Rows of one person, or copies of one row, lie in both arms or were held out together.")
    ANSWERS_DOUBTFUL = ("answers_doubtful", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "The model's answers are not what a model would say of this label.")
    ROWS_UNACCOUNTED = ("rows_unaccounted", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "The model was trained on other rows than the table has.")
    READS_MORE = ("reads_more", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Released labels depend on a column that nobody said the mechanism reads.")
    RECORDS_REPEAT = ("records_repeat", Verdict.INCONCLUSIVE, Cause.DOUBT,
        "Rows that count as records of their own are copies of each other.")
    CHOSEN_PLAN = ("chosen_plan", Verdict.INCONCLUSIVE, Cause.SIZE,
        "A person chose the plan of this run, and with it what it adds to other nights.")
    DECLARATION_EMPTY = ("declaration_empty", Verdict.INCONCLUSIVE, Cause.DECLARATION,
        "The declaration promises nothing of these records.")
    DELTA_DECIDES = ("delta_decides", Verdict.INCONCLUSIVE, Cause.DECLARATION,
        "Only its delta keeps the declaration from being refuted.")
    OVER_POLICY = ("over_policy", Verdict.INCONCLUSIVE, Cause.DECLARATION,
        "Policy refuses it: the declared epsilon is too large, or as [policy] says.")
    NOTHING_DECLARED = ("nothing_declared", Verdict.UNDECLARED, Cause.OTHER,
        "Nothing is declared of what was audited.")
    LABELS_PRIVATISED = ("labels_privatised", Verdict.UNDECLARED, Cause.OTHER,
        "Labels were privatised before training, so nothing that training does can break that.")
    MODEL_MISSING = ("model_missing", Verdict.FAILED, Cause.OTHER,
        "The day's model is not there, or was trained before the day.")
    MODEL_UNREADABLE = ("model_unreadable", Verdict.FAILED, Cause.OTHER,
        "A model's file cannot be read, or is another one than was named.")
    PROXY_UNUSABLE = ("proxy_unusable", Verdict.FAILED, Cause.OTHER,
        "There is no earlier model, or it has seen the day.")
    LABELS_MISSING = ("labels_missing", Verdict.FAILED, Cause.OTHER,
        "The day's labels are not there, or cannot be read.")
    SCORES_WRONG = ("scores_wrong", Verdict.FAILED, Cause.OTHER,
        "The table of scores lacks records, repeats them, or has values that are no probabilities.")
    SETUP_WRONG = ("setup_wrong", Verdict.FAILED, Cause.OTHER,
        "A column or a setting does not fit the data.")
    MANIFEST_WRONG = ("manifest_wrong", Verdict.FAILED, Cause.OTHER,
        "The manifest says what cannot be, or contradicts the data.")
    NOT_RUN = ("not_run", Verdict.FAILED, Cause.OTHER,
        "The audit did not run to its end.")
    # fmt: on


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdict on one audit.

    Attributes:
        verdict: in one of five words.
        code: why, in a fixed word; None for `not_refuted`.
        reason: the sentences that explain it, the cause first.
        detail: a finer word for the same cause, such as a remark's; None where there is none.
    """

    verdict: Verdict
    code: ReasonCode | None
    reason: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """A sign that a leak may be hidden, or a note, where it has no code.

    Attributes:
        word: a fixed word.
        sentence: says it; "" where it was not seen.
        code: of the verdict beside it.
    """

    word: str
    sentence: str
    code: ReasonCode | None = None


_ANY_CHANGED = 0.01
"""Labels that randomized response changes on average, below which it changes none of them."""
_UNDECLARED = {
    Secret.LABEL: "nothing was declared",
    Secret.ATTRIBUTE: "nothing was declared of features",
    Secret.MEMBERSHIP: "nothing was declared of whole records",
    Secret.RELEASED: "nothing was declared",
}


def judge(
    evidence: "Evidence",
    *,
    epsilon_declared: float | None,
    by_policy: bool = False,
    undeclared: str = "",
    empty: tuple[ReasonCode, str] | None = None,
    held_back: str = "",
    signs: Sequence[Doubt] = (),
) -> Judged:
    """Return the verdict of one night.

    Args:
        evidence: what the tallies prove, with its power.
        epsilon_declared: the epsilon to hold the bound against; None where there is none.
        by_policy: the house declared the epsilon for all models that declare nothing. The verdict
            is the same, the sentence says so.
        undeclared: why there is no epsilon to hold the bound against, where the reason is another
            one than that nothing was declared; without a full stop.
        empty: why the declaration says nothing, as `says_nothing` returns it; None where it says
            something.
        held_back: why bets against the proxy could not win (`ArmsComparison.doubt_sentence`), ""
            where they could.
        signs: doubts and notes; the likeliest cause of others first.

    The verdicts:

    - `violated`: the headline refutes the declaration (`refutes`). The sentence states the
      conditions: the holdout was drawn at random from the rows trained on, after any sampling, no
      earlier model saw it (assumption E1), and training read no other label of these rows. It also
      assumes E2 (docs/evidence/statistics.md). No doubt takes it back.
    - `inconclusive`, since the declaration says nothing: no bound can refute it, so that it is not
      refuted is no news. So it is where the owner's delta alone prevents a refutation: at delta 0
      the same records would refute the declared epsilon. A mechanism that keeps its declaration
      meets that with a probability of at most the significance plus what delta allows on as many
      records.
    - `inconclusive`, by a doubt: a sign that a leak may be hidden. No sign accuses. The first doubt
      is the cause, and the others are named by their words.
    - `not_refuted`: a leak of `leak_to_be_seen`, shown by every label, would have refuted the
      declaration in four of five such nights. It proves nothing.
    - `inconclusive`, by size: it would not have. The proxy is the cause where bets against it could
      not win, and where the holdout shows that it is wrong.
    - `undeclared`: a bound, and nothing to hold it against.
    """
    judged = _by_figures(evidence, epsilon_declared, by_policy, undeclared, empty)
    signs = [sign for sign in signs if sign.sentence]
    why = evidence.misled_sentence or held_back
    if judged is not None:
        said = [judged.reason, why, *(sign.sentence for sign in signs)]
        return Judged(judged.verdict, judged.code, " ".join(filter(None, said)))
    if any(sign.code for sign in signs):
        return _doubted(evidence, signs)
    judged = _by_size(evidence, epsilon_declared or 0.0, by_policy=by_policy, held_back=why)
    said = [judged.reason, "" if why in judged.reason else why, *(sign.sentence for sign in signs)]
    return Judged(judged.verdict, judged.code, " ".join(filter(None, said)))


def _by_figures(
    evidence: "Evidence",
    epsilon_declared: float | None,
    by_policy: bool,  # noqa: FBT001  # as of `judge`
    undeclared: str,
    empty: tuple[ReasonCode, str] | None,
) -> Judged | None:
    """Return the verdict that no doubt and no size changes; None where there is none."""
    lower = evidence.epsilon_lower
    if epsilon_declared is None:
        what = undeclared or _UNDECLARED[evidence.claim.secret]
        told = f"{_proved(lower)}; {what}."
        return Judged(Verdict.UNDECLARED, ReasonCode.NOTHING_DECLARED, told)
    if refutes(lower, epsilon_declared):
        proved = down(lower, beyond=epsilon_declared)
        declared = _declared(evidence, epsilon_declared, by_policy=by_policy)
        least = f"at least {proved}, " if lower > epsilon_declared else ""
        told = f"The privacy loss is {least}more than {declared}, {_grounds(evidence)}."
        return Judged(Verdict.VIOLATED, ReasonCode.THIS_NIGHT, told)
    if empty is None and not by_policy and (told := _kept_by_delta(evidence, epsilon_declared)):
        empty = ReasonCode.DELTA_DECIDES, told
    if empty is None:
        return None
    return Judged(Verdict.INCONCLUSIVE, empty[0], f"{empty[1]} {_proved(lower)}.")


def _doubted(evidence: "Evidence", signs: Sequence[Doubt]) -> Judged:
    """Return the verdict beside doubts: the first is the cause, the others are named."""
    first = next(sign for sign in signs if sign.code)
    proved = _proved(evidence.epsilon_lower)
    nothing = f"So nothing is concluded: {proved[0].lower()}{proved[1:]}."
    more = ", ".join(dict.fromkeys(sign.word for sign in signs if sign.word != first.word))
    reason = " ".join(filter(None, (first.sentence, nothing, f"Also seen: {more}." * bool(more))))
    return Judged(Verdict.INCONCLUSIVE, first.code, reason, first.word)


def _by_size(evidence: "Evidence", epsilon: float, *, by_policy: bool, held_back: str) -> Judged:
    """Return the verdict by what the night could have seen."""
    declared = _declared(evidence, epsilon, by_policy=by_policy)
    power, ceiling = evidence.power, evidence.epsilon_ceiling
    sees_from = None if power is None else power.sees_from
    needed = leak_to_be_seen(epsilon)
    beside = "refutes nothing of" if evidence.epsilon_lower == 0.0 else "does not exceed"
    proved = f"{_proved(evidence.epsilon_lower)}, which {beside} {declared}"
    if conclusive(epsilon, epsilon_ceiling=ceiling, sees_from=sees_from):
        return Judged(
            Verdict.NOT_REFUTED,
            None,
            f"{proved}; a leak of {up(sees_from)} shown by every label would probably have been "
            "seen. This does not prove that it is kept.",
        )
    larger = power is not None and power.holdout_needed is not None
    if not refutes(ceiling, epsilon):
        proved = _unable(evidence, declared, held_back, larger=larger)
    if said := _proxy_wrong(evidence, epsilon):
        return Judged(Verdict.INCONCLUSIVE, ReasonCode.PROXY_WRONG, f"{proved} {said}")
    if refutes(ceiling, epsilon):
        seen = "no leak" if sees_from is None else f"a leak from {up(sees_from)} on"
        proved += (
            f"; {seen}, shown by every label, would probably have been seen, and a conclusive "
            f"audit sees {exact(needed)}."
        )
    if held_back:
        return Judged(Verdict.INCONCLUSIVE, ReasonCode.PROXY_WRONG, proved)
    code = ReasonCode.FEW_HELD_OUT if larger else ReasonCode.TOO_SMALL
    return Judged(Verdict.INCONCLUSIVE, code, proved)


def _unable(evidence: "Evidence", declared: str, held_back: str, *, larger: bool) -> str:
    """Say that not even a perfect attack could have refuted the declaration.

    And, where that would do, to hold out more.
    """
    ceiling = evidence.epsilon_ceiling
    if held_back and ceiling == 0.0:
        return f"{held_back} So nothing could refute {declared}."
    most = f"at most {down(ceiling)}" if ceiling else "nothing"
    return (
        f"With {evidence.control_records} holdout records {most} can be proved, "
        f"so no attack could refute {declared}{': hold out more' if larger else ''}."
    )


def _proxy_wrong(evidence: "Evidence", epsilon: float) -> str:
    """Say that the proxy is wrong, where only believing it would refute."""
    believed, control = evidence.epsilon_if_proxy_right, evidence.control_epsilon_if_proxy_right
    if refutes(evidence.epsilon_ceiling, epsilon):
        return ""
    if believed is None or control is None or not refutes(believed, epsilon) or control <= 0.0:
        return ""
    return (
        f"If the earlier model were right the loss would be at least {down(believed)}; but by the "
        f"same reckoning it would be at least {down(control)} for records that training never saw, "
        "so it is wrong."
    )


def says_nothing(
    epsilon: float, delta: float, *, records: int, limit: float | None, policy: float | None
) -> tuple[ReasonCode, str] | None:
    """Return why a declaration says nothing of these records; None where it says something.

    At delta a mechanism may publish each record's label with that probability. With a delta of
    1/records or more it may publish one label every night, and keep its guarantee. At an epsilon
    above the logarithm of 100 times the records it may publish all labels nearly every night.

    Args:
        epsilon: declared.
        delta: declared.
        records: training records.
        limit: the delta from which on a declaration says nothing; 1/records where None.
        policy: the largest epsilon that the house allows; None where it sets none.

    >>> says_nothing(100.0, 0.0, records=1000, limit=None, policy=None)[1][:61]
    'The declaration says nothing: at its epsilon of 100, randomiz'
    >>> says_nothing(1.0, 1e-6, records=1000, limit=None, policy=2.0)
    """
    if delta > 0.0 and delta >= (1.0 / max(records, 1) if limit is None else limit):
        most = (
            f"1 over the {records:,} training records"
            if limit is None
            else f"the {limit:g} of plan.delta_limit"
        )
        return ReasonCode.DECLARATION_EMPTY, (
            f"The declaration says nothing: its delta of {delta:g} is not below {most}, so whole "
            "labels may be published under it. Declare a smaller delta."
        )
    if records * math.exp(-epsilon) < _ANY_CHANGED:
        return ReasonCode.DECLARATION_EMPTY, (
            f"The declaration says nothing: at its epsilon of {epsilon:g}, randomized response "
            f"changes none of {records:,} labels in 99 of 100 nights. Declare a smaller epsilon."
        )
    if policy is not None and epsilon > policy:
        return ReasonCode.OVER_POLICY, (
            f"The declared epsilon of {epsilon:g} is larger than the {policy:g} that policy "
            "allows. Declare at most that, and keep it."
        )
    return None


def _kept_by_delta(evidence: "Evidence", epsilon: float) -> str:
    """Return that the declared delta alone prevents a refutation, in one sentence, or ""."""
    pure, delta = evidence.epsilon_lower_without_delta, evidence.claim.delta
    if pure is None or not refutes(pure, epsilon):
        return ""
    return (
        f"The declared epsilon of {epsilon:g} stands by its delta of {delta:g} alone: at delta 0 "
        f"the loss of the same {evidence.records:,} training records would be at least "
        f"{down(pure, beyond=epsilon)}. Declare a smaller delta."
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
    drawn = "if the holdout was drawn at random from the rows trained on, after any sampling, "
    if evidence.claim.secret is not Secret.LABEL:
        return f"{drawn}and no earlier model saw it"
    return f"{drawn}no earlier model saw it, and training read no other label of these rows"


def privatised(evidence: "Evidence", mechanism: str) -> Judged:
    """Return the verdict on labels that `mechanism` had privatised before training saw them.

    Training post-processes them, so no bound refutes the guarantee that they bring, and this one
    speaks of the privatised labels alone: it says what training gives away of these.
    """
    lost = f"at least {down(evidence.epsilon_lower)} is lost, which refutes nothing"
    told = (
        f"The labels were privatised by {mechanism} before training saw them, so nothing that "
        "training does can break what that guarantees. Of the privatised labels themselves "
        f"{lost if evidence.epsilon_lower else 'no loss is proved'}."
    )
    return Judged(Verdict.UNDECLARED, ReasonCode.LABELS_PRIVATISED, told)


def not_a_guarantee(evidence: "Evidence", definition: str) -> Judged:
    """Return the verdict on a definition under which every record can be read at any epsilon.

    Individual, group individual and bootstrap differential privacy: no bound can refute what
    promises nothing. "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy".
    """
    told = (
        f"The manifest declares {definition}, under which all records can be read at any epsilon: "
        f"it is no guarantee. {_proved(evidence.epsilon_lower)}."
    )
    return Judged(Verdict.INCONCLUSIVE, ReasonCode.DECLARATION_EMPTY, told, definition)
