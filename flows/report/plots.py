"""The plot of one model: what was proved each night, against what was declared.

A bar reaches from zero to the audited bound: everything under its top is proved, nothing above it
is ruled out. What stands above the declaration takes the verdict's colour. Colours are names of CSS
variables, so that one drawing serves light, dark and print.
"""

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from flows.report.figures import exact
from flows.report.history import History, control_leaks
from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from workers.records import AuditRow

CEILING_REACH = 3.0
"""A ceiling higher than this multiple of everything else is named at the edge and not drawn."""

LABEL_GAP = 15.0
"""Least distance between the baselines of two direct labels, in pixels."""


@dataclass(frozen=True, slots=True)
class Format:
    """The size of one drawing; a phone gets its own rather than a shrunken one.

    Attributes:
        name: CSS class that decides where it is shown.
        width: of the plotted area, in pixels.
        height: of the plotted area, in pixels.
        day_labels: most labels on the day axis.
        direct_labels: whether the series are named beside their last figure.
    """

    name: str
    width: int
    height: int
    day_labels: int
    direct_labels: bool


WIDE = Format(name="wide", width=590, height=250, day_labels=8, direct_labels=True)
NARROW = Format(name="narrow", width=310, height=230, day_labels=4, direct_labels=False)


def night_chart(history: History, *, days: Sequence[dt.date], size: Format) -> alt.LayerChart:
    """Return the chart of one model over `days`, which are all days from first to last.

    A day that is not evaluable is shaded and has no bar; a day on which the control leaks is shaded
    in the control's colour; the sign of each day's verdict stands above it.
    """
    top = _top(history)
    canvas = _Canvas(tuple(days), size, top)
    layers = [
        canvas.shade(history.unevaluated, "silent"),
        canvas.shade(history.control_leaks, "leak"),
        *_bars(canvas, history),
        *_paper(canvas, history),
        _declared(canvas, history),
        *_ceiling(canvas, history),
        _control(canvas, history),
        _signs(canvas, history),
    ]
    if size.direct_labels:
        layers += _direct_labels(canvas, history)
    return _styled(alt.layer(*layers), size)


def series(history: History) -> tuple[str, ...]:
    """Return which series the chart of a model shows, for its key."""
    present = {
        "bound": bool(history.evaluated),
        "excess": any(_exceeds(night) for night in history.evaluated),
        "declared": any(_finite(night.epsilon_declared) for night in history.nights),
        "paper": any(_finite(night.epsilon_paper) for night in history.nights),
        "control": any(_finite(night.control_epsilon_lower) for night in history.nights),
        "ceiling": any(_finite(night.epsilon_ceiling) for night in history.nights),
        "leak": bool(history.control_leaks),
        "silent": bool(history.unevaluated),
    }
    return tuple(name for name, shown in present.items() if shown)


@dataclass(frozen=True, slots=True)
class _Canvas:
    """The scales that all layers share."""

    days: tuple[dt.date, ...]
    size: Format
    top: float

    def x(self, **options: Any) -> alt.X:
        """Return the day channel; its axis names a few days only."""
        every = max(1, math.ceil(len(self.days) / self.size.day_labels))
        axis = alt.Axis(
            values=[day.isoformat() for day in self.days[::every]],
            labelExpr="utcFormat(toDate(datum.value), '%-d %b')",
            title=None,
        )
        domain = [day.isoformat() for day in self.days]
        return alt.X("day:O", scale=alt.Scale(domain=domain, padding=0), axis=axis, **options)

    def y(self, field: str) -> alt.Y:
        """Return the epsilon channel, from zero to the top."""
        axis = alt.Axis(tickCount=5, title=None, tickSize=0, domain=False, grid=True)
        scale = alt.Scale(domain=[0.0, self.top], nice=False, zero=True)
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    def chart(self, rows: Iterable[dict[str, Any]]) -> alt.Chart:
        """Return a chart of some rows."""
        return alt.Chart(alt.Data(values=list(rows)))

    def shade(self, nights: Sequence[AuditRow], color: str) -> alt.Chart:
        """Return a band over the full height of some days."""
        rows = ({"day": night.day.isoformat()} for night in nights)
        mark = self.chart(rows).mark_rect(fill=_var(color), width={"band": 1})
        return mark.encode(x=self.x(), y=alt.value(0), y2=alt.value(self.size.height))


