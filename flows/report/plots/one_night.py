"""One night: what was proved, against what was declared, accounted and possible to prove."""

import math
from dataclasses import dataclass
from typing import Any

from flows.report.canvas import Canvas, Size, var
from flows.report.scales import labelled
from flows.report.svg import Drawing
from privcore.rounding import down, exact, up
from workers.warehouse.with_windows import AuditedNight

ROW = 24
WIDE = Size(name="wide", width=600, height=5 * ROW, left=190, right=100, top=22, bottom=26)
NARROW = Size(name="narrow", width=190, height=5 * ROW, left=130, right=26, top=22, bottom=26)

BARS = (
    ("proved", "bound", "epsilon_lower"),
    ("all nights", "window", "epsilon_standing"),
    ("28 nights", "window", "epsilon_lower_28_days"),
    ("the game alone", "bound", "epsilon_game"),
    ("control", "control", "control_epsilon_lower"),
)
"""Bars that are drawn: name, colour, column."""

CEILINGS = {"proved": "epsilon_ceiling", "28 nights": "epsilon_ceiling_28_days"}
"""Columns of the most that a bar could have reached, by its name."""

DASHES = {"accounted": "5,3"}

_CHARACTER = 7.0  # pixels


@dataclass(slots=True)
class _Head:
    """Words above one vertical mark, or above several that are close."""

    place: float
    text: str
    color: str


def draw_comparison(night: AuditedNight, size: Size) -> Drawing:
    """Return the figures of one night as bars against the declaration."""
    bars = [(name, color, _finite(getattr(night, column))) for name, color, column in BARS]
    marks = [
        ("declared", "ink", _finite(night.epsilon_declared), exact),
        ("accounted", "family-2", _finite(night.epsilon_accounted), up),
    ]
    ceilings = {name: _finite(getattr(night, column)) for name, column in CEILINGS.items()}
    known = [value for _, _, value in bars if value is not None]
    known += [value for _, _, value, _ in marks if value is not None]
    known += [value for value in ceilings.values() if value is not None]
    top = max([1.0, *known]) * 1.05
    canvas = Canvas(size)
    x, height = canvas.x_scale(0.0, top), float(size.height)
    canvas.x_axis(x, labelled(0.0, top, 6), grid=True)
    places = [(place * ROW + ROW / 2.0, *bar) for place, bar in enumerate(bars)]
    for row, name, color, value in places:
        canvas.text((-10.0, row), name, var("ink"), anchor="end")
        if value is not None:
            canvas.rect((0.0, row - 6.0), (x(value), row + 6.0), var(f"{color}-fill"))
            canvas.rule((x(value), row - 6.0), (x(value), row + 6.0), var(color), width=3.0)
    for name, color, value, _ in marks:
        if value is not None:
            ends = (x(value), 0.0), (x(value), height)
            canvas.rule(*ends, var(color), width=2.0, dash=DASHES.get(name))
    for row, name, color, value in places:
        written = "" if value is None else down(value)
        end = x(value or 0.0) + 6.0
        if value is not None:
            canvas.text((end, row), written, var(color), bold=True)
        ceiling = ceilings.get(name)
        if ceiling is not None:
            ends = (x(ceiling), row - 9.0), (x(ceiling), row + 9.0)
            canvas.rule(*ends, var(color), width=2.0, dash="1.5,3")
            if size is WIDE:
                beside = max(x(ceiling) + 6.0, end + _CHARACTER * (len(written) + 1))
                canvas.text((beside, row), f"ceiling {up(ceiling)}", var("muted"))
    for head in _heads(marks, size, top):
        canvas.text((head.place, -12.0), head.text, var(head.color), anchor="middle")
    return canvas.drawing()


def _heads(marks: list[tuple[str, str, float | None, Any]], size: Size, top: float) -> list[_Head]:
    """Name the vertical marks above the plot; equal or close ones share a name."""
    heads: list[_Head] = []
    known = [mark for mark in marks if mark[2] is not None]
    for name, color, value, written in sorted(known, key=lambda mark: mark[2] or 0.0):
        place = size.width * (value or 0.0) / top
        text = f"{name} {written(value)}"
        if heads and place - heads[-1].place < _CHARACTER * len(text):
            heads[-1].text += f", {text}"
        else:
            heads.append(_Head(place, text, color))
    return heads


def _finite(value: float | None) -> float | None:
    """Return a figure that can be drawn, or None."""
    return value if value is not None and math.isfinite(value) else None
