"""Plots of one audit that stand side by side: bounds, nearness, reliability, scores and slices."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from flows.report.canvas import SHAPES, Canvas, Size, unbroken, var
from flows.report.scales import Scale, labelled, of_hundred, percent, shortened
from flows.report.svg import Drawing
from workers.warehouse.schema import BoundRow, PromiseRow, ReliabilityRow, ScoreRow, SliceRow

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
SCORE_COLORS = {0: ("control-fill", "control"), 1: ("bound-fill", "bound")}
"""Fill and outline by bit."""
SLICE_HEIGHT = 22
SLICE_NAME = 18
"""A longer name of a slice is cut."""


def share_axis(canvas: Canvas, shares: Iterable[float]) -> Scale:
    """Draw the axis of shares of the records guessed on, and return its scale of per cents."""
    least = 100.0 * min(shares, default=0.01)
    scale = canvas.x_scale(least, 100.0, kind="log")
    labels = of_hundred([value for value in (0.1, 1.0, 10.0, 100.0) if value >= least])
    canvas.x_axis(scale, labels, title="share of records guessed on")
    return scale


def draw_curve(bounds: Sequence[BoundRow], *, top: float) -> Drawing:
    """Return the bounds of one arm.

    Args:
        bounds: of one arm, any families.
        top: the largest epsilon on the axis, the same for both arms.
    """
    canvas = Canvas(HALF)
    x = share_axis(canvas, [row.fraction for row in bounds])
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


def draw_nearness(games: Sequence[PromiseRow]) -> Drawing:
    """Return shares of correct guesses, promised and achieved, by share of records."""
    canvas = Canvas(HALF)
    x = share_axis(canvas, [row.parameter for row in games if row.parameter])
    y = canvas.y_scale(0.4, 1.0)
    canvas.y_axis(y, percent([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
    places, promised, achieved = list[float](), list[float](), list[float]()
    for row in sorted(games, key=lambda row: row.parameter or 0.0):
        if row.guesses and row.parameter:
            places.append(x(100.0 * row.parameter))
            promised.append(y(row.value / row.guesses))
            achieved.append(math.nan if row.achieved is None else y(row.achieved / row.guesses))
    canvas.lines(unbroken(places, promised), var("ink"), width=2.0)
    runs = list(unbroken(places, achieved))
    canvas.lines(runs, var("bound"), width=1.5)
    for run in runs:
        for point in run:
            canvas.dot(point, var("bound"), area=34.0)
    return canvas.drawing()


def draw_reliability(rows: Sequence[ReliabilityRow]) -> Drawing:
    """Return one model's reliability; a mark's area is its share of the predictions."""
    everything = max(1, sum(row.records for row in rows))
    canvas = Canvas(HALF)
    x, y = canvas.x_scale(0.0, 1.0), canvas.y_scale(0.0, 1.0)
    quarters = percent([0.0, 0.25, 0.5, 0.75, 1.0])
    canvas.y_axis(y, quarters)
    canvas.x_axis(x, quarters, title="predicted")
    canvas.rule((x(0.0), y(0.0)), (x(1.0), y(1.0)), var("muted"), width=1.25, dash="4,3")
    for row in sorted(rows, key=lambda row: row.bin):
        area = 24.0 + 260.0 * row.records / everything
        canvas.dot((x(row.predicted), y(row.observed)), var("control"), area=area)
    return canvas.drawing()


def draw_scores(rows: Sequence[ScoreRow], *, least: float, greatest: float) -> Drawing:
    """Return the distribution of one arm's scores."""
    canvas = Canvas(HALF)
    x = canvas.x_scale(least, greatest)
    y = canvas.y_scale(0.0, 1.05 * max((row.records for row in rows), default=1))
    canvas.y_axis(y, shortened(0.0, y.high, 5))
    canvas.x_axis(x, labelled(least, greatest, 6), title="score")
    bars = sorted(rows, key=lambda row: (-row.bit, row.lower))
    for row in bars:
        corners = (x(row.lower), y(row.records)), (x(row.upper), y(0.0))
        canvas.rect(*corners, var(SCORE_COLORS[row.bit][0]), opacity=".55")
    for row in bars:
        ends = (x(row.lower), y(row.records)), (x(row.upper), y(row.records))
        canvas.rule(*ends, var(SCORE_COLORS[row.bit][1]), width=2.0)
    return canvas.drawing()


def draw_slices(slices: Sequence[SliceRow]) -> Drawing:
    """Return one bar per slice, in the order given."""
    drawn = [value for row in slices for value in (row.epsilon_lower, row.epsilon_ceiling)]
    top = max([1.0, *(value for value in drawn if math.isfinite(value))]) * 1.05
    canvas = Canvas(replace(HALF, width=236, height=SLICE_HEIGHT * len(slices), left=130, top=4))
    x = canvas.x_scale(0.0, top)
    canvas.x_axis(x, labelled(0.0, top, 5), title="epsilon", grid=True)
    for place, row in enumerate(slices):
        middle = SLICE_HEIGHT * place + SLICE_HEIGHT / 2.0
        above, below, bound = middle - 6.0, middle + 6.0, x(row.epsilon_lower)
        ceiling = x(min(row.epsilon_ceiling, top))
        canvas.text((-8.0, middle), slice_name(row), var("ink"), anchor="end")
        canvas.rect((0.0, above), (bound, below), var("bound-fill"))
        canvas.rule((bound, above), (bound, below), var("bound"), width=3.0)
        canvas.rule((ceiling, above), (ceiling, below), var("muted"), width=1.5)
        if row.control_epsilon_lower is not None:
            at = (x(row.control_epsilon_lower), middle)
            diamond = SHAPES["diamond"]
            canvas.mark(at, diamond, area=40.0, stroke=var("control"), fill=var("page"))
    return canvas.drawing()


def slice_name(row: SliceRow) -> str:
    """Return a slice's value, cut to what fits beside a bar."""
    name = row.value or "(empty)"
    return name if len(name) <= SLICE_NAME else f"{name[: SLICE_NAME - 1]}…"
