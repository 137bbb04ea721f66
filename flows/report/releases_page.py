"""The page of attacked tables: what was read of each, at what claimed budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from flows.report.plots.reconstruction import draw_reconstruction
from flows.report.svg import inline_svg
from flows.report.templating import rendered
from workers.release.verdict import CLAIMS
from workers.versions import CODE_VERSION
from workers.warehouse.release_row import ReleaseRow


@dataclass(frozen=True, slots=True)
class Attacked:
    """One audit of a table, drawn."""

    row: ReleaseRow
    claim: str
    plot: Markup


def releases_page(rows: Sequence[ReleaseRow]) -> str:
    """Return the page of the latest audit of each table and definition, newest first."""
    latest: dict[tuple[str, str | None, str, int], ReleaseRow] = {}
    for row in sorted(rows, key=lambda row: (row.recorded_at, row.audit_id)):
        latest[row.table, row.interface, row.definition, row.group_size] = row
    newest = sorted(latest.values(), key=lambda row: row.recorded_at, reverse=True)
    attacked = [Attacked(row, _claim(row), _plot(row, number)) for number, row in enumerate(newest)]
    return rendered("releases.html.j2", attacked=attacked, version=CODE_VERSION)


def _claim(row: ReleaseRow) -> str:
    size = f", groups of {row.group_size}" if row.definition == "group_idp" else ""
    return f"{CLAIMS[row.definition]}{size}, epsilon {row.epsilon_declared:g}"


def _plot(row: ReleaseRow, number: int) -> Markup:
    return inline_svg(
        draw_reconstruction(row),
        identifier=f"release-{number}",
        title=f"{row.table}: values read, by epsilon claimed",
        description=row.reason,
        css_class="plot",
    )
