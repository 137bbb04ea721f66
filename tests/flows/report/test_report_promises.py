"""The report's sentence on promises: near or beyond, and silent without rows."""

from flows.report.sentences import nearness_sentence
from flows.report.site import write_pages
from privcore.lower_bounds.verdicts import Verdict
from tests.support.report import identity, record, tables
from workers.warehouse.schema import PromiseRow

NIGHT = record("m", verdict=Verdict.NOT_REFUTED, epsilon_lower=0.1, epsilon_declared=1.0)


def promise(quantity, value, **changes):
    return PromiseRow(
        **identity(NIGHT.audit_id),
        guarantee="declared",
        quantity=quantity,
        value=value,
        source="s",
        **changes,
    )


def fair(value):
    return promise("success_bound", value, parameter=0.5)


def surest(achieved, fraction=0.1):
    return promise("correct_guesses", 80.0, parameter=fraction, guesses=100, achieved=achieved)


def test_the_surest_guesses_are_held_against_the_promise():
    rows = [fair(0.7310586), surest(61.25), surest(1.0, fraction=1.0)]
    assert nearness_sentence(NIGHT, rows) == (
        "Of its 100 surest guesses, an attacker has at most 80 right, with high confidence (95%); "
        "the audit\u2019s attack had 61.2 on average, within that."
    )


def test_an_attack_beyond_the_promise_is_said():
    assert "more than that" in nearness_sentence(NIGHT, [surest(88.0)])


def test_without_promises_nothing_is_said():
    assert nearness_sentence(NIGHT, [fair(0.7310586)]) == ""


def test_the_page_shows_the_promises_of_the_latest_night_only(tmp_path):
    other = fair(0.9).model_copy(update={"audit_id": "other"})
    page = tmp_path / "models" / "m.html"
    write_pages(tables([NIGHT], [fair(0.6), other]), tmp_path)
    assert "<td>60%</td>" in page.read_text("utf-8")
    assert "90%" not in page.read_text("utf-8")
    write_pages(tables([NIGHT]), tmp_path)
    assert "60%" not in page.read_text("utf-8")
