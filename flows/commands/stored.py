"""The stored audit that a command is about, with what it takes to read its inputs again."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.executors import Executor
    from workers.lake.layout import Lake
    from workers.warehouse.schema import AuditRecord
    from workers.warehouse.store import Warehouse


@contextlib.contextmanager
def stored_audit(
    audit_id: str, config: pathlib.Path | None
) -> "Iterator[tuple[AuditRecord, Lake, Executor, bytes]]":
    """Return a record by its id, the lake, an executor for its inputs, and the warehouse's key."""
    from flows.run.night_plan import Job, choose_executor, plan_night
    from flows.settings import load_settings
    from workers.lake.layout import Lake
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    record = warehouse.record(warehouse.whole_id(audit_id))
    lake, job = Lake(settings.lake), Job(record.audit.model, record.audit.day)
    with choose_executor(plan_night(lake, [job], settings), settings.ray) as executor:
        yield record, lake, executor, warehouse.digest_key()


def not_the_days(warehouse: "Warehouse", audit_id: str) -> str:
    """Return that an audit is not its model's and day's verdict, and why; "" where it is."""
    import polars as pl

    from workers.plain_text import plain_text

    taken_back = warehouse.withdrawal(audit_id)
    if taken_back is not None:
        return plain_text(f"This audit was withdrawn: {taken_back.why}")
    known = warehouse.scan("audits").filter(pl.col("audit_id") == audit_id)
    asked = warehouse.collect(known.select("model", "day", "secret", "exploratory"))
    model, day, secret, exploratory = asked.row(0)
    one = warehouse.current(every_secret=True, days=[day], models=asked["model"])
    counting = one.filter(pl.col("secret").eq_missing(secret))["audit_id"].to_list()
    if audit_id not in counting:
        counts = ", ".join(name[:8] for name in counting) or "none"
        return plain_text(f"Of {model} on {day} another audit counts, and not this one: {counts}.")
    if exploratory:
        return "No audit under the settings' plan is known: this one is exploratory."
    return ""
