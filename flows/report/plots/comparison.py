"""One night: what was proved, against what was declared, accounted and possible to prove."""

import functools
import math
from typing import Any

import altair as alt

from flows.report.canvas import Drawing, Size, compiled, layer, own, signal, var
from flows.report.history import AuditedNight
from privcore.rounding import down, exact, up

ROW = 24
WIDE = Size(name="wide", width=600, height=5 * ROW, left=190, right=40, top=22, bottom=26)
NARROW = Size(name="narrow", width=190, height=5 * ROW, left=130, right=26, top=22, bottom=26)

BARS = (
    ("at least", "bound", "epsilon_lower"),
    ("all nights", "window", "epsilon_standing"),
    ("28 nights", "window", "epsilon_lower_28_days"),
    ("the game alone", "bound", "epsilon_game"),
    ("control", "control", "control_epsilon_lower"),
)
"""Bars that are drawn: name, colour, column."""


def draw_comparison(night: AuditedNight, size: Size) -> str:
    """Return the figures of one night as bars against the declaration, as SVG."""
    bars = [(name, color, _finite(getattr(night, column))) for name, color, column in BARS]
    marks = [
        ("declared", "ink", _finite(night.epsilon_declared), exact),
        ("accounted", "family-2", _finite(night.epsilon_accounted), up),
        ("ceiling", "muted", _finite(night.epsilon_ceiling), up),
    ]
    known = [value for _, _, value in bars if value is not None]
    known += [value for _, _, value, _ in marks if value is not None]
    top = max([1.0, *known]) * 1.05
    return _drawing(size).draw(
        {
            "bars": [
                {
                    "row": place * ROW + ROW / 2,
                    "name": name,
                    "value": value,
                    "text": down(value),
                    "color": var(color),
                    "fill": var(f"{color}-fill"),
                }
                for place, (name, color, value) in enumerate(bars)
            ],
            "marks": [
                {"value": value, "color": var(color), "dash": name}
                for name, color, value, _ in marks
                if value is not None
            ],
            "heads": _heads(marks, size, top),
        },
        top=top,
    )


@functools.cache
def _drawing(size: Size) -> Drawing:
    """Describe the plot, from the back to the front."""
    scale = alt.Scale(domainMin=0.0, domainMax=signal("top"), nice=False, zero=True)
    axis = alt.Axis(tickCount=6, title=None, tickSize=0, domain=False, grid=True)
    x = alt.X("value:Q", scale=scale, axis=axis)
    row = alt.Y("row:Q", scale=None, axis=None)
    color = alt.Color(**own("color:N"))
    full = {"y": alt.value(0), "y2": alt.value(size.height)}
    dash = alt.StrokeDash(
        "dash:N",
        scale=alt.Scale(
            domain=["declared", "accounted", "ceiling"], range=[[1, 0], [5, 3], [1.5, 3]]
        ),
        legend=None,
    )
    bars = layer("bars")
    layers = [
        bars.mark_bar(height=12).encode(
            x=x, x2=alt.datum(0), y=row, color=alt.Color(**own("fill:N"))
        ),
        bars.mark_tick(orient="vertical", thickness=3, height=12, opacity=1).encode(
            x=x, y=row, color=color
        ),
        bars.mark_text(align="right", baseline="middle", fontSize=12, fill=var("ink")).encode(
            x=alt.value(-10), y=row, text="name:N"
        ),
        layer("marks").mark_rule(strokeWidth=2).encode(x=x, **full, color=color, strokeDash=dash),
        bars.mark_text(align="left", baseline="middle", fontSize=12, dx=6, fontWeight=600).encode(
            x=x, y=row, text="text:N", color=color
        ),
        layer("heads")
        .mark_text(align="center", baseline="bottom", fontSize=12)
        .encode(
            x=alt.X("place:Q", scale=None, axis=None),
            y=alt.value(-5),
            text="text:N",
            color=color,
        ),
    ]
    return compiled(layers, size, top=1.0)


def _heads(
    marks: list[tuple[str, str, float | None, Any]], size: Size, top: float
) -> list[dict[str, Any]]:
    """Name the vertical marks above the plot; equal or close ones share a name."""
    heads: list[dict[str, Any]] = []
    known = [mark for mark in marks if mark[2] is not None]
    for name, color, value, written in sorted(known, key=lambda mark: mark[2] or 0.0):
        place = size.width * (value or 0.0) / top
        text = f"{name} {written(value)}"
        if heads and place - heads[-1]["place"] < 7.0 * len(text):
            heads[-1]["text"] += f", {text}"
        else:
            heads.append({"place": place, "text": text, "color": var(color)})
    return heads


def _finite(value: float | None) -> float | None:
    """Return a figure that can be drawn, or None."""
    return value if value is not None and math.isfinite(value) else None
