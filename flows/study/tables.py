"""Tables and drawings of studies."""

import math
import operator
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import vl_convert

# Colours that people with any colour vision tell apart (Okabe and Ito).
COLORS = {
    "blue": "#0072b2", "orange": "#e69f00", "green": "#009e73", "red": "#d55e00",
    "grey": "#767676", "pink": "#cc79a7", "sky": "#56b4e9",
}  # fmt: skip
_FONT = "Helvetica, Arial, sans-serif"
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3])
_PRINTED = "printed in the paper"

Point = dict[str, Any]
"""`x`, `y`, `series` and `panel` of a value; `low` and `high` of an uncertain one; whether it is
`printed`.
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a drawing, with labels at `values`, where each panel may have its own scale.

    `powers` of ten make it logarithmic, an `order` one of categories.
    """

    title: str | None
    powers: Iterable[int] | None = None
    order: Sequence[str] | None = None
    values: Sequence[float] | None = None
    domain: tuple[float, float] | None = None
    own_scales: bool = False

    def channel(self, kind: Any, field: str) -> Any:
        """Return the channel of a field along this axis."""
        if self.order is not None:
            angle = -40 if max((len(name) for name in self.order), default=0) > 3 else 0
            axis = alt.Axis(title=self.title, labelAngle=angle)
            return kind(f"{field}:N", sort=list(self.order), axis=axis)
        axis = alt.Axis(title=self.title, values=self.values or alt.Undefined)
        scale = alt.Scale(domain=self.domain or alt.Undefined)
        if self.powers is not None:
            labels, scale = [10.0**power for power in self.powers], alt.Scale(type="log")
            axis = alt.Axis(title=self.title, values=labels, format="~g")
        return kind(f"{field}:Q", axis=axis, scale=scale)


def points_of(
    rows: Iterable[Mapping[str, Any]],
    x: str,
    series: Mapping[str, str],
    *,
    error: Mapping[str, str | tuple[str, str]] | None = None,
    panel: str = "",
) -> list[Point]:
    """Return a point for each row and column that has a value.

    `series` has the columns upwards and their series' names, as formats of a row's values, as
    `panel` is one. `error` has the column of half the error bar, or those of its ends.
    """
    points = []
    for row in rows:
        for y, text in series.items():
            if row[y] is None:
                continue
            point = {"x": row[x], "y": row[y], "series": text.format(**row)}
            bar = (error or {}).get(y)
            if isinstance(bar, tuple):
                point |= {"low": row[bar[0]], "high": row[bar[1]]}
            elif bar:
                point |= {"low": row[y] - row[bar], "high": row[y] + row[bar]}
            points.append({**point, "panel": panel.format(**row)})
    return points


def printed_at(x: Any, y: float, series: str, panel: str = "") -> Point:
    """Return a value that a paper prints."""
    return {"x": x, "y": y, "series": series, "panel": panel, "printed": True}


