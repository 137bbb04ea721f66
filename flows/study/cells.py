"""A study as cells: pieces that are computed in parallel, kept when they are done, none twice."""

import hashlib
import json
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.exceptions import InvalidInputError
from workers.versions import METHOD_VERSION

CellRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of a study; everything that its numbers depend on."""

    name: str
    parameters: dict[str, Any]

    @property
    def identity(self) -> str:
        """A digest of parameters and method: another scale, seed or method is another cell."""
        text = json.dumps([METHOD_VERSION, self.parameters], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Computed:
    """All cells' rows, and how many cells an earlier run had left."""

    cell_rows: Sequence[CellRow]
    found: int
    cells: int

    @property
    def rows(self) -> pl.DataFrame:
        """All rows, with the columns of all parts."""
        return pl.DataFrame(self.cell_rows, infer_schema_length=None)

    def part(self, name: str) -> pl.DataFrame:
        """Return the rows whose `part` is this, with its columns alone."""
        rows = [row for row in self.cell_rows if row["part"] == name]
        return pl.DataFrame(rows, infer_schema_length=None).drop("part")

    @property
    def resumed(self) -> list[str]:
        """Sentence about an earlier run, if there was one; none otherwise."""
        if not self.found:
            return []
        words = "parts were finished by an earlier run with the same settings: they were read, not"
        return [f"{self.found} of {self.cells} {words} computed again."]


def make_folder(output: pathlib.Path) -> None:
    """Make the study's folder.

    Raises:
        InvalidInputError: it cannot be made.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"no folder can be made there: {error.strerror}"
        raise InvalidInputError("--output", str(output), rule) from None


def blocks(total: int, size: int) -> Iterable[tuple[int, int]]:
    """Yield (first, last + 1) of blocks of at most `size`."""
    for start in range(0, total, size):
        yield start, min(start + size, total)
