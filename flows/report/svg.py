"""From a chart to an SVG element that can stand inside a page, for eyes and for screen readers."""

import re

import altair as alt
import vl_convert
from markupsafe import Markup

DECLARED_SIZE = re.compile(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>')
GEOMETRY = re.compile(r' (d|transform)="([^"]*)"')
LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
NOISE = re.compile(
    r' (?:pointer-events="none"|opacity="1"|aria-[a-z]+="[^"]*"|role="[^"]*"|class="[^"]*")'
)
EMPTY_PATH = re.compile(r'<path(?: d="(?:M0,0h0v0h0Z)?"| display="none")+/>')


def inline_svg(
    chart: alt.LayerChart, *, identifier: str, title: str, description: str, css_class: str
) -> Markup:
    """Return a chart as one `<svg role="img">` element.

    Fixed sizes give way to the view box, so that CSS decides the width. What Vega writes for its
    own scripts, and digits that no screen resolves, are left out.

    Args:
        chart: the chart; its colours may be CSS variables.
        identifier: unique in the page; prefix of the ids of title and description.
        title: what the picture is, for screen readers and as its tooltip.
        description: what it shows.
        css_class: class of the element.
    """
    drawn = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=_vegalite_version())
    opening = DECLARED_SIZE.match(drawn)
    if opening is None:
        raise ValueError("the plotting library no longer begins its SVG with a view box")
    body = EMPTY_PATH.sub("", NOISE.sub("", GEOMETRY.sub(_shorter, drawn[opening.end() :])))
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="{css}" viewBox="{box}" role="img" '
        'aria-labelledby="{id}-title" aria-describedby="{id}-desc">'
        '<title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>'
    ).format(css=css_class, box=opening[1], id=identifier, title=title, description=description)
    return head + Markup(body)  # noqa: S704  # written by Vega, which escapes its text


def _shorter(attribute: re.Match[str]) -> str:
    """Round the numbers of one attribute to a tenth of a pixel."""
    return f' {attribute[1]}="{LONG_NUMBER.sub(lambda n: f"{float(n[0]):.1f}", attribute[2])}"'


def _vegalite_version() -> str:
    """Return altair's Vega-Lite version as vl-convert names it: "v6.4.1" -> "6.4"."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
