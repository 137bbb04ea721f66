"""docs/evidence/papers.md from the papers' statements and the tests that say they hold them.

`python -m tests.support.papers` writes the page.
"""

import ast
import functools
import pathlib
import re
from collections import defaultdict

from tests.support.papers_observational import OBSERVATIONAL
from tests.support.papers_reidentification import REIDENTIFICATION
from tests.support.papers_relaxations import RELAXATIONS
from tests.support.papers_renyi import RENYI
from tests.support.papers_types import Entry, Paper
from tests.support.papers_worst_case import WORST_CASE

PAPERS = {
    "observational": OBSERVATIONAL,
    "worst_case": WORST_CASE,
    "reidentification": REIDENTIFICATION,
    "renyi": RENYI,
    "relaxations": RELAXATIONS,
}
"""Tests name what they hold with `@pytest.mark.paper(key, place, ...)`; `tests` names others."""
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "papers.md"
_MARK = "pytest.mark.paper("
_TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
_ABOUT = (
    "Every definition, algorithm, theorem, table and figure that privaudit rests on or compares "
    "itself with: where it lives in the code, which tests hold it, what agrees, and what differs "
    "and why. Made by `make docs` from `tests/support/papers_*.py` and the marks of the "
    "tests; a test fails when it is not up to date. Printed numbers are in "
    "`tests/golden/published`, one file per table."
)


@functools.cache
def _texts() -> dict[str, str]:
    """Return what every file of tests says, by its path."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }


@functools.cache
def functions() -> set[str]:
    """Return every test, as `path::name`."""
    return {f"{path}::{name}" for path, text in _texts().items() for name in _TEST.findall(text)}


@functools.cache
def marked() -> dict[tuple[str, str], list[str]]:
    """Return (paper's key, place) -> the tests that are marked with it."""
    found = defaultdict(list)
    for path, text in _texts().items():
        if _MARK not in text:  # most files: parsing them all takes seconds
            continue
        for node in ast.parse(text).body:
            for decorator in getattr(node, "decorator_list", ()):
                if ast.unparse(decorator).startswith(_MARK):
                    key, *places = (ast.literal_eval(argument) for argument in decorator.args)
                    for place in places:
                        found[key, place].append(f"{path}::{node.name}")
    return dict(found)


def held_by(key: str, entry: Entry, marks: dict[tuple[str, str], list[str]]) -> list[str]:
    """Return the tests that hold an entry, the marked ones first."""
    return [*marks.get((key, entry.place), []), *entry.tests]


def page() -> str:
    """Return docs/evidence/papers.md."""
    marks = marked()
    parts = ["# The five papers", "", _ABOUT]
    for key, paper in PAPERS.items():
        parts += ["", *_section(key, paper, marks)]
    return "\n".join(parts) + "\n"


def _section(key: str, paper: Paper, marks: dict[tuple[str, str], list[str]]) -> list[str]:
    rows = [
        f"## {paper.title}",
        "",
        "| place | what it is | in the code | held by | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in paper.entries:
        code = ", ".join(f"`{name}`" for name in entry.code.split())
        held = "<br>".join(_short(name) for name in held_by(key, entry, marks))
        rows.append(f"| {entry.place} | {entry.says} | {code} | {held} | {entry.note} |")
    return rows + _errata(paper)


def _errata(paper: Paper) -> list[str]:
    if not paper.errata:
        return []
    rows = [
        "",
        "Errata:",
        "",
        "| place | printed | right | why | shown by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in paper.errata:
        shown = _short(one.test) if one.test else "reading"
        rows.append(f"| {one.place} | {one.printed} | {one.right} | {one.why} | {shown} |")
    return rows


def _short(name: str) -> str:
    path, _, test = name.partition("::")
    return f"[{test.removeprefix('test_').replace('_', ' ')}](../../{path})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
