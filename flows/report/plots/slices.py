"""The bound of each slice of the records, with its ceiling and its control."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from flows.report.canvas import Drawing, Size, compiled, layer, signal, var
from flows.report.plots.halves import HALF
from workers.warehouse.schema import SliceRow

ROW = 22
LABEL = 18
"""A longer name of a slice is cut."""


def draw_slices(slices: Sequence[SliceRow]) -> str:
    """Return one bar per slice as SVG, in the order given."""
    drawn = [value for row in slices for value in (row.epsilon_lower, row.epsilon_ceiling)]
    top = max([1.0, *(value for value in drawn if math.isfinite(value))]) * 1.05
    size = replace(HALF, width=236, height=ROW * len(slices), left=130, top=4)
    rows = [
        {
            "row": ROW * place + ROW / 2,
            "name": slice_name(row),
            "bound": row.epsilon_lower,
            "ceiling": min(row.epsilon_ceiling, top),
            "control": row.control_epsilon_lower,
        }
        for place, row in enumerate(slices)
    ]
    return _drawing(size).draw({"slices": rows}, top=top)


def slice_name(row: SliceRow) -> str:
    """Return a slice's value, cut to what fits beside a bar."""
    name = row.value or "(empty)"
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"


@functools.lru_cache(maxsize=64)
def _drawing(size: Size) -> Drawing:
    """Describe the plot, from the back to the front."""
    scale = alt.Scale(domainMin=0.0, domainMax=signal("top"), nice=False, zero=True)
    axis = alt.Axis(tickCount=5, title="epsilon", tickSize=0, domain=False, grid=True)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    row = alt.Y("row:Q", scale=None, axis=None)
    slices = layer("slices")
    tick: dict[str, Any] = {"orient": "vertical", "height": 12, "opacity": 1}
    layers = [
        slices.mark_bar(height=12, fill=var("bound-fill")).encode(
            x=x("bound"), x2=alt.datum(0), y=row
        ),
        slices.mark_tick(**tick, thickness=3, color=var("bound")).encode(x=x("bound"), y=row),
        slices.mark_tick(**tick, thickness=1.5, color=var("muted")).encode(x=x("ceiling"), y=row),
        slices.mark_point(
            shape="diamond", stroke=var("control"), fill=var("page"), size=40, opacity=1
        ).encode(x=x("control"), y=row),
        slices.mark_text(align="right", baseline="middle", fontSize=12, fill=var("ink")).encode(
            x=alt.value(-8), y=row, text="name:N"
        ),
    ]
    return compiled(layers, size, top=1.0)
