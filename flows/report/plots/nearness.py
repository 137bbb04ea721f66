"""Nearness of the audit's attack to the most that the declaration lets any attack have right."""

import math
from collections.abc import Sequence

from flows.report.canvas import Canvas, unbroken, var
from flows.report.plots.halves import HALF, share_axis
from flows.report.scales import percent
from flows.report.svg import Drawing
from workers.warehouse.schema import PromiseRow


def draw_nearness(games: Sequence[PromiseRow]) -> Drawing:
    """Return shares of correct guesses, promised and achieved, by share of records."""
    canvas = Canvas(HALF)
    x = share_axis(canvas, [row.parameter for row in games if row.parameter])
    y = canvas.y_scale(0.4, 1.0)
    canvas.y_axis(y, percent([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
    places, promised, achieved = list[float](), list[float](), list[float]()
    for row in sorted(games, key=lambda row: row.parameter or 0.0):
        if row.guesses and row.parameter:
            places.append(x(100.0 * row.parameter))
            promised.append(y(row.value / row.guesses))
            achieved.append(math.nan if row.achieved is None else y(row.achieved / row.guesses))
    canvas.lines(unbroken(places, promised), var("ink"), width=2.0)
    runs = list(unbroken(places, achieved))
    canvas.lines(runs, var("bound"), width=1.5)
    for run in runs:
        for point in run:
            canvas.dot(point, var("bound"), area=34.0)
    return canvas.drawing()
