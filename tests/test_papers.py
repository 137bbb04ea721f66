"""docs/evidence/papers.md is up to date, and says nothing that is not there."""

import importlib
import re

import pytest

from tests.support.papers import (
    PAGE,
    PAPERS,
    ROOT,
    functions,
    held_by,
    marked,
    named_in,
    page,
    rows,
)
from tests.support.published import FOLDER, printed

STATEMENTS = {(row["paper"], row["place"]): row for row in rows("held by")}
ERRATA = rows("printed")


def test_the_page_is_what_make_docs_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_mark_names_a_place_of_a_paper():
    assert len(STATEMENTS) == len(rows("held by")) > 100
    assert set(marked()) <= set(STATEMENTS)


@pytest.mark.parametrize("place", STATEMENTS, ids=" ".join)
def test_what_is_in_the_code_is_held_by_a_test_and_what_is_not_says_why(place):
    statement = STATEMENTS[place]
    code, note = re.findall(r"`([^`]+)`", statement["in the code"]), statement[""]
    for name in code:
        full = name if name.partition(".")[0] in {"flows", "workers"} else f"privcore.{name}"
        module, _, attribute = full.rpartition(".")
        if not hasattr(importlib.import_module(module), attribute):
            importlib.import_module(full)
    if code:
        assert held_by(statement)
        assert set(held_by(statement)) <= functions()
        assert not note.startswith("not here")
    else:
        assert note.startswith("not here: ")
    if place[1].startswith(("Table ", "Figure ")):
        assert note.startswith(("whole: ", "in small: ", "not here: "))


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda row: row["place"])
def test_an_erratum_says_what_is_right_and_names_a_test_that_exists(erratum):
    assert erratum["printed"] != erratum["right"]
    assert erratum["why"]
    shown = named_in(erratum["shown by"])
    assert shown or erratum["shown by"] == "reading"
    assert set(shown) <= functions()


def statements(place: str) -> set[str]:
    """Return what a place names: "Lemmas 3.4 and 3.6" are Lemma 3.4 and Lemma 3.6."""
    found, kind = set(), ""
    for word in re.findall(r"[A-Z][a-z]+|(?:[A-Z]\.)?\d+(?:\.\d+)?", place):
        if word[0].isalpha() and len(word) > 1 and word[1] != ".":
            kind = word.removesuffix("s")
        else:
            found.add(f"{kind} {word}")
    return found


@pytest.mark.parametrize(("key", "title"), PAPERS.items())
def test_every_numbered_statement_has_its_place(key, title):
    numbered = {row["statement"] for row in printed("numbered_statements") if row["paper"] == title}
    listed = set[str]().union(*(statements(place) for paper, place in STATEMENTS if paper == key))
    assert len(numbered) > 10
    assert numbered <= listed, numbered - listed


def test_every_printed_table_is_read_by_a_test():
    read = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tables = {path.stem for path in FOLDER.glob("*.csv")}
    assert len(tables) > 20
    assert {name for name in tables if f'"{name}"' not in read} == set()


NOT_HERE = {
    "000_table1_applicability": ("worst_case", "Table 1", "a comparison of papers"),
    "002_table1_risk_samples": ("renyi", "Table 1", "need GPT-2"),
}


@pytest.mark.parametrize("table", NOT_HERE)
def test_what_cannot_be_had_here_says_what_it_needs_and_what_would_run_it(table):
    *place, needs = NOT_HERE[table]
    assert printed(table)
    note = STATEMENTS[tuple(place)][""]
    assert needs in note
    assert table.startswith("000") or re.search(r"`(privaudit|study) \w+", note)
