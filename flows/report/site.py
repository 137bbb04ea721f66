"""The report as files: the page of the night, one page per model, and every number explained."""

import dataclasses
import datetime as dt
import itertools
import logging
import multiprocessing
import os
import pathlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup
from pydantic import ValidationError

from flows.report.explanations import statistics
from flows.report.history import AuditedNight, History, history_of
from flows.report.index_page import Entry, Undrawn, Withdrawal, index_page
from flows.report.model_page import model_page, undrawn_page
from flows.report.pages import (
    INDEX,
    MARK,
    MODELS,
    STATISTICS,
    page_names,
    remove_others,
    replace_page,
    report_folder,
)
from flows.report.plots import trend
from flows.report.report_rows import Details, Tables, read_tables
from flows.report.sentences import tally_sentence
from flows.report.shared_labels import LabelTotal, shared_labels
from flows.report.study_page import find_studies
from flows.report.svg import inline_svg
from flows.report.templating import rendered
from workers.plain_text import plain_text
from workers.versions import CODE_VERSION
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.store import POSSIBLE_DAY, Warehouse
from workers.warehouse.with_windows import Windows

FEW_MODELS = 100
"""The most models drawn in this process: starting two others takes as much as drawing 140 pages."""

CHUNK = 8
"""The most models that are drawn, or handed to another process, at once."""

_WHY_CHARACTERS = 300
_log = logging.getLogger(__name__)


def write_report(
    warehouse: Warehouse,
    folder: str | pathlib.Path,
    *,
    total: LabelTotal | None = None,
    windows: Windows = epsilon_windows,
) -> pathlib.Path:
    """Write the report of a warehouse into a folder and return the path of its first page.

    Args:
        warehouse: what was audited; it may be empty.
        folder: where the report goes; it is made if need be.
        total: what models on the same labels are held against.
        windows: what the nights up to some audits prove together.
    """
    tables = read_tables(warehouse, windows)
    shared = shared_labels(warehouse, _night(tables.audits), total or LabelTotal())
    return write_pages(dataclasses.replace(tables, shared=shared), folder)


def write_pages(tables: Tables, folder: str | pathlib.Path) -> pathlib.Path:
    """Write the report of some rows; the same rows give the same files, and no clock is read.

    `index.html`, `statistics.html` and `models/<model>.html`. Pages of studies below `studies` are
    linked. Each file is replaced at once, so that a reader never meets half a page, and
    `index.html` last. Pages of models that are no longer in the warehouse are removed. A page that
    cannot be drawn, for a row that is not of its table, say, costs no other: a page that says so
    stands in its place.
    """
    root = report_folder(folder, mode=0o700)
    models = sorted(tables.audits["model"].unique())
    pages = page_names(models)
    night = _night(tables.audits)
    shown: list[Entry | Undrawn] = []
    if night is not None:
        chunks = [models[start : start + CHUNK] for start in range(0, len(models), CHUNK)]
        top = _top(tables.audits)
        jobs = (
            _Job(theirs, {model: pages[model] for model in chunk}, root, night, top)
            for chunk, theirs in zip(chunks, tables.of_each(chunks), strict=True)
        )
        for written in _each(jobs) if len(models) > FEW_MODELS else map(_write_models, jobs):
            shown += written
    text, _ = statistics()
    replace_page(root / STATISTICS, rendered("statistics.html.j2", text=text, version=CODE_VERSION))
    replace_page(
        root / INDEX,
        index_page(
            shown,
            night=night,
            withdrawals=_withdrawals(tables.withdrawals),
            secrets=_told(tables, models),
            shared=tables.shared,
            studies=find_studies(root, mark=MARK),
        ),
    )
    remove_others(root / MODELS, set(pages.values()))
    return root / INDEX


