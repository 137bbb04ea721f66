"""The game's bound by the share of the records guessed on, one line per family of guarantees."""

import functools
from collections.abc import Sequence

import altair as alt

from flows.report.canvas import Drawing, compiled, layer, own, signal, var
from flows.report.plots.halves import HALF
from workers.warehouse.schema import BoundRow

FAMILIES = {
    "pure_dp": ("pure", "family-1"),
    "approx_dp": ("(epsilon, delta)", "family-2"),
    "gaussian": ("Gaussian", "family-3"),
}
"""Name of each family in text, and its colour."""

SHAPES = {"pure_dp": "circle", "approx_dp": "square", "gaussian": "triangle-up"}
AREAS = {"pure_dp": 110, "approx_dp": 30, "gaussian": 44}
"""Families that agree lie upon each other: the larger mark shows behind the smaller."""


def draw_curve(bounds: Sequence[BoundRow], *, top: float) -> str:
    """Return the bounds of one arm as SVG.

    Args:
        bounds: of one arm, any families.
        top: the largest epsilon on the axis, the same for both arms.
    """
    rows = [
        {
            "family": row.family,
            "share": 100.0 * row.fraction,
            "bound": row.epsilon_lower,
            "color": var(family_color(row.family)),
            "shape": SHAPES.get(row.family, "cross"),
            "fill": var("page" if row.family == "pure_dp" else family_color(row.family)),
            "area": AREAS.get(row.family, 30),
        }
        for row in sorted(bounds, key=lambda row: (-AREAS.get(row.family, 30), row.fraction))
    ]
    least = 100.0 * min((row.fraction for row in bounds), default=0.01)
    return _drawing().draw({"bounds": rows}, top=top * 1.08, least=least)


def family_color(family: str) -> str:
    """Return the name of a family's colour."""
    return FAMILIES.get(family, (family, "muted"))[1]


@functools.cache
def _drawing() -> Drawing:
    """Describe the plot, from the back to the front."""
    shares = [0.1, 1, 10, 100]
    x = alt.X(
        "share:Q",
        scale=alt.Scale(type="log", domainMin=signal("least"), domainMax=100, nice=False),
        axis=alt.Axis(
            values=shares,
            labelExpr="datum.value + '%'",
            title="share of records guessed on",
            grid=False,
        ),
    )
    y = alt.Y(
        "bound:Q",
        scale=alt.Scale(domainMin=0, domainMax=signal("top"), nice=False, zero=True),
        axis=alt.Axis(tickCount=5, title=None, tickSize=0, domain=False),
    )
    bounds = layer("bounds")
    detail, color = alt.Detail("family:N"), alt.Color(**own("color:N"))
    layers = [
        bounds.mark_line(strokeWidth=1.5, opacity=1).encode(x=x, y=y, detail=detail, color=color),
        bounds.mark_point(strokeWidth=1.5, opacity=1).encode(
            x=x,
            y=y,
            stroke=alt.Stroke(**own("color:N")),
            fill=alt.Fill(**own("fill:N")),
            shape=alt.Shape(**own("shape:N")),
            size=alt.Size("area:Q", scale=None),
        ),
    ]
    return compiled(layers, HALF, top=1.0, least=0.1)
