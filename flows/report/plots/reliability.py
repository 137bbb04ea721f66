"""Reliability of a model's probabilities: observed against predicted, on holdout records."""

import functools
from collections.abc import Sequence
from typing import Any

import altair as alt

from flows.report.canvas import Drawing, compiled, layer, var
from flows.report.plots.halves import HALF
from workers.warehouse.schema import ReliabilityRow


def draw_reliability(rows: Sequence[ReliabilityRow]) -> str:
    """Return one model's reliability as SVG; a mark's area is its share of the predictions."""
    everything = max(1, sum(row.records for row in rows))
    return _drawing().draw(
        {
            "bins": [
                {
                    "predicted": row.predicted,
                    "observed": row.observed,
                    "area": 24.0 + 260.0 * row.records / everything,
                }
                for row in sorted(rows, key=lambda row: row.bin)
            ],
            "perfect": [{"predicted": 0.0, "observed": 0.0}, {"predicted": 1.0, "observed": 1.0}],
        }
    )


@functools.cache
def _drawing() -> Drawing:
    """Describe the plot, from the back to the front."""
    scale = alt.Scale(domain=[0, 1], nice=False)
    words: dict[str, Any] = {
        "values": [0, 0.25, 0.5, 0.75, 1],
        "labelExpr": "format(datum.value, '.0%')",
    }
    x = alt.X("predicted:Q", scale=scale, axis=alt.Axis(**words, title="predicted", grid=False))
    y = alt.Y(
        "observed:Q", scale=scale, axis=alt.Axis(**words, title=None, tickSize=0, domain=False)
    )
    bins = layer("bins")
    layers = [
        layer("perfect")
        .mark_line(stroke=var("muted"), strokeWidth=1.25, strokeDash=[4, 3])
        .encode(x=x, y=y),
        bins.mark_circle(fill=var("control"), opacity=1).encode(
            x=x, y=y, size=alt.Size("area:Q", scale=None)
        ),
    ]
    return compiled(layers, HALF)
