"""The last nights of one model: what was proved each night, against what was declared.

A bar reaches from zero to the audited bound: everything under its top is proved, nothing above it
is ruled out. What stands above the declaration takes the verdict's colour.
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
    spread,
    var,
)
from flows.report.history import AuditedNight, Figure, History, control_leaks, last_value, values
from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import exact, up

SHOWN = 42
"""The most nights that are drawn as bars; the trend shows all of them."""

FEWEST = 7
"""The least number of days that the axis has room for."""

WIDE = Size(name="wide", width=676, height=250, left=30, right=124, top=28, ticks=9)
NARROW = Size(name="narrow", width=308, height=220, left=30, right=8, top=28, ticks=4)

CEILING_REACH = 3.0
"""A ceiling higher than this multiple of everything else is named at the edge and not drawn."""

LABEL_GAP = 15.0
"""Least distance between the middles of two direct labels, in pixels."""

HALF_BAR = 0.31
"""Half the width of a bar, as a share of its day."""

NAMED: tuple[tuple[str, str, Figure], ...] = (
    ("ceiling", "muted", lambda night: night.epsilon_ceiling),
    ("declared", "ink", lambda night: night.epsilon_declared),
    ("28 nights", "window", lambda night: night.epsilon_lower_28_days),
    ("at least", "bound", lambda night: night.epsilon_lower),
    ("control", "control", lambda night: night.control_epsilon_lower),
)
"""Entries beside the plot: words, colour, figure."""


def draw_nights(history: History, size: Size) -> str:
    """Return the last nights of a model as SVG.

    A night that is not evaluable is shaded and has no bar; one on which the control leaks is shaded
    in the control's colour; the sign of each night's verdict stands above it.
    """
    shown = history.since(SHOWN)
    last = shown.latest.day
    first = min(shown.nights[0].day, last - dt.timedelta(days=FEWEST - 1))
    top, day_width = _top(shown), size.width / ((last - first).days + 1)
    drawn = [n for n in shown.nights if n.epsilon_lower is not None]
    near = max(values(shown, _ceiling), default=0.0) <= top
    return _drawing(size).draw(
        {
            "silent": [_band(night) for night in shown.unevaluated],
            "leak": [_band(night) for night in shown.control_leaks],
            "bars": [bar for night in drawn for bar in _bars(night)],
            "caps": [_cap(night, top) for night in drawn],
            "lines": [_line(day, night, near=near) for day, night in shown.every_day()],
            "controls": [
                _control(night) for night in shown.nights if _finite(night.control_epsilon_lower)
            ],
            "signs": [_sign(night) for night in shown.nights],
            "names": _names(shown, size, top),
        },
        top=top,
        mark=max(3.0, min(12.0, 0.7 * day_width)) ** 2,
        **day_signals(first, last, ticks=size.ticks),
    )


def series(history: History) -> tuple[str, ...]:
    """Return which series the plot of a model shows, for its key."""
    shown = history.since(SHOWN)
    present = {
        "bound": bool(shown.evaluated),
        "excess": any(_exceeds(night) for night in shown.evaluated),
        "window": last_value(shown, lambda night: night.epsilon_lower_28_days) is not None,
        "declared": last_value(shown, lambda night: night.epsilon_declared) is not None,
        "control": last_value(shown, lambda night: night.control_epsilon_lower) is not None,
        "ceiling": last_value(shown, _ceiling) is not None,
        "leak": bool(shown.control_leaks),
        "silent": bool(shown.unevaluated),
    }
    return tuple(name for name, there in present.items() if there)


@functools.cache
def _drawing(size: Size) -> Drawing:
    """Describe the plot, from the back to the front."""
    x, y = day_channel("from"), _y("low")
    span = {"x": x, "x2": "to:Q"}
    full = {"y": alt.value(0), "y2": alt.value(size.height)}
    color = alt.Color(**own("color:N"))
    day, day_x = layer("lines"), day_channel("day")
    layers = [
        layer("silent").mark_rect(fill=var("silent")).encode(**span, **full),
        layer("leak").mark_rect(fill=var("leak")).encode(**span, **full),
        layer("bars").mark_rect().encode(**span, y=y, y2="high:Q", color=color),
        layer("caps").mark_rule(strokeWidth=3).encode(**span, y=_y("high"), color=color),
        layer("lines").mark_rule(stroke=var("ink"), strokeWidth=2).encode(**span, y=_y("declared")),
        day.mark_line(
            stroke=var("window"), strokeWidth=1.75, strokeDash=[6, 4], strokeJoin="round"
        ).encode(x=day_x, y=_y("window")),
        day.mark_line(
            stroke=var("muted"),
            strokeWidth=1.5,
            strokeDash=[0.1, 4],
            strokeCap="round",
            interpolate="step",
        ).encode(x=day_x, y=_y("ceiling")),
        layer("controls")
        .mark_point(shape="diamond", stroke=var("control"), strokeWidth=1.25, opacity=1)
        .encode(
            x=day_x,
            y=_y("control"),
            fill=alt.Fill(**own("fill:N")),
            size=alt.value(signal("min(44, mark)")),
        ),
        layer("signs")
        .mark_point(filled=False, strokeWidth=1.75, opacity=1)
        .encode(
            x=day_x,
            y=alt.value(-16),
            shape=alt.Shape(**own("path:N")),
            stroke=alt.Stroke(**own("color:N")),
            size=alt.value(signal("mark")),
        ),
        layer("names")
        .mark_text(align="left", baseline="middle", fontSize=12)
        .encode(
            x=alt.value(size.width + 8),
            y=alt.Y("place:Q", scale=None, axis=None),
            text="text:N",
            color=alt.Color(**own("color:N")),
        ),
    ]
    return compiled(layers, size, top=1.0, mark=100.0, **DAY_SIGNALS)


def _y(field: str) -> alt.Y:
    """Return the epsilon channel, from zero to the top."""
    axis = alt.Axis(tickCount=5, title=None, tickSize=0, domain=False, grid=True)
    scale = alt.Scale(domainMin=0.0, domainMax=signal("top"), nice=False, zero=True)
    return alt.Y(f"{field}:Q", scale=scale, axis=axis)


def _band(night: AuditedNight) -> dict[str, Any]:
    """Cover a night over the plot's full height."""
    day = day_number(night.day)
    return {"from": day - 0.5, "to": day + 0.5}


