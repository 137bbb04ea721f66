"""The plot of one model: what was proved each night, against what was declared.

A bar reaches from zero to the audited bound: everything under its top is proved, nothing above it
is ruled out. What stands above the declaration takes the verdict's colour. Colours are names of CSS
variables, so that one drawing serves light, dark and print.
"""

import datetime as dt
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt

from flows.report.canvas import Canvas, Format, rows, spread, var
from flows.report.figures import exact, up
from flows.report.history import History, control_leaks
from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from workers.records import AuditRow

CEILING_REACH = 3.0
"""A ceiling higher than this multiple of everything else is named at the edge and not drawn."""

LABEL_GAP = 15.0
"""Least distance between the middles of two direct labels, in pixels."""

BAR = 0.62
"""Width of a bar, as a share of its day."""

Figure = Callable[[AuditRow], float | None]
_epsilon_lower: Figure = operator.attrgetter("epsilon_lower")
_epsilon_paper: Figure = operator.attrgetter("epsilon_paper")
_epsilon_declared: Figure = operator.attrgetter("epsilon_declared")
_epsilon_ceiling: Figure = operator.attrgetter("epsilon_ceiling")
_control_lower: Figure = operator.attrgetter("control_epsilon_lower")


def night_chart(history: History, *, days: Sequence[dt.date], size: Format) -> alt.LayerChart:
    """Return the chart of one model over `days`, which are all days from first to last.

    A day that is not evaluable is shaded and has no bar; a day on which the control leaks is shaded
    in the control's colour; the sign of each day's verdict stands above it.
    """
    canvas = Canvas(tuple(days), size, _top(history))
    layers = [
        canvas.shade((night.day for night in history.unevaluated), "silent"),
        canvas.shade((night.day for night in history.control_leaks), "leak"),
        *_bars(canvas, history),
        *_paper(canvas, history),
        _declared(canvas, history),
        *_ceiling(canvas, history),
        _control(canvas, history),
        _signs(canvas, history),
    ]
    if size.direct_labels:
        layers += _direct_labels(canvas, history)
    return canvas.finished(layers)


def series(history: History) -> tuple[str, ...]:
    """Return which series the chart of a model shows, for its key."""
    present = {
        "bound": bool(history.evaluated),
        "excess": any(_exceeds(night) for night in history.evaluated),
        "declared": _last(history, _epsilon_declared) is not None,
        "paper": _last(history, _epsilon_paper) is not None,
        "control": _last(history, _control_lower) is not None,
        "ceiling": _last(history, _epsilon_ceiling) is not None,
        "leak": bool(history.control_leaks),
        "silent": bool(history.unevaluated),
    }
    return tuple(name for name, shown in present.items() if shown)


def _bars(canvas: Canvas, history: History) -> list[alt.Chart]:
    """Draw from zero to the bound, the part above the declaration apart, and a cap on top.

    The cap keeps a bound of zero visible, which is a result, unlike a day without a bar.
    """
    proved: list[dict[str, Any]] = []
    excess: list[dict[str, Any]] = []
    caps: list[dict[str, Any]] = []
    for night in history.evaluated:
        lower, day = night.epsilon_lower or 0.0, night.day.isoformat()
        border = (night.epsilon_declared or 0.0) if _exceeds(night) else lower
        color = var(SIGNS[Verdict(night.verdict)].color if _exceeds(night) else "bound")
        proved.append({"day": day, "from": 0.0, "to": border})
        excess.append({"day": day, "from": border, "to": lower, "color": color})
        caps.append({"day": day, "to": lower, "color": color})
    own = alt.Color("color:N", scale=None)
    x, y, y2, band = canvas.x(), canvas.y("to"), alt.Y2("from:Q"), {"band": BAR}
    above = (bar for bar in excess if bar["to"] > bar["from"])
    return [
        rows(proved).mark_bar(fill=var("bound-fill"), width=band).encode(x=x, y=y, y2=y2),
        rows(above).mark_bar(width=band, fillOpacity=0.5).encode(x=x, y=y, y2=y2, color=own),
        rows(caps)
        .mark_tick(orient="horizontal", width=band, thickness=3, opacity=1)
        .encode(x=x, y=y, color=own),
    ]


def _paper(canvas: Canvas, history: History) -> list[alt.Chart]:
    """Draw the paper's figure lightly: a thin line through hollow points."""
    points = rows(_points(canvas, history, _epsilon_paper))
    x, y, color = canvas.x(), canvas.y("value"), var("paper")
    line = points.mark_line(stroke=color, strokeWidth=1, strokeOpacity=0.55)
    marks = points.mark_point(
        fill=var("page"), stroke=color, strokeWidth=1.25, size=_mark_size(canvas, 22), opacity=1
    )
    return [line.encode(x=x, y=y), marks.encode(x=x, y=y)]


def _declared(canvas: Canvas, history: History) -> alt.Chart:
    """Draw each run of equal declarations as one line over its days."""
    lines = (
        {
            "day": run[0].day.isoformat(),
            "last": run[-1].day.isoformat(),
            "value": run[0].epsilon_declared,
        }
        for run in _runs([night for night in history.nights if _finite(night.epsilon_declared)])
    )
    x, x2 = canvas.x(bandPosition=0), alt.X2("last", bandPosition=1)
    mark = rows(lines).mark_rule(stroke=var("ink"), strokeWidth=2)
    chart: alt.Chart = mark.encode(x=x, x2=x2, y=canvas.y("value"))
    return chart


