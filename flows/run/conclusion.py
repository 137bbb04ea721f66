"""End of a flow of audits: report, and the state in which Prefect shows it."""

import pathlib
from collections.abc import Sequence

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.failures import without_data
from flows.notify.alerts import deliver_all
from flows.notify.events import events, nights_of
from flows.notify.metrics import latest_records, write_metrics
from flows.notify.prefect_context import VIOLATED, counted, link_report, log_failure
from flows.report.site import write_report
from flows.run.auditing import Audited
from flows.settings import Settings
from privcore.exceptions import AuditError, TransientError, is_failure
from privcore.lower_bounds.question import named
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.maintenance import compact_crowded
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse


def write(settings: Settings) -> pathlib.Path:
    """Write metrics and report; return its first page."""
    # First: an alert rule must not wait for pages.
    write_metrics(settings)
    warehouse = Warehouse(settings.warehouse)
    return write_report(warehouse, settings.report, total=settings.together, policy=settings.policy)


_NAMED = 10
"""The most models that the state's message names."""


class AuditsFailedError(AuditError):
    """Some audits ended with an error.

    Attributes:
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


def _published(settings: Settings) -> tuple[str | None, str | None]:
    """Write the report; return where people open it, or else why it could not be written."""
    try:
        return settings.report_url or str(write(settings)), None
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


def conclude(
    audited: Sequence[Audited], settings: Settings, *, note: str = ""
) -> State[list[AuditRow]]:
    """Publish the report, link it, and return the state in which the flow ends.

    Raises:
        AuditsFailedError: an audit ended with an error.
        AlertsUndeliveredError: an alert could not be delivered.
        ReportUnpublishedError: the report could not be written.
    """
    rows = [audit.row for audit in audited]
    nights = nights_of(rows, settings)
    beside = events(nights, settings)
    unheard = deliver_all(beside, settings)
    _compact(settings)
    report, unpublished = _published(settings)
    link_report(report)
    known = {night.audit_id: night for night in nights}
    shown = [known.get(row.audit_id, row) for row in rows]  # what was not committed has no nights
    said = f"{counted(shown)}{_violated(settings)}"
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
    told = [*(audit.event for audit in audited if audit.event is not None), *beside]
    new = dict.fromkeys(event.model for event in told if event.is_new_violation)
    if new:
        message = f"The declaration of {', '.join(new)} is refuted. {said}{note}"
        return Failed(name=VIOLATED, message=message, data=rows)
    return Completed(message=f"{said}{note}", data=rows)


def _violated(settings: Settings) -> str:
    """Name the listed models that are violated by their own last records, of whichever night."""
    listed = [model.name for model in settings.models]
    found = [
        named(one["model"], one["secret"])
        for one in latest_records(Warehouse(settings.warehouse), listed)
        if one["verdict_together"] == Verdict.VIOLATED
    ]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f" Violated at the last record: {', '.join(found[:_NAMED])}{more}." if found else ""
