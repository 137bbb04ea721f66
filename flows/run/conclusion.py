"""End of a flow of audits: report, summary, and the state in which Prefect shows it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.failures import without_data
from flows.notify.alerts import (
    Alert,
    declaration_alert,
    deliver_all,
    in_incident,
    inputs_alert,
    remarks_alert,
    resolved_alert,
    standing_alert,
    total_alert,
    unlisted_alert,
)
from flows.notify.artifacts import counted, leave_summary, summary
from flows.notify.incidents import Incident, incidents_before, new_remarks
from flows.notify.metrics import latest_records
from flows.notify.prefect_context import VIOLATED, log_failure
from flows.run.auditing import Audited
from flows.run.publish_report import publish
from flows.settings import Settings
from privcore.exceptions import AuditError, TransientError, is_failure
from privcore.lower_bounds.secret import named
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.input_changes import input_changes
from workers.warehouse.maintenance import compact_crowded
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together
from workers.warehouse.unlisted import unlisted_models
from workers.warehouse.with_windows import Windows

_NAMED = 10
"""The most models that a summary names."""


class AuditsFailedError(AuditError):
    """Some audits ended with an error.

    Attributes:
        models: whose audits.
        rows: of every audit.
        uncommitted: why records could not be committed, if some could not.
    """

    def __init__(
        self, models: list[str], rows: list[AuditRow], uncommitted: tuple[str, ...] = ()
    ) -> None:
        self.models = models
        self.rows = rows
        self.uncommitted = uncommitted
        lost = f"records could not be committed. {' '.join(uncommitted)}"
        super().__init__(
            f"The audits of {', '.join(models)} ended with an error: "
            f"{lost if uncommitted else 'see their records.'}"
        )


class AlertsUndeliveredError(TransientError):
    """Every audit is committed, but an alert was not delivered; `rows` holds every audit's row."""

    def __init__(self, reasons: tuple[str, ...], rows: list[AuditRow]) -> None:
        self.reasons = reasons
        self.rows = rows
        super().__init__(" ".join(reasons))


class ReportUnpublishedError(AuditError):
    """All is committed and people are notified, but the report is the old one; `rows` has all."""

    def __init__(self, why: str, rows: list[AuditRow]) -> None:
        self.why = why
        self.rows = rows
        super().__init__(
            f"All audits are committed, but the report could not be written ({why}): mend that, "
            "then write it with privaudit report."
        )


def _published(settings: Settings, windows: Windows) -> tuple[str | None, str | None]:
    """Write the report; return where people open it, or else why it could not be written."""
    try:
        return publish(settings, windows), None
    except BaseException as error:  # records and alerts are safe, and come first
        if not is_failure(error):
            raise
        log_failure(error, "The report could not be written.")
        return None, without_data(error)


def _compact(settings: Settings) -> None:
    """Compact tables of too many files, after a night of any caller; no night fails by it."""
    try:
        compact_crowded(Warehouse(settings.warehouse))
    except BaseException as error:
        if not is_failure(error):
            raise
        log_failure(error, "The warehouse was not compacted.")


def exit_code(audits: Iterable[AuditRow], standings: Iterable[str | None] = ()) -> int:
    """Return 0 consistent or undeclared, 1 violated, 2 no conclusion, 3 error: the worst of all.

    A model that stands violated by its nights together counts as violated, whatever tonight says.
    """

    def one(audit: AuditRow) -> int:
        if audit.status is Status.ERROR:
            return 3
        return {
            Verdict.CONSISTENT: 0,
            Verdict.UNDECLARED: 0,
            Verdict.PRIVATISED: 0,
            Verdict.VIOLATED: 1,
            Verdict.VACUOUS: 2,
            Verdict.NOT_A_GUARANTEE: 2,
            Verdict.DOUBTFUL: 2,
            Verdict.PROXY_UNFAITHFUL: 2,
            Verdict.NOT_EVALUABLE: 2,
        }[Verdict(audit.verdict)]

    codes = {one(audit) for audit in audits}
    codes |= {1 for standing in standings if standing == Verdict.VIOLATED}
    # A violation must not hide behind a model that could not be evaluated.
    return next((code for code in (3, 1, 2) if code in codes), 0)


def conclude(
    key: str, title: str, audited: Sequence[Audited], settings: Settings, *, note: str = ""
) -> State[list[AuditRow]]:
    """Publish the report, leave the summary, and return the state in which the flow ends.

    Raises:
        AuditsFailedError: an audit ended with an error.
        AlertsUndeliveredError: an alert could not be delivered.
        ReportUnpublishedError: the report could not be written.
    """
    rows = [audit.row for audit in audited]
    windows = derived_once()
    unheard = _alert_of_nights(rows, settings, windows)
    _compact(settings)
    report, unpublished = _published(settings, windows)
    more = _standing(settings, windows)
    leave_summary(key, summary(title, rows, report=report, more=more), counted(rows), report=report)
    said = f"{counted(rows)}{more}"
    failed = [row.model for row in rows if row.status is Status.ERROR]
    if failed:
        uncommitted = [audit.uncommitted for audit in audited if audit.uncommitted is not None]
        raise AuditsFailedError(failed, rows, tuple(dict.fromkeys(uncommitted)))
    undelivered = tuple(audit.undelivered for audit in audited if audit.undelivered is not None)
    undelivered += unheard
    if undelivered:
        raise AlertsUndeliveredError(undelivered, rows)
    if unpublished is not None:
        raise ReportUnpublishedError(unpublished, rows)
    new = [] if settings.night.fail_on == "never" else _newly_violated(rows, settings, windows)
    if new:
        message = f"The declaration of {', '.join(new)} is refuted. {said}{note}"
        return Failed(name=VIOLATED, message=message, data=rows)
    return Completed(message=f"{said}{note}", data=rows)


