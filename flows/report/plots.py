"""The plots of the report, each described once for a size and drawn with the rows of one model.

Every night of a model is a trend of lines, small beside other models and large on its own page. Its
vertical scale is that of the square root, so that a declaration of 0.5 and a bound of 8 can be
distinguished from the axis and from each other in one small plot.

The last nights are bars, which reach from zero to the audited bound: everything under a top is
proved, nothing above it is ruled out. What stands above the declaration takes the verdict's colour.
"""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.report.canvas import (
    SHAPES,
    SIGNS,
    Canvas,
    Drawing,
    Point,
    Scale,
    Size,
    day_axis,
    day_number,
    labelled,
    spread,
    stepped,
    unbroken,
    var,
)
from flows.report.history import Figure, History, control_leaks, last_value, values
from privcore.lower_bounds.question import refutes
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import exact, up
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import BoundRow

TREND_SMALL = Size(
    name="small", width=226, height=74, left=18, right=4, top=5, bottom=18, ticks=2, step=5
)
TREND_WIDE = Size(name="wide", width=790, height=150, left=30, right=10, top=8, ticks=8)
TREND_NARROW = Size(name="narrow", width=308, height=150, left=30, right=8, top=8, ticks=3)

TREND_LEVELS = (0.0, 1.0, 4.0, 9.0, 16.0, 36.0, 100.0)
"""Lines of the square root's scale: evenly spaced to the eye."""

TREND_FIGURES: dict[str, Figure] = {
    "lower": lambda night: night.epsilon_lower,
    "window": lambda night: night.epsilon_lower_28_days,
    "declared": lambda night: night.epsilon_declared,
    "sees": lambda night: night.sees_from_together,
    "control": lambda night: night.control_epsilon_lower,
}


TREND_COLORS = {
    "control": "control",
    "sees": "muted",
    "window": "window",
    "lower": "bound",
    "declared": "ink",
}
"""The colour of each figure, from the back to the front."""

TREND_LONGEST = 3_660
"""The most days that are drawn: one record of a wrong year must not cost gigabytes."""

TREND_DASHES = {"sees": "0.1,3", "window": "6,4"}
"""Lines that are told apart without colours."""

TREND_FEW = 3
"""The most nights that are marked by dots too."""


def top_of_trend(history: History) -> float:
    """Return the largest epsilon that the plot of a model shows."""
    return max(
        [1.0, *(value for figure in TREND_FIGURES.values() for value in values(history, figure))]
    )


def draw_trend(history: History, size: Size, *, top: float) -> Drawing:
    """Return all nights of a model, the last ten years of them.

    Args:
        history: the model's records; the axis runs from the first to the last of them.
        size: `TREND_SMALL`, `TREND_WIDE` or `TREND_NARROW`.
        top: the largest epsilon on the axis, the same for plots that are to be compared.
    """
    history = history.since(TREND_LONGEST)
    canvas = Canvas(size)
    y = canvas.y_scale(0.0, top * 1.04, kind="sqrt")
    canvas.y_axis(y, [(level, f"{level:g}") for level in TREND_LEVELS if level <= top])
    x = day_axis(canvas, history.nights[0].day, history.latest.day)
    days = places_of_days(x, history)
    colors = {
        name: TREND_COLORS[name]
        for name in TREND_COLORS
        if size is not TREND_SMALL or name != "control"
    }
    runs = {}
    for name, color in colors.items():
        found = history.by_day(TREND_FIGURES[name])
        runs[name] = list(unbroken(days, y.places(np.where(found <= top, found, np.nan))))
        lines = stepped(runs[name]) if name == "declared" else runs[name]
        canvas.lines(lines, var(color), width=1.5, dash=TREND_DASHES.get(name), caps=True)
    if len(history.nights) <= TREND_FEW:
        for name, color in colors.items():
            for run in runs[name]:
                for point in run:
                    canvas.dot(point, var(color), area=16.0)
    return canvas.drawing()


