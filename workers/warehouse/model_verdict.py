"""A model's verdict: that of its nights together, up to one of them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privcore.lower_bounds.question import conclusive
from privcore.lower_bounds.verdicts import ReasonCode, Verdict

if TYPE_CHECKING:  # numba takes long
    from workers.warehouse.standings import Standing

REACH = 28
"""Days for which a violation stands while no night refutes or resolves it."""
SOON = 28
"""Nights within which nights together count as conclusive soon."""
_CLAIM = ("epsilon_declared", "delta_declared", "neighbors")
COLUMNS = (
    "reason_code",
    "detail",
    "epsilon_ceiling",
    "sees_from",
    "holdout_needed",
    "privacy_unit",
    "drill",
)
"""Columns of audits that are read of each night, beside those that nights are made of."""


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
    standing: "Standing",
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


def _why_not(night: Mapping[str, Any], standing: "Standing", code: ReasonCode | None) -> ReasonCode:
    """Return why nights together are not conclusive, what mends it soonest first."""
    if standing.repeat:
        return ReasonCode.NIGHTS_REPEAT
    if nights_missing(standing) is not None:
        return ReasonCode.NIGHTS_NEEDED  # also where bets were held back tonight alone, by chance
    if code is ReasonCode.PROXY_WRONG:
        return code
    if night["holdout_needed"] is not None or code is ReasonCode.FEW_HELD_OUT:
        return ReasonCode.FEW_HELD_OUT
    return ReasonCode.TOO_SMALL


def nights_missing(standing: "Standing") -> int | None:
    """Return how many more nights like these are conclusive, within `SOON`; None where none are."""
    if standing.conclusive_after is None or standing.repeat:
        return None
    missing = max(1, standing.conclusive_after - standing.nights)
    return missing if missing <= SOON else None


def least(*figures: float | None) -> float | None:
    """Return the least of the figures that there are; None where there are none."""
    return min((figure for figure in figures if figure is not None), default=None)


def _resolves(night: Mapping[str, Any], refuted: Mapping[str, Any]) -> bool:
    """Return whether a night of the same labels and unit ends a violation."""
    return (
        night["verdict"] == Verdict.NOT_REFUTED
        and all(
            night[name] is None or refuted[name] is None or night[name] == refuted[name]
            for name in ("dataset", "label_column")
        )
        and night["privacy_unit"] == refuted["privacy_unit"]
        and night["labels_recur"] == refuted["labels_recur"]
    )
