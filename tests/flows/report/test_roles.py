"""Sentences for each role are of the record, and name its own figures."""

import datetime as dt

import pytest

from flows.next_steps import Role
from flows.report.evidence_sentences import behind
from tests.support.report import record


def test_every_night_says_what_is_assumed_what_settles_it_and_what_was_known() -> None:
    night = record("ads").model_copy(
        update={
            "holdout_needed": 4_000,
            "control_records": 185,
            "epsilon_declared": 1.0,
            "declared_by": "the owner",
            "declared_at": dt.datetime(2013, 1, 5, tzinfo=dt.UTC),
            "proxy_day": dt.date(2013, 1, 31),
        }
    )
    answers = behind(night)
    assert [role for role, _ in answers] == [Role.ENGINEER, Role.ENGINEER, Role.AUDITOR]
    assumed, settles, known = (text for _, text in answers)
    assert assumed.startswith("Assumed: the holdout was drawn at random")
    assert "4\N{NARROW NO-BREAK SPACE}000 holdout records" in settles
    assert "there were 185" in settles
    assert "the proxy of 31 January 2013" in known
    assert "the declaration was made by the owner on 5 January 2013" in known


@pytest.mark.parametrize(
    ("change", "words"),
    [({"method": "decoys"}, "coins of the decoys"), ({"secret": "membership"}, "split into")],
)
def test_other_methods_assume_something_else(change: dict[str, str], words: str) -> None:
    assert words in behind(record("ads").model_copy(update=change))[0][1]


def test_without_a_number_to_hold_out_decoys_are_named() -> None:
    night = record("ads").model_copy(update={"holdout_needed": None, "declared_by": None})
    assert "Decoys settle" in behind(night)[1][1]
    assert "declaration" not in behind(night)[2][1]
