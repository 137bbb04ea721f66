"""Alerts: one per record that a person should look at, as Prefect event and webhook.

An alert's id is a digest of its content: a repeated run sends the same alert again, and a receiver
can drop the copy. So an alert is delivered also where a run was cut between its commit and it.
"""

import dataclasses
import datetime as dt
import hashlib
import math
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

from flows.next_steps import card_of
from flows.notify.incidents import REACH, Incident, Stage, incident_id
from flows.notify.prefect_context import in_prefect, run_log
from flows.notify.webhook import WebhookError, send
from flows.settings import Settings
from privcore.lower_bounds import Secret, Verdict
from privcore.lower_bounds.secret import named
from privcore.rounding import down
from workers.audit.label_state import declaration_location, label_column_warning
from workers.plain_text import plain_text
from workers.warehouse.acknowledgements import Acknowledgement
from workers.warehouse.declaration_changes import is_withdrawn
from workers.warehouse.schema import AuditRow, Status, WithdrawalRow
from workers.warehouse.together import Together
from workers.warehouse.unlisted import Unlisted

FIGURES = (
    "epsilon_lower",
    "epsilon_ceiling",
    "epsilon_declared",
    "delta_declared",
    "claim_pvalue",
    "epsilon_if_proxy_right",
    "control_epsilon_if_proxy_right",
    "records",
    "control_records",
)


_ADDRESS = re.compile(
    r"(\b(?!s3a?:|gs:|az:|abfss?:|hdfs:|ray:)[a-z][a-z0-9+.-]*://"
    r"|\b(?:mailto|tel|sms|callto|sip|skype|javascript|data|ms-[a-z-]+):|\bwww\.|\\\\)(?=[^ ])",
    re.IGNORECASE,
)
"""Beginnings of what chats and mail make links by: addresses but those of storage, which stay whole
for a person to copy, and Windows' shares, to which a client would send its user's login."""


