"""The pages of a night and of one model: what the templates are given, drawn and worded."""

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup, escape

from flows.next_steps import Card, card_of
from flows.policy import acceptance
from flows.report import plots, sentences
from flows.report.canvas import SIGNS, Drawing, Sign, inline_svg
from flows.report.history import History, model_verdict, worst_first
from flows.report.plots import draw_curve
from flows.report.report_rows import Details, SharedLabels
from flows.report.study_page import StudyLink
from flows.report.templating import rendered
from flows.settings import PolicySettings
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import down, guarantee, up
from workers.plain_text import plain_text
from workers.warehouse.nights_together import AuditedNight

MANY_MODELS = 24
"""The most models without a search on the page, which needs scripts that may run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on the page of the night.

    Attributes:
        history: its records.
        href: path of its own page.
        trend: all its nights, drawn small; empty where none came to a figure.
    """

    history: History
    href: str
    trend: Markup

    @property
    def model(self) -> str:
        """Its name."""
        return self.history.model

    @property
    def latest(self) -> AuditedNight:
        """Its newest record, of whichever night."""
        return self.history.latest

    @property
    def card(self) -> Card:
        """How the model stands, and what to do first."""
        return self.history.card

    @property
    def verdict(self) -> str:
        """Its verdict."""
        return self.card.verdict

    @property
    def owner(self) -> str:
        """Owner who declared last; empty if there is none."""
        return self.latest.declared_by or ""

    @property
    def dataset(self) -> str:
        """Dataset whose labels were audited last; empty where it is not known."""
        return self.latest.dataset or ""


@dataclass(frozen=True, slots=True)
class Undrawn:
    """A model whose own page cannot be drawn."""

    model: str
    href: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A record that a user withdrew."""

    model: str
    day: dt.date
    at: dt.datetime
    why: str


def index_page(
    models: Sequence[Entry | Undrawn],
    *,
    night: dt.date | None,
    withdrawals: Sequence[Withdrawal] = (),
    secrets: Sequence[AuditedNight] = (),
    shared: Sequence[SharedLabels] = (),
    studies: Sequence[StudyLink] = (),
) -> str:
    """Return the page of the night as text."""
    entries = [one for one in models if isinstance(one, Entry)]
    by_name = {entry.model: entry for entry in entries}
    histories = [entry.history for entry in entries]
    return rendered(
        "index.html.j2",
        root="",
        day=night,
        headline=sentences.headline([*histories, *_violated_secrets(secrets)], night),
        entries=[by_name[one.model] for one in worst_first(histories)],
        choices=_choices(entries) if len(entries) > MANY_MODELS else {},
        records=[entry.latest for entry in entries],
        undrawn=[one for one in models if isinstance(one, Undrawn)],
        withdrawals=withdrawals,
        secrets=secrets,
        shared=shared,
        studies=studies,
    )


def _violated_secrets(secrets: Sequence[AuditedNight]) -> list[History]:
    """Return the other secrets of which the declaration is refuted, to be named with the models."""
    nights = [one for one in secrets if model_verdict(one) is Verdict.VIOLATED]
    return [History(f"{plain_text(one.model)}, {one.secret}", (one,)) for one in nights]


def _choices(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return what models can be chosen by, with the values that there are."""
    return {
        name: sorted({getattr(entry, name) for entry in entries} - {""})
        for name in ("verdict", "owner", "dataset")
    }


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


