"""Every night of one model as lines: small beside the other models, and large on its own page.

The vertical scale is that of the square root, so that a declaration of 0.5 and a bound of 8 can
be distinguished from the axis and from each other in one small plot.
"""

import numpy as np

from flows.report.canvas import Canvas, Size, day_axis, day_number, stepped, unbroken, var
from flows.report.history import Figure, History, values
from flows.report.scales import Scale
from flows.report.svg import Drawing

SMALL = Size(
    name="small", width=226, height=74, left=18, right=4, top=5, bottom=18, ticks=2, step=5
)
WIDE = Size(name="wide", width=790, height=150, left=30, right=10, top=8, ticks=8)
NARROW = Size(name="narrow", width=308, height=150, left=30, right=8, top=8, ticks=3)

LEVELS = (0.0, 1.0, 4.0, 9.0, 16.0, 36.0, 100.0)
"""Lines of the square root's scale: evenly spaced to the eye."""

FIGURES: dict[str, Figure] = {
    "lower": lambda night: night.epsilon_lower,
    "window": lambda night: night.epsilon_lower_28_days,
    "declared": lambda night: night.epsilon_declared,
    "sees": lambda night: night.sees_from_together,
    "control": lambda night: night.control_epsilon_lower,
}


COLORS = {
    "control": "control",
    "sees": "muted",
    "window": "window",
    "lower": "bound",
    "declared": "ink",
}
"""The colour of each figure, from the back to the front."""

LONGEST = 3_660
"""The most days that are drawn: one record of a wrong year must not cost gigabytes."""

DASHES = {"sees": "0.1,3", "window": "6,4"}
"""Lines that are told apart without colours."""

FEW = 3
"""The most nights that are marked by dots too."""


def top_of(history: History) -> float:
    """Return the largest epsilon that the plot of a model shows."""
    return max([1.0, *(value for figure in FIGURES.values() for value in values(history, figure))])


def draw_trend(history: History, size: Size, *, top: float) -> Drawing:
    """Return all nights of a model, the last ten years of them.

    Args:
        history: the model's records; the axis runs from the first to the last of them.
        size: `SMALL`, `WIDE` or `NARROW`.
        top: the largest epsilon on the axis, the same for plots that are to be compared.
    """
    history = history.since(LONGEST)
    canvas = Canvas(size)
    y = canvas.y_scale(0.0, top * 1.04, kind="sqrt")
    canvas.y_axis(y, [(level, f"{level:g}") for level in LEVELS if level <= top])
    x = day_axis(canvas, history.nights[0].day, history.latest.day)
    days = places_of_days(x, history)
    colors = {name: COLORS[name] for name in COLORS if size is not SMALL or name != "control"}
    runs = {}
    for name, color in colors.items():
        found = history.by_day(FIGURES[name])
        runs[name] = list(unbroken(days, y.places(np.where(found <= top, found, np.nan))))
        lines = stepped(runs[name]) if name == "declared" else runs[name]
        canvas.lines(lines, var(color), width=1.5, dash=DASHES.get(name), caps=True)
    if len(history.nights) <= FEW:
        for name, color in colors.items():
            for run in runs[name]:
                for point in run:
                    canvas.dot(point, var(color), area=16.0)
    return canvas.drawing()


def places_of_days(x: Scale, history: History) -> list[float]:
    """Return the pixels of each day from a history's first to its last."""
    first, last = day_number(history.nights[0].day), day_number(history.latest.day)
    return x.places(np.arange(first, last + 1, dtype=np.float64))
