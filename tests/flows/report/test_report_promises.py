"""The report's sentences on promises: rounded up, near or beyond, and silent without rows."""

import pytest

from flows.report.sentences import promise_sentences
from flows.report.site import write_pages
from tests.support.lake import DAY
from tests.support.report import identity, tables
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import PromiseRow


def night(**changes):
    values = {
        "model": "m",
        "day": DAY,
        "recorded_at": "2026-03-03T00:00:00Z",
        "status": "evaluated",
        "verdict": "not_refuted",
        "reason": "r",
        "secret": "label",
        "significance": 0.05,
        "plan": "{}",
        "epsilon_lower": 0.1,
        "epsilon_declared": 1.0,
    }
    return AuditedNight(**identity() | values | changes)


def promise(quantity, value, *, guarantee="declared", **changes):
    return PromiseRow(
        **identity(), guarantee=guarantee, quantity=quantity, value=value, source="s", **changes
    )


def fair(value, guarantee="declared"):
    return promise("success_bound", value, guarantee=guarantee, parameter=0.5)


def surest(achieved, fraction=0.1):
    return promise(
        "correct_guesses", 80.0, parameter=fraction, guesses=100, achieved=achieved, outcome="kept"
    )


def test_the_two_sentences():
    fair_label, games = promise_sentences(
        night(), [fair(0.7310586), surest(61.25), surest(1.0, fraction=1.0)]
    )
    assert fair_label == (
        "Under the declared guarantee, nobody guesses a label that was 50/50 with more than 73.2% "
        "success."
    )
    assert games == (
        "Of its 100 surest guesses, an attacker has at most 80 right, with high confidence (95%); "
        "the audit\u2019s attack had 61.2 on average, within that."
    )


def test_an_attack_beyond_the_promise_is_said():
    (said,) = promise_sentences(night(), [surest(88.0)])
    assert "more than that" in said


@pytest.mark.parametrize(
    ("accounted", "said"), [(0.65, "with no more than 65%"), (0.73105, "73.2% success.")]
)
def test_the_accounted_guarantee_is_told_where_it_is_visibly_stronger(accounted, said):
    (found,) = promise_sentences(night(), [fair(0.7310586), fair(accounted, "accounted")])
    assert said in found
    assert ("mechanism" in found) == (accounted == 0.65)


def test_without_promises_nothing_is_said():
    assert promise_sentences(night(), []) == []


def test_the_page_shows_the_promises_of_the_latest_night_only(tmp_path):
    other = fair(0.9).model_copy(update={"audit_id": "other"})
    page = tmp_path / "models" / "m.html"
    write_pages(tables([night()], [fair(0.6), other]), tmp_path)
    assert "with more than 60% success" in page.read_text("utf-8")
    assert "90%" not in page.read_text("utf-8")
    write_pages(tables([night()]), tmp_path)
    assert "nobody guesses" not in page.read_text("utf-8")
