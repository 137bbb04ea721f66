"""Each reason why there is no figure has a code, and each remark that is a doubt."""

from privcore.lower_bounds.verdicts import Cause, ReasonCode, Verdict
from workers.exceptions import Reason
from workers.remark import RemarkKind


def test_every_reason_without_a_figure_is_a_failure_or_says_why_nothing_is_concluded():
    for reason in Reason:
        assert Reason(str(reason)) is reason
        assert reason == reason.name.lower()
        assert reason.code.verdict in {Verdict.FAILED, Verdict.INCONCLUSIVE}
    inconclusive = {each: each.code for each in Reason if each.code.verdict != Verdict.FAILED}
    assert inconclusive == {
        Reason.TOO_FEW_RECORDS: ReasonCode.TOO_SMALL,
        Reason.TOO_FEW_HELD_OUT: ReasonCode.FEW_HELD_OUT,
        Reason.ARMS_DIFFER: ReasonCode.ARMS_UNLIKE,
        Reason.HELD_OUT_TOGETHER: ReasonCode.PERSONS_SPLIT,
    }


def test_every_failure_has_a_reason_and_no_reason_but_the_deadline_is_no_fault():
    failed = {code for code in ReasonCode if code.verdict is Verdict.FAILED}
    assert {reason.code for reason in Reason} >= failed
    assert [reason for reason in Reason if reason.code is ReasonCode.NOT_RUN] == [Reason.DEADLINE]


def test_a_remark_with_a_code_is_a_doubt():
    codes = {kind.code for kind in RemarkKind if kind.code}
    assert {code.cause for code in codes} == {Cause.DOUBT}
    doubts = {code for code in ReasonCode if code.cause is Cause.DOUBT}
    of_released_labels = {ReasonCode.READS_MORE, ReasonCode.RECORDS_REPEAT}
    assert doubts - codes == {ReasonCode.PROXY_WRONG, *of_released_labels}, "figures say that"