def _ceiling(canvas: Canvas, history: History) -> list[alt.Chart]:
    """Draw what a perfect attack could have proved, unless it is beyond the top."""
    points = _points(canvas, history, _epsilon_ceiling)
    if any(point["value"] is not None and point["value"] > canvas.top for point in points):
        return []
    mark = rows(points).mark_line(
        stroke=var("muted"),
        strokeWidth=1.5,
        strokeDash=[0.1, 4],
        strokeCap="round",
        interpolate="step",
    )
    return [mark.encode(x=canvas.x(), y=canvas.y("value"))]


def _control(canvas: Canvas, history: History) -> alt.Chart:
    """Draw the control's bound as a diamond, full where it leaks."""
    points = (
        {
            "day": night.day.isoformat(),
            "value": night.control_epsilon_lower,
            "fill": var("control" if control_leaks(night) else "page"),
        }
        for night in history.nights
        if _finite(night.control_epsilon_lower)
    )
    mark = rows(points).mark_point(
        shape="diamond",
        stroke=var("control"),
        strokeWidth=1.25,
        size=_mark_size(canvas, 44),
        opacity=1,
    )
    fill = alt.Fill("fill:N", scale=None)
    chart: alt.Chart = mark.encode(x=canvas.x(), y=canvas.y("value"), fill=fill)
    return chart


def _signs(canvas: Canvas, history: History) -> alt.Chart:
    """Draw each day's verdict above the plot."""
    verdicts = [verdict.value for verdict in SIGNS]
    shapes = alt.Scale(domain=verdicts, range=[sign.path for sign in SIGNS.values()])
    colors = alt.Scale(domain=verdicts, range=[var(sign.color) for sign in SIGNS.values()])
    size = _mark_size(canvas, 144)
    mark = rows(
        {"day": night.day.isoformat(), "verdict": night.verdict} for night in history.nights
    ).mark_point(filled=False, size=size, strokeWidth=2 if size > 64 else 1.2, opacity=1)
    chart: alt.Chart = mark.encode(
        x=canvas.x(),
        y=alt.value(-14),
        shape=alt.Shape("verdict:N", scale=shapes, legend=None),
        stroke=alt.Stroke("verdict:N", scale=colors, legend=None),
    )
    return chart


def _direct_labels(canvas: Canvas, history: History) -> list[alt.Chart]:
    """Name each series at its last figure, pushed apart where they would overlap."""
    names = (
        ("ceiling", "muted", _epsilon_ceiling),
        ("paper\u2019s figure", "paper-text", _epsilon_paper),
        ("declared", "ink", _epsilon_declared),
        ("at least", "bound", _epsilon_lower),
        ("control", "control", _control_lower),
    )
    last = [(text, color, _last(history, figure)) for text, color, figure in names]
    named = [(text, color, value) for text, color, value in last if value is not None]
    named.sort(key=lambda entry: -entry[2])
    places = spread(
        [canvas.place(value) for _, _, value in named], gap=LABEL_GAP, lowest=canvas.size.height
    )
    labels = []
    for (text, color, value), place in zip(named, places, strict=True):
        words = f"{text} {exact(value)}" if text == "declared" else text
        if value > canvas.top:
            words = f"{text} {up(value, decimals=1)} ↑"
        labels.append(canvas.label(words, color, place))
    return labels


def _mark_size(canvas: Canvas, area: float) -> float:
    """Return the area of a mark, smaller where days are narrow."""
    return min(area, max(4.0, canvas.day_width - 2.0) ** 2)


def _top(history: History) -> float:
    """Return the top of the epsilon axis: above all figures, and the ceiling if it is near."""
    drawn = (_epsilon_lower, _epsilon_paper, _epsilon_declared, _control_lower)
    top = 1.12 * max(0.5, *(value for figure in drawn for value in _values(history, figure)))
    highest = max(_values(history, _epsilon_ceiling), default=0.0)
    return max(top, 1.06 * highest) if highest <= CEILING_REACH * top else top


def _values(history: History, figure: Figure) -> Iterator[float]:
    """Yield the finite values of a figure, the newest first."""
    for night in reversed(history.nights):
        value = figure(night)
        if value is not None and math.isfinite(value):
            yield value


def _last(history: History, figure: Figure) -> float | None:
    """Return the newest finite value of a figure."""
    return next(_values(history, figure), None)


def _points(canvas: Canvas, history: History, figure: Figure) -> list[dict[str, Any]]:
    """Return one figure of each day; a day without it breaks the line."""
    known = {night.day: figure(night) for night in history.nights}
    return [
        {"day": day.isoformat(), "value": known.get(day) if _finite(known.get(day)) else None}
        for day in canvas.days
    ]


def _runs(nights: Sequence[AuditRow]) -> list[list[AuditRow]]:
    """Split nights where the declaration changes or a day is missing."""
    runs = [list(nights[:1])] if nights else []
    for before, night in itertools.pairwise(nights):
        same = before.epsilon_declared == night.epsilon_declared
        if same and night.day - before.day == dt.timedelta(days=1):
            runs[-1].append(night)
        else:
            runs.append([night])
    return runs


def _exceeds(night: AuditRow) -> bool:
    """Whether the bound stands above the declaration."""
    lower, declared = night.epsilon_lower, night.epsilon_declared
    return lower is not None and declared is not None and lower > declared


def _finite(value: float | None) -> bool:
    """Whether a figure can be drawn."""
    return value is not None and math.isfinite(value)