def places_of_days(x: Scale, history: History) -> list[float]:
    """Return the pixels of each day from a history's first to its last."""
    first, last = day_number(history.nights[0].day), day_number(history.latest.day)
    return x.places(np.arange(first, last + 1, dtype=np.float64))


NIGHTS_SHOWN = 42
"""The most nights that are drawn as bars; the trend shows all of them."""

FEWEST_NIGHTS = 7
"""The least number of days that the axis has room for."""

NIGHTS_WIDE = Size(name="wide", width=676, height=250, left=30, right=124, top=28, ticks=9)
NIGHTS_NARROW = Size(name="narrow", width=308, height=220, left=30, right=8, top=28, ticks=4)

CEILING_REACH = 3.0
"""A ceiling above this multiple of the other figures is named at the edge and not drawn."""

LABEL_GAP = 15.0
"""Least distance between the middles of two direct labels, in pixels."""

HALF_BAR = 0.31
"""Half the width of a bar, as a share of its day."""

NIGHTS_NAMED: tuple[tuple[str, str, Figure], ...] = (
    ("ceiling of 28", "window", lambda night: night.epsilon_ceiling_28_days),
    ("ceiling", "muted", lambda night: night.epsilon_ceiling),
    ("declared", "ink", lambda night: night.epsilon_declared),
    ("28 nights", "window", lambda night: night.epsilon_lower_28_days),
    ("proved", "bound", lambda night: night.epsilon_lower),
    ("holdout", "control", lambda night: night.control_epsilon_lower),
)
"""Entries beside the plot: words, colour, figure."""

NIGHTS_CEILINGS: dict[str, Figure] = {
    "ceiling": lambda night: night.epsilon_ceiling,
    "window-ceiling": lambda night: night.epsilon_ceiling_28_days,
}
"""The most that could have been proved: by one night, and by 28 together."""


def draw_nights(history: History, size: Size) -> Drawing:
    """Return the last nights of a model.

    A night without figures is shaded and has no bar; one on which the control leaks is shaded
    in the control's colour; the sign of each night's verdict stands above it.
    """
    shown = history.since(NIGHTS_SHOWN)
    last = shown.latest.day
    first = min(shown.nights[0].day, last - dt.timedelta(days=FEWEST_NIGHTS - 1))
    top, day_width = _top_of_nights(shown), size.width / ((last - first).days + 1)
    canvas = Canvas(size)
    y = canvas.y_scale(0.0, top)
    canvas.y_axis(y, labelled(0.0, top, 5))
    plot = _Plot(canvas, day_axis(canvas, first, last), y)
    for nights, color in ((shown.unevaluated, "silent"), (shown.control_leaks, "leak")):
        for night in nights:
            left, right = plot.span(night.day, 0.5)
            canvas.rect((left, 0.0), (right, float(size.height)), var(color))
    for night in shown.nights:
        if night.epsilon_lower is not None:
            _draw_bar(plot, night, night.epsilon_lower)
    _draw_lines(plot, shown)
    _draw_marks(plot, shown, area=max(3.0, min(12.0, 0.7 * day_width)) ** 2)
    for text, color, place in _names(shown, size, top):
        canvas.text((size.width + 8.0, place), text, var(color))
    return canvas.drawing()


def series(history: History) -> tuple[str, ...]:
    """Return which series the plot of a model shows, for its key."""
    shown = history.since(NIGHTS_SHOWN)
    present = {
        "bound": bool(shown.evaluated),
        "excess": any(_exceeds(night) for night in shown.evaluated),
        "window": last_value(shown, lambda night: night.epsilon_lower_28_days) is not None,
        "declared": last_value(shown, lambda night: night.epsilon_declared) is not None,
        "control": last_value(shown, lambda night: night.control_epsilon_lower) is not None,
        **{name: last_value(shown, figure) is not None for name, figure in NIGHTS_CEILINGS.items()},
        "leak": bool(shown.control_leaks),
        "silent": bool(shown.unevaluated),
    }
    return tuple(name for name, there in present.items() if there)


