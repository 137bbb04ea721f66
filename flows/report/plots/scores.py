"""Distribution of the adversary's scores, where the label was shown and where it was not."""

import functools
from collections.abc import Sequence

import altair as alt

from flows.report.canvas import Drawing, compiled, layer, own, signal, var
from flows.report.plots.halves import HALF
from workers.warehouse.schema import ScoreRow

COLORS = {0: ("control-fill", "control"), 1: ("bound-fill", "bound")}
"""Fill and outline by bit."""


def draw_scores(rows: Sequence[ScoreRow], *, least: float, greatest: float) -> str:
    """Return the distribution of one arm's scores as SVG.

    Args:
        rows: bars of one arm.
        least: left end of the axis, the same for both arms.
        greatest: right end of the axis.
    """
    bars = [
        {
            "lower": row.lower,
            "upper": row.upper,
            "records": row.records,
            "zero": 0,
            "fill": var(COLORS[row.bit][0]),
            "color": var(COLORS[row.bit][1]),
        }
        for row in sorted(rows, key=lambda row: (-row.bit, row.lower))
    ]
    most = max((row.records for row in rows), default=1)
    return _drawing().draw({"bars": bars}, most=most * 1.05, least=least, greatest=greatest)


@functools.cache
def _drawing() -> Drawing:
    """Describe the plot, from the back to the front."""
    scale = alt.Scale(
        domainMin=signal("least"), domainMax=signal("greatest"), nice=False, zero=False
    )
    axis = alt.Axis(tickCount=6, title="score", grid=False)
    x = alt.X("lower:Q", scale=scale, axis=axis)
    y = alt.Y(
        "records:Q",
        scale=alt.Scale(domainMin=0, domainMax=signal("most"), nice=False),
        axis=alt.Axis(tickCount=5, title=None, tickSize=0, domain=False, format="~s"),
    )
    bars, color = layer("bars"), alt.Color(**own("color:N"))
    layers = [
        bars.mark_rect(fillOpacity=0.55).encode(
            x=x, x2="upper:Q", y=y, y2="zero:Q", fill=alt.Fill(**own("fill:N"))
        ),
        bars.mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q", y=y, color=color),
    ]
    return compiled(layers, HALF, most=1, least=0, greatest=1)
