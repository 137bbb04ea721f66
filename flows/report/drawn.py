"""Pages that need not be drawn again: those of which nothing changed, with proof of that.

Beside the pages lies a list: the digest of what each was drawn from, and of the page itself. A
person who may write to the report's folder could forge it, and so keep an old verdict alive. So the
list is sealed with a key in another place and that its owner alone may read. A list that is
lost, forged or from another machine costs time: all pages are drawn. An earlier list proves nothing
false, since a page depends on nothing but what its digest holds.
"""

import functools
import hashlib
import hmac
import importlib.metadata
import importlib.util
import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from flows.files import read_plain, replace_file

LIST = ".drawn.json"
_DRAW = ("jinja2", "markupsafe", "pydantic", "polars")
_SOURCES = ("flows", "workers", "privcore")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One page."""

    inputs: str
    page: str


def read_drawn(root: pathlib.Path, key: bytes | None) -> dict[str, Drawn]:
    """Return the pages of a report's list by name; none where it is not sealed by the key."""
    if key is None:
        return {}
    try:
        told = json.loads(read_plain(root / LIST) or b"")
        seal, pages = str(told["seal"]), dict(told["pages"])
        if not hmac.compare_digest(seal.encode(), _seal(pages, key).encode()):
            return {}
        return {name: Drawn(*each) for name, each in pages.items()}
    except (ValueError, KeyError, TypeError, RecursionError):  # JSON nested too deep
        return {}


def write_drawn(root: pathlib.Path, drawn: Mapping[str, Drawn], key: bytes) -> None:
    """Replace the list."""
    pages = {name: [one.inputs, one.page] for name, one in sorted(drawn.items())}
    told = {"pages": pages, "seal": _seal(pages, key)}
    replace_file(root / LIST, json.dumps(told, indent=0).encode())


def is_drawn(path: pathlib.Path, known: Drawn, inputs: str) -> bool:
    """Return whether a page lies there as it would be drawn from these inputs."""
    if known.inputs != inputs:
        return False
    content = read_plain(path)
    return content is not None and content_digest(content) == known.page


def content_digest(content: bytes) -> str:
    """Return the digest of a page."""
    return hashlib.sha256(content).hexdigest()


def inputs_digest(frames: Iterable[pl.DataFrame], *others: object) -> str:
    """Return the digest of rows and of whatever else a page is drawn from, the code included."""
    digest = hashlib.sha256(repr((code_digest(), others)).encode())
    for frame in frames:
        digest.update(repr((frame.height, frame.columns, frame.dtypes)).encode())
        for column in frame:
            digest.update(_content(column))
    return digest.hexdigest()


def _content(column: pl.Series) -> bytes:
    """Return bytes that no other column of its kind and length has.

    Of floats the bytes themselves: to spell them takes long. NaN and null are one, as on the pages.
    """
    if column.dtype.is_float():
        return column.to_numpy().tobytes()
    return repr(column.to_list()).encode("utf-8", "surrogatepass")


@functools.cache
def code_digest() -> str:
    """Return the digest of all code and templates that pages may depend on."""
    digest = hashlib.sha256(repr([importlib.metadata.version(name) for name in _DRAW]).encode())
    for package in _SOURCES:
        found = importlib.util.find_spec(package)
        assert found is not None  # noqa: S101  # this is one of them
        for folder in sorted(found.submodule_search_locations or ()):
            for path in sorted(pathlib.Path(folder).rglob("*")):
                if path.suffix in {".py", ".pyi", ".j2", ".css", ".js", ".sql", ".json"}:
                    digest.update(repr((path.name, path.read_bytes())).encode())
    return digest.hexdigest()


def _seal(pages: Mapping[str, object], key: bytes) -> str:
    return hmac.new(key, json.dumps(pages, sort_keys=True).encode(), "sha256").hexdigest()
