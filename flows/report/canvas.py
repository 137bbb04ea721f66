"""Canvas of all plots: sizes, scales, axes, lines and the signs of verdicts, written as SVG.

A night of a fleet draws each model's plots anew. Vega took 0.02 CPU seconds a
plot, in a process of its own; what a canvas writes takes a fiftieth (docs/evidence/performance.md).
"""

import datetime as dt
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from privcore.lower_bounds.verdicts import Verdict

Point = tuple[float, float]
_Tenths = tuple[int, int]


def number(value: float) -> str:
    """Write a number to a tenth, as few characters: -0.5 -> "-.5", 2.0 -> "2".

    Raises:
        ValueError: it is not a number.
        OverflowError: it is infinite.
    """
    return _written(round(value * 10.0))


def path_of(runs: Iterable[Sequence[Point]], *, step: int = 1) -> str:
    """Return lines as one path in relative tenths of a pixel, without needless points.

    A year of nights is one path of hundreds of points; this halves it or better.

    Args:
        runs: the points of each line; one of one point is closed, so that round caps show it.
        step: points are rounded to this many tenths.
    """
    return "".join(_relative(run, step) for run in runs if run)


def _relative(points: Sequence[Point], step: int) -> str:
    """Write one line: (0, 0), (1, 0), (2, 0) -> "M0,0h2"."""
    # Spelled out, since a page has thousands of points, and to call a function takes as long.
    kept = _corners(
        [(round(x * 10.0 / step) * step, round(y * 10.0 / step) * step) for x, y in points]
    )
    written = [f"M{_written(kept[0][0])},{_written(kept[0][1])}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(kept):
        if to_y == y:
            written.append(f"h{_written(to_x - x)}")
        elif to_x == x:
            written.append(f"v{_written(to_y - y)}")
        else:
            down = _written(to_y - y)
            written.append(f"l{_written(to_x - x)}{'' if down.startswith('-') else ','}{down}")
    return "".join(written) + ("Z" if len(kept) == 1 else "")


def _corners(points: Sequence[_Tenths]) -> list[_Tenths]:
    """Leave out the points on a straight line between their neighbours."""
    kept: list[_Tenths] = []
    for point in points:
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            right, down, on_right, on_down = x1 - x0, y1 - y0, point[0] - x1, point[1] - y1
            if right * on_down != on_right * down or right * on_right + down * on_down < 0:
                break
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return kept


@functools.lru_cache(maxsize=4096)
def _written(tenths: int) -> str:
    """Write tenths as few characters: -5 -> "-.5", 20 -> "2"."""
    sign, whole, rest = "-" if tenths < 0 else "", abs(tenths) // 10, abs(tenths) % 10
    return f"{sign}{whole}" if rest == 0 else f"{sign}{whole or ''}.{rest}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    kind: str = "linear"

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, as `places`."""
        return self.places(np.array([value]))[0]

    def places(self, values: NDArray[np.float64]) -> list[float]:
        """Return the pixels of values, NaN where one is NaN; the middle of a scale of one value.

        Raises:
            FloatingPointError: a scale of square roots has no place for one.
        """
        bend = np.sqrt if self.kind == "sqrt" else np.asarray
        with np.errstate(invalid="raise"):
            low, high, bent = bend(self.low), bend(self.high), bend(values)
        share = (bent - low) / (high - low) if high != low else np.where(np.isnan(bent), bent, 0.5)
        places: list[float] = (self.start + share * (self.end - self.start)).tolist()
        return places


@dataclass(frozen=True, slots=True)
class Sign:
    """The appearance of one verdict.

    Attributes:
        path: SVG path in the square from -1 to 1, to be stroked and not filled.
        color: name of the CSS variable of its colour.
    """

    word: str
    meaning: str
    path: str
    color: str


_PATHS = {
    Verdict.VIOLATED: "M-0.75,-0.75L0.75,0.75M0.75,-0.75L-0.75,0.75",
    Verdict.FAILED: "M0,-0.85L0,0.25M0,0.7L0,0.8",
    Verdict.INCONCLUSIVE: "M-0.5,-0.45A0.5,0.45,0,1,1,0,0.05L0,0.3M0,0.75L0,0.85",
    Verdict.NOT_REFUTED: "M-0.85,0.1L-0.3,0.65L0.85,-0.65",
    Verdict.UNDECLARED: "M-0.75,0A0.75,0.75,0,1,1,0.75,0A0.75,0.75,0,1,1,-0.75,0",
}
SIGNS = {
    verdict: Sign(
        verdict.replace("_", " "), verdict.meaning, _PATHS[verdict], verdict.replace("_", "-")
    )
    for verdict in Verdict
}
"""In the order in which readers should see them."""


EPOCH = dt.date(1970, 1, 1)

_MIDDLE = 4.0
"""Pixels from the middle of a line of text to its baseline."""

Label = tuple[float, str]
"""Value on an axis, and its text."""


@dataclass(frozen=True, slots=True)
class Size:
    """The plotted area and the room around it, in pixels; a phone gets its own, not a shrunken one.

    Attributes:
        name: CSS class that decides where it is shown.
        ticks: most labels on the horizontal axis.
        step: points of lines are rounded to this many tenths of a pixel.
    """

    name: str
    width: int
    height: int
    left: int = 30
    right: int = 6
    top: int = 8
    bottom: int = 26
    ticks: int = 4
    step: int = 1


class Canvas:
    """One drawing in the making; what is added later lies above. Lengths are pixels.

    A length that is not finite raises ValueError or OverflowError.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        self._parts: list[str] = []

    def inline_svg(
        self, identifier: str, *, title: str, description: str, css_class: str
    ) -> Markup:
        """Return the drawing as one `<svg role="img">` element, whose width CSS decides."""
        size = self.size
        head = Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" class="{css}" viewBox="0 0 {width} {height}" '
            'role="img" aria-labelledby="{id}-title" aria-describedby="{id}-desc">'
            '<title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>'
            '<g fill="none" stroke-miterlimit="10" transform="translate({left},{top})">'
        ).format(
            css=css_class,
            width=size.left + size.width + size.right,
            height=size.top + size.height + size.bottom,
            id=identifier,
            title=title,
            description=description,
            left=size.left,
            top=size.top,
        )
        drawn = Markup("".join(self._parts))  # noqa: S704  # texts are escaped where they are added
        return head + drawn + Markup("</g></svg>")

    def x_axis(self, scale: Scale, labels: Sequence[Label]) -> None:
        """Draw the labels below the plot, with a line and ticks."""
        bottom = self.size.height + 0.5
        places = [round(scale(value)) + 0.5 for value, _ in labels]
        self.lines([((place, bottom), (place, bottom + 5.0)) for place in places], var("hairline"))
        self.lines([((0.5, bottom), (self.size.width + 0.5, bottom))], var("muted"))
        self._texts([(scale(value) + 0.5, bottom + 20.0, text) for value, text in labels], "middle")

    def y_axis(self, scale: Scale, labels: Sequence[Label]) -> None:
        """Draw the labels at the left of the plot, and the grid."""
        places = [round(scale(value)) + 0.5 for value, _ in labels]
        self.lines(
            [((0.5, place), (self.size.width + 0.5, place)) for place in places], var("hairline")
        )
        self._texts([(-5.5, scale(value) + 0.5 + _MIDDLE, text) for value, text in labels], "end")

    def _texts(self, written: Sequence[tuple[float, float, str]], anchor: str) -> None:
        texts = "".join(
            f'<text x="{number(x)}" y="{number(y)}">{escape(words)}</text>'
            for x, y, words in written
        )
        self._parts.append(f'<g text-anchor="{anchor}" fill="{var("muted")}">{texts}</g>')

    def lines(self, runs: Iterable[Sequence[Point]], stroke: str, style: str = "") -> None:
        """Draw lines through the points of each run; `style` are more attributes, as text."""
        path = path_of(runs, step=self.size.step)
        if path:
            self._parts.append(f'<path d="{path}" stroke="{stroke}"{style}/>')

    def dot(self, at: Point, fill: str, *, area: float) -> None:
        """Draw a circle of an area."""
        x, y, radius = map(number, (*at, math.sqrt(area / math.pi)))
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}"/>')


