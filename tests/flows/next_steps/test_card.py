"""The next-step card of every verdict and of every reason that an audit can end with."""

from typing import Any

import pytest

from flows.next_steps import Conclusion, Effort, card_of, conclusion_of
from flows.next_steps.steps import ERROR_STEPS, steps_for
from privcore.lower_bounds import Verdict
from tests.support.report import record
from workers.exceptions import Reason
from workers.warehouse.schema import AuditRow, Status

SEEING = {"epsilon_declared": 2.0, "epsilon_ceiling": 3.1, "epsilon_detectable": 2.6}


def consistent(**changes: Any) -> AuditRow:
    given = {"epsilon_lower": 0.9, "control_records": 185} | SEEING
    return record(verdict=Verdict.CONSISTENT, **given | changes)


def said(row: AuditRow) -> str:
    card = card_of(row)
    return " ".join([card.figures, card.allows, card.odds, *(step.text for step in card.steps)])


def test_every_verdict_has_a_conclusion_what_it_allows_and_a_next_step() -> None:
    conclusions = {}
    for verdict in Verdict:
        card = card_of(record(verdict=verdict, epsilon_declared=0.5))
        assert card.steps
        assert card.allows
        assert card.line.startswith(f"{card.conclusion}. Next (")
        conclusions[verdict] = card.conclusion
    assert conclusions == {
        Verdict.CONSISTENT: Conclusion.INCONCLUSIVE,
        Verdict.VIOLATED: Conclusion.REFUTED,
        Verdict.PROXY_UNFAITHFUL: Conclusion.INCONCLUSIVE,
        Verdict.DOUBTFUL: Conclusion.DOUBTFUL,
        Verdict.UNDECLARED: Conclusion.UNDECLARED,
        Verdict.PRIVATISED: Conclusion.PRIVATISED,
        Verdict.VACUOUS: Conclusion.NO_PROMISE,
        Verdict.NOT_A_GUARANTEE: Conclusion.NO_PROMISE,
        Verdict.NOT_EVALUABLE: Conclusion.NO_FIGURE,
    }
    assert set(conclusions.values()) | {Conclusion.NOT_REFUTED} == set(Conclusion)


@pytest.mark.parametrize("code", Reason)
def test_every_reason_has_steps_of_its_own_the_cheapest_first(code: Reason) -> None:
    steps = card_of(record(verdict=Verdict.NOT_EVALUABLE, reason_code=code)).steps
    assert steps == steps_for(code)
    assert steps not in {ERROR_STEPS, ()}
    order = list(Effort)
    costs = [order.index(step.cost) for step in steps]
    assert costs == sorted(costs)
    for step in steps:
        assert step.text.endswith((".", ")."))


def test_an_error_and_an_unknown_reason_say_that_nothing_was_measured() -> None:
    failed = record(verdict=Verdict.NOT_EVALUABLE, status=Status.ERROR, reason_code="error")
    assert card_of(failed).steps == ERROR_STEPS
    assert steps_for("of a later version") == ERROR_STEPS
    assert steps_for(None) == ERROR_STEPS


@pytest.mark.parametrize(
    ("by", "word"),
    [
        ("an owner", "Declared 2"),
        (None, "Declared 2"),
        ("policy", "No declaration; policy 2"),
        ("--max-epsilon", "Limit 2"),
    ],
)
def test_it_names_what_the_bound_is_held_against(by: str | None, word: str) -> None:
    assert card_of(consistent(declared_by=by)).figures.startswith(f"{word}, proved at least 0.9")


