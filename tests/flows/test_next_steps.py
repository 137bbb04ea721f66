"""The card of every verdict and of every reason that an audit can end with."""

import datetime as dt
import json

import pytest

from flows.next_steps import SERVE, Role, card_of, cards_of, rank_of, with_next_steps
from privcore.lower_bounds.verdicts import Cause, ReasonCode, Trust, Verdict
from tests.support.lake import DAY
from tests.support.report import frame, record
from workers.warehouse.nights_together import AuditedNight

USAGE = 64


def held(**changes):
    """Return a night against a declared 2 whose 14 nights together are not refuted."""
    given = {
        "verdict": Verdict.INCONCLUSIVE,
        "reason_code": ReasonCode.FEW_HELD_OUT,
        "epsilon_lower": 0.9,
        "epsilon_declared": 2.0,
        "control_records": 185,
        "sees_from": 3.4,
        "nights_together": 14,
        "sees_from_together": 2.7,
        "verdict_together": Verdict.NOT_REFUTED,
        "reason_code_together": None,
    }
    return record(**given | changes)


def together(code, **changes):
    return held(verdict_together=code.verdict, reason_code_together=code, **changes)


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_has_one_first_step_of_its_own(code):
    row = together(code)
    card = card_of(row)
    assert (card.verdict, card.code) == (code.verdict, code)
    assert card.said == f"{code.verdict}: {code}"
    assert card.line == f"{card.said}. Next ({card.step.role}): {card.step.text}"
    assert card.step.text.endswith((".", ")."))
    assert "{" not in card.step.text
    others = {card_of(together(other)).step.text for other in ReasonCode if other is not code}
    assert card.step.text not in others


@pytest.mark.parametrize("trust", Trust)
def test_not_refuted_says_in_one_sentence_what_it_stands_on(trust):
    assert card_of(held(trust=trust)).stands_on == trust.stands_on
    refuted = together(ReasonCode.THIS_NIGHT, trust=trust)
    assert card_of(refuted).stands_on == ""


def test_what_is_not_refuted_is_served_and_said_to_be_no_proof():
    card = card_of(held())
    assert (card.said, card.step) == ("not_refuted", SERVE)
    assert "does not prove" in card.allows
    assert card.figures == (
        "Declared 2, proved at least 0.90. Its 14 nights together would probably have seen a leak "
        "from 2.70 on, if every label of all had shown it (this night alone: a leak from "
        "3.40 on). It is untested whether this learner would show a dropped mechanism."
    )
    assert card.odds == (
        "Seeing the model turns even odds for a label into at most 7.4 to 1 as declared (e^2 "
        "times), at least 2.4 to 1 as proved."
    )


def test_a_night_alone_has_its_own_verdict():
    card = card_of(held(verdict_together=None))
    assert card.said == "inconclusive: few_held_out"
    assert "This night would probably have seen a leak from 3.40 on" in card.figures
    assert card.figures.endswith("To be conclusive they have to see 3.")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (2, "(drill: twin) was refuted on its night 2: a dropped mechanism would have been seen."),
        (0, "Nor is the same learner without a mechanism (drill: twin) refuted"),
    ],
)
def test_it_says_what_the_drill_shows(after, said):
    assert said in card_of(held(drill="twin", drill_refuted_after=after)).figures


@pytest.mark.parametrize(
    ("by", "word"),
    [
        ("an owner", "Declared 2"),
        (None, "Declared 2"),
        ("policy", "No declaration; policy 2"),
        ("--max-epsilon", "Limit 2"),
    ],
)
def test_it_names_what_the_bound_is_held_against(by, word):
    assert card_of(held(declared_by=by)).figures.startswith(f"{word}, proved at least 0.90")


def test_it_says_how_many_more_rows_to_hold_out_rounded_up():
    few = ReasonCode.FEW_HELD_OUT
    more = card_of(together(few, holdout_needed=2_058)).step
    # 2,058 less the 185 that there are
    assert more.text.startswith("Hold out about 1,900 more rows")
    assert more.role is Role.OWNER
    assert card_of(together(few)).step.text.startswith("Hold out more rows of a day")


