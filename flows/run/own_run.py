"""Properties of the run in which this code is: who asked for it, and what it did when it crashed.

An automation starts a run again that crashed. The crash may have come between a record and its
alert, so what was committed since the first start is published and alerted again.
"""

import datetime as dt
import functools
import os
import pwd
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import prefect
from prefect.runtime import deployment, flow_run

from flows.notify.prefect_context import best_effort
from flows.run.night_plan import Planned
from flows.settings import Settings
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import AS_STORED


@dataclass(frozen=True, slots=True)
class _Known:
    """What Prefect's server knows of a run."""

    deployment: str | None
    first_start: dt.datetime | None


def asked_by() -> str | None:
    """Return the deployment that runs the audit, or the operating system's user; None if unknown.

    Neither is a proof: the person who starts a run may choose its name. The user is the process's
    own, whatever `LOGNAME` says.
    """
    run = flow_run.id
    if run is not None:
        known = _ask_server(str(run))
        if known is None or known.deployment is not None:
            return None if known is None else known.deployment
    user = os.getuid()
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:  # a container's user may have no name
        return f"user {user}"


def first_start() -> dt.datetime | None:
    """Return when this run was first started; None where this is its first start, or outside."""
    run = flow_run.id
    known = None if run is None else _ask_server(str(run))
    return None if known is None else known.first_start


@functools.lru_cache(maxsize=16)
def _ask_server(run: str) -> _Known | None:
    """Return what the server knows; None where it does not answer.

    It is asked once a run, since a night of many records would wait for each answer.
    """
    with (
        best_effort("the question of what run this is"),
        prefect.get_client(sync_client=True) as client,
    ):
        found, name = client.read_flow_run(uuid.UUID(run)), deployment.name
        return _Known(
            None if name is None else f"deployment {flow_run.flow_name}/{name}",
            found.start_time if found.run_count > 1 else None,
        )
    return None


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
            found[row["model"]][row["plan"]] = AuditRow.model_validate(row, context=AS_STORED)
    return {
        model: [AuditRecord(audit=row) for row in rows.values()]
        for model, rows in found.items()
        if rows.keys() == plans[model]
    }