def chart(
    points: Iterable[Point],
    title: str,
    *,
    x: Axis,
    y: Axis,
    colors: str,
    size: tuple[int, int] = (440, 260),
    marks: Literal["points", "lines", "dashed"] = "lines",
) -> Any:
    """Return the drawing: lines or points, error bars, and diamonds at what a paper prints.

    Panels and series stand in the order of their first values, and the series' `colors`, one for
    each, in theirs. A panel of printed values alone is left out. Lines that coincide in places are
    dashed. A panel's size is in pixels.
    """
    blank = {"panel": "", "low": None, "high": None, "printed": False}
    points = [{**blank, **point} for point in points]
    panels = list(dict.fromkeys(point["panel"] for point in points if not point["printed"]))
    points = [point for point in points if point["panel"] in panels]
    names = list(dict.fromkeys(point["series"] for point in points))
    dashed = marks == "dashed"
    named = zip(names, colors.split()[: len(names)], strict=True)
    used = [COLORS[color] for _, color in named]
    base = alt.Chart(alt.InlineData(values=points))
    along, upwards = x.channel(alt.X, "x"), y.channel(alt.Y, "y")
    # Dashes are told apart in a legend only where its lines are long enough.
    lines: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 1_400, "symbolStrokeWidth": 2}
    named_by: dict[str, Any] = {
        "title": None,
        "sort": names,
        "legend": alt.Legend(**lines if dashed else {}),
    }
    color = alt.Color("series:N", scale=alt.Scale(domain=names, range=used), **named_by)
    mark = base.mark_point(filled=True)
    if marks != "points":
        mark = base.mark_line(point=not dashed, strokeWidth=1.75)
    series = mark.transform_filter("!datum.printed").encode(x=along, y=upwards, color=color)
    if dashed:
        # For readers who cannot see the colours, and where lines coincide.
        dashes = alt.Scale(domain=names, range=list(_DASHES[: len(names)]))
        series = series.encode(strokeDash=alt.StrokeDash("series:N", scale=dashes, **named_by))
    bars = base.mark_rule(strokeWidth=1.25).transform_filter("isValid(datum.low)")
    bars = bars.encode(x=along, y=y.channel(alt.Y, "low"), y2="high:Q", color=color)
    layers = [bars, series]
    if any(point["printed"] for point in points):
        kind = alt.Scale(domain=[_PRINTED], range=["diamond"])
        shape = alt.Shape("kind:N", title=None, scale=kind)
        diamonds = base.mark_point(filled=True, size=110, stroke="black", opacity=0.7)
        diamonds = diamonds.transform_filter("datum.printed")
        diamonds = diamonds.transform_calculate(kind=f"'{_PRINTED}'")
        layers.append(diamonds.encode(x=along, y=upwards, color=color, shape=shape))
    drawn: Any = alt.layer(*layers).properties(width=size[0], height=size[1])
    if panels != [""]:
        facet = alt.Facet("panel:N", title=None, sort=panels)
        drawn = drawn.facet(facet=facet, columns=3 if len(panels) % 3 == 0 else 2)
    if y.own_scales:
        drawn = drawn.resolve_scale(y="independent")
    return styled(drawn, title)


def styled(drawing: Any, title: str) -> Any:
    """Return the drawing with its title and the studies' style."""
    return (
        drawing.properties(title=alt.TitleParams(title, anchor="start", fontSize=14, offset=12))
        .configure(font=_FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e6e6e6", domainColor="#767676", tickColor="#767676")
        .configure_legend(orient="bottom", columns=3, labelLimit=320)
    )


def write_svg(drawing: Any, path: pathlib.Path) -> None:
    """Write a drawing as an SVG file that needs nothing else."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    path.write_text(
        vl_convert.vegalite_to_svg(drawing.to_dict(), vl_version=version), encoding="utf-8"
    )


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table as it is printed; of each column its name, and whether it holds numbers."""

    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]


CellRow = dict[str, Any]
Show = str | Callable[[CellRow], str]
"""Form of a cell: a format of its row's values, or a function of the row."""


def table_of(
    title: str,
    rows: Iterable[CellRow],
    columns: Mapping[str, Show] | str,
    *,
    text: Sequence[str] = (),
) -> StudyTable:
    """Return a table with one line for each row.

    `columns` has each column's name and how its cells are written, "name {format} | ..." for short.
    Those of `text` hold words, the others numbers.
    """
    if isinstance(columns, str):
        parts = [part.partition("{") for part in columns.split("|")]
        columns = {name.strip(): f"{brace}{form}".strip() for name, brace, form in parts}
    cells = [
        tuple(
            show.format(**row) if isinstance(show, str) else show(row) for show in columns.values()
        )
        for row in rows
    ]
    names = [(name, name not in text) for name in columns]
    return StudyTable(title, names, cells)


def values_of(names: Iterable[str]) -> dict[str, Show]:
    """Return columns whose cells are a row's values as they are, whatever their names."""
    return {name: operator.itemgetter(name) for name in names}


def side_by_side(
    rows: Iterable[CellRow], index: Sequence[str], column: str, cell: str
) -> list[CellRow]:
    """Return a row for each value of `index`: its columns and cells are formats of the rows."""
    found: dict[tuple[Any, ...], CellRow] = {}
    for row in rows:
        key = tuple(row[name] for name in index)
        wide = found.setdefault(key, dict(zip(index, key, strict=True)))
        wide[column.format(**row)] = cell.format(**row)
    return list(found.values())


def binomial_error(share: float, trials: int) -> float:
    """Return the standard error of a share of a number of trials."""
    return math.sqrt(share * (1.0 - share) / trials)


def paragraphs(text: str) -> list[str]:
    """Return a text's paragraphs, which empty lines part, each on one line."""
    return [" ".join(part.split()) for part in text.strip().split("\n\n")]
