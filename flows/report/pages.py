"""The pages of a night and of one model: what the templates are given, drawn and worded."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from flows.next_steps import card_of
from flows.policy import acceptance
from flows.report import plots, sentences
from flows.report.canvas import SIGNS
from flows.report.history import History, model_verdict, worst_first
from flows.report.report_rows import SharedLabels
from flows.report.templating import rendered
from flows.settings import PolicySettings
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import down, guarantee, up
from workers.plain_text import plain_text
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.table_row import TableRow


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on the page of the night.

    Attributes:
        href: path of its own page.
        trend: all its nights, drawn small; empty where none came to a figure.
    """

    history: History
    href: str
    trend: Markup


@dataclass(frozen=True, slots=True)
class Undrawn:
    """A model whose own page cannot be drawn."""

    model: str
    href: str


def index_page(
    models: Sequence[Entry | Undrawn],
    *,
    night: dt.date | None,
    withdrawals: Sequence[dict[str, Any]] = (),
    secrets: Sequence[AuditedNight] = (),
    shared: Sequence[SharedLabels] = (),
) -> str:
    """Return the page of the night as text."""
    entries = [one for one in models if isinstance(one, Entry)]
    by_name = {entry.history.model: entry for entry in entries}
    histories = [entry.history for entry in entries]
    return rendered(
        "index.html.j2",
        root="",
        day=night,
        headline=sentences.headline([*histories, *_violated_secrets(secrets)], night),
        entries=[by_name[one.model] for one in worst_first(histories)],
        records=[one.latest for one in histories],
        undrawn=[one for one in models if isinstance(one, Undrawn)],
        withdrawals=withdrawals,
        secrets=secrets,
        shared=shared,
    )


def _violated_secrets(secrets: Sequence[AuditedNight]) -> list[History]:
    """Return the other secrets of which the declaration is refuted, to be named with the models."""
    nights = [one for one in secrets if model_verdict(one) is Verdict.VIOLATED]
    return [History(f"{plain_text(one.model)}, {one.secret}", (one,)) for one in nights]


def blocks_of(
    night: AuditedNight,
    policy: PolicySettings | None,
    on: dt.date,
    shared: Sequence[SharedLabels] | None,
) -> dict[str, Any]:
    """Return what the blocks of a page show: measured, declared, and policy.

    Args:
        night: the record that the page is about.
        policy: of the settings; None where none is set.
        on: day (UTC) on which the record's age is judged.
        shared: labels on which this model and others were trained; None where it is not known.
    """
    card = card_of(night)
    ruled = policy and acceptance(policy, night, card.verdict, on)
    return {"card": card, "acceptance": ruled, "on": on, "shared": shared}


def audit_page(night: AuditedNight, blocks: dict[str, Any]) -> str:
    """Return one audit's page, which stands alone: its blocks, and where they come from."""
    measured = None if night.epsilon_lower is None else night
    return rendered("audit.html.j2", root=None, latest=night, measured=measured, **blocks)


OPEN_NIGHTS = 10
"""A table of the numbers with more nights than this is folded away."""
NAMED_DAYS = 7
"""The most nights without figures for one reason that are named."""
_NIGHT_ROW = (
    '<tr><th scope="row">%s</th><td class="text %s">%s</td><td class="text %s">%s</td>'
    '<td class="bound strong">%s</td><td>%s</td><td>%s</td><td class="strong">%s</td><td>%s</td>'
    '<td>%s</td><td>%s</td><td>%s</td><td class="paper">%s</td><td>%s</td>'
    '<td class="text"><code title="%s">%s</code></td></tr>'
)


def model_page(
    history: History,
    details: Mapping[str, Sequence[TableRow]],
    *,
    night: dt.date,
    blocks: dict[str, Any],
    secrets: Sequence[AuditedNight] = (),
    acknowledged: Sequence[str] = (),
) -> str:
    """Return the page of one model as text; `blocks` are those of its newest record."""
    return rendered(
        "model.html.j2",
        root="../",
        history=history,
        latest=history.latest,
        measured=history.evaluated[-1] if history.evaluated else None,
        night=night,
        details=details,
        drawings=_drawings(history),
        reasons=_reasons(history),
        changes=[
            change
            for night in history.nights
            for change in (night.declaration_change, night.nights_remark)
            if change
        ],
        inputs=[night.inputs_changed for night in history.nights if night.inputs_changed],
        secrets=secrets,
        acknowledged=acknowledged,
        rows=_night_rows(history),
        open_nights=OPEN_NIGHTS,
        **blocks,
    )


def _night_rows(history: History) -> Markup:
    """Return the rows of the table of numbers, the newest first.

    Not in the template: years of nights are thousands of cells, and to escape each takes longer
    than all else. A row's texts are escaped as one; none has the character that joins them.
    """
    rows = []
    for night in reversed(history.nights):
        sign, together = SIGNS[Verdict(night.verdict)], SIGNS[model_verdict(night)]
        texts = (
            str(night.day),
            together.color,
            together.word,
            sign.color,
            sign.word,
            down(night.epsilon_lower),
            guarantee(night.epsilon_declared, night.delta_declared),
            up(night.sees_from),
            up(night.sees_from_together),
            down(night.epsilon_lower_28_days),
            down(night.epsilon_standing),
            down(night.control_epsilon_lower),
            up(night.epsilon_ceiling),
            down(night.epsilon_paper),
            sentences.count(night.records),
            night.audit_id,
            night.audit_id[:8],
        )
        rows.append(_NIGHT_ROW % tuple(str(escape("\0".join(texts))).split("\0")))
    return Markup("\n".join(rows))  # noqa: S704  # escaped above


def _drawings(history: History) -> list[Markup]:
    """Draw all nights, for a wide page and for a phone; nothing where none came to a figure."""
    if not history.evaluated:
        return []
    said = f"{sentences.tally_sentence(history)} {sentences.control_sentence(history)}".strip()
    return [
        plots.draw_trend(history, size, top=plots.top_of_trend(history)).inline_svg(
            f"nights-{size.name}",
            title="Every night: proved, seen by the nights together, declared, and holdout",
            description=f"{said} The same numbers follow as a table.",
            css_class=f"plot {size.name}",
        )
        for size in (plots.TREND_WIDE, plots.TREND_NARROW)
    ]


def _reasons(history: History) -> list[tuple[str, str]]:
    """Return (days, reason) for the nights without figures, equal reasons together."""
    days: dict[str, list[dt.date]] = {}
    for night in history.nights:
        if night.epsilon_lower is None:
            days.setdefault(night.reason, []).append(night.day)
    return [(_named(when), reason) for reason, when in days.items()]


def _named(days: Sequence[dt.date]) -> str:
    earlier = len(days) - NAMED_DAYS
    named = sentences.short_days(days[-NAMED_DAYS:])
    return named if earlier <= 0 else f"{named}, and {earlier} earlier"


def undrawn_page(what: str, why: str, *, night: dt.date | None = None, root: str = "../") -> str:
    """Return the page that stands for one that cannot be drawn: a stale verdict is a wrong one."""
    return rendered("undrawn.html.j2", root=root, what=what, why=why, night=night)
