"""One judgement of one night: what the verdict rests on, and what is said beside it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

import workers.audit.judge
from privcore.lower_bounds.verdicts import Judged, ReasonCode, Verdict
from tests.privcore.lower_bounds.test_verdicts import evidence
from tests.support.lake import declared
from workers.audit.judge import Grounds, judged
from workers.lake.manifest import Privacy, PrivatisedBy
from workers.plan import Plan
from workers.remark import Remark, RemarkKind

SMALL = (ReasonCode.OVER_POLICY, "It is too large.")
NOISY = PrivatisedBy.model_validate(
    {"privatised_by": {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}}
)


def remark(kind: RemarkKind) -> Remark:
    return Remark(kind, f"{kind.name}.")


def judge(
    monkeypatch: pytest.MonkeyPatch,
    *remarks: Remark,
    lower: float = 0.0,
    owner: Privacy | None = None,
    policy: Privacy | None = None,
    label_state: Any = None,
    arms: Any = None,
    hints: tuple[Remark, ...] = (),
    **found: Any,
) -> tuple[Judged, tuple[RemarkKind, ...]]:
    """Judge a night of which the looks of other rooms found this."""
    looks = {"says_nothing_of": None, "other_unit": "", "what_played": "", "holdout_untested": ""}
    for name, answer in ({"remarks_of": remarks} | looks | found).items():
        monkeypatch.setattr(workers.audit.judge, name, lambda *_, answer=answer: answer)
    night = Grounds(
        source=cast("Any", SimpleNamespace(privacy=owner, label_state=label_state)),
        plan=Plan(),
        privacy=None if label_state else owner or policy,
        evidence=evidence(lower),
        result=cast("Any", SimpleNamespace(training_rows=lambda records: records)),
        arms=arms,
        hints=hints,
    )
    return judged(night)


OWNER = Privacy.model_validate(declared(1.0))
EXCHANGED, UNLIKE = remark(RemarkKind.CLASSES_EXCHANGED), remark(RemarkKind.ARMS_UNLIKE)
NOTE = remark(RemarkKind.POWER_LOST)


def test_the_first_doubt_is_the_cause_but_classes_in_another_order_make_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, kinds = judge(monkeypatch, UNLIKE, NOTE, NOTE, owner=OWNER, hints=(EXCHANGED,))
    assert (found.verdict, found.code) == (Verdict.INCONCLUSIVE, ReasonCode.ANSWERS_DOUBTFUL)
    assert found.detail == "classes_exchanged"
    assert found.reason.startswith("CLASSES_EXCHANGED. So nothing is concluded:")
    assert found.reason.endswith("Also seen: arms_unlike, power_lost.")
    assert kinds == (RemarkKind.ARMS_UNLIKE, RemarkKind.POWER_LOST, RemarkKind.CLASSES_EXCHANGED)
    found, _ = judge(monkeypatch, UNLIKE, owner=OWNER)
    assert (found.code, found.detail) == (ReasonCode.ARMS_UNLIKE, "arms_unlike")


def test_notes_and_what_played_are_said_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found, kinds = judge(monkeypatch, NOTE, owner=OWNER, what_played="All rows played.")
    assert found.verdict is Verdict.NOT_REFUTED
    assert found.reason.endswith(" POWER_LOST. All rows played.")
    assert kinds == (RemarkKind.POWER_LOST,)


def test_a_declaration_is_held_against_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    violated = judge(monkeypatch, UNLIKE, owner=OWNER, lower=1.2, says_nothing_of=SMALL)[0]
    assert (violated.code, violated.detail) == (ReasonCode.THIS_NIGHT, None)
    assert violated.reason.endswith("ARMS_UNLIKE.")
    empty = judge(monkeypatch, UNLIKE, owner=OWNER, says_nothing_of=SMALL)[0]
    assert empty.code is ReasonCode.OVER_POLICY
    for given, told in (("owner", "more than the declared 1,"), ("policy", "1 declared by policy")):
        assert told in judge(monkeypatch, lower=1.2, **{given: OWNER})[0].reason
    none = judge(monkeypatch, lower=2.0, other_unit="persons were audited")[0]
    assert none.code is ReasonCode.NOTHING_DECLARED
    assert none.reason.endswith("; persons were audited.")


def test_a_holdout_that_nothing_tests_is_noted_where_a_declaration_is_not_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    untested = {"holdout_untested": "Nobody would notice."}
    found, kinds = judge(monkeypatch, NOTE, owner=OWNER, **untested)
    assert found.reason.endswith("Nobody would notice. POWER_LOST.")
    assert kinds == (RemarkKind.HOLDOUT_UNTESTED, RemarkKind.POWER_LOST)
    for changes in ({"owner": OWNER, "lower": 1.2}, {}, {"owner": OWNER, "label_state": NOISY}):
        assert judge(monkeypatch, **untested, **changes)[1] == ()


def test_bets_that_could_not_win_are_said_and_make_the_proxy_doubtful(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arms = SimpleNamespace(doubtful=True, doubt_sentence="They could not win.")
    assert judge(monkeypatch, owner=OWNER, arms=arms)[0].reason.endswith("They could not win.")
    for doubtful, misled, expected in (
        (None, 1.0, False),
        (False, 1.0, False),
        (True, 1.0, True),
        (False, 0.0005, True),
        (None, 0.0005, True),
    ):
        compared = None if doubtful is None else SimpleNamespace(doubtful=doubtful)
        night = Grounds(*[cast("Any", None)] * 3, evidence(0.0, misled_pvalue=misled),
                      cast("Any", None), cast("Any", compared))  # fmt: skip
        assert night.proxy_doubtful is expected


def test_of_privatised_labels_and_of_no_guarantee_what_was_seen_is_said_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their sentences said nothing of the remarks that their records had."""
    void = Privacy.model_validate(declared(1.0, definition="bdp"))
    for changes, verdict, code in (
        ({"owner": OWNER, "label_state": NOISY}, "undeclared", ReasonCode.LABELS_PRIVATISED),
        ({"owner": OWNER, "label_state": NOISY, "says_nothing_of": SMALL}, "inconclusive",
         ReasonCode.OVER_POLICY),
    ):  # fmt: skip
        found, kinds = judge(monkeypatch, UNLIKE, NOTE, lower=5.0, **changes)
        assert (found.verdict, found.code) == (verdict, code)
        assert found.reason.endswith(" ARMS_UNLIKE. POWER_LOST.")
        assert kinds == (RemarkKind.ARMS_UNLIKE, RemarkKind.POWER_LOST)
    found, _ = judge(monkeypatch, UNLIKE, lower=5.0, owner=void)
    assert (found.code, found.detail) == (ReasonCode.DECLARATION_EMPTY, "bdp")
    assert found.reason.endswith(" ARMS_UNLIKE.")
