"""Work for audits whose run ended without them: a record each, their alerts, the run's conclusion.

A run may end between a record's commit and its alert. So the warehouse is asked what is there, and
what was committed but not announced is announced here.
"""

import contextlib
import datetime as dt
from collections.abc import Iterator

import polars as pl

from flows.ledger import Ledger
from flows.run.auditing import Audited, announce, as_asked, identity
from flows.run.conclusion import AlertsUndeliveredError, AuditsFailedError, conclude
from flows.run.night_plan import Job
from flows.settings import Settings, load_settings
from privcore.exceptions import TerminalError, TransientError
from workers.audit.record import error_record
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import AS_STORED


class RunEndedError(TransientError):
    """The run that was to make an audit ended before it had a record."""


def record_lost(ledger: Ledger, why: str) -> list[str]:
    """Commit an error for everything that is left, tell whom it concerns, and conclude the run.

    Returns the models and days in words.

    Raises:
        TransientError: other writers of the warehouse kept winning.
        TerminalError: the warehouse cannot be written, or holds no record of one of these.
        ReportUnpublishedError: the report could not be written; every record is committed.
    """
    settings = load_settings(ledger.settings)
    warehouse = Warehouse(settings.warehouse)
    found = warehouse.scan("audits").filter(pl.col("audit_id").is_in(list(ledger.committing)))
    rows = [
        AuditRow.model_validate(row, context=AS_STORED)
        for row in warehouse.collect(found).iter_rows(named=True)
    ]
    done = {ledger.committing[row.audit_id] for row in rows}
    lost = [one for one in _errors(ledger, settings, why) if identity(one.audit)[1:] not in done]
    outcomes = warehouse.commit_all(lost)
    withdrawn = warehouse.withdrawn(row.audit_id for row in rows)
    # Every record is committed before a webhook can delay one.
    audited = [_told(row, withdrawn, ledger, settings) for row in rows]
    audited += [announce(record, settings, withdrawn=False) for record in lost]
    for outcome in outcomes:
        if isinstance(outcome, TerminalError):
            raise outcome
    # Both are told already, in these records and on standard error.
    with contextlib.suppress(AuditsFailedError, AlertsUndeliveredError):
        conclude("ended-early", "A run that ended early", audited, settings)
    return list(dict.fromkeys(f"{one.audit.model} for {one.audit.day}" for one in lost))


def _told(row: AuditRow, withdrawn: set[str], ledger: Ledger, settings: Settings) -> Audited:
    """Return what came of a committed audit; announce it where the run did not."""
    if row.audit_id in ledger.announced:
        return Audited(row)
    return announce(AuditRecord(audit=row), settings, withdrawn=row.audit_id in withdrawn)


def _errors(ledger: Ledger, settings: Settings, why: str) -> Iterator[AuditRecord]:
    """Yield the record that each planned audit has if it has no other."""
    error = RunEndedError(why)
    for (model, day), overrides in ledger.planned.items():
        job = Job(model, dt.date.fromisoformat(day), overrides)
        for plan in settings.plans_of(model, job.overrides):
            yield as_asked(error_record(model, job.day, plan=plan, error=error), job, settings)
