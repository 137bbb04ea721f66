"""The size of the plots that stand side by side, and the axis that some of them share."""

from collections.abc import Iterable

from flows.report.canvas import Canvas, Size
from flows.report.scales import Scale, of_hundred

HALF = Size(name="half", width=326, height=190, left=40, right=14, top=10, bottom=44)


def share_axis(canvas: Canvas, shares: Iterable[float]) -> Scale:
    """Draw the axis of shares of the records guessed on, and return its scale of per cents."""
    least = 100.0 * min(shares, default=0.01)
    scale = canvas.x_scale(least, 100.0, kind="log")
    labels = of_hundred([value for value in (0.1, 1.0, 10.0, 100.0) if value >= least])
    canvas.x_axis(scale, labels, title="share of records guessed on")
    return scale
