"""A model's verdict: violations first, then doubts and declaration, then what nights would see."""

import datetime as dt
from typing import Any

import pytest

from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.support.lake import DAY
from workers.warehouse.model_verdict import REACH, SOON, Standing, open_violations, verdict_together

NEEDED = leak_to_be_seen(0.5)


def night(code: ReasonCode | None = None, **changes: Any) -> dict[str, Any]:
    """Return a night that is not refuted, or of this reason."""
    ahead = changes.pop("ahead", 0)
    return {
        "day": DAY + dt.timedelta(days=ahead),
        "verdict": str(code.verdict if code else Verdict.NOT_REFUTED),
        "reason_code": code,
        "epsilon_declared": 0.5,
        "delta_declared": 0.0,
        "neighbors": "replace",
        "dataset": "flights",
        "label_column": "late",
        "privacy_unit": None,
        "labels_recur": False,
        "sees_from": None if code else NEEDED,
        "holdout_needed": None,
    } | changes


def read(
    row: dict[str, Any],
    *,
    open_violation: bool = False,
    ceiling: float | None = 3.0,
    drill_refuted: bool | None = None,
    **standing: Any,
) -> ReasonCode | None:
    verdict, code = verdict_together(
        row,
        Standing(**standing),
        open_violation=open_violation,
        ceiling=ceiling,
        drill_refuted=drill_refuted,
    )
    assert verdict == (code.verdict if code else Verdict.NOT_REFUTED)
    return code


FEW, SMALL = ReasonCode.FEW_HELD_OUT, ReasonCode.TOO_SMALL
THIS, NOTHING = ReasonCode.THIS_NIGHT, ReasonCode.NOTHING_DECLARED
STAY = [
    code
    for code in ReasonCode
    if code.verdict is Verdict.INCONCLUSIVE
    and not code.by_size
    and code is not ReasonCode.PROXY_WRONG
]
"""Doubts and declarations that no number of nights makes up for."""


@pytest.mark.parametrize("code", [None, FEW, *STAY, ReasonCode.PROXY_WRONG])
def test_a_violation_stands_whatever_tonight_says(code):
    together, earlier = ReasonCode.NIGHTS_TOGETHER, ReasonCode.EARLIER_NIGHT
    assert read(night(code), refuted=True) is together
    assert read(night(code), open_violation=True) is earlier
    assert read(night(code), refuted=True, open_violation=True) is together
    assert read(night(NOTHING, epsilon_declared=None), open_violation=True) is earlier
    assert read(night(THIS), refuted=True, open_violation=True, sees_from=0.6) is THIS
    assert read(night(THIS), sees_from=0.6, ceiling=9.0) is THIS


@pytest.mark.parametrize("code", STAY)
def test_no_other_night_takes_a_doubt_or_an_empty_declaration_back(code):
    assert read(night(code), sees_from=0.6, ceiling=9.0) is code
    assert read(night(code), repeat=True, conclusive_after=2, nights=1) is code


def test_nights_together_acquit_by_the_least_leak_that_they_or_tonight_would_have_seen():
    for code in (FEW, SMALL, ReasonCode.PROXY_WRONG):
        assert read(night(code), sees_from=NEEDED) is None
        assert read(night(code), sees_from=NEEDED + 1e-9) is code
    assert read(night(), sees_from=None) is None
    assert read(night(), sees_from=NEEDED + 1.0) is None


@pytest.mark.parametrize("ceiling", [0.49, 0.2, 0.0, None])
def test_nothing_is_acquitted_at_a_ceiling_below_the_declaration(ceiling):
    assert read(night(), ceiling=ceiling, sees_from=0.6) is SMALL
    assert read(night(), ceiling=0.5, sees_from=0.6) is None


def test_a_learner_whose_drill_is_not_refuted_is_acquitted_of_nothing():
    assert read(night(), drill_refuted=False) is ReasonCode.LEARNER_FORGETS
    assert read(night(), drill_refuted=True) is None
    assert read(night(FEW), drill_refuted=False) is FEW, "what is too small comes first"
    assert read(night(), drill_refuted=False, refuted=True) is ReasonCode.NIGHTS_TOGETHER


def test_why_nights_are_not_conclusive_is_what_mends_it_soonest():
    """Nights that repeat, nights to come, the proxy, a larger holdout, and size."""
    soon = {"nights": 3, "conclusive_after": 7}
    large = night(FEW, holdout_needed=900)
    wrong = night(ReasonCode.PROXY_WRONG, holdout_needed=900)
    assert read(wrong, repeat=True, **soon) is ReasonCode.NIGHTS_REPEAT
    assert read(wrong, **soon) is ReasonCode.NIGHTS_NEEDED, "tonight alone, by chance"
    assert read(wrong, nights=3) is ReasonCode.PROXY_WRONG
    assert read(large, repeat=True, **soon) is ReasonCode.NIGHTS_REPEAT
    assert read(large, **soon) is ReasonCode.NIGHTS_NEEDED
    assert read(large, nights=3) is FEW
    assert read(night(SMALL, holdout_needed=900), nights=3) is FEW
    assert read(night(FEW), nights=3) is FEW
    assert read(night(SMALL), nights=3) is SMALL
    assert read(night(SMALL), **soon) is ReasonCode.NIGHTS_NEEDED


@pytest.mark.parametrize(
    ("nights", "after", "missing"),
    [(1, 2, 1), (3, 7, 4), (1, 1 + SOON, SOON), (1, 2 + SOON, None), (9, 9, 1), (0, None, None)],
)
def test_nights_are_missing_within_four_weeks_or_not_at_all(nights, after, missing):
    assert Standing(nights=nights, conclusive_after=after).missing == missing
    assert Standing(nights=nights, conclusive_after=after, repeat=True).missing is None


def still(*nights: dict[str, Any], refuted: tuple[int, ...] = ()) -> list[bool]:
    return open_violations(nights, [place in refuted for place in range(len(nights))])


def test_a_violation_begins_with_a_night_alone_or_together_and_a_clean_one_resolves_it():
    assert still(night(), night(THIS), night(), night()) == [False, True, False, False]
    assert still(night(), night(FEW), night(), refuted=(1,)) == [False, True, False]
    assert still(night(THIS), night(refuted=True), refuted=(0, 1)) == [True, True]
    assert still() == []


@pytest.mark.parametrize("code", [FEW, SMALL, *STAY, ReasonCode.PROXY_WRONG])
def test_no_night_that_is_not_conclusive_resolves_a_violation(code):
    assert still(night(THIS), night(code), night(code)) == [True] * 3


def test_a_violation_expires_after_four_weeks_without_another():
    for ahead, expected in ((REACH, True), (REACH + 1, False)):
        assert still(night(THIS), night(FEW, ahead=ahead)) == [True, expected]
    again = night(THIS), night(THIS, ahead=20), night(FEW, ahead=20 + REACH)
    assert still(*again) == [True] * 3


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "views"},
        {"label_column": "clicked"},
        {"privacy_unit": "person"},
        {"labels_recur": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_night_of_other_labels_resolves_nothing(other):
    assert still(night(THIS), night(**other), night()) == [True, True, False]


@pytest.mark.parametrize(
    "other",
    [{"epsilon_declared": 0.6}, {"delta_declared": 1e-6}, {"neighbors": "add_remove"}],
    ids=lambda other: next(iter(other)),
)
def test_under_another_claim_nothing_is_violated_and_nothing_resolved(other):
    nights = night(THIS), night(**other), night(FEW), night(THIS, **other), night()
    assert still(*nights) == [True, False, True, True, False]
    assert still(*nights, night(FEW, **other))[-1] is True
