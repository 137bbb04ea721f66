"""The stored audit that a command is about, with what it takes to read its inputs again."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from privcore.exceptions import TerminalError

if TYPE_CHECKING:
    from flows.settings import Settings
    from workers.executors import Executor
    from workers.lake.layout import Lake
    from workers.warehouse.schema import AuditRecord
    from workers.warehouse.store import Warehouse


@contextlib.contextmanager
def stored_audit(
    audit_id: str, config: pathlib.Path | None
) -> "Iterator[tuple[AuditRecord, Lake, Executor, bytes]]":
    """Return a record by its id, the lake, an executor for its inputs, and the warehouse's key.

    Raises:
        TerminalError: it says that it read what no model of the settings names.
    """
    from flows.run.choose_executor import choose_executor
    from flows.run.night_plan import Job, plan_night
    from flows.settings import load_settings
    from workers.lake.layout import Lake
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    record = warehouse.record(warehouse.whole_id(audit_id))
    _check_places(record, settings)
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
    if None in {model, day}:
        return ""
    one = warehouse.current(every_secret=True, days=[day], models=asked["model"])
    counting = one.filter(pl.col("secret").eq_missing(secret))["audit_id"].to_list()
    if audit_id not in counting:
        counts = ", ".join(name[:8] for name in counting) or "none"
        return plain_text(f"Of {model} on {day} another audit counts, and not this one: {counts}.")
    if exploratory:
        return "No audit under the settings' plan is known: this one is exploratory."
    return ""


_PLACES = {"table", "catalog", "query", "database", "path", "ready"}
"""Keys of settings, and of a record's `source`, that say where inputs lie or what is asked."""


def _check_places(record: "AuditRecord", settings: "Settings") -> None:
    """Refuse a record whose inputs lie where no model of the settings has any.

    Whoever may write to the warehouse could name a host to which storage's login goes, a query of
    their own, or a file of the person who asks.
    """
    if record.audit.source is None:
        return
    known = {
        place
        for model in settings.models
        for place in _places_in(model.model_dump(include={"scores", "labels", "checkpoints"}))
    }
    try:
        source = json.loads(record.audit.source)
        strange = sorted(set(_places_in(source)) - known)
        files = [file for role in ("target", "proxy") if (file := source.get(role))]
        strange += [
            ("folder", str(file["folder"]))
            for file in files
            if not _is_allowed(str(file["folder"]), record, settings)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        strange = [("source", record.audit.source)]
    if strange:
        key, place = strange[0]
        raise TerminalError(
            f"The record says that it read the {key} {place[:200]!r}, which no model of the "
            "settings names: if you trust it, name it there, or give the settings of that night "
            "with --config."
        )


def _is_allowed(folder: str, record: "AuditRecord", settings: "Settings") -> bool:
    """Return whether models of the settings may lie in a folder: below a template, or a registry's.

    A registry names a bucket of a store, whose host is its vendor's, or a place that is allowed.
    """
    from workers.lake.day_paths import split_day_path
    from workers.lake.mlflow_registry import PROXIED
    from workers.lake.places import bucket_of, within

    allowed = [settings.lake]
    for paths in (model.checkpoints for model in settings.models):
        if paths is not None and paths.registered:
            allowed += paths.artifacts or ()
            if folder.startswith(PROXIED) or bucket_of(folder) is not None:
                return True
        elif paths is not None:
            allowed.append(split_day_path(paths.path, record.audit.model, record.audit.day)[0])
    return folder in allowed or within(folder, allowed) is not None


def _places_in(settings: Any) -> Iterator[tuple[str, str]]:
    """Yield the key and the value of each place that is named, at any depth."""
    if isinstance(settings, dict):
        for key, value in settings.items():
            if key in _PLACES and isinstance(value, str):
                yield key, value
            else:
                yield from _places_in(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from _places_in(value)
