"""How a flow of audits ends: report, summary, and the state in which Prefect shows it."""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.failures import in_one_sentence
from flows.notify.alerts import deliver, standing_alert
from flows.notify.artifacts import counted, leave_summary
from flows.notify.carrier import run_log
from flows.notify.webhook import WebhookError
from flows.run.auditing import Audited
from flows.run.publish import publish
from flows.settings import Settings
from privcore.exceptions import AuditError, TransientError, is_failure
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse


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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.models, self.rows, self.uncommitted)


class AlertsUndeliveredError(TransientError):
    """Every audit is committed, but an alert was not delivered; `rows` holds every audit's row."""

    def __init__(self, reasons: tuple[str, ...], rows: list[AuditRow]) -> None:
        self.reasons = reasons
        self.rows = rows
        super().__init__(" ".join(reasons))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reasons, self.rows)


class ReportUnpublishedError(AuditError):
    """All is committed and people are notified, but the report is the old one; `rows` has all."""

    def __init__(self, why: str, rows: list[AuditRow]) -> None:
        self.why = why
        self.rows = rows
        super().__init__(
            f"All audits are committed, but the report could not be written ({why}): mend that, "
            "then write it with privaudit report."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.why, self.rows)


def _published(settings: Settings) -> tuple[str | None, str | None]:
    """Write the report; return where people open it, or else why it could not be written."""
    try:
        return publish(settings), None
    except BaseException as error:  # records and alerts are safe, and come first
        if not is_failure(error):
            raise
        run_log().exception("The report could not be written.")
        return None, in_one_sentence(error)


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
            Verdict.NOT_A_GUARANTEE: 2,
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
    unheard = _alert_standings(rows, settings)
    report, unpublished = _published(settings)
    leave_summary(key, title, rows, report=report)
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
    return Completed(message=f"{counted(rows)}{note}", data=rows)


def _alert_standings(rows: Sequence[AuditRow], settings: Settings) -> tuple[str, ...]:
    """Alert of models whose nights refute their declaration together; return what went undelivered.

    A night that is violated by itself has its own alert.
    """
    quiet = {row.audit_id: row for row in rows if row.verdict != Verdict.VIOLATED}
    if not quiet:
        return ()
    warehouse = Warehouse(settings.warehouse)
    named = warehouse.scan("audits").filter(pl.col("audit_id").is_in(list(quiet)))
    audits = warehouse.collect(named)
    undelivered = []
    for audit_id, standing, proved in (
        epsilon_windows(warehouse, audits)
        .select("audit_id", "standing", "epsilon_standing")
        .iter_rows()
    ):
        if standing != Verdict.VIOLATED:
            continue
        try:
            deliver(standing_alert(quiet[audit_id], proved, settings), settings)
        except WebhookError as error:
            run_log().error("%s", error)  # no traceback: one sentence
            undelivered.append(str(error))
    return tuple(undelivered)