def _bars(canvas: _Canvas, history: History) -> list[alt.Chart]:
    """Draw from zero to the bound, the part above the declaration apart, and a cap on top.

    The cap keeps a bound of zero visible, which is a result, unlike a day without a bar.
    """
    rows, above = [], []
    for night in history.evaluated:
        lower, day = night.epsilon_lower or 0.0, night.day.isoformat()
        border = min(lower, night.epsilon_declared or 0.0) if _exceeds(night) else lower
        rows.append({"day": day, "from": 0.0, "to": border})
        if _exceeds(night):
            color = _var(SIGNS[Verdict(night.verdict)].color)
            above.append({"day": day, "from": border, "to": lower, "color": color})
    caps = [
        {"day": night.day.isoformat(), "to": night.epsilon_lower, "color": _cap_color(night)}
        for night in history.evaluated
    ]
    own = alt.Color("color:N", scale=None)
    x, y, y2 = canvas.x(), canvas.y("to"), alt.Y2("from:Q")
    return [
        canvas.chart(rows)
        .mark_bar(fill=_var("bound-fill"), width={"band": 0.62})
        .encode(x=x, y=y, y2=y2),
        canvas.chart(above)
        .mark_bar(width={"band": 0.62}, fillOpacity=0.5)
        .encode(x=x, y=y, y2=y2, color=own),
        canvas.chart(caps)
        .mark_tick(orient="horizontal", width={"band": 0.62}, thickness=3)
        .encode(x=x, y=y, color=own),
    ]


def _paper(canvas: _Canvas, history: History) -> list[alt.Chart]:
    """Draw the paper's figure lightly: a thin line through hollow points."""
    line = canvas.chart(_points(canvas, history, lambda night: night.epsilon_paper))
    x, y = canvas.x(), canvas.y("value")
    return [
        line.mark_line(stroke=_var("paper"), strokeWidth=1, strokeOpacity=0.55).encode(x=x, y=y),
        line.mark_point(
            filled=True, fill=_var("page"), stroke=_var("paper"), strokeWidth=1.25, size=22
        ).encode(x=x, y=y),
    ]


def _declared(canvas: _Canvas, history: History) -> alt.Chart:
    """Draw each run of equal declarations as one line over its days."""
    stated = [night for night in history.nights if _finite(night.epsilon_declared)]
    runs = [[night.day.isoformat() for night in run] for run in _runs(stated)]
    values = [run[0].epsilon_declared for run in _runs(stated)]
    rows = [
        {"day": days[0], "last": days[-1], "value": value}
        for days, value in zip(runs, values, strict=True)
    ]
    mark = canvas.chart(rows).mark_rule(stroke=_var("ink"), strokeWidth=2)
    return mark.encode(
        x=canvas.x(bandPosition=0), x2=alt.X2("last", bandPosition=1), y=canvas.y("value")
    )


def _ceiling(canvas: _Canvas, history: History) -> list[alt.Chart]:
    """Draw what a perfect attack could have proved, unless it is beyond the top."""
    points = _points(canvas, history, lambda night: night.epsilon_ceiling)
    if not all(row["value"] is None or row["value"] <= canvas.top for row in points):
        return []
    mark = canvas.chart(points).mark_line(
        stroke=_var("muted"),
        strokeWidth=1.25,
        strokeDash=[1, 3],
        strokeCap="round",
        interpolate="step",
    )
    return [mark.encode(x=canvas.x(), y=canvas.y("value"))]


def _control(canvas: _Canvas, history: History) -> alt.Chart:
    """Draw the control's bound as a diamond, full where it leaks."""
    rows = [
        {
            "day": night.day.isoformat(),
            "value": night.control_epsilon_lower,
            "fill": _var("control" if control_leaks(night) else "page"),
        }
        for night in history.nights
        if _finite(night.control_epsilon_lower)
    ]
    mark = canvas.chart(rows).mark_point(
        shape="diamond", filled=True, stroke=_var("control"), strokeWidth=1.25, size=44
    )
    return mark.encode(x=canvas.x(), y=canvas.y("value"), fill=alt.Fill("fill:N", scale=None))


def _signs(canvas: _Canvas, history: History) -> alt.Chart:
    """Draw each day's verdict above the plot."""
    rows = [{"day": night.day.isoformat(), "verdict": night.verdict} for night in history.nights]
    verdicts = [verdict.value for verdict in SIGNS]
    shapes = alt.Scale(domain=verdicts, range=[sign.path for sign in SIGNS.values()])
    colors = alt.Scale(domain=verdicts, range=[_var(sign.color) for sign in SIGNS.values()])
    room = canvas.size.width / max(1, len(canvas.days)) - 2.0
    mark = canvas.chart(rows).mark_point(
        filled=False, size=min(12.0, max(3.0, room)) ** 2, strokeWidth=2 if room > 8.0 else 1.2
    )
    return mark.encode(
        x=canvas.x(),
        y=alt.value(-14),
        shape=alt.Shape("verdict:N", scale=shapes, legend=None),
        stroke=alt.Stroke("verdict:N", scale=colors, legend=None),
    )


