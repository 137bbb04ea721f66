"""docs/: pages by question, made from the code where they can be, with every command typed."""

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer.main

import privcore
from flows.cli import app
from privcore.lower_bounds.question import leak_to_be_seen
from tests.support.papers import ROOT
from tests.support.reference_pages import FOLDER, PAGES
from tests.test_readme import beside_demo, commands, type_command

__all__ = ["beside_demo"]  # a fixture
DOCS = ROOT / "docs"
USER = sorted(
    page
    for folder in ("tutorial", "how-to", "reference", "explanation")
    for page in (DOCS / folder).glob("*.md")
)
MADE = {*PAGES, "warehouse.md"}  # from the code: looked up, not read
SHOWN = sorted(
    {
        (page.relative_to(DOCS).as_posix(), command)
        for page in USER
        if page.parent.name in {"tutorial", "how-to"}
        for command in commands(page.read_text(encoding="utf-8"))
    }
)
# Whoever reads the page needs this first: a server, a cluster, a registry, a service, own files.
TYPED_BY_TESTS = {
    "how-to/walks.md": "tests/flows/test_walks.py",
    "tutorial/first-audit.md": "tests/flows/test_first_hour.py",
}
OTHER_PROGRAMS = {
    "cp", "curl", "export", "for", "make", "mkdir", "openssl", "prefect", "python", "python3",
    "ray", "touch",
}  # fmt: skip
RUN_IN_THE_DEMO = {"explain", "report", "show", "sql"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_up_to_date(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("page", [p for p in USER if p.name != "warehouse.md"], ids=str)
def test_a_page_says_first_for_whom_it_is_and_what_they_can_do_after_it(page):
    title, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    assert first.startswith("This page is for ")
    assert re.search(r"\bAfter it\b", first)


def test_the_written_pages_for_users_stay_below_22_650_words():
    written = [page for page in USER if page.name not in MADE]
    assert len(written) > 20
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in written) < 22_650


def test_what_a_conclusive_audit_sees_is_as_the_verdict_asks():
    page = (DOCS / "how-to" / "not-refuted.md").read_text(encoding="utf-8")
    header, _, sees = (
        [float(cell) for cell in re.findall(r"\| ([\d.]+)(?= )", line)]
        for line in page[page.index("| declared |") :].splitlines()[:3]
    )
    assert header
    assert sees == [leak_to_be_seen(epsilon) for epsilon in header]


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    listed = set(re.findall(r"^([a-z/-]+)$", contents, re.MULTILINE))
    assert pages - {"index"} == listed


def _parsed(command: str) -> None:
    """Parse a command's words as the command line does, without calling it."""
    words = shlex.split(command.replace("…", "x"))
    words = words[words.index("privaudit") + 1 :]
    for end in ("|", ">", "&&", ";", "#"):
        words = words[: words.index(end)] if end in words else words
    inner: Any = typer.main.get_command(app)
    while hasattr(inner, "commands"):
        inner = inner.commands[words.pop(0)]
    inner.make_context(inner.name, words)


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_every_command_of_a_page_is_one_that_there_is(page, command):
    program = (
        shlex.split(command.partition("$(")[0])[0]
        if "'" not in command
        else command.split(maxsplit=1)[0]
    )
    if program != "privaudit" or page in TYPED_BY_TESTS:
        assert program in OTHER_PROGRAMS | {"privaudit"} or page in TYPED_BY_TESTS, command
        return
    _parsed(command)


def test_what_other_tests_type_they_take_from_the_page():
    for page, test in TYPED_BY_TESTS.items():
        assert page.rpartition("/")[2] in (ROOT / test).read_text(encoding="utf-8")


IN_THE_DEMO = [
    (page, command)
    for page, command in SHOWN
    if command.startswith("privaudit ")
    and command.split()[1] in RUN_IN_THE_DEMO
    and ("--config demo/" in command or command.split()[1] == "explain")
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), IN_THE_DEMO)
def test_a_command_that_needs_only_the_demo_runs_as_written(page, command, beside_demo, tmp_path):
    del page
    type_command(command, beside_demo, tmp_path)


INLINE = sorted(
    {
        " ".join(found.split())
        for page in USER
        for found in re.findall(r"`(privaudit [a-z-][^`]*)`", page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("shown", INLINE)
def test_a_command_within_a_sentence_has_its_options(shown):
    words = shown.split()[1:]
    inner: Any = typer.main.get_command(app)
    while hasattr(inner, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name == "COMMAND":
            return
        inner = inner.commands[name]
    known = {name for parameter in inner.params for name in parameter.opts} | {"--help"}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_every_supported_name_has_an_example():
    without = [
        name for name in privcore.__all__ if ">>> " not in (getattr(privcore, name).__doc__ or "")
    ]
    assert without == []
    assert 55 <= len(privcore.__all__) <= 70


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", str(DOCS), str(tmp_path)],
        env=os.environ | {"SOURCE_DATE_EPOCH": "0"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "searchindex.js").exists()
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]+src="(https?:[^"]*)"', page.read_text(encoding="utf-8")
        ) + re.findall(r'<link[^>]+href="(https?:[^"]*)"', page.read_text(encoding="utf-8"))
        assert loaded == [], page


def test_no_page_installs_from_an_index_by_a_name_that_is_not_ours():
    """The public index has no package of this name, so a stranger could register it."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for folder in (ROOT / "deploy", ROOT / "infra"):
        pages += [page for page in folder.rglob("*") if page.suffix != ".pyc"]
    told = re.compile(r"(?:pip|uv add|uvx|pipx|tool) (?:install |run )?['\"]?privaudit\b")
    found = [str(page) for page in pages if page.is_file() and told.search(page.read_text("utf-8"))]
    assert found == []
