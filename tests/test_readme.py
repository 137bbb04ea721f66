"""The README's commands, as written, against a demo of two days."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from privcore.lower_bounds.verdicts import Verdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Said to a person, and nothing that a test should do.
NOT_RUN = ("git clone ", "cd ", "open ", "xdg-open ", "export ")
_FENCE = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PRIVAUDIT = re.compile(r"^(?:[A-Z_]+=\S+ +)*(?:\.venv/bin/)?privaudit\b")


def commands(text: str) -> Iterator[str]:
    """Yield every command of the fenced shell blocks, without prompts and comments."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ").strip()
            command = re.sub(r"\s+#.*$", "", command) if not command.startswith("#") else ""
            if command:
                yield command


README = (ROOT / "README.md").read_text(encoding="utf-8")
WRITTEN = sorted(set(commands(README)))


def _of_kind(kind: str) -> list[str]:
    pattern = {"make": re.compile(r"make\b"), "privaudit": _PRIVAUDIT}[kind]
    return [command for command in WRITTEN if pattern.match(command)]


def test_commands_are_found_as_they_are_written():
    text = (
        "Text.\n```sh\nmake demo   # a comment\n\n# only a comment\n$ privaudit show --all\n"
        "privaudit sql \\\n  \"select '#' from audits\"\n```\n```python\nimport x\n```\n"
    )
    assert list(commands(text)) == [
        "make demo",
        "privaudit show --all",
        "privaudit sql    \"select '#' from audits\"",
    ]


def test_the_readme_shows_how_to_start_and_how_to_look():
    assert {"make demo", "make test"} <= set(WRITTEN)
    assert _of_kind("privaudit")


def test_the_readme_explains_the_five_verdicts_in_their_order():
    (section,) = re.findall(r"^## Read a result\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [str(word) for word in Verdict]


def test_every_command_of_the_readme_is_checked_here():
    checked = {command for kind in ("make", "privaudit") for command in _of_kind(kind)}
    unchecked = [c for c in WRITTEN if c not in checked and not c.startswith(NOT_RUN)]
    assert unchecked == []


@pytest.mark.parametrize("command", _of_kind("make"))
def test_a_make_command_of_the_readme_has_its_targets(command):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for word in shlex.split(command)[1:] if "=" not in word}
    assert named <= targets


@pytest.fixture(scope="module")
def beside_demo(small_demo, tmp_path_factory):
    """Return a folder with a copy of the demo, in which the commands are typed."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(small_demo, folder / "demo")
    return folder


def type_command(command: str, folder: pathlib.Path, home: pathlib.Path) -> None:
    """Type a command in a folder, as a person without settings of their own does."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "PRIVAUDIT"))}
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "PREFECT_HOME": str(home / "prefect"), "PATH": path}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace(".venv/bin/privaudit", "privaudit")],
        cwd=folder, env=kept | own, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode in {0, 1, 2}, done.stderr
    assert "Traceback" not in done.stderr
    assert "Usage:" not in done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("command", _of_kind("privaudit"))
def test_a_privaudit_command_of_the_readme_runs_as_written(command, beside_demo, tmp_path):
    # The demo of the tests has two days, and later ones are refused.
    type_command(command.replace("2013-02-05", "2013-02-02"), beside_demo, tmp_path)
