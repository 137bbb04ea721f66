"""A study as cells: computed in parallel, each written when it is done, none computed twice."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from flows.files import replace_file
from flows.progress import announce
from privcore.exceptions import InvalidInputError
from workers.executors import Executor
from workers.versions import METHOD_VERSION

Shared = TypeVar("Shared")
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
class ComputedCell:
    """A cell's rows, sent back from a worker."""

    cell: Cell
    rows: list[CellRow]


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


def compute_cells(
    cells: Sequence[Cell],
    compute: Callable[[Shared, Cell], list[CellRow]],
    shared: Shared,
    *,
    output: pathlib.Path,
    executor: Executor,
    title: str,
) -> Computed:
    """Return the rows of all cells; finished ones are read, not computed.

    `compute` is a function of a module, so that it can travel to other processes; what it finds
    depends on `shared` and the cell alone.
    """
    folder = output / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    known = {cell.name: rows for cell in cells if (rows := _read(folder, cell)) is not None}
    missing = [cell for cell in cells if cell.name not in known]
    if found := len(known):
        title = f"{title} ({found} of {len(cells)} from before)"
    announce(title, len(known), len(cells))
    for computed in executor.map(_compute, (compute, shared), missing):
        _write(folder, computed)
        known[computed.cell.name] = computed.rows
        announce(title, len(known), len(cells))
    rows = [row for cell in cells for row in known[cell.name]]
    return Computed(rows, found, len(cells))


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


def check_scale(scale: float) -> None:
    """Raise `InvalidInputError` unless a study can be run at this scale."""
    if not 0.0 < scale <= 1.0:
        raise InvalidInputError("--scale", scale, "it lies above 0 and is at most 1")


def blocks(total: int, size: int) -> Iterable[tuple[int, int]]:
    """Yield (first, last + 1) of blocks of at most `size`."""
    for start in range(0, total, size):
        yield start, min(start + size, total)


def _compute(
    work: tuple[Callable[[Shared, Cell], list[CellRow]], Shared], cell: Cell
) -> ComputedCell:
    compute, shared = work
    return ComputedCell(cell, compute(shared, cell))


def _path(folder: pathlib.Path, cell: Cell) -> pathlib.Path:
    return folder / f"{cell.name}-{cell.identity}.json"


def _read(folder: pathlib.Path, cell: Cell) -> list[CellRow] | None:
    path = _path(folder, cell)
    if not path.exists():
        return None
    rows: list[CellRow] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _write(folder: pathlib.Path, computed: ComputedCell) -> None:
    replace_file(_path(folder, computed.cell), json.dumps(computed.rows).encode())
