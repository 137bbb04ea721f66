"""Share of a table that was read, by the privacy budget that its answers claim to have spent."""

import functools

import altair as alt

from flows.report.canvas import Drawing, compiled, layer, signal, var
from flows.report.plots.halves import HALF
from workers.warehouse.release_row import ReleaseRow


def draw_reconstruction(row: ReleaseRow) -> str:
    """Return the share of values read against the claimed budget, a point per column, as SVG."""
    points = [
        {"budget": budget, "share": 100.0 * share}
        for budget, share in zip(row.progress_budget, row.progress_cells, strict=True)
    ]
    start = {"budget": 0.0, "share": 0.0}
    top = max(row.progress_budget, default=0.0) or 1.0
    return _drawing().draw({"progress": [start, *points]}, top=top)


@functools.cache
def _drawing() -> Drawing:
    """Describe the plot, from the back to the front."""
    x = alt.X(
        "budget:Q",
        scale=alt.Scale(domainMin=0, domainMax=signal("top"), nice=False),
        axis=alt.Axis(format="~g", tickCount=4, title="epsilon claimed so far", grid=False),
    )
    axis = alt.Axis(labelExpr="datum.value + '%'", tickCount=5, title=None, tickSize=0)
    y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 100], nice=False), axis=axis)
    progress = layer("progress")
    layers = [
        progress.mark_line(stroke=var("bound"), strokeWidth=1.5).encode(x=x, y=y),
        progress.mark_circle(fill=var("bound"), size=26, opacity=1).encode(x=x, y=y),
    ]
    return compiled(layers, HALF, top=1.0)
