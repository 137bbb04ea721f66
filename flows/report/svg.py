"""SVG as text: numbers, attributes, paths, and a drawing inside of a page, for eyes and readers."""

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

Point = tuple[float, float]
_Tenths = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished drawing."""

    width: int
    height: int
    body: Markup


def inline_svg(
    drawing: Drawing, *, identifier: str, title: str, description: str, css_class: str
) -> Markup:
    """Return a drawing as one `<svg role="img">` element, whose width CSS decides."""
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="{css}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="{id}-title" aria-describedby="{id}-desc">'
        '<title id="{id}-title">{title}</title><desc id="{id}-desc">{description}</desc>'
    ).format(
        css=css_class,
        width=drawing.width,
        height=drawing.height,
        id=identifier,
        title=title,
        description=description,
    )
    return head + drawing.body + Markup("</svg>")


def attributes_of(**values: float | str | None) -> str:
    """Return attributes as text, `_` as `-`; None is left out. Texts are the program's own."""
    written = (
        f' {name.replace("_", "-")}="{number(value) if isinstance(value, float) else value}"'
        for name, value in values.items()
        if value is not None
    )
    return "".join(written)


def number(value: float) -> str:
    """Write a number to a tenth, as few characters: -0.5 -> "-.5", 2.0 -> "2".

    Raises:
        ValueError: it is not a number.
        OverflowError: it is infinite.
    """
    return _written(round(value * 10.0))


def path_of(runs: Iterable[Sequence[Point]], *, step: int = 1) -> str:
    """Return lines as one path in relative tenths of a pixel, without needless points.

    A year of nights is one path of hundreds of points; this halves it or better.

    Args:
        runs: the points of each line; one of one point is closed, so that round caps show it.
        step: points are rounded to this many tenths.
    """
    return "".join(_relative(run, step) for run in runs if run)


def _relative(points: Sequence[Point], step: int) -> str:
    """Write one line: (0, 0), (1, 0), (2, 0) -> "M0,0h2"."""
    # Spelled out, since a page has thousands of points, and to call a function takes as long.
    kept = _corners(
        [(round(x * 10.0 / step) * step, round(y * 10.0 / step) * step) for x, y in points]
    )
    written = [f"M{_written(kept[0][0])},{_written(kept[0][1])}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(kept):
        if to_y == y:
            written.append(f"h{_written(to_x - x)}")
        elif to_x == x:
            written.append(f"v{_written(to_y - y)}")
        else:
            down = _written(to_y - y)
            written.append(f"l{_written(to_x - x)}{'' if down.startswith('-') else ','}{down}")
    return "".join(written) + ("Z" if len(kept) == 1 else "")


def _corners(points: Sequence[_Tenths]) -> list[_Tenths]:
    """Leave out the points on a straight line between their neighbours."""
    kept: list[_Tenths] = []
    for point in points:
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            right, down, on_right, on_down = x1 - x0, y1 - y0, point[0] - x1, point[1] - y1
            if right * on_down != on_right * down or right * on_right + down * on_down < 0:
                break
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return kept


@functools.lru_cache(maxsize=4096)
def _written(tenths: int) -> str:
    """Write tenths as few characters: -5 -> "-.5", 20 -> "2"."""
    sign, whole, rest = "-" if tenths < 0 else "", abs(tenths) // 10, abs(tenths) % 10
    return f"{sign}{whole}" if rest == 0 else f"{sign}{whole or ''}.{rest}"