@dataclass(frozen=True, slots=True)
class _Plot:
    """A canvas with its scales: of day numbers and of epsilon."""

    canvas: Canvas
    x: Scale
    y: Scale

    def span(self, day: dt.date, half: float) -> tuple[float, float]:
        """Return the pixels of a day's middle less and plus a share of the day."""
        return self.x(day_number(day) - half), self.x(day_number(day) + half)


def _draw_bar(plot: _Plot, night: AuditedNight, lower: float) -> None:
    """Stand a bar from zero to the bound, the part above the declaration apart.

    The line that closes it keeps a bound of zero, which is a result, visible.
    """
    canvas, y = plot.canvas, plot.y
    left, right = plot.span(night.day, HALF_BAR)
    color, border = "bound", lower
    if _exceeds(night):
        color, border = _verdict_color(night), night.epsilon_declared or 0.0
        canvas.rect((left, y(lower)), (right, y(border)), var(f"{color}-fill"))
    canvas.rect((left, y(border)), (right, y(0.0)), var("bound-fill"))
    canvas.rule((left, y(lower)), (right, y(lower)), var(color), width=3.0)


def _draw_lines(plot: _Plot, shown: History) -> None:
    """Draw declaration, window and ceilings; a night without a figure breaks a line."""
    canvas, x, y = plot.canvas, plot.x, plot.y
    declared: list[list[Point]] = []
    for night in shown.nights:
        if night.epsilon_declared is not None and _can_be_drawn(night.epsilon_declared):
            left, right = plot.span(night.day, 0.5)
            height = y(night.epsilon_declared)
            joined = declared and declared[-1][-1] == (left, height)
            declared = declared if joined else [*declared, [(left, height)]]
            declared[-1].append((right, height))
    canvas.lines(declared, var("ink"), width=2.0)
    days = places_of_days(x, shown)

    def runs(figure: Figure) -> list[list[Point]]:
        return list(unbroken(days, y.places(shown.by_day(figure))))

    canvas.lines(
        runs(lambda night: night.epsilon_lower_28_days), var("window"), width=1.75, dash="6,4"
    )
    for color, figure in zip(("muted", "window"), NIGHTS_CEILINGS.values(), strict=True):
        if max(values(shown, figure), default=0.0) <= y.high:
            canvas.lines(stepped(runs(figure)), var(color), width=1.5, dash="0.1,4", caps=True)


def _draw_marks(plot: _Plot, shown: History, *, area: float) -> None:
    """Draw the control's bound of each night, full where it leaks, and the verdict's sign."""
    canvas, x = plot.canvas, plot.x
    for night in shown.nights:
        control = night.control_epsilon_lower
        if control is not None and _can_be_drawn(control):
            at, fill = (x(day_number(night.day)), plot.y(control)), var("page")
            if control_leaks(night):
                fill = var("control")
            diamond, size = SHAPES["diamond"], min(44.0, area)
            canvas.mark(at, diamond, area=size, stroke=var("control"), fill=fill, width=1.25)
    for night in shown.nights:
        sign = SIGNS[Verdict(night.verdict)]
        at = (x(day_number(night.day)), -16.0)
        canvas.mark(at, sign.path, area=area, stroke=var(sign.color), width=1.75)


def _names(history: History, size: Size, top: float) -> list[tuple[str, str, float]]:
    """Name each series at its last figure, pushed apart where names would overlap."""
    if size is not NIGHTS_WIDE:
        return []
    last = [(text, color, last_value(history, figure)) for text, color, figure in NIGHTS_NAMED]
    named = [(text, color, value) for text, color, value in last if value is not None]
    named.sort(key=lambda entry: -entry[2])
    heights = [size.height * (1.0 - min(value, top) / top) for _, _, value in named]
    places = spread(heights, gap=LABEL_GAP, lowest=size.height)
    return [
        (_named(text, value, top), color, place)
        for (text, color, value), place in zip(named, places, strict=True)
    ]


