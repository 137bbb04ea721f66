"""Events: all that a person should look at.

An event's id is a digest of its content: a repeated run sends the same event again, and a receiver
can drop the copy. So an event is delivered also where a run was cut between its commit and it.
"""

import datetime as dt
import hashlib
import math
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flows.next_steps import card_of
from flows.notify.incidents import Incident, Stage, incident_id, incidents_before
from flows.settings import Settings
from privcore.lower_bounds import Secret, Verdict
from privcore.lower_bounds.question import named
from privcore.rounding import down
from workers.audit.declaration import label_column_warning, said_of_labels_in
from workers.plain_text import plain_text
from workers.warehouse.acknowledgements import Acknowledgement
from workers.warehouse.changes import Unlisted, unlisted_models
from workers.warehouse.model_verdict import REACH
from workers.warehouse.nights_together import AuditedNight, audited_nights
from workers.warehouse.schema import AuditRow, NoteRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import typed_rows
from workers.warehouse.together import Together, together

FIGURES = (
    "epsilon_lower",
    "epsilon_standing",
    "epsilon_declared",
    "delta_declared",
    "sees_from",
    "sees_from_together",
    "claim_pvalue",
    "records",
    "control_records",
)
"""Columns of a night that its events carry; null where it has no figure."""

_ADDRESS = re.compile(
    r"(\b(?!s3a?:|gs:|az:|abfss?:|hdfs:|ray:)[a-z][a-z0-9+.-]*://"
    r"|\b(?:mailto|tel|sms|callto|sip|skype|javascript|data|ms-[a-z-]+):|\bwww\.|\\\\)(?=[^ ])",
    re.IGNORECASE,
)
"""Beginnings of what chats and mail make links by: addresses but those of storage, which stay whole
for a person to copy, and Windows' shares, to which a client would send its user's login."""
_OF_ONE_RUN = (
    "A person chose a plan for this run alone, and of several plans or seeds one may refute what "
    "is true: where the day has an audit under the settings' plan, that one counts. "
)


class Kind(StrEnum):
    """Kinds of events, by the names that Prefect's automations in deploy/ wait for."""

    VIOLATED = "privaudit.violated"
    RESOLVED = "privaudit.resolved"
    INCONCLUSIVE = "privaudit.inconclusive"
    FAILED = "privaudit.failed"
    MISSING = "privaudit.missing"
    CHANGED = "privaudit.changed"
    WITHDRAWN = "privaudit.withdrawn"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a model.

    Attributes:
        audit_id: of the record, or the name of the labels that a total is about.
        stage: of a violation, its place in the incident.
        verdict: of the nights together where they are known, else of the night.
        next_step: the verdict and the first step, in one line.
        figures: by the names of `FIGURES`.
        incident: id that all events about one violation share.
        moment: what tells two events of one record apart.
    """

    kind: Kind
    model: str
    day: dt.date
    subject: str
    reason: str
    notify: tuple[str, ...] = ()
    report: str | None = None
    audit_id: str | None = None
    stage: Stage | None = None
    verdict: str | None = None
    reason_code: str | None = None
    next_step: str = ""
    figures: tuple[tuple[str, float | int | None], ...] = ()
    incident: str | None = None
    moment: str = ""

    @property
    def id(self) -> uuid.UUID:
        """The same for the same event of the same record, and moment where it has one."""
        about = (self.kind, self.stage, self.model, self.day, self.audit_id, self.moment)
        content = "\0".join(str(part or "") for part in about)
        return uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)

    @property
    def is_new_violation(self) -> bool:
        """Whether a violation begins, or is more than people know of."""
        begun = self.kind is Kind.VIOLATED and self.stage is not Stage.ACKNOWLEDGED
        return (
            begun and self.incident is not None and self.stage is not None and self.stage.notifies
        )

    def payload(self) -> dict[str, Any]:
        """Return what Prefect's event and the webhook carry."""
        return {
            "event": str(self.kind),
            "id": str(self.id),
            "model": _one_line(self.model),
            "day": self.day.isoformat(),
            "stage": self.stage,
            "subject": _one_line(self.subject),
            "verdict": self.verdict,
            "reason_code": self.reason_code,
            "reason": _one_line(self.reason),
            "next_step": _one_line(self.next_step),
            "figures": dict(self.figures),
            # Of a total it holds the labels' name, in their owner's words.
            "audit_id": None if self.audit_id is None else _one_line(self.audit_id),
            "incident": self.incident,
            "report": self.report,
            "notify": list(self.notify),
        }


def without_markup(text: str) -> str:
    """Return text in which no chat and no tracker sees markup: <!channel> and @everyone call all.

    Links with words of their own are <address|word> in Slack, [word](address) in others,
    [word|address] in Jira, "word":address in Redmine. Names of classes, columns and units are
    others' words. Each receiver has escapes of its own, so other characters stand in.
    """
    marks = {ord("<"): "\u2039", ord(">"): "\u203a", ord("@"): "\uff20", ord("|"): "\u00a6"}
    return _ADDRESS.sub(r"\1 ", text.translate(marks).replace("](", "] ("))


