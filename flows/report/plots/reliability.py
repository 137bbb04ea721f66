"""Reliability of a model's probabilities: observed against predicted, on holdout records."""

from collections.abc import Sequence

from flows.report.canvas import Canvas, var
from flows.report.plots.halves import HALF
from flows.report.scales import percent
from flows.report.svg import Drawing
from workers.warehouse.schema import ReliabilityRow


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
