"""One judgement of one night: the verdict, its reason, and what is remarked on beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from privcore.attacks import ArmsComparison
from privcore.lower_bounds import Doubt, Evidence, Judged, judge, not_a_guarantee, privatised
from workers.audit.declaration import other_unit, says_nothing_of
from workers.audit.remarks import holdout_untested, remarks_of, what_played
from workers.lake.manifest import Privacy, PrivatisedBy, guarantee_of
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.scan.partial_results import PartialResult
from workers.sources.source import Source


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a night's judgement rests on.

    Attributes:
        source: where the night comes from.
        plan: how the game was played.
        privacy: the guarantee that the bound is held against; None where there is none.
        evidence: against it.
        result: what was counted.
        arms: how training and holdout compare; None where nothing rests on it.
        hints: further remarks.
    """

    source: Source
    plan: Plan
    privacy: Privacy | None
    evidence: Evidence
    result: PartialResult
    arms: ArmsComparison | None = None
    hints: tuple[Remark, ...] = ()

    @property
    def proxy_doubtful(self) -> bool:
        """True if bets against the proxy could not win."""
        return (self.arms is not None and self.arms.doubtful) or self.evidence.misled


def judged(grounds: Grounds) -> tuple[Judged, tuple[RemarkKind, ...]]:
    """Return the verdict with its sentences, and the words of what these remark on."""
    evidence, source, plan = grounds.evidence, grounds.source, grounds.plan
    remarks = (
        *remarked(RemarkKind.HOLDOUT_UNTESTED, _untested(grounds)),
        *remarks_of(evidence, grounds.result, source, plan),
        *grounds.hints,
    )
    # Classes in another order make other signs, too.
    first = sorted(remarks, key=lambda each: each.kind is not RemarkKind.CLASSES_EXCHANGED)
    signs = [Doubt(str(each.kind), each.sentence, each.kind.code) for each in first]
    found = _of_its_state(grounds, signs) or judge(
        evidence,
        epsilon_declared=grounds.privacy.epsilon if grounds.privacy else None,
        by_policy=source.privacy is None,
        undeclared=other_unit(source, plan, grounds.result),
        empty=says_nothing_of(source, grounds.privacy, plan, _rows(grounds)),
        held_back="" if grounds.arms is None else grounds.arms.doubt_sentence,
        signs=signs,
    )
    played = what_played(evidence, grounds.result, source, plan)
    reason = " ".join(filter(None, (found.reason, played)))
    kinds = tuple(dict.fromkeys(each.kind for each in remarks))
    return Judged(found.verdict, found.code, reason, found.detail), kinds


def _of_its_state(grounds: Grounds, signs: Sequence[Doubt]) -> Judged | None:
    """Return the verdict on labels that were privatised, or on what is no guarantee.

    No sign changes it; what was seen is said beside it.
    """
    source = grounds.source
    if isinstance(source.label_state, PrivatisedBy):
        declared = guarantee_of(source.privacy)
        empty = says_nothing_of(source, declared, grounds.plan, _rows(grounds))
        name = source.label_state.privatised_by.name
        found = Judged(empty[0].verdict, *empty) if empty else privatised(grounds.evidence, name)
    elif source.privacy and not guarantee_of(source.privacy):
        found = not_a_guarantee(grounds.evidence, source.privacy.definition)
    else:
        return None
    return replace(found, reason=" ".join([found.reason, *(sign.sentence for sign in signs)]))


def _untested(grounds: Grounds) -> str:
    """Return the remark that a holdout which training saw would not be noticed, where it counts."""
    privacy, evidence = grounds.privacy, grounds.evidence
    if privacy is None or evidence.epsilon_lower > privacy.epsilon:
        return ""
    return holdout_untested(grounds.source, grounds.result)


def _rows(grounds: Grounds) -> int:
    return grounds.result.training_rows(grounds.evidence.records)
