"""Notifications where statements are published: of statements alone, and never of records.

No function here takes a record, its figures or its reason, since labels decide them.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flows.next_steps import NO_STATEMENT, statement_card
from flows.notify.alerts import Alert, Event, report_link
from flows.notify.artifacts import markdown_text
from flows.notify.notified import notified_lately
from flows.settings import Settings
from privcore.lower_bounds import Verdict
from workers.publication.erased import Entry, ErasedStatement, Published
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict, Statement
from workers.warehouse.declaration_changes import is_withdrawn
from workers.warehouse.public_changes import PublicChange

_NONE = "no statement"
_UNDECLARED = str(Verdict.UNDECLARED)
_ERASED = "erased"
_ORDER = (*PublicVerdict, _ERASED, _NONE, _UNDECLARED)
_SUBJECTS = {
    PublicVerdict.VIOLATED: (Event.VIOLATED, "its declared guarantee is violated"),
    PublicVerdict.VACUOUS: (Event.VACUOUS, "what it declares says nothing"),
    PublicVerdict.DOUBTFUL: (Event.NOT_EVALUABLE, "what its test assumes is doubtful"),
}


@dataclass(frozen=True, slots=True)
class PublicNight:
    """Public result of a model's day.

    Attributes:
        model: name of the audited model.
        day: the audited day.
        statement: what was published, or what stays of it; None where nothing was.
        declares_nothing: whether the model declares nothing and no policy does it instead.
    """

    model: str
    day: dt.date
    statement: Entry | None
    declares_nothing: bool = False

    @property
    def word(self) -> str:
        """The verdict, or that there is no statement."""
        if isinstance(self.statement, ErasedStatement):
            return _ERASED
        if self.statement is not None:
            return self.statement.verdict
        return _UNDECLARED if self.declares_nothing else _NONE

    @property
    def conclusion(self) -> str:
        """Conclusion about the day, in words."""
        if self.word == _UNDECLARED:
            return (
                "The model declares nothing, so there is nothing to test and no statement. That is "
                "no failure, and no guarantee: the model's owner can declare one in the manifest."
            )
        return conclusion_of(self.statement)


def public_alert(night: PublicNight, settings: Settings) -> Alert | None:
    """Return the alert about a model's day; None where no one needs to look at it."""
    made = night.statement
    if night.word == _UNDECLARED:
        return None
    if made is None:
        event, what = Event.NOT_EVALUABLE, "no statement was published"
    elif isinstance(made, ErasedStatement):
        event, what = Event.NOT_EVALUABLE, "its statement was erased"
    elif made.verdict in _SUBJECTS:
        event, what = _SUBJECTS[made.verdict]
    else:
        return None
    return Alert(
        event=event,
        model=night.model,
        day=night.day,
        subject=f"{night.model} on {night.day}: {what}",
        reason=night.conclusion,
        notify=settings.model_named(night.model).notify,
        report=report_link(settings),
        audit_id=None if made is None else made.statement_id,
        next_step=NO_STATEMENT if made is None else statement_card(made).line,
        figures=_figures(made) if isinstance(made, Published) else (),
    )


def public_change_alerts(change: PublicChange, settings: Settings) -> Iterator[Alert]:
    """Yield the alerts that a declaration, settings, a checkpoint or training rows changed."""
    if change.declaration is not None:
        withdrawn = is_withdrawn(change.declaration)
        yield _changed(
            change,
            Event.DECLARATION_WITHDRAWN if withdrawn else Event.DECLARATION_CHANGED,
            f"its declaration {'was withdrawn' if withdrawn else 'changed'}",
            f"{change.declaration} Each night stays held against what was declared for it.",
            settings,
        )
    if change.settings is not None:
        yield _changed(
            change,
            Event.SETTINGS_CHANGED,
            "the settings of its audit changed",
            f"{change.settings} Ask an operator: the verdict or alerts may depend on it.",
            settings,
        )
    if change.training is not None:
        yield _changed(
            change,
            Event.SETTINGS_CHANGED,
            "its training rows come again",
            f"{change.training} Set plan.labels_recur and nights_per_test, or log new rows alone.",
            settings,
        )
    if change.checkpoint is not None:
        yield _changed(
            change,
            Event.INPUTS_CHANGED,
            "a checkpoint was replaced after its audit",
            f"{change.checkpoint} Ask the owner why: a file that knows the labels hides a leak.",
            settings,
        )


def _changed(
    change: PublicChange, event: Event, what: str, reason: str, settings: Settings
) -> Alert:
    names = settings.model_named(change.model).notify
    if event is Event.SETTINGS_CHANGED:
        names = notified_lately(change.model, change.day, settings)
    return Alert(
        event=event,
        model=change.model,
        day=change.day,
        subject=f"{change.model} on {change.day}: {what}",
        reason=reason,
        notify=names,
        report=report_link(settings),
        moment=reason,  # a night may have two, and a receiver drops a second one of the same id
    )


def public_acknowledgement_alert(
    made: Published, *, until: dt.date, moment: dt.datetime, settings: Settings
) -> Alert:
    """Return the alert that somebody acknowledged what a statement refutes.

    It has no reason: a person may have written an exact figure into it.
    """
    return Alert(
        event=Event.ACKNOWLEDGED,
        model=made.model,
        day=made.day,
        subject=f"{made.model} on {made.day}: its violation is acknowledged until {until}",
        reason="A person acknowledged that the statement refutes the declaration. The verdict "
        "stays, and later statements are reported as before.",
        notify=notified_lately(made.model, made.day, settings),
        report=report_link(settings),
        audit_id=made.statement_id,
        figures=_figures(made),
        moment=moment.isoformat(),
    )


def public_withdrawal_alert(
    model: str, day: dt.date, *, moment: dt.datetime, settings: Settings
) -> Alert:
    """Return the alert that somebody took an exact audit back, without what it says and why."""
    return Alert(
        event=Event.WITHDRAWN,
        model=model,
        day=day,
        subject=f"{model} on {day}: its audit was withdrawn",
        reason="A person took the exact audit back. Its published statement stays.",
        notify=notified_lately(model, day, settings),
        report=report_link(settings),
        moment=moment.isoformat(),
    )


def public_counted(nights: Sequence[PublicNight]) -> str:
    """Return how many audits came to which public verdict, the worst first."""
    if not nights:
        return "No audit."
    found = [night.word for night in nights]
    return ", ".join(f"{found.count(word)} {word}" for word in _ORDER if word in found) + "."


def public_summary(title: str, nights: Sequence[PublicNight], *, report: str | None) -> str:
    """Return a night as markdown: counts, table, link to the report."""
    lines = [f"## {markdown_text(title)}", "", public_counted(nights), ""]
    if nights:
        lines += ["| day | model | verdict | why |", "| --- | --- | --- | --- |"]
    for night in nights:
        cells = (
            str(night.day),
            markdown_text(night.model),
            f"**{night.word}**" if night.word == PublicVerdict.VIOLATED else night.word,
            markdown_text(night.conclusion),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if report:
        lines += ["", f"Report: {markdown_text(report, linked=True)}"]
    return "\n".join(lines)


def _figures(made: Published) -> tuple[tuple[str, float | int | None], ...]:
    return (
        ("epsilon_declared", made.epsilon_declared),
        ("delta_declared", made.delta_declared),
        ("epsilon_ceiling", made.epsilon_ceiling),
        *((("claim_pvalue", made.pvalue),) if isinstance(made, Statement) else ()),
        ("records", made.records),
        ("control_records", made.control_records),
    )
