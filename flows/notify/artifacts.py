"""Artifacts of a flow run in Prefect's pages: a summary, bars by shards, logs, a link."""

import functools
import logging
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.context import TaskRunContext
from prefect.logging.handlers import APILogHandler

from flows.notify.naming import named
from flows.notify.prefect_context import best_effort, in_prefect
from flows.progress import Advance, announce
from privcore.rounding import down, guarantee, up
from workers.warehouse.schema import AuditRow, Status

_SPECIAL = re.compile(r"([\\`*_{}\[\]#+!|<>&~])")
_OF_ADDRESSES = re.compile(r"(?:://|www\.|@)+", re.IGNORECASE)
"""What pages make links by, whatever is escaped; of code they make none."""
_EVERY = 2.0
"""Seconds between two updates of one bar: the server stores every one of them."""
_RUN_LOG = APILogHandler()
# In one process, workers are asked outside of runs too: by a test, by a notebook.
_RUN_LOG.addFilter(lambda _: TaskRunContext.get() is not None)


def markdown_text(text: str, *, linked: bool = False) -> str:
    """Return text that markdown shows as it is, on one line: no tag, link or cell border.

    Args:
        text: of others, unless it is `linked`.
        linked: whether pages may make links of its addresses.
    """
    shown = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return shown if linked else _OF_ADDRESSES.sub(r"`\g<0>`", shown)


def summary(title: str, rows: Sequence[AuditRow], *, report: str | None, more: str = "") -> str:
    """Return a night, an audit or a backfill as markdown: counts and more, table, report."""
    lines = [
        f"## {markdown_text(title)}",
        "",
        f"{counted(rows)} {markdown_text(more)}".rstrip(),
        "",
    ]
    if rows:
        lines += [
            "| day | model | epsilon_lower | declared | ceiling | control | verdict | why |",
            "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |",
        ]
    for row in rows:
        verdict = "error" if row.status is Status.ERROR else row.verdict
        cells = (
            str(row.day),
            markdown_text(named(row.model, row.secret)),
            down(row.epsilon_lower),
            guarantee(row.epsilon_declared, row.delta_declared),
            up(row.epsilon_ceiling),
            down(row.control_epsilon_lower),
            f"**{verdict}**" if verdict in {"violated", "error"} else verdict,
            markdown_text(row.reason),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if report:
        lines += ["", f"Report: {markdown_text(report, linked=True)}"]
    return "\n".join(lines)


def counted(rows: Sequence[AuditRow]) -> str:
    """Return how many audits came to which verdict, the worst first."""
    if not rows:
        return "No audit."
    order = (
        "error", "violated", "vacuous", "not_a_guarantee", "doubtful", "proxy_unfaithful",
        "not_evaluable", "undeclared", "privatised", "consistent",
    )  # fmt: skip
    found = ["error" if row.status is Status.ERROR else row.verdict for row in rows]
    return ", ".join(f"{found.count(word)} {word}" for word in order if word in found) + "."


def leave_summary(key: str, markdown: str, description: str, *, report: str | None = None) -> None:
    """Leave a summary, and a link to the report where it has an address, on the run's page."""
    if not in_prefect():
        return
    with best_effort("the summary"):
        create_markdown_artifact(markdown=markdown, key=key, description=description)
        if report and report.startswith(("https://", "http://")):
            create_link_artifact(link=report, link_text="Report", key="report")


@contextmanager
def progress_bar(what: str) -> Iterator[Advance]:
    """Yield a function of (done, all) that moves a bar on the run's page and announces it.

    What the data plane logs meanwhile, a line for each work unit, goes into the run's log.
    """
    if not in_prefect():
        yield functools.partial(announce, what)
        return
    _hear_workers()
    artifact = None
    with best_effort("a progress bar"):
        artifact = create_progress_artifact(progress=0.0, description=markdown_text(what))
    last = time.monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal last
        announce(what, done, total)
        now = time.monotonic()
        # No coroutine, since it is called from a thread: None where the server did not take it.
        if isinstance(artifact, uuid.UUID) and (done == total or now - last >= _EVERY):
            last = now
            with best_effort("a progress bar"):
                update_progress_artifact(artifact, progress=100.0 * done / max(total, 1))

    yield advance


def _hear_workers() -> None:
    log = logging.getLogger("workers")
    log.setLevel(logging.INFO)
    # PREFECT_LOGGING_EXTRA_LOGGERS may have done it. Adding a handler twice is adding it once.
    if not any(isinstance(handler, APILogHandler) for handler in log.handlers):
        log.addHandler(_RUN_LOG)
