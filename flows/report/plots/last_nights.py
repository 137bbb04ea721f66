"""The last nights of one model: what was proved each night, against what was declared.

A bar reaches from zero to the audited bound: everything under its top is proved, nothing above it
is ruled out. What stands above the declaration takes the verdict's colour.
"""

import datetime as dt
import math
from dataclasses import dataclass

from flows.report.canvas import (
    SHAPES,
    Canvas,
    Size,
    day_axis,
    day_number,
    spread,
    stepped,
    unbroken,
    var,
)
from flows.report.history import Figure, History, control_leaks, last_value, values
from flows.report.plots.trend import places_of_days
from flows.report.scales import Scale, labelled
from flows.report.signs import SIGNS
from flows.report.svg import Drawing, Point
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import exact, up
from workers.warehouse.with_windows import AuditedNight

SHOWN = 42
"""The most nights that are drawn as bars; the trend shows all of them."""

FEWEST = 7
"""The least number of days that the axis has room for."""

WIDE = Size(name="wide", width=676, height=250, left=30, right=124, top=28, ticks=9)
NARROW = Size(name="narrow", width=308, height=220, left=30, right=8, top=28, ticks=4)

CEILING_REACH = 3.0
"""A ceiling above this multiple of the other figures is named at the edge and not drawn."""

LABEL_GAP = 15.0
"""Least distance between the middles of two direct labels, in pixels."""

HALF_BAR = 0.31
"""Half the width of a bar, as a share of its day."""

NAMED: tuple[tuple[str, str, Figure], ...] = (
    ("ceiling of 28", "window", lambda night: night.epsilon_ceiling_28_days),
    ("ceiling", "muted", lambda night: night.epsilon_ceiling),
    ("declared", "ink", lambda night: night.epsilon_declared),
    ("28 nights", "window", lambda night: night.epsilon_lower_28_days),
    ("proved", "bound", lambda night: night.epsilon_lower),
    ("control", "control", lambda night: night.control_epsilon_lower),
)
"""Entries beside the plot: words, colour, figure."""

CEILINGS: dict[str, Figure] = {
    "ceiling": lambda night: night.epsilon_ceiling,
    "window-ceiling": lambda night: night.epsilon_ceiling_28_days,
}
"""The most that could have been proved: by one night, and by 28 together."""


def draw_nights(history: History, size: Size) -> Drawing:
    """Return the last nights of a model.

    A night without figures is shaded and has no bar; one on which the control leaks is shaded
    in the control's colour; the sign of each night's verdict stands above it.
    """
    shown = history.since(SHOWN)
    last = shown.latest.day
    first = min(shown.nights[0].day, last - dt.timedelta(days=FEWEST - 1))
    top, day_width = _top(shown), size.width / ((last - first).days + 1)
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
    shown = history.since(SHOWN)
    present = {
        "bound": bool(shown.evaluated),
        "excess": any(_exceeds(night) for night in shown.evaluated),
        "window": last_value(shown, lambda night: night.epsilon_lower_28_days) is not None,
        "declared": last_value(shown, lambda night: night.epsilon_declared) is not None,
        "control": last_value(shown, lambda night: night.control_epsilon_lower) is not None,
        **{name: last_value(shown, figure) is not None for name, figure in CEILINGS.items()},
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
        if night.epsilon_declared is not None and _finite(night.epsilon_declared):
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
    for color, figure in zip(("muted", "window"), CEILINGS.values(), strict=True):
        if max(values(shown, figure), default=0.0) <= y.high:
            canvas.lines(stepped(runs(figure)), var(color), width=1.5, dash="0.1,4", caps=True)


def _draw_marks(plot: _Plot, shown: History, *, area: float) -> None:
    """Draw the control's bound of each night, full where it leaks, and the verdict's sign."""
    canvas, x = plot.canvas, plot.x
    for night in shown.nights:
        control = night.control_epsilon_lower
        if control is not None and _finite(control):
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
    if size is not WIDE:
        return []
    last = [(text, color, last_value(history, figure)) for text, color, figure in NAMED]
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


def _top(history: History) -> float:
    """Return the top of the epsilon axis: above all figures, and the ceilings that are near."""
    figures = [figure for text, _, figure in NAMED if not text.startswith("ceiling")]
    most = max([0.5, *(value for figure in figures for value in values(history, figure))])
    top = 1.12 * most
    highest = [max(values(history, figure), default=0.0) for figure in CEILINGS.values()]
    return max([top, *(1.06 * high for high in highest if high <= CEILING_REACH * top)])


def _verdict_color(night: AuditedNight) -> str:
    return SIGNS[Verdict(night.verdict)].color


def _exceeds(night: AuditedNight) -> bool:
    """Return whether the bound stands above the declaration."""
    lower, declared = night.epsilon_lower, night.epsilon_declared
    return lower is not None and declared is not None and lower > declared


def _finite(value: float | None) -> bool:
    """Return whether a figure can be drawn."""
    return value is not None and math.isfinite(value)