def _named(text: str, value: float, top: float) -> str:
    """Word a name; what lies beyond the top says how far."""
    if value > top:
        return f"{text} {up(value, decimals=1)} ↑"
    return f"{text} {exact(value)}" if text == "declared" else text


def _top_of_nights(history: History) -> float:
    """Return the top of the epsilon axis: above all figures, and the ceilings that are near."""
    figures = [figure for text, _, figure in NIGHTS_NAMED if not text.startswith("ceiling")]
    most = max([0.5, *(value for figure in figures for value in values(history, figure))])
    top = 1.12 * most
    highest = [max(values(history, figure), default=0.0) for figure in NIGHTS_CEILINGS.values()]
    return max([top, *(1.06 * high for high in highest if high <= CEILING_REACH * top)])


def _verdict_color(night: AuditedNight) -> str:
    return SIGNS[Verdict(night.verdict)].color


def _exceeds(night: AuditedNight) -> bool:
    """Return whether the bound refutes the declaration."""
    lower, declared = night.epsilon_lower, night.epsilon_declared
    return lower is not None and declared is not None and refutes(lower, declared)


def _can_be_drawn(value: float | None) -> bool:
    """Return whether a figure can be drawn."""
    return value is not None and math.isfinite(value)


HALF = Size(name="half", width=326, height=190, left=40, right=14, top=10, bottom=44)
FAMILIES = {
    "pure_dp": ("pure", "family-1"),
    "approx_dp": ("(epsilon, delta)", "family-2"),
    "gaussian": ("Gaussian", "family-3"),
}
"""Name of each family in text, and its colour."""

OUTLINES = {"approx_dp": "square", "gaussian": "triangle"}
"""Mark of each family but the pure one, whose mark is a circle."""

AREAS = {"pure_dp": 110, "approx_dp": 30, "gaussian": 44}
"""Families that agree lie upon each other: the larger mark shows behind the smaller."""


def draw_curve(bounds: Sequence[BoundRow], *, top: float) -> Drawing:
    """Return the bounds of one arm.

    Args:
        bounds: of one arm, any families.
        top: the largest epsilon on the axis, the same for both arms.
    """
    canvas = Canvas(HALF)
    least = 100.0 * min((row.fraction for row in bounds), default=0.01)
    x = canvas.x_scale(least, 100.0, kind="log")
    named = [(value, f"{value:g}%") for value in (0.1, 1.0, 10.0, 100.0) if value >= least]
    canvas.x_axis(x, named, title="share of records guessed on")
    y = canvas.y_scale(0.0, top * 1.08)
    canvas.y_axis(y, labelled(0.0, y.high, 5))
    families: dict[str, list[BoundRow]] = {}
    for row in sorted(bounds, key=lambda row: (-_area(row.family), row.fraction)):
        families.setdefault(row.family, []).append(row)
    lines = {
        family: [(x(100.0 * row.fraction), y(row.epsilon_lower)) for row in rows]
        for family, rows in families.items()
    }
    for family, points in lines.items():
        canvas.lines([points], var(family_color(family)), width=1.5)
    for family, points in lines.items():
        color, area = var(family_color(family)), float(_area(family))
        for point in points:
            if family == "pure_dp":
                canvas.dot(point, var("page"), area=area, stroke=color)
            else:
                shape = SHAPES[OUTLINES.get(family, "cross")]
                canvas.mark(point, shape, area=area, stroke=color, fill=color)
    return canvas.drawing()


def family_color(family: str) -> str:
    """Return the name of a family's colour."""
    return FAMILIES.get(family, (family, "muted"))[1]


def _area(family: str) -> int:
    """Return the area of a family's marks."""
    return AREAS.get(family, 30)
