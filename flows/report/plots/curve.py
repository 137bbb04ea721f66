"""The game's bound by the share of the records guessed on, one line per family of guarantees."""

from collections.abc import Sequence

from flows.report.canvas import SHAPES, Canvas, var
from flows.report.plots.halves import HALF, share_axis
from flows.report.scales import labelled
from flows.report.svg import Drawing
from workers.warehouse.schema import BoundRow

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
