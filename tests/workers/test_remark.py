"""What a record remarks on, as fixed words, and which of them are doubts."""

import pathlib
import re

from workers.remark import RemarkKind, doubts_among, remarked

WORKERS = pathlib.Path(__file__).resolve().parents[2] / "workers"


def test_doubts_are_told_from_what_honest_teams_do_and_from_words_that_are_none():
    assert remarked(RemarkKind.ROWS_REPEATED, "") == ()
    words = ("rows_left_out", "rows_repeated", "a forged word", "classes_exchanged")
    assert set(doubts_among(words)) == {RemarkKind.CLASSES_EXCHANGED, RemarkKind.ROWS_REPEATED}
    assert doubts_among(None) == doubts_among(("power_lost", "bad_records")) == ()


def test_every_remark_is_made_somewhere_and_says_what_it_means():
    texts = [
        path.read_text(encoding="utf-8")
        for path in WORKERS.rglob("*.py")
        if path != WORKERS / "remark.py"
    ]
    made = set(re.findall(r"\b(?:RemarkKind|kinds)\.([A-Z_]+)", " ".join(texts)))
    assert made == {kind.name for kind in RemarkKind}
    for kind in RemarkKind:
        assert kind == kind.name.lower()
        assert re.fullmatch(r"[A-Z][^\n]+\.", kind.meaning)
