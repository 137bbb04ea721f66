"""Distribution of the adversary's scores, where the label was shown and where it was not."""

from collections.abc import Sequence

from flows.report.canvas import Canvas, var
from flows.report.plots.halves import HALF
from flows.report.scales import labelled, shortened
from flows.report.svg import Drawing
from workers.warehouse.schema import ScoreRow

COLORS = {0: ("control-fill", "control"), 1: ("bound-fill", "bound")}
"""Fill and outline by bit."""


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
        canvas.rect(*corners, var(COLORS[row.bit][0]), opacity=".55")
    for row in bars:
        ends = (x(row.lower), y(row.records)), (x(row.upper), y(row.records))
        canvas.rule(*ends, var(COLORS[row.bit][1]), width=2.0)
    return canvas.drawing()
