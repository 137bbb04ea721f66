"""The flow `backfill`: every audit of a range of days that is not committed yet.

Days follow one another, since an audit reads which guess fraction was best the day before; the
models of a day run at once, as many as the global concurrency limit lets. A run that is cut is
started again and goes on where it was.
"""

import datetime as dt

import polars as pl
import prefect
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.notify.artifacts import markdown_text
from flows.notify.prefect_context import in_prefect, tell_as_failed
from flows.progress import announce
from flows.run.auditing import RUNNER, Audited, begin, gather, submit
from flows.run.conclusion import conclude
from flows.run.days import check_days, check_inputs
from flows.run.night_plan import Job, plan_night
from flows.run.own_run import first_start, is_done
from flows.settings import Settings, load_settings
from privcore.exceptions import InvalidInputError
from workers.executors import on_ray
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

BACKFILL = "Backfill"
"""Name under which progress is announced."""


@prefect.flow(
    name="backfill",
    flow_run_name="backfill {first} to {last}",
    on_failure=[tell_as_failed],
    task_runner=RUNNER,
    validate_parameters=True,
    persist_result=False,
)
def backfill(
    first: dt.date,
    last: dt.date,
    models: list[str] | None = None,
    force: bool = False,  # noqa: FBT001, FBT002  # flow parameters are given by name
    dry_run: bool = False,  # noqa: FBT001, FBT002
    settings: str | None = None,
) -> list[AuditRow]:
    """Audit every model on every day from `first` to `last`, both included.

    Args:
        first: first audited day.
        last: last audited day.
        models: names of configured models; all of them if left out.
        force: audit again what is committed with figures under today's plan and method.
        dry_run: only say what would be done.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The rows of the audits that this run made, none in a dry run.

    Raises:
        InvalidInputError: `first` is after `last` or before the first checkpoint's year, or `last`
            is in the future or after the newest inputs of all models.
        UnlistedModelError: a model is not configured; nothing is stored.
        AuditsFailedError: an audit ended with an error that is not its input's.
        AlertsUndeliveredError: an alert could not be delivered; every record is committed.
        ReportUnpublishedError: the report could not be written; every record is committed.
    """
    loaded = load_settings(settings)
    jobs = plan_backfill(loaded, first, last, models=models, force=force)
    days = (last - first).days + 1
    asked = days * len(models or loaded.models)
    note = f" {asked - len(jobs)} of {asked} audits were committed before."
    if dry_run or not jobs:
        return _nothing_done(jobs, note)  # type: ignore[return-value]  # Prefect unwraps it
    begin(loaded)
    done: list[Audited] = []
    lake = Lake(loaded.lake)
    ray = loaded.ray
    with on_ray(ray.address, ray.cpus, ray.task_cpus, ray.task_memory) as executor:
        for day in sorted({job.day for job in jobs}):
            today = [job for job in jobs if job.day == day]
            done += gather(submit(plan_night(lake, today, loaded), loaded, executor), loaded)
            announce(BACKFILL, len(done), len(jobs))
    title = f"Backfill from {first} to {last}"
    return conclude("backfill", title, done, loaded, note=note)  # type: ignore[return-value]


def plan_backfill(
    settings: Settings,
    first: dt.date,
    last: dt.date,
    *,
    models: list[str] | None = None,
    force: bool = False,
) -> list[Job]:
    """Return the audits to do, ordered by day: all, less those that are committed with figures.

    An audit under another plan or method version does not count as committed, and neither does one
    that came to no figures: its inputs may be there by now.

    Raises:
        InvalidInputError: `first` is after `last` or before the first checkpoint's year, or `last`
            is in the future or after the newest inputs of all models.
        UnlistedModelError: a model is not configured; nothing is stored.
    """
    if first > last:
        raise InvalidInputError("first", str(first), f"it must not be after last, {last}")
    settings.check_listed(models or ())
    names = models or [model.name for model in settings.models]
    check_days(settings, names, first, last)
    check_inputs(settings, names, last)
    known = set() if force else _committed(Warehouse(settings.warehouse))
    plans = {name: [plan.model_dump_json() for plan in settings.plans_of(name)] for name in names}
    days = [first + dt.timedelta(days=step) for step in range((last - first).days + 1)]
    return [
        Job(name, day)
        for day in days
        for name in names
        if any((name, day, plan) not in known for plan in plans[name])
    ]


def _committed(warehouse: Warehouse) -> set[tuple[str, dt.date, str]]:
    """Return what is done; less what this run committed itself, and may not have alerted.

    Less what was withdrawn, too: its day is to be audited again.
    """
    withdrawn = warehouse.scan("audit_withdrawals")
    evaluated, started = warehouse.scan("audits").filter(is_done()), first_start()
    if started is not None:
        evaluated = evaluated.filter(pl.col("recorded_at") < started)
    kept = evaluated.join(withdrawn, on="audit_id", how="anti").select("model", "day", "plan")
    return set(warehouse.collect(kept).iter_rows())


def _nothing_done(jobs: list[Job], note: str) -> State[list[AuditRow]]:
    lines = [f"{len(jobs)} audits to do.{note}"]
    if jobs:
        lines += ["", "| day | model |", "| --- | --- |"]
        lines += [f"| {job.day} | {markdown_text(job.model)} |" for job in jobs]
    if in_prefect():
        create_markdown_artifact("\n".join(lines), key="backfill")
    return Completed(message=lines[0], data=[])