def _one_line(text: str) -> str:
    return without_markup(plain_text(text))


def at_commit(row: AuditRow, incident: Incident, settings: Settings) -> Event | None:
    """Return the event of a record that waits for no other one: it failed, or refutes alone."""
    if row.status is Status.ERROR or row.verdict == Verdict.FAILED:
        what = f"its audit failed: {row.reason_code}"
        return _about(row, settings, Kind.FAILED, what, row.reason)
    return _violated(row, incident, settings) if row.verdict == Verdict.VIOLATED else None


def nights_of(rows: Sequence[AuditRow], settings: Settings) -> tuple[AuditedNight, ...]:
    """Return the rows that are stored and not withdrawn, with what other nights add to them."""
    warehouse = Warehouse(settings.warehouse)
    ids = {row.audit_id for row in rows}
    found = audited_nights(warehouse, ids - warehouse.withdrawn(ids).keys())
    return typed_rows(AuditedNight, found.sort("day", "model", "secret"))


def events(nights: Sequence[AuditedNight], settings: Settings) -> list[Event]:
    """Return the events of audits that were committed, beside those of `at_commit`.

    A violation by nights together, an incident that is resolved, a doubt or an empty declaration
    that is new, what changed, models that the settings no longer list, totals that are exceeded. An
    inconclusive night that is too small has none. The nights are as `nights_of` returns them.
    """
    if not nights:
        return []
    warehouse = Warehouse(settings.warehouse)
    incidents = incidents_before(warehouse, nights)
    found = [
        event for night in nights for event in _of_night(night, incidents[night.audit_id], settings)
    ]
    listed = (
        (model.name, plan.secret_name)
        for model in settings.models
        for plan in settings.plans_of(model.name)
    )
    last = max(night.day for night in nights)
    found += [_unlisted(one, last, settings) for one in unlisted_models(warehouse, listed, last)]
    if (total := settings.together) is not None:
        for day in sorted({night.day for night in nights}):
            labels = together(warehouse, day, delta=total.delta)
            found += [
                _exceeded(one, total.epsilon, settings)
                for one in labels
                if one.exceeds(total.epsilon)
            ]
    return found


def _of_night(night: AuditedNight, incident: Incident, settings: Settings) -> Iterator[Event]:
    """Yield the events of a night that other nights add to it."""
    heard = False
    if not night.exploratory and (night.verdict == Verdict.VIOLATED or night.refuted_together):
        event = _violated(night, incident, settings)
        heard = event.is_new_violation
        if night.verdict != Verdict.VIOLATED:  # else it was delivered at the commit
            yield event
    elif incident.is_resolved_by(night):
        yield _about(
            night,
            settings,
            Kind.RESOLVED,
            "no longer refuted",
            "An earlier night, or all nights together, refuted what is declared. This night and "
            "all nights together do not, and this night would probably have seen a false "
            "declaration. The earlier verdict stays.",
            incident=incident_id(night),
        )
    # A new violation tells all that its sentence remarks on. But of an update nobody hears, and
    # what is remarked on may have lowered it to one.
    news = () if heard or night.exploratory else incident.news_of(night)
    words = ", ".join(news).replace("_", " ")
    said = f"New since {REACH} days: {words}. {night.reason}" if news else ""
    if news and night.verdict == Verdict.INCONCLUSIVE:
        what = f"it is inconclusive: {night.reason_code}"
        yield _about(night, settings, Kind.INCONCLUSIVE, what, said, moment=words)
        said = ""
    declared = night.declaration_change
    kept = declared and f"{declared} Each night stays held against what was declared for it."
    changes = " ".join(filter(None, (kept, night.inputs_changed, night.nights_remark, said)))
    if changes:
        what = "its declaration changed" if declared else "what its audit reads changed"
        yield _about(night, settings, Kind.CHANGED, what, changes, moment=changes)


def _violated(night: AuditRow, incident: Incident, settings: Settings) -> Event:
    """Return the event of a night that refutes its declaration, alone or with the others."""
    if night.exploratory:
        what = "its declared guarantee is violated, says a run by another plan"
        told = f"{_OF_ONE_RUN}{night.reason}"
        return _about(night, settings, Kind.VIOLATED, what, told, stage=Stage.BEGINS)
    what, reason = "its declared guarantee is violated", night.reason
    bound = night.epsilon_lower or 0.0
    if night.verdict != Verdict.VIOLATED and isinstance(night, AuditedNight):
        bound = night.epsilon_standing or 0.0
        what = f"{what} by its nights together"
        reason = _together(night, bound)
    stage, more = incident.place(night, bound)
    return _about(
        night,
        settings,
        Kind.VIOLATED,
        what,
        f"{reason} {more}".rstrip(),
        stage=stage,
        incident=incident_id(night),
    )