class Event(StrEnum):
    """The names of Prefect events; automations in deploy/ wait for them."""

    EVALUATED = "privaudit.audit.evaluated"
    FAILED = "privaudit.audit.failed"
    MISSING = "privaudit.audit.missing"
    WITHDRAWN = "privaudit.audit.withdrawn"
    UNLISTED = "privaudit.model.unlisted"
    TOTAL_EXCEEDED = "privaudit.labels.total_exceeded"
    VIOLATED = "privaudit.claim.violated"
    STANDS_VIOLATED = "privaudit.claim.stands_violated"
    STILL_VIOLATED = "privaudit.claim.still_violated"
    ACKNOWLEDGED = "privaudit.claim.acknowledged"
    VIOLATED_AS_KNOWN = "privaudit.claim.violated_as_known"
    RESOLVED = "privaudit.claim.resolved"
    DECLARATION_CHANGED = "privaudit.claim.declaration_changed"
    DECLARATION_WITHDRAWN = "privaudit.claim.declaration_withdrawn"
    VACUOUS = "privaudit.claim.vacuous"
    INPUTS_CHANGED = "privaudit.claim.inputs_changed"
    NOT_A_GUARANTEE = "privaudit.claim.not_a_guarantee"
    PROXY_UNFAITHFUL = "privaudit.claim.proxy_unfaithful"
    NOT_EVALUABLE = "privaudit.claim.not_evaluable"
    REMARKED = "privaudit.claim.remarked"


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that a person should look at."""

    event: Event
    model: str
    day: dt.date
    subject: str
    reason: str
    notify: tuple[str, ...]
    report: str | None
    audit_id: str | None = None
    next_step: str = ""
    figures: tuple[tuple[str, float | int | None], ...] = ()
    incident: str | None = None
    moment: str = ""

    @property
    def id(self) -> uuid.UUID:
        """The same for the same event of the same record, and moment where it has one."""
        parts = (self.event, self.model, str(self.day), self.audit_id or "")
        content = "\0".join((*parts, self.moment) if self.moment else parts)
        return uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)

    def payload(self) -> dict[str, Any]:
        """Return what the event and the webhook carry."""
        return {
            "event": str(self.event),
            "id": str(self.id),
            "model": _one_line(self.model),
            "day": self.day.isoformat(),
            "subject": _one_line(self.subject),
            "reason": _one_line(self.reason),
            "next_step": _one_line(self.next_step),
            "figures": dict(self.figures),
            # Of a total it holds a unit, in its owner's words.
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


_OF_ONE_RUN = (
    "A person chose a plan for this run alone, and of several plans or seeds one may refute what "
    "is true: where the day has an audit under the settings' plan, that one counts. "
)


def alert_of(row: AuditRow, settings: Settings) -> Alert | None:
    """Return the alert about a record; None for a verdict that no one needs to look at."""
    subjects: dict[str, tuple[Event, str]] = {
        Verdict.VIOLATED: (Event.VIOLATED, "its declared guarantee is violated"),
        Verdict.VACUOUS: (Event.VACUOUS, "what it declares says nothing"),
        Verdict.NOT_A_GUARANTEE: (Event.NOT_A_GUARANTEE, "its declaration is not a guarantee"),
        Verdict.PROXY_UNFAITHFUL: (Event.PROXY_UNFAITHFUL, "its proxy is unfaithful"),
        Verdict.NOT_EVALUABLE: (Event.NOT_EVALUABLE, "it could not be evaluated"),
    }
    if row.status is Status.ERROR:
        event, what = Event.FAILED, "its audit ended with an error"
    elif row.verdict in subjects:
        event, what = subjects[row.verdict]
    else:
        return None
    return _about(
        row,
        settings,
        event=event,
        what=f"{what}, says a run by another plan" if row.exploratory else what,
        reason=f"{_OF_ONE_RUN}{row.reason}" if row.exploratory else row.reason,
        next_step=card_of(row).line,
        incident=incident_id(row) if event is Event.VIOLATED and not row.exploratory else None,
    )


def _about(row: AuditRow, settings: Settings, *, what: str, **more: Any) -> Alert:
    """Return the alert that something, in words, is so of an audit; `more` are its other fields."""
    fields: dict[str, Any] = {
        "model": row.model,
        "day": row.day,
        "subject": f"{named(row.model, row.secret)} on {row.day}: {what}",
        "notify": settings.model_named(row.model).notify,
        "report": settings.report_url,
        "audit_id": row.audit_id,
        "figures": _figures(row),
    }
    return Alert(**fields | more)


def standing_alert(row: AuditRow, epsilon_standing: float, settings: Settings) -> Alert:
    """Return the alert that a model's nights refute its declarations, though this one does not."""
    first = ""
    if row.secret == Secret.LABEL:
        said = declaration_location(row.scores, row.source)
        first = label_column_warning(row.mechanism, row.label_column_holds, said=said)
    return _about(
        row,
        settings,
        event=Event.STANDS_VIOLATED,
        what="it stands violated by its nights together",
        reason="The nights of this standing, each held against what was declared for it, refute "
        "together that every declaration was true; this night alone does not. Under this night's "
        f"family and delta they prove that the loss is at least {down(epsilon_standing)}. A day "
        "that was audited again also counts as first audited, until an operator withdraws that."
        f"{first and f' {first}'}",
        next_step=card_of(row, stands_violated=True).line,
        figures=(("epsilon_standing", epsilon_standing), *_figures(row)),
        incident=incident_id(row),
    )


