"""Sentences are asserted once: in a text file beside the test module, with an entry for each test.

`pytest --write-sentences PATHS` writes what these tests say now; the difference is then read in the
change, like code. What a test means by a sentence it asserts by reason codes and fields.
"""

import pathlib
from collections.abc import Callable

import pytest

_HEADING = "== "


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes."""
    parser.addoption(
        "--write-sentences", action="store_true", help="keep the sentences as they are said now"
    )


@pytest.fixture
def hold_sentences(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return what holds sentences, once in a test, against the test's entry."""
    writing, entries = request.config.getoption("--write-sentences"), [request.node.name]

    def hold(*sentences: str) -> None:
        check(request.path.with_suffix(".txt"), entries.pop(), sentences, writing=writing)

    return hold


def check(
    file: pathlib.Path, entry: str, sentences: tuple[str, ...], *, writing: bool = False
) -> None:
    """Assert that the entry has these sentences, one a line; `writing` makes it have them."""
    assert sentences
    assert not any(line.startswith(_HEADING) or "\n" in line for line in sentences)
    kept = read(file)
    if writing:
        kept[entry] = sentences
        parts = ("\n".join([_HEADING + name, *kept[name]]) for name in sorted(kept))
        file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        return
    assert entry in kept, f"{file.name} has no entry {entry!r}: pytest --write-sentences"
    assert sentences == kept[entry], "if it is meant: pytest --write-sentences"


def read(file: pathlib.Path) -> dict[str, tuple[str, ...]]:
    """Return each entry's sentences; none where there is no file."""
    if not file.exists():
        return {}
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(_HEADING):
            found[line.removeprefix(_HEADING)] = []
        elif line:
            [*found.values()][-1].append(line)
    return {name: tuple(lines) for name, lines in found.items()}
