"""The page: records in, HTML out. The template decides the order, this module what it is given."""

import datetime as dt
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from flows.report import figures, sentences
from flows.report.canvas import NARROW, WIDE, Format
from flows.report.history import History, control_leaks, histories, latest_day
from flows.report.plots import night_chart, series
from flows.report.promises import promise_sentences, promises_by_audit
from flows.report.signs import SIGNS, Sign
from flows.report.svg import inline_svg
from privcore.lower_bounds.verdicts import Verdict
from workers.records import AuditRow, PromiseRow

FILE_NAME = "index.html"
OPEN_NIGHTS = 10
"""A table of the numbers with more nights than this is folded away."""


@dataclass(frozen=True, slots=True)
class Section:
    """What the template shows of one model.

    Attributes:
        anchor: id of the section in the page.
        history: the model's records.
        tonight: the record of the page's night, if there is one.
        plots: the drawings, one per format; empty when no night came to a figure.
        series: what the plot shows, for its key.
        signs: the verdicts that occur, the worst first.
        reasons: why there are no figures, and for which days.
        promises: what the latest record's declaration promises, in sentences.
    """

    anchor: str
    history: History
    tonight: AuditRow | None
    plots: tuple[Markup, ...]
    series: tuple[str, ...]
    signs: tuple[Sign, ...]
    reasons: tuple[tuple[str, str], ...]
    promises: tuple[str, ...]


def render(audits: pl.DataFrame, promises: pl.DataFrame | None = None) -> str:
    """Return the report as one HTML document that needs nothing else.

    The same records give the same text; no clock is read.

    Args:
        audits: the current record of each model and day, with the columns of
            `workers.records.AuditRow`; any number of models and days, also none. Rows without
            figures (null) are shown as such, never as zero.
        promises: rows with the columns of `workers.records.PromiseRow`, of any audits; without
            them the page does not say what was promised.

    Raises:
        pydantic.ValidationError: a row that is no audit record, or no promise.
        ValueError: two records of the same model and day.
    """
    found = histories(audits)
    day = latest_day(found) if found else None
    sections = _sections(found, day, promises_by_audit(promises)) if day else ()
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            day=day,
            sentence=sentences.night_sentence(found, day)
            if day
            else sentences.night_sentence((), dt.date.min),
            sections=sections,
            records=[night for history in found for night in history.nights],
            signs=tuple(sorted(SIGNS.values(), key=lambda sign: sign.rank)),
        )
    )


def write_report(
    audits: pl.DataFrame, folder: str | pathlib.Path, *, promises: pl.DataFrame | None = None
) -> pathlib.Path:
    """Write the report to `<folder>/index.html`, making the folder, and return the file's path.

    The file is replaced at once, so that a reader never meets half a page.

    Args:
        audits: as for `render`.
        folder: where the report goes.
        promises: as for `render`.

    Raises:
        pydantic.ValidationError: a row that is no audit record.
        ValueError: two records of the same model and day.
        OSError: the folder cannot be written.
    """
    text = render(audits, promises)
    target = pathlib.Path(folder) / FILE_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{FILE_NAME}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(target)
    return target


def _sections(
    found: Sequence[History], day: dt.date, promises: Mapping[str, Sequence[PromiseRow]]
) -> tuple[Section, ...]:
    """Prepare each model."""
    first = min(history.nights[0].day for history in found)
    days = [first + dt.timedelta(days=offset) for offset in range((day - first).days + 1)]
    anchors = _anchors([history.model for history in found])
    return tuple(
        Section(
            anchor=anchor,
            history=history,
            tonight=history.at(day),
            plots=tuple(_plot(history, days, anchor, size) for size in (WIDE, NARROW))
            if history.evaluated
            else (),
            series=series(history),
            signs=_occurring(history),
            reasons=_reasons(history),
            promises=tuple(
                promise_sentences(history.latest, promises.get(history.latest.audit_id, ()))
            ),
        )
        for anchor, history in zip(anchors, found, strict=True)
    )


def _plot(history: History, days: Sequence[dt.date], anchor: str, size: Format) -> Markup:
    """Draw one model in one format, with its words for who cannot see it."""
    words = [
        sentences.tally_sentence(history),
        sentences.control_sentence(history),
        sentences.paper_sentence(history),
        "The same numbers follow as a table.",
    ]
    return inline_svg(
        night_chart(history, days=days, size=size),
        identifier=f"{anchor}-{size.name}",
        title=f"{history.model}: audited lower bound against the declaration, by day",
        description=" ".join(word for word in words if word),
        css_class=f"plot {size.name}",
    )


def _anchors(models: Sequence[str]) -> list[str]:
    """Return an id per model that stays the same from night to night, as far as names differ."""
    taken: set[str] = set()
    anchors = []
    for model in models:
        plain = "model-" + re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
        anchor, copy = plain, 2
        while anchor in taken:
            anchor, copy = f"{plain}-{copy}", copy + 1
        taken.add(anchor)
        anchors.append(anchor)
    return anchors


def _occurring(history: History) -> tuple[Sign, ...]:
    """Return the signs that a model's plot shows."""
    signs = {SIGNS[Verdict(night.verdict)] for night in history.nights}
    return tuple(sorted(signs, key=lambda sign: sign.rank))


def _reasons(history: History) -> tuple[tuple[str, str], ...]:
    """Return (days, reason) for the nights without figures, equal reasons together."""
    days: dict[str, list[dt.date]] = {}
    for night in history.unevaluated:
        days.setdefault(night.reason, []).append(night.day)
    return tuple((figures.short_days(when), reason) for reason, when in days.items())


def _environment() -> jinja2.Environment:
    """Return the templates' environment: everything escaped, nothing undefined."""
    here = pathlib.Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= _helpers()
    environment.globals["style"] = Markup((here / "style.css").read_text(encoding="utf-8"))  # noqa: S704  # our own file
    return environment


def _helpers() -> dict[str, Any]:
    """Return the functions that the template calls."""
    return {
        "down": figures.down,
        "up": figures.up,
        "exact": figures.exact,
        "count": figures.count,
        "long_day": figures.long_day,
        "sign_of": lambda night: SIGNS[Verdict(night.verdict)],
        "control_leaks": control_leaks,
        "words": sentences,
        "open_nights": OPEN_NIGHTS,
    }
