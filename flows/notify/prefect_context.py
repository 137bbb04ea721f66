"""Prefect's run around this code, if there is one: its log, its state, and what its pages show."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import prefect
from prefect.artifacts import create_link_artifact
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event

from flows import next_steps
from flows.next_steps import card_of
from workers.warehouse.schema import AuditRow

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun, State


VIOLATED = "Violated"
"""Name of the state in which a run with a new violation ends; it counts as failed."""


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


def tell_as_failed(  # a hook of flows
    flow: "Flow[..., Any]",  # noqa: ARG001  # by name
    flow_run: "FlowRun",
    state: "State[Any]",
) -> None:
    """Emit `prefect.flow-run.Failed` for a run that ends as `Violated`, as a flow's hook.

    Prefect names the event of a state by the state's name. So an automation for failed runs, which
    a team already has, would not hear of one that failed under another name.
    """
    if state.name != VIOLATED:
        return
    related = [(f"prefect.flow.{flow_run.flow_id}", "flow")]
    related += [(f"prefect.tag.{tag}", "tag") for tag in flow_run.tags]
    if flow_run.deployment_id is not None:
        related.append((f"prefect.deployment.{flow_run.deployment_id}", "deployment"))
    emit_event(
        event="prefect.flow-run.Failed",
        resource={
            "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
            "prefect.resource.name": flow_run.name,
            "prefect.state-name": VIOLATED,
            "prefect.state-type": str(state.type.value),
            "prefect.state-message": state.message or "",
        },
        related=[
            {"prefect.resource.id": name, "prefect.resource.role": role} for name, role in related
        ],
    )


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Warn where Prefect's server does not take what no audit depends on, as while it restarts."""
    try:
        yield
    except httpx.HTTPError as error:
        run_log().warning("Prefect's server did not take %s: %s", what, error)


def counted(rows: Sequence[AuditRow]) -> str:
    """Return how many audits came to which verdict, of their nights together, the worst first."""
    return next_steps.counted([card_of(row).verdict for row in rows])


def link_report(report: str | None) -> None:
    """Leave a link to the report on the run's page, where it has an address."""
    if in_prefect() and report is not None and report.startswith(("https://", "http://")):
        with best_effort("the link to the report"):
            create_link_artifact(link=report, link_text="Report", key="report")
