"""docs/papers.md is up to date, and says nothing that is not there."""

import importlib

import pytest

from tests.support.papers import PAGE, functions, held_by, marked, page
from tests.support.papers_entries import PAPERS, Entry

ENTRIES = [(key, entry) for key, paper in PAPERS.items() for entry in paper.entries]


def named(case: object) -> str:
    return f"{case.place}" if isinstance(case, Entry) else str(case)


def test_the_page_is_what_make_docs_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_mark_names_a_place_of_a_paper() -> None:
    places = {(key, entry.place) for key, entry in ENTRIES}
    assert len(places) == len(ENTRIES)
    assert set(marked()) <= places


@pytest.mark.parametrize(("key", "entry"), ENTRIES, ids=named)
def test_what_is_in_the_code_is_held_by_a_test_and_what_is_not_says_why(
    key: str, entry: Entry
) -> None:
    held = held_by(key, entry, marked())
    if entry.code:
        assert held
        assert not entry.note.startswith("not here")
    else:
        assert entry.note.startswith("not here: ")


@pytest.mark.parametrize("entry", [entry for _, entry in ENTRIES], ids=named)
def test_what_an_entry_names_exists(entry: Entry) -> None:
    for name in entry.code.split():
        full = name if name.partition(".")[0] in {"flows", "workers"} else f"privcore.{name}"
        module, _, attribute = full.rpartition(".")
        found = importlib.import_module(module)
        if not hasattr(found, attribute):
            importlib.import_module(full)
    assert set(entry.tests) <= set(functions())
