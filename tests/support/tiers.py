"""Tiers of tests: always, before a change lands, or for a night.

Unmarked tests run always (`make test`), `slow` ones before a change lands (`make test-slow`), and
`soak` repeats what these do at other moments and with other inputs, for hours (`make test-soak`).

Slow tests of what makes figures are `statistics` as well. They need not run again for a state of
`FIGURES` that they passed in: `.ci/run` asks this module, and says what it leaves out.
"""

import hashlib
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ("privcore", "workers/scan", "workers/looks", "workers/audit", "workers/versions.py")
"""Where figures are made."""
STATISTICS = ("tests/privcore", "tests/workers/scan", "tests/workers/looks", "tests/workers/audit")
"""Where the tests of figures are."""
_PASSED = ROOT / ".ci" / "statistics"
"""The last state of figures, and of their tests, in which all statistics passed and landed."""


def is_statistics(path: pathlib.Path) -> bool:
    """Return whether slow tests of a file are of what makes figures."""
    return any(path.is_relative_to(ROOT / room) for room in STATISTICS)


def state_of_figures() -> str:
    """Return a digest of all code that makes figures, of its tests and of the packages they use."""
    rooms = [ROOT / one for one in (*FIGURES, *STATISTICS, "tests/golden", "requirements.lock")]
    worlds = (ROOT / "tests").glob("*.py")
    files = {*worlds, *(file for room in rooms for file in (room, *room.rglob("*")))}
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()


def tiered(values: Iterable[Any], *, always: int = 0, slow: int = 0) -> list[Any]:
    """Return parameters: the first run always, the next are slow, the rest are for a soak.

    A tuple is several parameters of one case.
    """
    marks = ([()] * always) + [(pytest.mark.slow,)] * slow
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=marks[place] if place < len(marks) else (pytest.mark.soak,),
        )
        for place, value in enumerate(values)
    ]


def rest_slow(values: Iterable[Any], *, always: int = 1) -> list[Any]:
    """Return parameters: the first run always, all others are slow."""
    listed = list(values)
    return tiered(listed, always=always, slow=len(listed) - always)


if __name__ == "__main__":
    if sys.argv[1:] == ["passed"]:
        _PASSED.write_text(f"{state_of_figures()}\n", encoding="utf-8")
    elif not _PASSED.exists() or _PASSED.read_text("utf-8").strip() != state_of_figures():
        sys.exit("What makes figures, or their tests, changed since the statistics last passed.")