def unbroken(x: Iterable[float], y: Iterable[float]) -> Iterator[list[Point]]:
    """Yield the runs of points that have a height; one whose height is NaN breaks the line."""
    run: list[Point] = []
    for point in zip(x, y, strict=True):
        if point[1] == point[1]:  # no NaN; to call a function takes as long
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def var(name: str) -> str:
    """Return a colour of the style sheet."""
    return f"var(--{name})"


def day_axis(canvas: Canvas, first: dt.date, last: dt.date) -> Scale:
    """Draw the axis of a span of days, both included, and return its scale of day numbers."""
    span, ticks = (last - first).days + 1, canvas.size.ticks
    if span <= 21 * ticks:
        every = max(1, math.ceil(span / ticks))
        named = [first + dt.timedelta(days=offset) for offset in range(0, span, every)]
        texts = [f"{day.day} {day:%b}" for day in named]
    else:
        months = [
            day for offset in range(span) if (day := first + dt.timedelta(days=offset)).day == 1
        ]
        named = months[:: max(1, math.ceil(len(months) / ticks))]
        texts = [f"{day:%b} {day.year}" for day in named]
    width = float(canvas.size.width)
    scale = Scale(day_number(first) - 0.5, day_number(last) + 0.5, 0.0, width)
    canvas.x_axis(scale, [(day_number(day), text) for day, text in zip(named, texts, strict=True)])
    return scale


def day_number(day: dt.date) -> int:
    """Return the days since 1970."""
    return (day - EPOCH).days