def _bars(night: AuditedNight) -> list[dict[str, Any]]:
    """Stand from zero to the bound, the part above the declaration apart."""
    lower, middle = night.epsilon_lower or 0.0, day_number(night.day)
    span = {"from": middle - HALF_BAR, "to": middle + HALF_BAR}
    if not _exceeds(night):
        return [span | {"low": 0.0, "high": lower, "color": var("bound-fill")}]
    border = night.epsilon_declared or 0.0
    return [
        span | {"low": 0.0, "high": border, "color": var("bound-fill")},
        span | {"low": border, "high": lower, "color": var(f"{_verdict_color(night)}-fill")},
    ]


def _cap(night: AuditedNight, top: float) -> dict[str, Any]:
    """Close a bar; a bound of zero, which is a result, stays visible."""
    middle = day_number(night.day)
    color = _verdict_color(night) if _exceeds(night) else "bound"
    return {
        "from": middle - HALF_BAR,
        "to": middle + HALF_BAR,
        "high": min(night.epsilon_lower or 0.0, top),
        "color": var(color),
    }


def _line(day: dt.date, night: AuditedNight | None, *, near: bool) -> dict[str, Any]:
    """Return the figures of one day that are drawn as lines; an absent one breaks the line."""
    if night is None:
        return {"day": day_number(day), "declared": None, "window": None, "ceiling": None}
    return _band(night) | {
        "day": day_number(day),
        "declared": night.epsilon_declared if _finite(night.epsilon_declared) else None,
        "window": night.epsilon_lower_28_days,
        "ceiling": night.epsilon_ceiling if near and _finite(night.epsilon_ceiling) else None,
    }


def _control(night: AuditedNight) -> dict[str, Any]:
    """Mark the control's bound, full where it leaks."""
    return {
        "day": day_number(night.day),
        "control": night.control_epsilon_lower,
        "fill": var("control" if control_leaks(night) else "page"),
    }


def _sign(night: AuditedNight) -> dict[str, Any]:
    """Return a night's verdict as shape and colour."""
    sign = SIGNS[Verdict(night.verdict)]
    return {"day": day_number(night.day), "path": sign.path, "color": var(sign.color)}


def _names(history: History, size: Size, top: float) -> list[dict[str, Any]]:
    """Name each series at its last figure, pushed apart where names would overlap."""
    if size is not WIDE:
        return []
    last = [(text, color, last_value(history, figure)) for text, color, figure in NAMED]
    named = [(text, color, value) for text, color, value in last if value is not None]
    named.sort(key=lambda entry: -entry[2])
    heights = [size.height * (1.0 - min(value, top) / top) for _, _, value in named]
    places = spread(heights, gap=LABEL_GAP, lowest=size.height)
    return [
        {"text": _named(text, value, top), "color": var(color), "place": place}
        for (text, color, value), place in zip(named, places, strict=True)
    ]


def _named(text: str, value: float, top: float) -> str:
    """Word a name; what lies beyond the top says how far."""
    if value > top:
        return f"{text} {up(value, decimals=1)} ↑"
    return f"{text} {exact(value)}" if text == "declared" else text


def _top(history: History) -> float:
    """Return the top of the epsilon axis: above all figures, and the ceiling if it is near."""
    figures = [figure for text, _, figure in NAMED if text != "ceiling"]
    most = max([0.5, *(value for figure in figures for value in values(history, figure))])
    top, highest = 1.12 * most, max(values(history, _ceiling), default=0.0)
    return max(top, 1.06 * highest) if highest <= CEILING_REACH * top else top


def _ceiling(night: AuditedNight) -> float | None:
    return night.epsilon_ceiling


def _verdict_color(night: AuditedNight) -> str:
    return SIGNS[Verdict(night.verdict)].color


def _exceeds(night: AuditedNight) -> bool:
    """Return whether the bound stands above the declaration."""
    lower, declared = night.epsilon_lower, night.epsilon_declared
    return lower is not None and declared is not None and lower > declared


def _finite(value: float | None) -> bool:
    """Return whether a figure can be drawn."""
    return value is not None and math.isfinite(value)