def in_incident(alert: Alert, row: AuditRow, bound: float, incident: Incident) -> Alert:
    """Return the alert of a refuted night as its incident has it: new, or an update.

    Nobody is notified of an update, unless it proves much more. While a violation is acknowledged,
    its nights are updates of a kind of their own, of which there is no reminder either.

    Args:
        alert: of the night, as if it began the incident.
        row: the night's record.
        bound: by which it refutes the declaration.
        incident: its state before the night.
    """
    stage, known = incident.stage(row, bound), incident.acknowledged
    events = {Stage.GOES_ON: Event.STILL_VIOLATED, Stage.ACKNOWLEDGED: Event.VIOLATED_AS_KNOWN}
    added = ""
    if known is not None and stage is Stage.ACKNOWLEDGED:
        added = known.sentence()
    elif known is not None and stage is Stage.WORSE:
        added = (
            f"The violation was acknowledged until {known.row.until}. This night proves "
            f"{down(bound)}, more than the {down(incident.known)} that was known, so the "
            "acknowledgement does not cover it."
        )
    elif known is not None and stage is Stage.EXPIRED:
        added = f"The acknowledgement of this violation ended on {known.row.until}."
    elif stage is Stage.GROWS:
        added = (
            f"This night proves {down(bound)}, more than twice the {down(incident.told)} that "
            "people last heard of in this incident."
        )
    return dataclasses.replace(
        alert,
        event=events.get(stage, alert.event),
        reason=f"{alert.reason}{added and f' {added}'}",
    )


def acknowledgement_alert(made: Acknowledgement, row: AuditRow, settings: Settings) -> Alert:
    """Return the alert that somebody acknowledged a violation: an act that others hear of."""
    return _about(
        row,
        settings,
        event=Event.ACKNOWLEDGED,
        what=f"its violation is acknowledged until {made.row.until}",
        reason=f"{made.sentence()} The verdict stays.",
        incident=incident_id(row),
        moment=made.row.acknowledged_at.isoformat(),
    )


def withdrawal_alert(made: WithdrawalRow, row: AuditRow, by: str, settings: Settings) -> Alert:
    """Return the alert that somebody took an audit back: it is no night's verdict any more."""
    return _about(
        row,
        settings,
        event=Event.WITHDRAWN,
        what="its audit was withdrawn",
        reason=f"{by} took back the audit {row.audit_id[:8]}, which was {row.verdict}: {made.why}",
        moment=made.withdrawn_at.isoformat(),
    )


def deletion_alert(model: str, day: dt.date, what: str, by: str, settings: Settings) -> Alert:
    """Return the alert that somebody deletes audits which refute what a model declared.

    `what` says in words how they do.
    """
    return _of_model(
        Event.WITHDRAWN,
        model,
        day,
        settings,
        subject=f"{model}: its audits before {day} are deleted",
        reason=f"{by} deletes the audits of all days before {day}, {what}. No standing "
        "will know of these.",
        moment=dt.datetime.now(dt.UTC).isoformat(),
    )


def resolved_alert(row: AuditRow, settings: Settings) -> Alert:
    """Return the alert that an incident ended: this night refutes nothing, and could have."""
    return _about(
        row,
        settings,
        event=Event.RESOLVED,
        what="no longer refuted",
        reason="An earlier night, or all nights together, refuted what is declared. This night and "
        "all nights together do not, and this night would probably have seen a false declaration. "
        "The earlier verdict stays.",
        next_step=card_of(row).line,
        incident=incident_id(row),
    )


def declaration_alert(row: AuditRow, change: str, settings: Settings) -> Alert:
    """Return the alert that a model declares something else than the night before, or nothing."""
    withdrawn = is_withdrawn(change)
    return _about(
        row,
        settings,
        event=Event.DECLARATION_WITHDRAWN if withdrawn else Event.DECLARATION_CHANGED,
        what=f"its declaration {'was withdrawn' if withdrawn else 'changed'}",
        reason=f"{change} Each night stays held against what was declared for it.",
    )


def remarks_alert(row: AuditRow, words: Sequence[str], settings: Settings) -> Alert:
    """Return the alert that a night remarks on what no night before it did: `words` say what.

    An owner who has the audit see other rows or answers than before may lower its bound by that.
    """
    doubtful = row.verdict == Verdict.DOUBTFUL
    said = ", ".join(word.replace("_", " ") for word in words)
    return _about(
        row,
        settings,
        event=Event.REMARKED,
        what="it is doubtful" if doubtful else "its audit has a new remark",
        reason=f"New since {REACH} days: {said}. {row.reason}",
        next_step=card_of(row).line,
        moment=said,
    )


