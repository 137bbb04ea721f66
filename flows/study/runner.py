"""One protocol and one runner for all studies.

A study is a module whose function `study` returns a `Study`: the cells to compute (pieces that are
computed in parallel, kept when they are done, none twice), and a function from what they came to to
what is shown of it. `run_study` does all else.
"""

import base64
import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.files import replace_file
from flows.progress import announce
from flows.report.templating import rendered
from flows.study.printed import RULE, Ours, Setting, judged_rows, judged_tables, settings_table
from flows.study.tables import CellRow, StudyTable, write_svg
from privcore.exceptions import InvalidInputError
from workers.executors import Executor, on_ray
from workers.versions import CODE_VERSION, METHOD_VERSION

_STARTING = "Starting workers"


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


def cells_of(part: str, shared: Mapping[str, Any], **choices: Iterable[Any]) -> list[Cell]:
    """Return a part's cells, one for each combination of choices; all depend on `shared`."""
    return [
        Cell(
            "-".join([part, *(str(value) for value in chosen)]),
            {"part": part, **shared, **dict(zip(choices, chosen, strict=True))},
        )
        for chosen in itertools.product(*choices.values())
    ]


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
    """Make the study's folder, or raise `InvalidInputError`."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"no folder can be made there: {error.strerror}"
        raise InvalidInputError("--output", str(output), rule) from None


def blocks(total: int, size: int) -> Iterable[tuple[int, int]]:
    """Yield (first, last + 1) of blocks of at most `size`."""
    for start in range(0, total, size):
        yield start, min(start + size, total)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Output of a study: words, tables, rows of CSV files and drawings of SVG files by name.

    The runner judges `ours`, our values of what papers print, and makes tables of them.
    """

    sentences: Sequence[str]
    tables: Sequence[StudyTable] = ()
    ours: Sequence[Ours] = ()
    data: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """One study.

    Attributes:
        name: of its progress bar.
        compute: from `shared` and a cell to its rows; it travels to other processes.
        show: from `shared` and all rows to what is shown of them.
        drawn: the scale and the seed, in words; empty where nothing is drawn at random.
    """

    name: str
    title: str
    cells: Sequence[Cell]
    compute: Callable[[Any, Cell], list[CellRow]]
    shared: Any
    show: Callable[[Any, Computed], Shown]
    settings: Sequence[Setting] = ()
    drawn: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a study: tables and findings to print, and the places of its files."""

    tables: tuple[StudyTable, ...]
    sentences: tuple[str, ...]
    files: tuple[pathlib.Path, ...]

    def as_json(self) -> str:
        """Return tables, findings and files as one JSON object."""
        tables = []
        for table in self.tables:
            names = [name for name, _ in table.columns]
            rows = [dict(zip(names, row, strict=True)) for row in table.rows]
            tables.append({"title": table.title, "rows": rows})
        files = [str(file) for file in self.files]
        told = {"tables": tables, "findings": list(self.sentences), "files": files}
        return json.dumps(told, indent=2)


def run_study(study: Study, output: pathlib.Path) -> Written:
    """Compute a study on this machine's processors, and write its files."""
    announce(_STARTING, 0, 1)
    with on_ray() as executor:
        announce(_STARTING, 1, 1)
        found = compute_study(study, output, executor)
    return write_study(study, found, output)


def compute_study(study: Study, output: pathlib.Path, executor: Executor) -> Computed:
    """Return the rows of all cells; each is kept in the folder as soon as it is computed.

    Cells that an earlier run left there are read.
    """
    folder = output / "cells"
    make_folder(folder)
    paths = {cell.name: folder / f"{cell.name}-{cell.identity}.json" for cell in study.cells}
    known: dict[str, list[CellRow]] = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }
    found, title = len(known), study.name
    if found:
        title = f"{title} ({found} of {len(paths)} from before)"
    announce(title, found, len(paths))
    missing = [cell for cell in study.cells if cell.name not in known]
    for name, rows in executor.map(_compute, (study.compute, study.shared), missing):
        replace_file(paths[name], json.dumps(rows).encode())
        known[name] = rows
        announce(title, len(known), len(paths))
    return Computed([row for name in paths for row in known[name]], found, len(paths))


def kept_arrays(
    output: pathlib.Path, cell: Cell, compute: Callable[[], Sequence[NDArray[Any]]]
) -> list[NDArray[Any]]:
    """Return arrays that all cells share, computed once and kept in the study's folder."""
    make_folder(output)
    path = output / f"{cell.name}-{cell.identity}.npz"
    if not path.exists():
        part = path.with_suffix(".part")
        announce(cell.name.capitalize(), 0, 1)
        with part.open("wb") as file:
            np.savez(file, *compute())
        part.replace(path)
        announce(cell.name.capitalize(), 1, 1)
    with np.load(path) as found:
        return [found[name] for name in found.files]


def _compute(
    work: tuple[Callable[[Any, Cell], list[CellRow]], Any], cell: Cell
) -> tuple[str, list[CellRow]]:
    compute, shared = work
    return cell.name, compute(shared, cell)


def write_study(study: Study, found: Computed, output: pathlib.Path) -> Written:
    """Write what a study shows of its cells' rows."""
    shown = study.show(study.shared, found)
    data, tables = dict(shown.data), list(shown.tables)
    said = [f"Method version {METHOD_VERSION}.", study.drawn, *shown.sentences]
    said = [*found.resumed, *(sentence for sentence in said if sentence)]
    if shown.ours:
        rows = judged_rows(shown.ours, study.settings)
        version = pl.lit(METHOD_VERSION).alias("method_version")
        data["published"] = pl.DataFrame(rows).with_columns(version)
        tables = [*judged_tables(rows), *tables]
        tables += [settings_table(study.settings)] if study.settings else []
        said.append(RULE)
    whole = dataclasses.replace(shown, sentences=said, tables=tables, data=data)
    return write_shown(whole, output, title=study.title)


def write_shown(shown: Shown, output: pathlib.Path, *, title: str) -> Written:
    """Write the data (CSV), the drawings (SVG), a page, and the page's words and tables (JSON)."""
    make_folder(output)
    tables = [output / f"{name}.csv" for name in shown.data]
    for path, frame in zip(tables, shown.data.values(), strict=True):
        frame.write_csv(path)
    drawings = [output / f"{name}.svg" for name in shown.figures]
    for path, drawing in zip(drawings, shown.figures.values(), strict=True):
        write_svg(drawing, path)
    page, told = output / "index.html", output / "study.json"
    text = rendered(
        "study.html.j2",
        title=title,
        sentences=shown.sentences,
        tables=shown.tables,
        drawings=[
            (drawing.stem.replace("_", " "), base64.b64encode(drawing.read_bytes()).decode())
            for drawing in drawings
        ],
        version=CODE_VERSION,
    )
    replace_file(page, text.encode())
    files = (*tables, *drawings, told, page)
    written = Written(tuple(shown.tables), tuple(shown.sentences), files)
    replace_file(told, f"{written.as_json()}\n".encode())
    return written
