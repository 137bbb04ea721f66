"""What the studies' drawings share: colours, axes, and the way to a file."""

import pathlib
from collections.abc import Iterable
from typing import Any

import altair as alt
import vl_convert

# Colours that people with any colour vision tell apart (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#767676"
_FONT = "Helvetica, Arial, sans-serif"


def log_axis(title: str, *, powers: Iterable[int]) -> alt.Axis:
    """Return an axis with lines and labels at these powers of ten."""
    return alt.Axis(title=title, values=[10.0**power for power in powers], format="~g")


def log_x(field: str, *, powers: Iterable[int]) -> alt.X:
    """Return the channel of a field along a logarithmic axis that is named after it."""
    return alt.X(f"{field}:Q", scale=alt.Scale(type="log"), axis=log_axis(field, powers=powers))


def styled(chart: Any, title: str) -> Any:
    """Return the chart with its title and the studies' style."""
    return (
        chart.properties(title=alt.TitleParams(title, anchor="start", fontSize=14, offset=12))
        .configure(font=_FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e6e6e6", domainColor="#767676", tickColor="#767676")
        .configure_legend(orient="bottom", columns=3, labelLimit=320)
    )


def write_svg(chart: Any, path: pathlib.Path) -> None:
    """Write a chart as an SVG file that needs nothing else."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    path.write_text(
        vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=version), encoding="utf-8"
    )
