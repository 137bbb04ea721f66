"""docs/evidence/papers.md as data: what the papers state, and the tests that hold it.

The page is written by hand, but for its column "held by". `python -m tests.support.papers` fills
that: first the tests that are marked with a place of a paper, then others that the page names.
"""

import ast
import functools
import pathlib
import re
from collections import defaultdict

PAPERS = {
    "observational": "Observational Auditing of Privacy",
    "worst_case": "Beyond the Worst Case",
    "reidentification": "Provable Re-identification Privacy",
    "renyi": "Defending against Reconstruction Attacks with Renyi DP",
    "relaxations": "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy",
}
"""Titles; tests name what they hold with `@pytest.mark.paper(key, place, ...)`."""
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "papers.md"
_MARK = "pytest.mark.paper("
_TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(\.\./\.\./([^)]*)\)")


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


def rows(column: str) -> list[dict[str, str]]:
    """Return the rows of the tables with this column, by their headers and `paper`, its key."""
    keys = {title: key for key, title in PAPERS.items()}
    found, paper, header = [], "", [""]
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if line.startswith("## "):
            paper = keys[line.removeprefix("## ")]
        elif cells[:1] == ["place"]:
            header = cells
        elif cells and cells[0] != "---" and column in header:
            found.append({"paper": paper} | dict(zip(header, cells, strict=True)))
    return found


def named_in(cell: str) -> list[str]:
    """Return the tests that a cell of the page links to, as `path::name`."""
    return [f"{path}::test_{words.replace(' ', '_')}" for words, path in _LINK.findall(cell)]


def held_by(statement: dict[str, str]) -> list[str]:
    """Return the tests that hold a statement: the marked ones, then what else the page names."""
    marks = marked().get((statement["paper"], statement["place"]), [])
    return list(dict.fromkeys([*marks, *named_in(statement["held by"])]))


def page() -> str:
    """Return docs/evidence/papers.md with its column as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    for statement in rows("held by"):
        held = [name for name in held_by(statement) if name in functions()]
        links = {"held by": "<br>".join(map(_link, held))}
        text = text.replace(_line(statement), _line(statement | links))
    return text


def _line(row: dict[str, str]) -> str:
    return f"| {' | '.join(cell for name, cell in row.items() if name != 'paper')} |\n"


def _link(name: str) -> str:
    path, _, test = name.partition("::")
    return f"[{test.removeprefix('test_').replace('_', ' ')}](../../{path})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
