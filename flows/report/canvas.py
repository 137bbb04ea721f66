"""What all plots share: sizes, scales, one style, and colours that the page decides."""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt


@dataclass(frozen=True, slots=True)
class Format:
    """The size of one drawing; a phone gets its own rather than a shrunken one.

    Attributes:
        name: CSS class that decides where it is shown.
        width: of the plotted area, in pixels.
        height: of the plotted area, in pixels.
        margin: right of the plotted area, in pixels.
        day_labels: most labels on the day axis.
        direct_labels: whether the series are named beside their last figure.
    """

    name: str
    width: int
    height: int
    margin: int
    day_labels: int
    direct_labels: bool


WIDE = Format(name="wide", width=600, height=260, margin=112, day_labels=8, direct_labels=True)
NARROW = Format(name="narrow", width=312, height=230, margin=4, day_labels=4, direct_labels=False)


@dataclass(frozen=True, slots=True)
class Canvas:
    """The scales of one plot of epsilon over days.

    Attributes:
        days: all days from first to last, with or without records.
        size: the drawing's size.
        top: the largest epsilon on the axis.
    """

    days: tuple[dt.date, ...]
    size: Format
    top: float

    @property
    def day_width(self) -> float:
        """Pixels of one day."""
        return self.size.width / max(1, len(self.days))

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

    def place(self, epsilon: float) -> float:
        """Return how many pixels below the top an epsilon stands; 0 if beyond it."""
        return self.size.height * (1.0 - min(epsilon, self.top) / self.top)

    def shade(self, days: Iterable[dt.date], color: str) -> alt.Chart:
        """Return bands over the full height of some days."""
        mark = rows({"day": day.isoformat()} for day in days).mark_rect(
            # The outline closes the seam between neighbouring days.
            fill=var(color),
            stroke=var(color),
            strokeWidth=1,
            width={"band": 1},
        )
        chart: alt.Chart = mark.encode(x=self.x(), y=alt.value(0), y2=alt.value(self.size.height))
        return chart

    def label(self, text: str, color: str, place: float) -> alt.Chart:
        """Return a text right of the plotted area."""
        mark = rows([{}]).mark_text(
            align="left", baseline="middle", fill=var(color), fontSize=12, text=text
        )
        chart: alt.Chart = mark.encode(x=alt.value(self.size.width + 8), y=alt.value(place))
        return chart

    def finished(self, layers: Sequence[alt.Chart]) -> alt.LayerChart:
        """Return the layers as one chart in the one style of all plots."""
        # The texts at the right are measured here in another font than the reader's; a fixed
        # margin and `autosize: none` keep them inside.
        chart: alt.LayerChart = (
            alt.LayerChart(layer=list(layers))
            .properties(
                width=self.size.width,
                height=self.size.height,
                background="transparent",
                autosize="none",
                padding={"left": 30, "top": 24, "right": self.size.margin, "bottom": 26},
            )
            .configure(aria=False, font="system-ui, sans-serif")
            .configure_view(stroke=None)
            .configure_axis(
                labelColor=var("muted"),
                labelFontSize=12,
                labelPadding=6,
                gridColor=var("hairline"),
                tickColor=var("hairline"),
                domainColor=var("muted"),
                labelAngle=0,
                labelOverlap=True,
            )
        )
        return chart


def rows(values: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """Return a chart of some rows, without marks yet."""
    return alt.Chart(alt.InlineData(values=list(values)))


def var(name: str) -> str:
    """Return a colour of the style sheet."""
    return f"var(--{name})"


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
