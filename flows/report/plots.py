"""The plot of the report: every night of a model as lines, by day.

It is small beside other models and large on the model's own page. Its vertical scale is that of the
square root, so that a declaration of 0.5 and a bound of 8 can be distinguished from the axis and
from each other in one small plot.
"""

import itertools

import numpy as np

from flows.report.canvas import Canvas, Scale, Size, day_axis, day_number, unbroken, var
from flows.report.history import Figure, History
from privcore.lower_bounds.verdicts import Verdict

TREND_SMALL = Size(
    name="small", width=226, height=74, left=18, right=4, top=5, bottom=18, ticks=2, step=5
)
TREND_WIDE = Size(name="wide", width=790, height=210, left=30, right=10, top=8, ticks=8)
TREND_NARROW = Size(name="narrow", width=308, height=180, left=30, right=8, top=8, ticks=3)

TREND_LEVELS = (0.0, 0.25, 1.0, 2.25, 4.0, 6.25, 9.0, 12.5, 16.0, 25.0, 36.0, 64.0, 100.0)
"""Lines of the square root's scale, evenly spaced to the eye; every other one in a small plot."""

TREND: dict[str, tuple[Figure, str | None]] = {
    "control": (lambda night: night.control_epsilon_lower, None),
    "muted": (lambda night: night.sees_from_together, "0.1,3"),
    "window": (lambda night: night.epsilon_lower_28_days, "6,4"),
    "bound": (lambda night: night.epsilon_lower, None),
    "ink": (lambda night: night.epsilon_declared, None),
}
"""The lines from the back to the front, by their colours: figures, and dashes for readers who do
not see colours."""

_ROUND = ' stroke-linecap="round" stroke-linejoin="round"'
"""Style of the lines, with which one point alone is a dot."""

TREND_LONGEST = 3_660
"""The most days that are drawn: one record of a wrong year must not cost gigabytes."""

TREND_FEW = 3
"""The most nights that are marked by dots too."""


def top_of_trend(history: History) -> float:
    """Return the largest epsilon that the plot of a model shows."""
    drawn = history.since(TREND_LONGEST)
    return float(np.nanmax([drawn.by_day(figure) for figure, _ in TREND.values()], initial=1.0))


def draw_trend(history: History, size: Size, *, top: float) -> Canvas:
    """Return all nights of a model, the last ten years of them.

    Args:
        history: the model's records; the axis runs from the first to the last of them.
        size: `TREND_SMALL`, `TREND_WIDE` or `TREND_NARROW`.
        top: the largest epsilon on the axis, the same for plots that are to be compared.
    """
    history = history.since(TREND_LONGEST)
    canvas = Canvas(size)
    y = Scale(0.0, top * 1.04, float(size.height), 0.0, "sqrt")
    levels = TREND_LEVELS[::2] if size is TREND_SMALL else TREND_LEVELS
    canvas.y_axis(y, [(level, f"{level:g}") for level in levels if level <= top])
    x = day_axis(canvas, history.nights[0].day, history.latest.day)
    first, last = day_number(history.nights[0].day), day_number(history.latest.day)
    days = x.places(np.arange(first, last + 1, dtype=np.float64))
    for color, (figure, dash) in TREND.items():
        if size is TREND_SMALL and color == "control":
            continue
        found = history.by_day(figure)
        runs = list(unbroken(days, y.places(np.where(found <= top, found, np.nan))))
        dashed = "" if dash is None else f' stroke-dasharray="{dash}"'
        canvas.lines(runs, var(color), f' stroke-width="1.5"{dashed}{_ROUND}')
        for point in itertools.chain(*runs) if len(history.nights) <= TREND_FEW else ():
            canvas.dot(point, var(color), area=16.0)
    for night in history.nights if size is not TREND_SMALL else ():
        proved = night.epsilon_lower
        if night.verdict == Verdict.VIOLATED and proved is not None and proved <= top:
            canvas.dot((x(day_number(night.day)), y(proved)), var("violated"), area=30.0)
    return canvas