def test_it_says_from_which_day_on_nights_are_conclusive():
    needed = together(ReasonCode.NIGHTS_NEEDED, conclusive_on=dt.date(2013, 2, 10))
    assert card_of(needed).step.text.endswith("together from 2013-02-10 on.")
    assert "have to see 3, as they will from 2013-02-10 on." in card_of(needed).figures
    few = card_of(together(ReasonCode.FEW_HELD_OUT)).figures
    assert few.endswith("have to see 3, which 28 more nights like these will not.")


@pytest.mark.parametrize(
    "code", [code for code in ReasonCode if code.cause in {Cause.DOUBT, Cause.DECLARATION}]
)
def test_beside_a_doubt_it_is_not_said_what_would_have_been_seen(code):
    assert card_of(together(code)).figures == "Declared 2, proved at least 0.90."


def test_nights_that_refute_together_refute_whatever_tonight_says():
    card = card_of(together(ReasonCode.NIGHTS_TOGETHER))
    assert card.allows.startswith("Do not release")
    assert "the nights together refute" in card.figures


def test_a_violation_shows_on_which_side_of_the_declaration_its_bound_is():
    row = record(verdict=Verdict.VIOLATED, epsilon_declared=0.98, epsilon_lower=0.9839)
    assert card_of(row).figures == "Declared 0.98, proved at least 0.983."


def test_nothing_proved_and_nothing_declared_are_said_so():
    card = card_of(record(epsilon_lower=0.0, sees_from=0.4))
    assert card.figures.startswith("Nothing declared, nothing proved.")
    assert "a leak from 0.40 on" in card.figures
    assert card.odds == ""


def test_without_figures_there_are_no_figures():
    card = card_of(record(verdict=Verdict.FAILED, reason_code=ReasonCode.SETUP_WRONG))
    assert card.figures == card.odds == ""
    assert "This is not a zero" in card.allows


def test_a_nan_is_no_figure_and_a_later_column_is_passed_over():
    audits = frame([record("b", sees_from=float("nan"))], AuditedNight).with_columns(later=1)
    (card,) = cards_of(audits)
    assert "would probably have seen no leak, however large." in card.figures


def test_the_worst_model_is_first_and_of_one_model_the_newest_night():
    def of(model, code, offset=0):
        read = {"verdict", "verdict_together", "reason_code_together", "epsilon_declared"}
        return record(model, offset, **together(code).model_dump(include=read))

    rows = [
        of("g", ReasonCode.NOTHING_DECLARED),
        of("e", ReasonCode.TOO_SMALL),
        of("d", ReasonCode.PROXY_WRONG),
        of("c", ReasonCode.LABELS_MISSING),
        of("b", ReasonCode.EARLIER_NIGHT),
        of("b", ReasonCode.EARLIER_NIGHT, 1),
    ]
    ordered = with_next_steps(frame(rows, AuditedNight))
    assert ordered["model"].to_list() == ["b", "b", "c", "d", "e", "g"]
    assert ordered["day"][0] > ordered["day"][1]
    assert ordered["next_step"][2] == card_of(together(ReasonCode.LABELS_MISSING)).step.text
    assert rank_of(Verdict.INCONCLUSIVE, ReasonCode.TOO_SMALL) < rank_of(Verdict.NOT_REFUTED, None)
    assert rank_of(Verdict.NOT_REFUTED, None) < rank_of(Verdict.UNDECLARED, None)
    empty = with_next_steps(ordered.drop("next_step", "next_who").clear())
    assert empty.schema == ordered.schema


@pytest.mark.slow
def test_show_and_explain_say_the_next_step_of_a_real_audit(folder, privaudit):
    assert folder.exists()
    privaudit("run", "--model", "good", "--day", str(DAY))
    (audit,) = json.loads(privaudit("show", "--json").out)
    assert (audit["model"], audit["day"]) == ("good", str(DAY))
    told = privaudit("explain", audit["audit_id"][:8])
    assert told.code == 0
    assert told.out.startswith(f"{audit['verdict_together']}")
    assert audit["next_step"] in told.out
    card = json.loads(privaudit("explain", audit["audit_id"][:8], "--json").out)
    assert card["step"]["text"] == audit["next_step"]
    both = privaudit("explain", audit["audit_id"], "--epsilon", "1")
    assert (both.code, both.out) == (USAGE, "")
