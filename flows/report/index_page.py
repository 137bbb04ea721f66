"""The page of the night: how all models stand, the worst first, and every night small."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from flows.next_steps import Card
from flows.report import sentences
from flows.report.history import History, model_verdict, worst_first
from flows.report.shared_labels import SharedLabels
from flows.report.study_page import StudyLink
from flows.report.templating import rendered
from privcore.lower_bounds.verdicts import Verdict
from workers.plain_text import plain_text
from workers.warehouse.with_windows import AuditedNight

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
