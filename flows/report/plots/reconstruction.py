"""Share of a table that was read, by the privacy budget that its answers claim to have spent."""

from flows.report.canvas import Canvas, var
from flows.report.plots.halves import HALF
from flows.report.scales import labelled, of_hundred
from flows.report.svg import Drawing
from workers.warehouse.release_row import ReleaseRow


def draw_reconstruction(row: ReleaseRow) -> Drawing:
    """Return the share of values read against the claimed budget, a point per column."""
    canvas = Canvas(HALF)
    x = canvas.x_scale(0.0, max(row.progress_budget, default=0.0) or 1.0)
    y = canvas.y_scale(0.0, 100.0)
    canvas.y_axis(y, of_hundred([0.0, 20.0, 40.0, 60.0, 80.0, 100.0]))
    canvas.x_axis(x, labelled(0.0, x.high, 4), title="epsilon claimed so far")
    points = [(x(0.0), y(0.0))]
    for budget, share in zip(row.progress_budget, row.progress_cells, strict=True):
        points.append((x(budget), y(100.0 * share)))
    canvas.lines([points], var("bound"), width=1.5)
    for point in points:
        canvas.dot(point, var("bound"), area=26.0)
    return canvas.drawing()