def _of_model(event: Event, model: str, day: dt.date, settings: Settings, **more: Any) -> Alert:
    """Return an alert about a model, not about one record; `more` are its other fields."""
    told = {"notify": settings.model_named(model).notify, "report": settings.report_url}
    return Alert(event=event, model=model, day=day, **told | more)


def missing_alert(model: str, day: dt.date, settings: Settings) -> Alert:
    """Return the alert that a model has no audit at its deadline."""
    deadline = settings.deadline_of(model, day)
    reason = f"No audit of {model} for {day} was committed by {deadline:%Y-%m-%d %H:%M %Z}."
    subject = f"{model} on {day}: there is no audit"
    return _of_model(Event.MISSING, model, day, settings, subject=subject, reason=reason)


def inputs_alert(row: AuditRow, changes: str, settings: Settings) -> Alert:
    """Return the alert that inputs are not what an earlier record had of them."""
    return _about(
        row,
        settings,
        event=Event.INPUTS_CHANGED,
        what="inputs changed after their audit",
        reason=changes,
        moment=changes,  # a night may have two, and a receiver drops a second one of the same id
    )


def unlisted_alert(missed: Unlisted, day: dt.date, settings: Settings) -> Alert:
    """Return the alert that the settings no longer list a model, or a secret, audited lately."""
    what = "it" if missed.secret is None else f"its {missed.secret} audit"
    others = (name for one in settings.models for name in one.notify)
    return _of_model(
        Event.UNLISTED,
        missed.model,
        day,
        settings,
        subject=f"{missed.model} on {day}: the settings no longer list {what}",
        reason=missed.sentence(),
        notify=tuple(dict.fromkeys(others)),
        moment=missed.secret or "",
    )


def total_alert(found: Together, sentence: str, settings: Settings) -> Alert:
    """Return the alert that models on the same labels exceed the total of the settings."""
    who = [name for model in found.models for name in settings.model_named(model).notify]
    return _of_model(
        Event.TOTAL_EXCEEDED,
        found.models[0],
        found.day,
        settings,
        subject=f"{found.dataset} on {found.day}: {len(found.models)} models exceed the total",
        reason=sentence,
        notify=tuple(dict.fromkeys(who)),
        audit_id=found.dataset,
        moment=sentence,  # a later night may exceed it by more, about the same labels
    )


def deliver(alert: Alert, settings: Settings) -> None:
    """Emit the alert as a Prefect event, and send it to the webhook if there is one."""
    emit(alert.event, alert.model, alert.day, payload=alert.payload(), identity=alert.id)
    if settings.webhook is not None:
        send(settings.webhook, alert.payload())


def deliver_all(alerts: Iterable[Alert], settings: Settings) -> tuple[str, ...]:
    """Deliver alerts, each whatever became of the others; return why some were not delivered."""
    undelivered = []
    for alert in alerts:
        try:
            deliver(alert, settings)
        except WebhookError as error:
            run_log().error("%s", error)  # no traceback: one sentence
            undelivered.append(str(error))
    return tuple(undelivered)


def emit(
    event: Event,
    model: str,
    day: dt.date,
    *,
    payload: dict[str, Any],
    identity: uuid.UUID | None = None,
) -> None:
    """Emit one Prefect event about a model; without a server, none is started to hear it."""
    if not in_prefect() and not PREFECT_API_URL.value():
        return
    emit_event(
        event=event,
        resource={
            "prefect.resource.id": f"privaudit.model.{model}",
            "prefect.resource.name": model,
            "privaudit.model": model,
            "privaudit.day": day.isoformat(),
        },
        payload=payload,
        id=identity,
    )


def _figures(row: AuditRow) -> tuple[tuple[str, float | int | None], ...]:
    return tuple((name, _finite(getattr(row, name))) for name in FIGURES)


def _finite(value: float | None) -> float | int | None:
    return None if value is None or not math.isfinite(value) else value
