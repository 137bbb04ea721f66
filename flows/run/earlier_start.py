"""What an earlier start of this run audited: a later start tells it again, and audits the rest.

An automation starts a run again that crashed. The crash may have come between a record and its
alert, so what was committed since the first start is published and alerted again.
"""

from collections.abc import Sequence

import polars as pl
from pydantic import ValidationError

from flows.run.night_plan import Planned
from flows.run.own_run import first_start
from flows.settings import Settings
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import AS_STORED


def is_done() -> pl.Expr:
    """Return whether a record needs no other one under this method; a failed audit may succeed."""
    return (pl.col("status") == Status.EVALUATED) & (pl.col("method_version") == METHOD_VERSION)


def audited_before(planned: Sequence[Planned], settings: Settings) -> dict[str, list[AuditRecord]]:
    """Return, by model, the records of one day that an earlier start of this run committed.

    Only of models of which every secret's record is done under these plans.
    """
    since = first_start()
    if since is None:
        return {}
    warehouse = Warehouse(settings.warehouse)
    plans = {
        each.job.model: {
            plan.model_dump_json() for plan in settings.plans_of(each.job.model, each.job.overrides)
        }
        for each in planned
    }
    known = warehouse.scan("audits").filter(
        is_done(),
        pl.col("day") == planned[0].job.day,
        pl.col("recorded_at") >= since,
        pl.col("model").is_in(list(plans)),
    )
    found: dict[str, dict[str, AuditRow]] = {model: {} for model in plans}
    for row in warehouse.collect(known.sort("recorded_at")).iter_rows(named=True):
        if row["plan"] in plans[row["model"]]:
            try:
                found[row["model"]][row["plan"]] = AuditRow.model_validate(row, context=AS_STORED)
            except ValidationError:  # no audit wrote it
                continue
    return {
        model: [AuditRecord(audit=row) for row in rows.values()]
        for model, rows in found.items()
        if rows.keys() == plans[model]
    }
