"""The stored audit that a command is about, with what it takes to read its inputs again."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.executors import Executor
    from workers.lake.layout import Lake
    from workers.warehouse.schema import AuditRecord


@contextlib.contextmanager
def stored_audit(
    audit_id: str, config: pathlib.Path | None
) -> "Iterator[tuple[AuditRecord, Lake, Executor]]":
    """Return a record by its id, or how it begins, the lake, and an executor for its inputs."""
    from flows.run.choose_executor import choose_executor
    from flows.run.night_plan import Job, plan_night
    from flows.settings import load_settings
    from workers.lake.layout import Lake
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    record = warehouse.record(warehouse.whole_id(audit_id))
    lake, job = Lake(settings.lake), Job(record.audit.model, record.audit.day)
    with choose_executor(plan_night(lake, [job], settings), settings.ray) as executor:
        yield record, lake, executor