def test_an_audit_that_could_have_seen_a_larger_leak_is_not_refuted() -> None:
    card = card_of(consistent())
    assert card.conclusion is Conclusion.NOT_REFUTED
    assert card.figures == (
        "Declared 2, proved at least 0.9, ceiling 3.10. A leak of 2.60 of every label would "
        "probably have refuted the declaration."
    )
    assert card.odds == (
        "Seeing the model turns even odds for a label into at most 7.4 to 1 as declared (e^2 "
        "times), at least 2.4 to 1 as proved. A leak of 14 to 1 would probably have been detected."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon_ceiling": 2.0},
        {"epsilon_detectable": 3.01},
        {"epsilon_detectable": None},
        {"epsilon_ceiling": None},
    ],
)
def test_an_audit_that_could_not_have_seen_it_is_inconclusive(changes: dict[str, Any]) -> None:
    assert conclusion_of(consistent(**changes)) is Conclusion.INCONCLUSIVE


def test_it_says_how_many_more_rows_to_hold_out_rounded_up() -> None:
    card = card_of(consistent(epsilon_ceiling=1.2, holdout_needed=2_058))
    assert "ceiling 1.20" in card.figures
    assert any(
        step.text.startswith("Hold out about 1,900 more rows") for step in card.steps
    )  # 2,058 less the 185 that there are
    decoys = said(consistent(epsilon_detectable=None, decoy_records=40, holdout_needed=141))
    assert "Draw about 110 more decoys" in decoys
    assert "A conclusive audit has a ceiling above 2, and probably sees a leak of 3." in decoys


def test_where_no_holdout_suffices_more_rows_are_asked_for() -> None:
    assert "no holdout is large enough" in said(consistent(epsilon_detectable=3.5))


@pytest.mark.parametrize("changes", [{"arms_pvalue": 0.004}, {"misled_pvalue": 0.0004}])
def test_where_bets_were_held_back_a_new_holdout_is_the_step(changes: dict[str, Any]) -> None:
    found = said(consistent(epsilon_ceiling=0.0, epsilon_detectable=None, **changes))
    assert "Draw a new holdout every day" in found
    assert "Collect more rows" not in found


def test_doubts_are_read_first_and_a_suspect_holdout_has_steps_of_its_own() -> None:
    def doubtful(*remarks: str) -> AuditRow:
        return record(verdict=Verdict.DOUBTFUL, remarks=remarks, **SEEING)

    card = card_of(doubtful("rows_miscounted"))
    assert card.conclusion is Conclusion.DOUBTFUL
    assert card.allows.startswith("The audit is no argument for a release")
    assert "would probably have" not in f"{card.figures} {card.odds}"
    assert card.steps[0].text.startswith("Read the doubts in the verdict's sentence")
    assert "leaves out exactly the rows" not in said(doubtful("rows_miscounted"))
    suspect = said(doubtful("holdout_suspect"))
    assert "See whether training leaves out exactly the rows" in suspect
    assert "Collect more rows" not in suspect


def test_nights_that_refute_together_refute_whatever_tonight_says() -> None:
    for verdict in (Verdict.CONSISTENT, Verdict.NOT_EVALUABLE):
        row = record(verdict=verdict, **SEEING if verdict is Verdict.CONSISTENT else {})
        card = card_of(row, stands_violated=True)
        assert card.conclusion is Conclusion.REFUTED
        assert card.allows.startswith("Do not release")
    assert "the nights together refute" in card_of(consistent(), stands_violated=True).figures


def test_a_violation_shows_on_which_side_of_the_declaration_its_bound_is() -> None:
    row = record(verdict=Verdict.VIOLATED, epsilon_declared=0.98, epsilon_lower=0.9839)
    assert card_of(row).figures == "Declared 0.98, proved at least 0.983."


def test_nothing_proved_and_nothing_declared_are_said_so() -> None:
    found = said(record(epsilon_lower=0.0, epsilon_detectable=0.4))
    assert "Nothing declared, nothing proved." in found
    assert "A leak of 0.40 of every label would probably have shown." in found
    assert "as declared" not in found


def test_without_figures_there_are_no_figures() -> None:
    card = card_of(record(verdict=Verdict.NOT_EVALUABLE, reason_code=Reason.NO_HOLDOUT))
    assert card.figures == card.odds == ""
    assert "This is not a zero" in card.allows
