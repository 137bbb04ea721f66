"""Figures that the papers print, read from tests/golden/published."""

import csv
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden" / "published"


def printed(name: str) -> list[dict[str, str]]:
    """Return the rows of one table; its first line says where it is printed."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        title = file.readline()
        assert title.startswith("# Paper 00"), title
        rows = list(csv.DictReader(file))
    assert rows
    return rows