def _withdrawals(rows: pl.DataFrame) -> list[Withdrawal]:
    """Return what the page of the night says of records that were taken back.

    A row that was forged without a time withdraws, too, so the year 1 stands in.
    """
    return [
        Withdrawal(
            plain_text(row["model"] or ""),
            row["day"] or dt.date.min,
            row["withdrawn_at"] or dt.datetime.min.replace(tzinfo=dt.UTC),
            plain_text((row["why"] or "")[:_WHY_CHARACTERS]),
        )
        for row in rows.iter_rows(named=True)
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    """Some models' pages to write."""

    tables: Tables
    pages: Mapping[str, str]
    root: pathlib.Path
    night: dt.date
    top: float


def _write_models(job: _Job) -> list[Entry | Undrawn]:
    """Write the pages of some models and return what the page of the night needs of them."""
    written = list[Entry | Undrawn]()
    each = job.tables.of_each([model] for model in job.pages)
    for (model, name), tables in zip(job.pages.items(), each, strict=True):
        shown = plain_text(model)
        try:
            history = history_of(model, tables.audits)
            written.append(_entry(history, name, job.top))
            page = _page(history, tables, job.night)
        except Exception as error:  # noqa: BLE001  # one model's rows cost no other its page
            _log.exception("The page of %s cannot be drawn.", shown)
            page = undrawn_page(shown, type(error).__name__, night=job.night)
            if not written or written[-1].model != shown:
                written.append(Undrawn(shown, f"{MODELS}/{name}"))
        replace_page(job.root / MODELS / name, page)
    return written


def _page(history: History, tables: Tables, night: dt.date) -> str:
    """Return a model's page; `tables` are its rows."""
    last = history.evaluated[-1].audit_id if history.evaluated else None
    return model_page(
        history,
        Details() if last is None else tables.details(last),
        night=night,
        secrets=tables.told_of([history.nights[0].model]),
        acknowledged=tables.acknowledged["sentence"].to_list(),
    )


def _told(tables: Tables, models: list[str]) -> tuple[AuditedNight, ...]:
    """Return the results for other secrets than labels; none where a row is not of its table."""
    try:
        return tables.told_of(models)
    except ValidationError:
        _log.exception("The audits of other secrets cannot be read.")
        return ()


def _entry(history: History, name: str, top: float) -> Entry:
    """Return what the page of the night needs of a model."""
    return Entry(
        history.model,
        f"{MODELS}/{name}",
        history.shown,
        _small(history, name, top),
    )


def _small(history: History, name: str, top: float) -> Markup:
    """Draw all nights of a model for the page of the night."""
    if not history.evaluated:
        return Markup()
    try:
        drawn = trend.draw_trend(history, trend.SMALL, top=top)
    except Exception:  # noqa: BLE001  # the page of the night goes without it
        _log.exception("The small plot of %s cannot be drawn.", history.model)
        return Markup()
    return inline_svg(
        drawn,
        identifier=name.removesuffix(".html"),
        title=f"{history.model}: every night",
        description=f"{tally_sentence(history)} Its page has the numbers.",
        css_class="plot",
    )


def _each(jobs: Iterator[_Job]) -> Iterator[list[Entry | Undrawn]]:
    """Do the jobs in several processes, which are spawned: polars does not survive a fork.

    What other processes did not come to, since one of them ended, is done here. Jobs are made as
    they are asked for, a few ahead: each holds its models' rows once more.
    """
    processes = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        going: deque[tuple[_Job, Future[list[Entry | Undrawn]] | None]] = deque()
        for job in itertools.chain(jobs, [None] * (2 * processes)):
            if job is not None:
                going.append((job, _submitted(pool, job)))
            if going and (job is None or len(going) > 2 * processes):
                yield _result(*going.popleft())


def _submitted(pool: ProcessPoolExecutor, job: _Job) -> Future[list[Entry | Undrawn]] | None:
    """Hand over a job; None where a process has ended, after which none takes any."""
    try:
        return pool.submit(_write_models, job)
    except BrokenProcessPool:
        return None


def _result(job: _Job, future: Future[list[Entry | Undrawn]] | None) -> list[Entry | Undrawn]:
    try:
        return _write_models(job) if future is None else future.result()
    except BrokenProcessPool:
        return _write_models(job)


def _night(audits: pl.DataFrame) -> dt.date | None:
    """Return the report's night: the newest audited day, None where there is none."""
    possible = audits.filter(POSSIBLE_DAY)
    newest: dt.date | None = (possible if possible.height else audits)["day"].max()  # type: ignore[assignment]  # polars' union
    return newest


def _top(audits: pl.DataFrame) -> float:
    """Return the largest epsilon that any model's small plot shows; all share one scale."""
    columns = [
        name
        for name in (
            "epsilon_lower",
            "epsilon_lower_28_days",
            "epsilon_declared",
            "epsilon_ceiling",
            "epsilon_ceiling_28_days",
            "control_epsilon_lower",
        )
        if name in audits.columns
    ]
    values = pl.concat([audits[name].cast(pl.Float64).rename("value") for name in columns])
    most = values.filter(values.is_finite()).max()
    # One model that declares 10^26 must not flatten the plots of all others.
    return min(trend.LEVELS[-1], max(1.0, float(most) if isinstance(most, float) else 1.0))
