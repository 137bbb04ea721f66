"""Prefect's run around this code, if there is one: its log, its state, and what its pages show."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import prefect
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event

from flows import next_steps
from flows.next_steps import card_of
from privcore.lower_bounds.question import named
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import down, guarantee, up
from workers.warehouse.nights_together import AuditedNight
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


_SPECIAL = re.compile(r"([\\`*_{}\[\]#+!|<>&~])")
_OF_ADDRESSES = re.compile(r"(?:://|www\.|@)+", re.IGNORECASE)
"""What pages make links by, whatever is escaped; of code they make none."""
_URGENT = {Verdict.VIOLATED, Verdict.FAILED}


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
            "| day | model | verdict | reason_code | declared | proved | sees from | next |",
            "| --- | --- | --- | --- | ---: | ---: | ---: | --- |",
        ]
    for row in rows:
        card = card_of(row)
        together = row.sees_from_together if isinstance(row, AuditedNight) else None
        cells = (
            str(row.day),
            markdown_text(named(row.model, row.secret)),
            f"**{card.verdict}**" if card.verdict in _URGENT else card.verdict,
            markdown_text(card.code or ""),
            guarantee(row.epsilon_declared, row.delta_declared),
            down(row.epsilon_lower),
            up(row.sees_from) if together is None else f"{up(row.sees_from)} / {up(together)}",
            markdown_text(f"{card.step.role}: {card.step.text}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if rows:
        lines += [
            "",
            "Sees from: by the night alone / by the nights together, shown by every label.",
        ]
    if report:
        lines += ["", f"Report: {markdown_text(report, linked=True)}"]
    return "\n".join(lines)


def counted(rows: Sequence[AuditRow]) -> str:
    """Return how many audits came to which verdict, of their nights together, the worst first."""
    return next_steps.counted([card_of(row).verdict for row in rows])


def leave_summary(key: str, markdown: str, description: str, *, report: str | None = None) -> None:
    """Leave a summary, and a link to the report where it has an address, on the run's page."""
    if not in_prefect():
        return
    with best_effort("the summary"):
        create_markdown_artifact(markdown=markdown, key=key, description=description)
        if report and report.startswith(("https://", "http://")):
            create_link_artifact(link=report, link_text="Report", key="report")
