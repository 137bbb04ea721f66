"""The card of a public statement, which says nothing that the statement does not hold."""

import pytest

from flows.next_steps import Conclusion, statement_card
from tests.flows.report.test_public_site import made
from workers.publication.statement_row import PublicVerdict, Statement

STATEMENTS = {
    PublicVerdict.VIOLATED: made(),
    PublicVerdict.NOT_REFUTED: made(evidence_figure=0),
    PublicVerdict.DOUBTFUL: made(premises_figure=90_000),
    PublicVerdict.VACUOUS: made(vacuous=True),
}


@pytest.mark.parametrize("verdict", PublicVerdict)
def test_every_public_verdict_has_a_next_step(verdict: PublicVerdict) -> None:
    statement = STATEMENTS[verdict]
    assert statement.verdict is verdict
    card = statement_card(statement)
    assert card.steps
    assert "at most 2.8 to 1" in card.odds
    assert (
        card.conclusion
        is {
            PublicVerdict.VIOLATED: Conclusion.REFUTED,
            PublicVerdict.NOT_REFUTED: Conclusion.NOT_REFUTED,
            PublicVerdict.DOUBTFUL: Conclusion.INCONCLUSIVE,
            PublicVerdict.VACUOUS: Conclusion.NO_PROMISE,
        }[verdict]
    )


def test_too_few_records_are_inconclusive_and_ask_for_a_larger_holdout() -> None:
    card = statement_card(made(evidence_figure=0, epsilon_ceiling=0.8))
    assert card.conclusion is Conclusion.INCONCLUSIVE
    assert any(step.text.startswith("Hold out more rows") for step in card.steps)
    assert "refutes at most 0.80" in card.figures


def test_a_ceiling_that_no_real_leak_reaches_is_inconclusive() -> None:
    card = statement_card(made(evidence_figure=0, epsilon_detectable=None))
    assert card.conclusion is Conclusion.INCONCLUSIVE
    assert any(step.text.startswith("Hold out more rows") for step in card.steps)


def test_nights_that_refute_together_refute_whatever_the_statement_says() -> None:
    together = statement_card(made(evidence_figure=0), stands_violated=True)
    assert together.conclusion is Conclusion.REFUTED
    assert together.steps == statement_card(made()).steps


def test_two_labels_that_give_one_verdict_give_one_card() -> None:
    """The noisy figures themselves are on no card: only the verdict that follows from them."""
    cards = [statement_card(made(evidence_figure=figure)) for figure in (0, 1, 400)]
    assert cards[0] == cards[1] == cards[2]
    assert {name for name in Statement.model_fields if name.endswith("_figure")} == {
        "evidence_figure",
        "premises_figure",
    }