def _together(night: AuditRow, bound: float) -> str:
    """Say that nights together refute their declarations."""
    first = ""
    if night.secret == Secret.LABEL:
        said = said_of_labels_in(night.source)
        first = label_column_warning(night.mechanism, night.label_column_holds, said=said)
    return (
        "The nights up to this one, each held against what was declared for it, refute together "
        "that every declaration was true; this night alone does not. Under this night's family and "
        f"delta they prove that the loss is at least {down(bound)}. {first}"
    ).rstrip()


def acknowledged(made: Acknowledgement, row: AuditRow, settings: Settings) -> Event:
    """Return the event that somebody acknowledged a violation: an act that others hear of."""
    return _about(
        row,
        settings,
        Kind.VIOLATED,
        f"its violation is acknowledged until {made.until}",
        f"{made.sentence()} The verdict stays.",
        stage=Stage.ACKNOWLEDGED,
        incident=incident_id(row),
        moment=made.noted_at.isoformat(),
    )


def withdrawn(made: NoteRow, row: AuditRow, by: str, settings: Settings) -> Event:
    """Return the event that somebody took an audit back: it is no night's verdict any more."""
    return _about(
        row,
        settings,
        Kind.WITHDRAWN,
        "its audit was withdrawn",
        f"{by} took back the audit {row.audit_id[:8]}, which was {row.verdict}: {made.why}",
        next_step="",
        moment=made.noted_at.isoformat(),
    )


def deleted(model: str, day: dt.date, what: str, by: str, settings: Settings) -> Event:
    """Return the event that somebody deletes audits which refute what a model declared.

    `what` says in words how they do.
    """
    return _of_model(
        model,
        day,
        settings,
        kind=Kind.WITHDRAWN,
        subject=f"{model}: its audits before {day} are deleted",
        reason=f"{by} deletes the audits of all days before {day}, {what}. No nights together "
        "will know of these.",
        moment=dt.datetime.now(dt.UTC).isoformat(),
    )


def missing(model: str, day: dt.date, settings: Settings) -> Event:
    """Return the event that a model has no audit at its deadline."""
    deadline = settings.deadline_of(model, day)
    reason = f"No audit of {model} for {day} was committed by {deadline:%Y-%m-%d %H:%M %Z}."
    subject = f"{model} on {day}: there is no audit"
    return _of_model(model, day, settings, kind=Kind.MISSING, subject=subject, reason=reason)


def _unlisted(missed: Unlisted, day: dt.date, settings: Settings) -> Event:
    """Return the event that the settings no longer list a model, or a secret, audited lately."""
    what = "it" if missed.secret is None else f"its {missed.secret} audit"
    others = (name for one in settings.models for name in one.notify)
    return _of_model(
        missed.model,
        day,
        settings,
        kind=Kind.MISSING,
        subject=f"{missed.model} on {day}: the settings no longer list {what}",
        reason=missed.sentence(),
        notify=tuple(dict.fromkeys(others)),
        moment=f"unlisted {missed.secret or ''}",
    )


def _exceeded(found: Together, limit: float, settings: Settings) -> Event:
    """Return the event that models on the same labels exceed the total of the settings."""
    who = [name for model in found.models for name in settings.model_named(model).notify]
    sentence = found.sentence(limit)
    return _of_model(
        found.models[0],
        found.day,
        settings,
        kind=Kind.CHANGED,
        subject=f"{found.dataset} on {found.day}: {len(found.models)} models exceed the total",
        reason=sentence,
        notify=tuple(dict.fromkeys(who)),
        audit_id=found.dataset,
        moment=sentence,  # a later night may exceed it by more, about the same labels
    )


def _of_model(model: str, day: dt.date, settings: Settings, **more: Any) -> Event:
    """Return an event about a model; `more` are its other fields."""
    told = {"notify": settings.model_named(model).notify, "report": settings.report_url}
    return Event(model=model, day=day, **told | more)


def _about(
    row: AuditRow, settings: Settings, kind: Kind, what: str, reason: str, **more: Any
) -> Event:
    """Return the event that something, in words, is so of an audit; `more` are its other fields."""
    card = card_of(row)
    fields: dict[str, Any] = {
        "kind": kind,
        "subject": f"{named(row.model, row.secret)} on {row.day}: {what}",
        "reason": reason,
        "audit_id": row.audit_id,
        "verdict": card.verdict,
        "reason_code": card.code,
        "next_step": card.line,
        "figures": tuple((name, _finite(getattr(row, name, None))) for name in FIGURES),
    }
    return _of_model(row.model, row.day, settings, **fields | more)


def _finite(value: float | None) -> float | int | None:
    return None if value is None or not math.isfinite(value) else value
