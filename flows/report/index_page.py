"""The page of the night: one sentence, the models sorted by how bad, and every night small."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from flows.report import sentences
from flows.report.history import AuditedNight, worst_first
from flows.report.shared_labels import SharedLabels
from flows.report.study_page import StudyLink
from flows.report.templating import rendered

MANY_MODELS = 24
"""The most models without a search on the page, which needs scripts that may run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on the page of the night.

    Attributes:
        model: its name.
        href: path of its own page.
        latest: its newest record, of whichever night.
        trend: all its nights, drawn small; empty where none came to a figure.
    """

    model: str
    href: str
    latest: AuditedNight
    trend: Markup

    @property
    def verdict(self) -> str:
        """The verdict of its newest record."""
        return self.latest.verdict

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
    ordered = worst_first({entry.model: entry.latest for entry in entries})
    return rendered(
        "index.html.j2",
        root="",
        day=night,
        sentence=sentences.night_sentence({name: by_name[name].latest for name in ordered}, night),
        entries=[by_name[name] for name in ordered],
        choices=_choices(entries) if len(entries) > MANY_MODELS else {},
        records=[entry.latest for entry in entries],
        undrawn=[one for one in models if isinstance(one, Undrawn)],
        withdrawals=withdrawals,
        secrets=secrets,
        shared=shared,
        studies=studies,
    )


def _choices(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return what models can be chosen by, with the values that there are."""
    return {
        name: sorted({getattr(entry, name) for entry in entries} - {""})
        for name in ("verdict", "owner", "dataset")
    }
