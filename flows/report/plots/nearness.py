"""Nearness of the audit's attack to the most that the declaration lets any attack have right."""

import functools
from collections.abc import Sequence

import altair as alt

from flows.report.canvas import Drawing, compiled, layer, signal, var
from flows.report.plots.halves import HALF
from workers.warehouse.schema import PromiseRow


def draw_nearness(games: Sequence[PromiseRow]) -> str:
    """Return shares of correct guesses, promised and achieved, by share of records, as SVG.

    Args:
        games: promises of `correct_guesses` of one guarantee.
    """
    rows = [
        {
            "share": 100.0 * (row.parameter or 0.0),
            "promised": row.value / row.guesses,
            "achieved": None if row.achieved is None else row.achieved / row.guesses,
        }
        for row in sorted(games, key=lambda row: row.parameter or 0.0)
        if row.guesses and row.parameter
    ]
    least = 100.0 * min((row.parameter for row in games if row.parameter), default=0.01)
    return _drawing().draw({"games": rows}, least=least)


@functools.cache
def _drawing() -> Drawing:
    """Describe the plot, from the back to the front."""
    x = alt.X(
        "share:Q",
        scale=alt.Scale(type="log", domainMin=signal("least"), domainMax=100, nice=False),
        axis=alt.Axis(
            values=[0.1, 1, 10, 100],
            labelExpr="datum.value + '%'",
            title="share of records guessed on",
            grid=False,
        ),
    )
    games = layer("games")
    axis = alt.Axis(format=".0%", tickCount=6, title=None, tickSize=0, domain=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=alt.Scale(domain=[0.4, 1], nice=False), axis=axis)

    layers = [
        games.mark_line(stroke=var("ink"), strokeWidth=2).encode(x=x, y=y("promised")),
        games.mark_line(stroke=var("bound"), strokeWidth=1.5).encode(x=x, y=y("achieved")),
        games.mark_circle(fill=var("bound"), size=34, opacity=1).encode(x=x, y=y("achieved")),
    ]
    return compiled(layers, HALF, least=0.1)