def derived_once() -> Windows:
    """Return `epsilon_windows` that derives each night once: alerts, metrics and report ask."""
    known: list[pl.DataFrame] = []
    asked = set[str]()

    def windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
        known.append(epsilon_windows(warehouse, audits.filter(~pl.col("audit_id").is_in(asked))))
        asked.update(audits["audit_id"])
        mine = pl.col("audit_id").is_in(audits["audit_id"].implode())
        return pl.concat(known).filter(mine).sort("day", "model")

    return windows


def _standing(settings: Settings, windows: Windows) -> str:
    """Name the listed models that stand violated by their own last records, of whichever night."""
    listed = [model.name for model in settings.models]
    found = [
        named(one.model, one.secret)
        for one in latest_records(Warehouse(settings.warehouse), listed, windows)
        if one.stands_violated or one.verdict == Verdict.VIOLATED
    ]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f" Violated at the last record: {', '.join(found[:_NAMED])}{more}." if found else ""


def _newly_violated(
    rows: Sequence[AuditRow], settings: Settings, windows: Windows
) -> Sequence[str]:
    """Return the models whose violation begins here, or is worse than was known or acknowledged."""
    warehouse = Warehouse(settings.warehouse)
    known = {row.audit_id: row for row in rows if not row.exploratory}
    if not known:
        return ()
    named = pl.col("audit_id").is_in(set(known) - warehouse.withdrawn(known))
    audits = warehouse.collect(warehouse.scan("audits").filter(named))
    bounds = {}
    for found in windows(warehouse, audits).sort("day", "model").iter_rows(named=True):
        row = known[found["audit_id"]]
        if row.verdict == Verdict.VIOLATED:
            bounds[row.audit_id] = row.epsilon_lower or 0.0
        elif found["standing"] == Verdict.VIOLATED:
            bounds[row.audit_id] = found["epsilon_standing"]
    incidents = incidents_before(warehouse, [known[one] for one in bounds], windows)
    new = (
        known[one]
        for one, bound in bounds.items()
        if incidents[one].stage(known[one], bound).notifies
    )
    return tuple(dict.fromkeys(row.model for row in new))


def _alert_of_nights(
    rows: Sequence[AuditRow], settings: Settings, windows: Windows
) -> tuple[str, ...]:
    """Alert of what the warehouse adds to these; return what went undelivered."""
    if not rows:
        return ()
    warehouse = Warehouse(settings.warehouse)
    alerts = (
        *_beside(rows, warehouse, settings, windows),
        *_missed(rows, warehouse, settings),
        *_exceeding(rows, warehouse, settings),
    )
    return deliver_all(alerts, settings)


def _beside(
    rows: Sequence[AuditRow], warehouse: Warehouse, settings: Settings, windows: Windows
) -> Iterator[Alert]:
    """Yield alerts of violated standings, resolved incidents, new remarks, and changed inputs.

    A night that is violated by itself has its own alert.
    """
    known = {row.audit_id: row for row in rows}
    named = warehouse.scan("audits").filter(pl.col("audit_id").is_in(list(known)))
    audits = warehouse.collect(named)
    for audit_id, told in input_changes(warehouse, audits).items():
        yield inputs_alert(known[audit_id], told, settings)
    incidents = incidents_before(warehouse, list(known.values()), windows)
    for found in windows(warehouse, audits).sort("day", "model").iter_rows(named=True):
        row, incident = known[found["audit_id"]], incidents[found["audit_id"]]
        if found["standing"] == Verdict.VIOLATED and row.verdict != Verdict.VIOLATED:
            bound = found["epsilon_standing"]
            alert = standing_alert(row, bound, settings)
            yield in_incident(alert, row, bound, incident)
        elif incident.is_resolved_by(row, found["standing"]):
            yield resolved_alert(row, settings)
        yield from _changed(row, found, incident, settings)


def _changed(
    row: AuditRow, found: Mapping[str, Any], incident: Incident, settings: Settings
) -> Iterator[Alert]:
    """Yield alerts of what differs from the nights before this one."""
    # A violated night has an alert of its own, with all that its sentence remarks on. But of an
    # update nobody hears, and what is remarked on may have lowered it to one.
    heard = row.verdict == Verdict.VIOLATED and (
        incident.stage(row, row.epsilon_lower or 0.0).notifies
    )
    if not heard and (words := new_remarks(row, incident)):
        yield remarks_alert(row, words, settings)
    if found["declaration_change"] is not None:
        yield declaration_alert(row, found["declaration_change"], settings)
    if found["nights_remark"] is not None:
        yield inputs_alert(row, found["nights_remark"], settings)


def _exceeding(
    rows: Sequence[AuditRow], warehouse: Warehouse, settings: Settings
) -> Iterator[Alert]:
    """Yield alerts of labels whose models together exceed the total, if the settings have one."""
    total = settings.together
    if total is None:
        return
    for day in sorted({row.day for row in rows}):
        for found in together(warehouse, day, delta=total.delta):
            if found.exceeds(total.epsilon):
                yield total_alert(found, found.sentence(total.epsilon), settings)


def _missed(rows: Sequence[AuditRow], warehouse: Warehouse, settings: Settings) -> Iterator[Alert]:
    """Yield alerts of models, and secrets, that were audited lately and are no longer listed."""
    day = max(row.day for row in rows)
    listed = (
        (model.name, plan.secret_name)
        for model in settings.models
        for plan in settings.plans_of(model.name)
    )
    for missed in unlisted_models(warehouse, listed, day):
        yield unlisted_alert(missed, day, settings)
