"""docs/evidence/papers.md is up to date, and says nothing that is not there."""

import importlib
import re

import pytest

from tests.support.papers import PAGE, PAPERS, ROOT, functions, held_by, marked, page
from tests.support.papers_types import Entry
from tests.support.published import FOLDER, printed

ENTRIES = [(key, entry) for key, paper in PAPERS.items() for entry in paper.entries]


def named(case: object) -> str:
    return f"{case.place}" if isinstance(case, Entry) else str(case)


def test_the_page_is_what_make_docs_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_mark_names_a_place_of_a_paper():
    places = {(key, entry.place) for key, entry in ENTRIES}
    assert len(places) == len(ENTRIES)
    assert set(marked()) <= places


@pytest.mark.parametrize(("key", "entry"), ENTRIES, ids=named)
def test_what_is_in_the_code_is_held_by_a_test_and_what_is_not_says_why(key, entry):
    held = held_by(key, entry, marked())
    if entry.code:
        assert held
        assert not entry.note.startswith("not here")
    else:
        assert entry.note.startswith("not here: ")


@pytest.mark.parametrize(
    "entry", [entry for _, entry in ENTRIES if re.match("(Table|Figure) ", entry.place)], ids=named
)
def test_a_table_or_figure_is_done_whole_or_in_small_or_not(entry):
    assert entry.note.startswith(("whole: ", "in small: ", "not here: "))


@pytest.mark.parametrize("entry", [entry for _, entry in ENTRIES], ids=named)
def test_what_an_entry_names_exists(entry):
    for name in entry.code.split():
        full = name if name.partition(".")[0] in {"flows", "workers"} else f"privcore.{name}"
        module, _, attribute = full.rpartition(".")
        found = importlib.import_module(module)
        if not hasattr(found, attribute):
            importlib.import_module(full)
    assert set(entry.tests) <= set(functions())


ERRATA = [erratum for paper in PAPERS.values() for erratum in paper.errata]


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.place)
def test_an_erratum_says_what_is_right_and_names_a_test_that_exists(erratum):
    assert erratum.printed != erratum.right
    assert erratum.why
    assert not erratum.test or erratum.test in functions()


def statements(place: str) -> set[str]:
    """Return what a place names: "Lemmas 3.4 and 3.6" are Lemma 3.4 and Lemma 3.6."""
    found, kind = set(), ""
    for word in re.findall(r"[A-Z][a-z]+|(?:[A-Z]\.)?\d+(?:\.\d+)?", place):
        if word[0].isalpha() and len(word) > 1 and word[1] != ".":
            kind = word.removesuffix("s")
        else:
            found.add(f"{kind} {word}")
    return found


@pytest.mark.parametrize("key", PAPERS)
def test_every_numbered_statement_has_its_place(key):
    paper = PAPERS[key]
    numbered = {
        row["statement"] for row in printed("numbered_statements") if row["paper"] == paper.title
    }
    listed = set[str]().union(*(statements(entry.place) for entry in paper.entries))
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
    key, place, needs = NOT_HERE[table]
    assert printed(table)
    (entry,) = (entry for entry in PAPERS[key].entries if entry.place == place)
    assert needs in entry.note
    assert table.startswith("000") or re.search(r"`(privaudit|study) \w+", entry.note)
