"""Test of whether Prefect runs this code; if not, it has no run to show, and logs as all else."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import prefect
from prefect.context import FlowRunContext, TaskRunContext


def in_prefect() -> bool:
    """Return whether a run of Prefect's is under way here, as it is in every flow and task."""
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def run_log() -> "logging.Logger | logging.LoggerAdapter[logging.Logger]":
    """Return the run's log, which Prefect's pages show; without a run, this process's."""
    return prefect.get_run_logger() if in_prefect() else logging.getLogger(__name__)


def log_failure(error: BaseException, sentence: str, *about: object) -> None:
    """Log an exception, with its message on this machine alone.

    Prefect's server keeps a run's log and shows it to whoever may open its pages, and a library's
    words may quote labels. So its log has the exception's kind.
    """
    if in_prefect():
        said = f"{sentence} {type(error).__name__}: see the worker's standard error."
        run_log().error(said, *about)
    logging.getLogger(__name__).error(sentence, *about, exc_info=error)


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Warn where Prefect's server does not take what no audit depends on, as while it restarts."""
    try:
        yield
    except httpx.HTTPError as error:
        run_log().warning("Prefect's server did not take %s: %s", what, error)
