"""Artifacts of a flow run in Prefect's pages: a summary and a link."""

import re
from collections.abc import Sequence

from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows import next_steps
from flows.next_steps import card_of
from flows.notify.prefect_context import best_effort, in_prefect
from privcore.lower_bounds.secret import named
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import down, guarantee, up
from workers.warehouse.schema import AuditRow
from workers.warehouse.with_windows import AuditedNight

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