def _direct_labels(canvas: _Canvas, history: History) -> list[alt.Chart]:
    """Name each series at its last figure, pushed apart where they would overlap."""
    found = [
        ("ceiling", "muted", _last(history, lambda night: night.epsilon_ceiling)),
        ("paper’s figure", "paper-text", _last(history, lambda night: night.epsilon_paper)),
        ("declared", "ink", _last(history, lambda night: night.epsilon_declared)),
        ("at least", "bound", _last(history, lambda night: night.epsilon_lower)),
        ("control", "control", _last(history, lambda night: night.control_epsilon_lower)),
    ]
    named = [(name, color, value) for name, color, value in found if value is not None]
    named.sort(key=lambda entry: -entry[2])
    height = canvas.size.height
    wanted = [height * (1.0 - min(value, canvas.top) / canvas.top) for _, _, value in named]
    labels = []
    for (name, color, value), place in zip(named, spread(wanted, LABEL_GAP, height), strict=True):
        text = f"{name} {exact(value)}" if name == "declared" else name
        text = f"{name} {exact(math.ceil(value * 10) / 10)} ↑" if value > canvas.top else text
        mark = alt.Chart(alt.Data(values=[{}])).mark_text(
            align="left", baseline="middle", fill=_var(color), fontSize=12, text=text
        )
        labels.append(mark.encode(x=alt.value(canvas.size.width + 8), y=alt.value(place)))
    return labels


def spread(places: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Return ascending places moved apart to at least `gap`, none beyond `lowest`."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    limit = lowest
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - gap
    return moved


def _styled(chart: alt.LayerChart, size: Format) -> alt.LayerChart:
    """Give the one style of all plots."""
    sized = chart.properties(
        width=size.width, height=size.height, background="transparent", padding=2
    )
    return (
        sized.configure(aria=False, font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_var("muted"),
            labelFontSize=12,
            labelPadding=6,
            gridColor=_var("hairline"),
            tickColor=_var("hairline"),
            domainColor=_var("muted"),
            labelAngle=0,
            labelOverlap=True,
        )
    )


def _top(history: History) -> float:
    """Return the top of the epsilon axis: above all figures, and the ceiling if it is near."""
    figures = [
        value
        for night in history.nights
        for value in (
            night.epsilon_lower,
            night.epsilon_paper,
            night.epsilon_declared,
            night.control_epsilon_lower,
        )
        if value is not None and math.isfinite(value)
    ]
    top = 1.12 * max([*figures, 0.5])
    ceilings = [night.epsilon_ceiling for night in history.nights if _finite(night.epsilon_ceiling)]
    highest = max((value for value in ceilings if value is not None), default=0.0)
    return max(top, 1.06 * highest) if highest <= CEILING_REACH * top else top


def _points(
    canvas: _Canvas, history: History, figure: Callable[[AuditRow], float | None]
) -> list[dict[str, Any]]:
    """Return one figure of each day; a day without it breaks the line."""
    known = {night.day: figure(night) for night in history.nights}
    return [
        {"day": day.isoformat(), "value": known.get(day) if _finite(known.get(day)) else None}
        for day in canvas.days
    ]


def _runs(nights: Sequence[AuditRow]) -> list[list[AuditRow]]:
    """Split nights where the declaration changes or a day is missing."""
    runs: list[list[AuditRow]] = []
    for before, night in itertools.zip_longest([None, *nights], nights):
        if night is None:
            break
        follows = (
            before is not None
            and before.epsilon_declared == night.epsilon_declared
            and night.day - before.day == dt.timedelta(days=1)
        )
        if follows:
            runs[-1].append(night)
        else:
            runs.append([night])
    return runs


def _last(history: History, figure: Callable[[AuditRow], float | None]) -> float | None:
    """Return the newest finite value of a figure."""
    values = (figure(night) for night in reversed(history.nights))
    return next((value for value in values if _finite(value)), None)


def _exceeds(night: AuditRow) -> bool:
    """Whether the bound stands above the declaration."""
    lower, declared = night.epsilon_lower, night.epsilon_declared
    return lower is not None and declared is not None and lower > declared


def _cap_color(night: AuditRow) -> str:
    """Return the colour of a bar's top."""
    return _var(SIGNS[Verdict(night.verdict)].color if _exceeds(night) else "bound")


def _finite(value: float | None) -> bool:
    """Whether a figure can be drawn."""
    return value is not None and math.isfinite(value)


def _var(name: str) -> str:
    """Return a colour of the style sheet."""
    return f"var(--{name})"
