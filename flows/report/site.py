"""The report as files: the page of the night, one page per model, and every number explained."""

import datetime as dt
import hashlib
import multiprocessing
import os
import pathlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import polars as pl
from markupsafe import Markup

from flows.report.explanations import statistics
from flows.report.history import History, history_of
from flows.report.index_page import Entry, index_page
from flows.report.model_page import model_page
from flows.report.plots import trend
from flows.report.sentences import tally_sentence
from flows.report.svg import inline_svg
from flows.report.tables import Details, Tables, read_tables
from flows.report.templating import rendered
from workers.exceptions import NotEvaluableError
from workers.lake.layout import check_name
from workers.versions import CODE_VERSION
from workers.warehouse.store import Warehouse

INDEX = "index.html"
STATISTICS = "statistics.html"
MODELS = "models"

FEW_MODELS = 24
"""So many models are drawn in this process; starting others takes longer than drawing these."""

CHUNK = 8
"""So many models are handed to another process at once."""

MARK = '<meta name="generator" content="privaudit">'
"""Tells our pages from a person's own: only ours are ever removed."""


def write_report(warehouse: Warehouse, folder: str | pathlib.Path) -> pathlib.Path:
    """Write the report of a warehouse into a folder and return the path of its first page.

    Args:
        warehouse: what was audited; it may be empty.
        folder: where the report goes; it is made if need be.

    Raises:
        OSError: the folder cannot be written.
    """
    return write_pages(read_tables(warehouse), folder)


def write_pages(tables: Tables, folder: str | pathlib.Path) -> pathlib.Path:
    """Write the report of some rows; the same rows give the same files, and no clock is read.

    `index.html`, `statistics.html` and `models/<model>.html`. Each file is replaced at once, so
    that a reader never meets half a page, and `index.html` last. Pages of models that are no longer
    in the warehouse are removed.

    Raises:
        pydantic.ValidationError: a row that is not of its table.
        ValueError: two records of the same model and day.
        OSError: the folder cannot be written.
    """
    root = pathlib.Path(folder)
    (root / MODELS).mkdir(parents=True, exist_ok=True)
    models = sorted(tables.audits["model"].unique())
    night: dt.date | None = tables.audits["day"].max()  # type: ignore[assignment]  # polars' union
    entries: list[Entry] = []
    if night is not None:
        step = len(models) if len(models) <= FEW_MODELS else CHUNK
        chunks = [models[start : start + step] for start in range(0, len(models), step)]
        top = _top(tables.audits)
        jobs = [(tables.of_models(chunk), chunk, root, night, top) for chunk in chunks]
        for written in _each(jobs):
            entries += written
    text, _ = statistics()
    _replace(root / STATISTICS, rendered("statistics.html.j2", text=text, version=CODE_VERSION))
    _replace(root / INDEX, index_page(entries, night=night))
    _remove_others(root / MODELS, {pathlib.Path(entry.href).name for entry in entries})
    return root / INDEX


def page_name(model: str) -> str:
    """Return the file name of a model's page, whatever the model is called."""
    try:
        return f"{check_name('model', model)}.html"
    except NotEvaluableError:
        return f"model-{hashlib.sha256(model.encode()).hexdigest()[:16]}.html"


def _write_models(
    tables: Tables, models: Sequence[str], root: pathlib.Path, night: dt.date, top: float
) -> list[Entry]:
    """Write the pages of some models and return what the page of the night needs of them."""
    entries = []
    for model in models:
        history = history_of(model, tables.audits.filter(pl.col("model") == model))
        last = history.evaluated[-1].audit_id if history.evaluated else None
        details = Details() if last is None else tables.details(last)
        name = page_name(model)
        _replace(root / MODELS / name, model_page(history, details, night=night))
        entries.append(
            Entry(
                model,
                f"{MODELS}/{name}",
                history.latest,
                history.latest if history.latest.day == night else None,
                _small(history, name, top),
            )
        )
    return entries


def _small(history: History, name: str, top: float) -> Markup:
    """Draw all nights of a model for the page of the night."""
    if not history.evaluated:
        return Markup()
    return inline_svg(
        trend.draw_trend(history, trend.SMALL, top=top),
        identifier=name.removesuffix(".html"),
        title=f"{history.model}: every night",
        description=f"{tally_sentence(history)} Its page has the numbers.",
        css_class="plot",
        step=5,
    )


def _each(
    jobs: Sequence[tuple[Tables, Sequence[str], pathlib.Path, dt.date, float]],
) -> Iterable[list[Entry]]:
    """Do the jobs, in several processes where there are several; polars does not survive a fork."""
    if len(jobs) == 1:
        return [_write_models(*jobs[0])]
    processes = min(len(jobs), len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        return list(pool.map(_write_models, *zip(*jobs, strict=True)))


def _top(audits: pl.DataFrame) -> float:
    """Return the largest epsilon that any model's small plot shows; all share one scale."""
    columns = [
        name
        for name in (
            "epsilon_lower",
            "epsilon_lower_28_days",
            "epsilon_declared",
            "epsilon_ceiling",
            "control_epsilon_lower",
        )
        if name in audits.columns
    ]
    values = pl.concat([audits[name].cast(pl.Float64).rename("value") for name in columns])
    most = values.filter(values.is_finite()).max()
    return max(1.0, float(most) if isinstance(most, float) else 1.0)


def _replace(path: pathlib.Path, text: str) -> None:
    """Write a file beside its place and move it there."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _remove_others(folder: pathlib.Path, kept: set[str]) -> None:
    """Remove our own pages of models that are gone: a stale verdict is a wrong one."""
    for path in folder.glob("*.html"):
        if path.name not in kept and MARK in path.read_text(encoding="utf-8")[:2000]:
            path.unlink()
