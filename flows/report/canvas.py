"""Canvas of all plots: sizes, one style, colours that the page decides, and a compiled chart.

A chart is described once, with Altair, for a size; its data and its scales have names. Vega then
draws it for each model with that model's rows: describing and compiling cost ten times as much.
"""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from flows.report.vega import vega_to_svg

Rows = Iterable[Mapping[str, Any]]

EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one drawing; a phone gets its own rather than a shrunken one.

    Attributes:
        name: CSS class that decides where it is shown.
        width: of the plotted area, in pixels.
        height: of the plotted area, in pixels.
        left: room at its left, for the labels of the vertical axis.
        right: room at its right, for the names of the series.
        top: room above it.
        bottom: room below it, for the labels of the horizontal axis.
        ticks: most labels on the horizontal axis.
    """

    name: str
    width: int
    height: int
    left: int = 30
    right: int = 6
    top: int = 8
    bottom: int = 26
    ticks: int = 4


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart whose data is still missing.

    Attributes:
        spec: the chart in Vega's language.
    """

    spec: Mapping[str, Any]

    def draw(self, data: Mapping[str, Rows], **signals: Any) -> str:
        """Return the chart with its data as SVG.

        Args:
            data: the rows of each named data set.
            signals: the value of each named parameter.

        Raises:
            PlotError: Vega cannot draw it.
        """
        filled = [
            {**entry, "values": list(data[entry["name"]])} if entry["name"] in data else entry
            for entry in self.spec["data"]
        ]
        valued = [
            {**signal, "value": signals[signal["name"]]} if signal["name"] in signals else signal
            for signal in self.spec.get("signals", [])
        ]
        return vega_to_svg({**self.spec, "data": filled, "signals": valued})


def compiled(layers: Sequence[alt.Chart], size: Size, **signals: Any) -> Drawing:
    """Return layers as one drawing in the one style of all plots.

    Args:
        layers: from the back to the front; their data sets are named (`layer`).
        size: of the drawing.
        signals: the parameters that the layers refer to, with any value.
    """
    # Texts are measured here in another font than the reader's; fixed margins and
    # `autosize: none` keep them inside.
    chart = (
        alt.LayerChart(layer=list(layers))
        .add_params(*(alt.param(name=name, value=value) for name, value in signals.items()))
        .properties(
            width=size.width,
            height=size.height,
            background="transparent",
            autosize="none",
            padding={
                "left": size.left,
                "top": size.top,
                "right": size.right,
                "bottom": size.bottom,
            },
        )
        .configure(aria=False, font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=var("muted"),
            labelFontSize=12,
            labelPadding=6,
            titleColor=var("muted"),
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=6,
            gridColor=var("hairline"),
            tickColor=var("hairline"),
            domainColor=var("muted"),
            labelAngle=0,
            labelOverlap=False,
            labelFlush=False,
        )
    )
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return Drawing(vl_convert.vegalite_to_vega(chart.to_dict(), vl_version=version))


def layer(data: str) -> alt.Chart:
    """Return a chart of a named data set, without marks yet."""
    return alt.Chart(alt.NamedData(data))


def signal(name: str) -> alt.ExprRef:
    """Return a reference to a parameter."""
    return alt.ExprRef(name)


def var(name: str) -> str:
    """Return a colour of the style sheet."""
    return f"var(--{name})"


def own(field: str) -> dict[str, Any]:
    """Return options of a channel whose column holds the colour, shape or pixel itself."""
    return {"shorthand": field, "scale": None, "legend": None}


def day_channel(field: str) -> alt.X:
    """Return the horizontal channel of day numbers; it refers to `DAY_SIGNALS`."""
    scale = alt.Scale(
        domainMin=signal("first"), domainMax=signal("last"), nice=False, zero=False, padding=0
    )
    axis = alt.Axis(
        values=signal("days"),
        labelExpr="utcFormat(datum.value * 864e5, day_format)",
        grid=False,
        title=None,
        ticks=True,
    )
    return alt.X(f"{field}:Q", scale=scale, axis=axis)


DAY_SIGNALS: Mapping[str, Any] = {"first": 0, "last": 1, "days": [], "day_format": "%-d %b"}


def day_signals(first: dt.date, last: dt.date, *, ticks: int) -> dict[str, Any]:
    """Return the values of `DAY_SIGNALS` for a span of days, both included."""
    span = (last - first).days + 1
    if span <= 21 * ticks:
        every = max(1, math.ceil(span / ticks))
        named = [first + dt.timedelta(days=offset) for offset in range(0, span, every)]
        form = "%-d %b"
    else:
        months = [
            day for offset in range(span) if (day := first + dt.timedelta(days=offset)).day == 1
        ]
        named = months[:: max(1, math.ceil(len(months) / ticks))]
        form = "%b %Y"
    return {
        "first": day_number(first) - 0.5,
        "last": day_number(last) + 0.5,
        "days": [day_number(day) for day in named],
        "day_format": form,
    }


def day_number(day: dt.date) -> int:
    """Return the days since 1970."""
    return (day - EPOCH).days


def spread(places: Sequence[float], *, gap: float, lowest: float) -> list[float]:
    """Return ascending places moved apart to at least `gap`, none beyond `lowest`."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    limit = lowest
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - gap
    return moved
