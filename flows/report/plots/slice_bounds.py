"""The bound of each slice of the records, with its ceiling and its control."""

import math
from collections.abc import Sequence
from dataclasses import replace

from flows.report.canvas import SHAPES, Canvas, var
from flows.report.plots.halves import HALF
from flows.report.scales import labelled
from flows.report.svg import Drawing
from workers.warehouse.schema import SliceRow

ROW = 22
LABEL = 18
"""A longer name of a slice is cut."""


def draw_slices(slices: Sequence[SliceRow]) -> Drawing:
    """Return one bar per slice, in the order given."""
    drawn = [value for row in slices for value in (row.epsilon_lower, row.epsilon_ceiling)]
    top = max([1.0, *(value for value in drawn if math.isfinite(value))]) * 1.05
    canvas = Canvas(replace(HALF, width=236, height=ROW * len(slices), left=130, top=4))
    x = canvas.x_scale(0.0, top)
    canvas.x_axis(x, labelled(0.0, top, 5), title="epsilon", grid=True)
    for place, row in enumerate(slices):
        middle = ROW * place + ROW / 2.0
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
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"
