"""A model's verdict: that of its nights together, up to one of them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privcore.lower_bounds.question import conclusive
from privcore.lower_bounds.verdicts import ReasonCode, Verdict

REACH = 28
"""Days for which a violation stands while no night refutes or resolves it."""
SOON = 28
"""Nights within which nights together count as conclusive soon."""
_CLAIM = ("epsilon_declared", "delta_declared", "neighbors")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a model's nights say together, up to one of them.

    Attributes:
        refuted: whether they refute that every declaration was true.
        nights: how many declared nights stand together; 0 where this one declares nothing.
        sees_from: the smallest leak beyond each night's declaration, added to this one's, that
            they would probably have refuted if every label of each had shown it; None where none.
        conclusive_after: how many nights like these are conclusive together; None where no number.
        repeat: whether labels or the holdout come again, so that nights do not add up.
    """

    refuted: bool = False
    nights: int = 0
    sees_from: float | None = None
    conclusive_after: int | None = None
    repeat: bool = False

    @property
    def missing(self) -> int | None:
        """How many more nights like these are conclusive; None where none within `SOON` are."""
        if self.conclusive_after is None or self.repeat:
            return None
        missing = max(1, self.conclusive_after - self.nights)
        return missing if missing <= SOON else None


def open_violations(nights: Sequence[Mapping[str, Any]], refuted: Sequence[bool]) -> list[bool]:
    """Return of each night whether it, or an earlier one that none resolved, refutes its claim.

    A night resolves it that is not refuted and would by itself have seen a false declaration: an
    input that cannot be read, a wrong proxy or a small holdout resolves nothing, or an owner could
    arrange the end of an alert. Nor does a night of other labels, of persons in place of rows, or
    after a plan that says otherwise whether labels recur: it says nothing about the refuted one.

    Args:
        nights: one model's evaluated nights of one secret, in their order.
        refuted: of each, whether the nights up to it refute their declarations together.
    """
    last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    found = []
    for night, together in zip(nights, refuted, strict=True):
        claim = tuple(night[name] for name in _CLAIM)
        before = last.get(claim)
        late = before is not None and night["day"] - before["day"] > dt.timedelta(days=REACH)
        if together or night["verdict"] == Verdict.VIOLATED:
            last[claim] = night
        elif before is not None and (late or _resolves(night, before)):
            del last[claim]
        found.append(claim in last)
    return found


def verdict_together(
    night: Mapping[str, Any],
    standing: Standing,
    *,
    open_violation: bool,
    ceiling: float | None,
    drill_refuted: bool | None,
) -> tuple[Verdict, ReasonCode | None]:
    """Return a model's verdict after a night that came to figures, and why.

    A violation stands whatever tonight says, and doubts and empty declarations of tonight come
    before what the nights could have seen together.

    Args:
        night: its row.
        standing: of the nights up to it.
        open_violation: whether an earlier night's violation is not resolved.
        ceiling: the most that a perfect attack could have proved, tonight or by the nights
            together.
        drill_refuted: whether the same learner without a mechanism was refuted; None without one.
    """
    word = Verdict(night["verdict"])
    code = None if night["reason_code"] is None else ReasonCode(night["reason_code"])
    if word is not Verdict.VIOLATED and (standing.refuted or open_violation):
        together = standing.refuted
        code = ReasonCode.NIGHTS_TOGETHER if together else ReasonCode.EARLIER_NIGHT
        return Verdict.VIOLATED, code
    open_to_others = code is None or code.by_size or code is ReasonCode.PROXY_WRONG
    if word is Verdict.VIOLATED or night["epsilon_declared"] is None or not open_to_others:
        return word, code
    seen = least(standing.sees_from, night["sees_from"])
    if conclusive(night["epsilon_declared"], epsilon_ceiling=ceiling, sees_from=seen):
        if drill_refuted is False:
            return Verdict.INCONCLUSIVE, ReasonCode.LEARNER_FORGETS
        return Verdict.NOT_REFUTED, None
    return Verdict.INCONCLUSIVE, _why_not(night, standing, code)


def _why_not(night: Mapping[str, Any], standing: Standing, code: ReasonCode | None) -> ReasonCode:
    """Return why nights together are not conclusive, what mends it soonest first."""
    if standing.repeat:
        return ReasonCode.NIGHTS_REPEAT
    if standing.missing is not None:
        return ReasonCode.NIGHTS_NEEDED  # also where bets were held back tonight alone, by chance
    if code is ReasonCode.PROXY_WRONG:
        return code
    if night["holdout_needed"] is not None or code is ReasonCode.FEW_HELD_OUT:
        return ReasonCode.FEW_HELD_OUT
    return ReasonCode.TOO_SMALL


def least(*figures: float | None) -> float | None:
    """Return the least of the figures that there are; None where there are none."""
    return min((figure for figure in figures if figure is not None), default=None)


def _resolves(night: Mapping[str, Any], refuted: Mapping[str, Any]) -> bool:
    """Return whether a night of the same labels and unit ends a violation."""
    return night["verdict"] == Verdict.NOT_REFUTED and all(
        night[name] == refuted[name]
        for name in ("dataset", "label_column", "privacy_unit", "labels_recur")
    )
