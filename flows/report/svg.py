"""SVG elements for the inside of a page, from Vega's drawings, for eyes and readers."""

import itertools
import re
from collections.abc import Sequence

from markupsafe import Markup

DECLARED_SIZE = re.compile(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>')
GEOMETRY = re.compile(r' (d|transform|x2|y2)="([^"]*)"')
POLYLINES = re.compile(r"[MLZ0-9.,-]{40,}")
LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
NOISE = re.compile(
    r' (?:pointer-events="none"|opacity="1"|aria-[a-z]+="[^"]*"|role="[^"]*"|class="[^"]*"'
    r'|stroke-opacity="1"|stroke-width="1"|stroke-dasharray=""|transform="translate\(0,0\)"'
    r'|font-size="12px"|font-family="[^"]*")'
)
EMPTY_PATH = re.compile(r'<path(?: d="(?:M0,0h0v0h0Z)?"| display="none")+/>')
EMPTY_GROUP = re.compile(r"<g></g>|<g/>")

Point = tuple[int, int]


def inline_svg(
    drawn: str, *, identifier: str, title: str, description: str, css_class: str, step: int = 1
) -> Markup:
    """Return a drawing as one `<svg role="img">` element.

    Fixed sizes give way to the view box, so that CSS decides the width. What Vega writes for its
    own scripts, and digits that no screen resolves, are left out.

    Args:
        drawn: what Vega drew; its colours may be CSS variables.
        identifier: unique in the page; prefix of the ids of title and description.
        title: what the picture is, for screen readers and as its tooltip.
        description: what it shows.
        css_class: class of the element.
        step: long lines are rounded to this many tenths of a pixel.

    Raises:
        ValueError: the drawing does not begin with a view box.
    """
    opening = DECLARED_SIZE.match(drawn)
    if opening is None:
        raise ValueError("the plotting library no longer begins its SVG with a view box")
    body = EMPTY_PATH.sub(
        "", NOISE.sub("", GEOMETRY.sub(lambda found: _shorter(found, step), drawn[opening.end() :]))
    )
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="{css}" viewBox="{box}" role="img" '
        'aria-labelledby="{id}-title" aria-describedby="{id}-desc">'
        '<title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>'
    ).format(css=css_class, box=opening[1], id=identifier, title=title, description=description)
    return head + Markup(EMPTY_GROUP.sub("", body))  # noqa: S704  # Vega escapes its text


def _shorter(attribute: re.Match[str], step: int) -> str:
    """Round the numbers of one attribute to a tenth of a pixel, and shorten long lines."""
    name, value = attribute[1], attribute[2]
    if name == "d" and POLYLINES.fullmatch(value):
        return f' d="{shorter_path(value, step=step)}"'
    return f' {name}="{LONG_NUMBER.sub(lambda n: f"{float(n[0]):.1f}", value)}"'


def shorter_path(path: str, *, step: int = 1) -> str:
    """Return a path of straight lines in relative tenths of a pixel, without needless points.

    A year of nights is one path of hundreds of points; this halves it or better.
    """
    return "".join(_relative(part, step) for part in path.split("M") if part)


def _relative(part: str, step: int) -> str:
    """Rewrite one subpath: "0,0L1,0L2,0" -> "M0,0h2"."""
    closed = part.endswith("Z")
    points = [_tenths(point, step) for point in part.rstrip("Z").split("L")]
    kept = _corners(points)
    written = [f"M{_number(kept[0][0])},{_number(kept[0][1])}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(kept):
        if to_y == y:
            written.append(f"h{_number(to_x - x)}")
        elif to_x == x:
            written.append(f"v{_number(to_y - y)}")
        else:
            down = _number(to_y - y)
            written.append(f"l{_number(to_x - x)}{'' if down.startswith('-') else ','}{down}")
    return "".join(written) + ("Z" if closed else "")


def _corners(points: Sequence[Point]) -> list[Point]:
    """Leave out the points on a straight line between their neighbours."""
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and _straight(kept[-2], kept[-1], point):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return kept


def _straight(one: Point, two: Point, three: Point) -> bool:
    """Return whether the way from one over two to three goes straight on."""
    (x1, y1), (x2, y2) = (two[0] - one[0], two[1] - one[1]), (three[0] - two[0], three[1] - two[1])
    return x1 * y2 == x2 * y1 and x1 * x2 + y1 * y2 >= 0


def _tenths(point: str, step: int) -> Point:
    x, y = point.split(",")
    return round(float(x) * 10 / step) * step, round(float(y) * 10 / step) * step


def _number(tenths: int) -> str:
    """Write tenths as few characters: -5 -> "-.5", 20 -> "2"."""
    sign, whole, rest = "-" if tenths < 0 else "", abs(tenths) // 10, abs(tenths) % 10
    return f"{sign}{whole}" if rest == 0 else f"{sign}{whole or ''}.{rest}"
