"""Artifacts of a flow run in Prefect's pages: a summary and a link."""

import re
from collections.abc import Sequence

from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.notify.prefect_context import best_effort, in_prefect
from privcore.lower_bounds.secret import named
from privcore.rounding import down, guarantee, up
from workers.warehouse.schema import AuditRow, Status

_SPECIAL = re.compile(r"([\\`*_{}\[\]#+!|<>&~])")
_OF_ADDRESSES = re.compile(r"(?:://|www\.|@)+", re.IGNORECASE)
"""What pages make links by, whatever is escaped; of code they make none."""


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
