"""Every night of one model as lines: small beside the other models, and large on its own page.

The vertical scale is that of the square root, so that a declaration of 0.5 and a ceiling of 8 can
be distinguished from the axis and from each other in one small plot.
"""

import datetime as dt
import functools
import math
from typing import Any

import altair as alt

from flows.report.canvas import (
    DAY_SIGNALS,
    Drawing,
    Size,
    compiled,
    day_channel,
    day_number,
    day_signals,
    layer,
    own,
    signal,
    var,
)
from flows.report.history import AuditedNight, Figure, History, values

SMALL = Size(name="small", width=226, height=74, left=18, right=4, top=5, bottom=18, ticks=2)
WIDE = Size(name="wide", width=790, height=150, left=30, right=10, top=8, ticks=8)
NARROW = Size(name="narrow", width=308, height=150, left=30, right=8, top=8, ticks=3)

LEVELS = (0.0, 1.0, 4.0, 9.0, 16.0, 36.0, 100.0)
"""Lines of the square root's scale: evenly spaced to the eye."""

FIGURES: dict[str, Figure] = {
    "lower": lambda night: night.epsilon_lower,
    "window": lambda night: night.epsilon_lower_28_days,
    "declared": lambda night: night.epsilon_declared,
    "ceiling": lambda night: night.epsilon_ceiling,
    "control": lambda night: night.control_epsilon_lower,
}


COLORS = {
    "ceiling": "muted",
    "control": "control",
    "window": "window",
    "lower": "bound",
    "declared": "ink",
}
"""The colour of each figure, from the back to the front."""

LONGEST = 3_660
"""The most days that are drawn: one record of a wrong year must not cost gigabytes."""

FEW = 3
"""The most nights that are marked by dots too."""


def top_of(history: History) -> float:
    """Return the largest epsilon that the plot of a model shows."""
    return max([1.0, *(value for figure in FIGURES.values() for value in values(history, figure))])


def draw_trend(history: History, size: Size, *, top: float) -> str:
    """Return all nights of a model as SVG, the last ten years of them.

    Args:
        history: the model's records; the axis runs from the first to the last of them.
        size: `SMALL`, `WIDE` or `NARROW`.
        top: the largest epsilon on the axis, the same for plots that are to be compared.
    """
    history = history.since(LONGEST)
    return _drawing(size).draw(
        {
            "nights": [_row(day, night, top) for day, night in history.every_day()],
            "dots": _dots(history, top) if len(history.nights) <= FEW else [],
        },
        top=top * 1.04,
        levels=[level for level in LEVELS if level <= top],
        **day_signals(history.nights[0].day, history.latest.day, ticks=size.ticks),
    )


@functools.cache
def _drawing(size: Size) -> Drawing:
    """Describe the plot, from the back to the front."""
    nights, x = layer("nights"), day_channel("day")
    dashes: dict[str, list[float]] = {
        "ceiling": [0.1, 3],
        "window": [6, 4],
    }  # told apart without colours
    lines = [
        nights.mark_line(
            stroke=var(color),
            strokeWidth=1.5,
            strokeDash=dashes.get(name, []),
            strokeCap="round",
            strokeJoin="round",
            interpolate="step" if name == "declared" else "linear",
        ).encode(x=x, y=_y(name))
        for name, color in COLORS.items()
    ]
    dots = layer("dots").mark_circle(size=16, opacity=1)
    color = alt.Color(**own("color:N"))
    layers = [*lines, dots.encode(x=x, y=_y("value"), color=color)]
    return compiled(layers, size, top=1.0, levels=[], **DAY_SIGNALS)


def _y(field: str) -> alt.Y:
    """Return the epsilon channel on the square root's scale."""
    axis = alt.Axis(values=signal("levels"), title=None, tickSize=0, domain=False, grid=True)
    scale = alt.Scale(type="sqrt", domainMin=0.0, domainMax=signal("top"), nice=False)
    return alt.Y(f"{field}:Q", scale=scale, axis=axis)


def _row(day: dt.date, night: AuditedNight | None, top: float) -> dict[str, Any]:
    """Return the figures of one day; an absent one breaks its line."""
    found = {name: None if night is None else figure(night) for name, figure in FIGURES.items()}
    return {"day": day_number(day)} | {
        name: value if value is not None and math.isfinite(value) and value <= top else None
        for name, value in found.items()
    }


def _dots(history: History, top: float) -> list[dict[str, Any]]:
    """Mark the figures of nights that are too few for a line to be seen."""
    return [
        {"day": row["day"], "value": row[name], "color": var(color)}
        for day, night in history.every_day()
        for row in [_row(day, night, top)]
        for name, color in COLORS.items()
        if row[name] is not None
    ]