SAME_NUMBERS = "The same numbers follow as a table."
OPEN_NIGHTS = 10
"""A table of the numbers with more nights than this is folded away."""
UNDRAWN = "this plot cannot be drawn"
"""Text in the place of a plot, with the reason."""
NAMED_DAYS = 7
"""The most nights without figures for one reason that are named."""
_NIGHT_ROW = (
    '<tr><th scope="row">%s</th><td class="text %s">%s</td><td class="text %s">%s</td>'
    '<td class="bound strong">%s</td><td>%s</td><td>%s</td><td class="strong">%s</td><td>%s</td>'
    '<td>%s</td><td>%s</td><td>%s</td><td class="paper">%s</td><td>%s</td>'
    '<td class="text"><code title="%s">%s</code></td></tr>'
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drawings:
    """The plots of one model; empty where there is nothing to draw."""

    nights: tuple[Markup, ...]
    trend: tuple[Markup, ...]
    curve: dict[str, Markup]


def model_page(
    history: History,
    details: Details,
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
        drawings=_drawings(history, details),
        series=plots.series(history),
        signs=_occurring(history),
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
        bar_nights=plots.NIGHTS_SHOWN,
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


def _drawings(history: History, details: Details) -> Drawings:
    """Draw everything that there is to draw."""
    seen = sentences.tally_sentence(history)
    control = sentences.control_sentence(history)
    measured = history.evaluated[-1] if history.evaluated else None
    long = (history.latest.day - history.nights[0].day).days >= plots.NIGHTS_SHOWN
    return Drawings(
        nights=tuple(
            _inline(
                partial(plots.draw_nights, history, size),
                f"nights-{size.name}",
                "Audited lower bound against the declaration, by day",
                f"{seen} {control}",
                size.name,
            )
            for size in (plots.NIGHTS_WIDE, plots.NIGHTS_NARROW)
        )
        if measured
        else (),
        trend=tuple(
            _inline(
                partial(plots.draw_trend, history, size, top=plots.top_of_trend(history)),
                f"trend-{size.name}",
                "Every night: proved, seen by the nights together, declared, and holdout",
                seen,
                size.name,
            )
            for size in (plots.TREND_WIDE, plots.TREND_NARROW)
        )
        if measured and long
        else (),
        curve=_curves(details),
    )


def _curves(details: Details) -> dict[str, Markup]:
    """Draw the game's bounds on training and on holdout records, on one scale."""
    top = max([0.5, *(row.epsilon_lower for row in details.bounds)])
    return {
        arm: _inline(
            partial(draw_curve, rows, top=top),
            f"curve-{arm}",
            f"Bound by share of records guessed on, {words}",
            f"The largest is {down(max(row.epsilon_lower for row in rows))}.",
            "half",
        )
        for arm, words in (("audit", "training records"), ("control", "holdout records"))
        if (rows := [row for row in details.bounds if row.arm == arm])
    }


def _inline(
    draw: Callable[[], Drawing], identifier: str, title: str, description: str, size: str
) -> Markup:
    """Put a drawing into the page, with its words for readers who cannot see it.

    In the place of one that cannot be drawn, the page says so; its numbers are there as a table.
    """
    try:
        drawn = draw()
    except Exception as error:  # noqa: BLE001  # one plot costs no page
        _log.exception("The plot %s cannot be drawn.", identifier)
        return Markup('<p class="plot {} undrawn">{}: {} ({}).</p>').format(
            size, title, UNDRAWN, type(error).__name__
        )
    return inline_svg(
        drawn,
        identifier=identifier,
        title=title,
        description=f"{description.strip()} {SAME_NUMBERS}",
        css_class=f"plot {size}",
    )


def _occurring(history: History) -> Sequence[Sign]:
    """Return the signs that the plot of nights shows, the worst first."""
    shown = history.since(plots.NIGHTS_SHOWN).nights
    found = {night.verdict for night in shown}
    return [sign for verdict, sign in SIGNS.items() if verdict in found]


def _reasons(history: History) -> list[tuple[str, str]]:
    """Return (days, reason) for the nights without figures, equal reasons together."""
    days: dict[str, list[dt.date]] = {}
    for night in history.unevaluated:
        days.setdefault(night.reason, []).append(night.day)
    return [(_named(when), reason) for reason, when in days.items()]


def _named(days: Sequence[dt.date]) -> str:
    """Name the last few of some days and count the others."""
    earlier = len(days) - NAMED_DAYS
    named = sentences.short_days(days[-NAMED_DAYS:])
    return named if earlier <= 0 else f"{named}, and {earlier} earlier"


def undrawn_page(what: str, why: str, *, night: dt.date | None = None, root: str = "../") -> str:
    """Return the page that stands for one that cannot be drawn: a stale verdict is a wrong one."""
    return rendered("undrawn.html.j2", root=root, what=what, why=why, night=night)
