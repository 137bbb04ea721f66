"""How a flow of audits ends: report, summary, and the state in which Prefect shows it."""

from collections.abc import Iterable, Sequence
from typing import Any

import prefect
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.notify.artifacts import counted, leave_summary
from flows.run.auditing import Audited
from flows.run.publish import publish
from flows.settings import Settings
from privcore.exceptions import AuditError, TransientError
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.schema import AuditRow, Status


class AuditsFailedError(AuditError):
    """Some audits ended with an error; `rows` holds every audit's row."""

    def __init__(self, models: list[str], rows: list[AuditRow]) -> None:
        self.models = models
        self.rows = rows
        super().__init__(
            f"The audits of {', '.join(models)} ended with an error: see their records."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.models, self.rows)


class AlertsUndeliveredError(TransientError):
    """Every audit is committed, but an alert was not delivered; `rows` holds every audit's row."""

    def __init__(self, reasons: tuple[str, ...], rows: list[AuditRow]) -> None:
        self.reasons = reasons
        self.rows = rows
        super().__init__(" ".join(reasons))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reasons, self.rows)


class ReportUnpublishedError(AuditError):
    """Every audit is committed and told, but the report is the old one; `rows` holds the rows."""

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
    except Exception as error:  # noqa: BLE001  # records and alerts are safe, and come first
        prefect.get_run_logger().exception("The report could not be written.")
        return None, " ".join(str(error).split()) or type(error).__name__


def exit_code(audits: Iterable[AuditRow]) -> int:
    """Return 0 consistent or undeclared, 1 violated, 2 no conclusion, 3 error: the worst of all."""

    def one(audit: AuditRow) -> int:
        if audit.status is Status.ERROR:
            return 3
        return {
            Verdict.CONSISTENT: 0,
            Verdict.UNDECLARED: 0,
            Verdict.VIOLATED: 1,
            Verdict.PROXY_UNFAITHFUL: 2,
            Verdict.NOT_EVALUABLE: 2,
        }[Verdict(audit.verdict)]

    codes = {one(audit) for audit in audits}
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
    report, unpublished = _published(settings)
    leave_summary(key, title, rows, report=report)
    failed = [row.model for row in rows if row.status is Status.ERROR]
    if failed:
        raise AuditsFailedError(failed, rows)
    undelivered = tuple(audit.undelivered for audit in audited if audit.undelivered is not None)
    if undelivered:
        raise AlertsUndeliveredError(undelivered, rows)
    if unpublished is not None:
        raise ReportUnpublishedError(unpublished, rows)
    return Completed(message=f"{counted(rows)}{note}", data=rows)
