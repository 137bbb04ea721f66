"""The flows that audit: a night, one model on demand, a range of days; and what is overdue.

Records are never deleted, so an impossible day is refused before anything is committed. Days of a
backfill follow one another; the models of a day run at once. A run that is cut is started again and
goes on where it was.
"""

import dataclasses
import datetime as dt
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import prefect
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field, create_model

from flows.notify.alerts import WebhookError, deliver_all
from flows.notify.events import missing
from flows.notify.prefect_context import run_log, tell_as_failed
from flows.progress import Wait, announce, announce_waits
from flows.run.auditing import RUNNER, Audited, Submitted, begin, gather, submit
from flows.run.conclusion import conclude
from flows.run.night_plan import (
    Job,
    Lookups,
    Planned,
    choose_executor,
    external_inputs_of,
    plan_night,
)
from flows.run.runs import first_start
from flows.settings import Settings, load_settings
from privcore.exceptions import AuditError, InvalidInputError, is_failure
from workers.executors import Executor, on_ray
from workers.lake.layout import Lake, checkpoint_folder
from workers.plan import Plan
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.scores.supplied import SuppliedScores
from workers.sources.tables.table_files import newest_day
from workers.strict_model import StrictModel
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRow, NoteKind, Status
from workers.warehouse.store import CONFIGURED, Warehouse

EARLIEST = dt.date(1970, 1, 1)
"""Proxies, windows and plots reach back from a day: so far nothing can overflow."""


def audited_day() -> dt.date | str:
    """Return the day that this run of Prefect's audits, for its name."""
    given = flow_run.parameters
    try:
        began = flow_run.scheduled_start_time or dt.datetime.now(dt.UTC)
        return given.get("day") or load_settings(given.get("settings")).yesterday(began)
    except AuditError:  # the run itself says what is wrong with the settings
        return "of unknown day"


def check_days(settings: Settings, models: Sequence[str], first: dt.date, last: dt.date) -> None:
    """Refuse days that were asked for by mistake, before anything is committed.

    Raises:
        InvalidInputError: a day is in the future, before 1970, or before the year of the first
            checkpoint that any of the models has.
    """
    today = settings.yesterday(dt.datetime.now(dt.UTC)) + dt.timedelta(days=1)
    if last > today:
        where = f"today is {today} in {settings.night.time_zone}"
        raise InvalidInputError("day", str(last), f"it is in the future: {where}")
    if first < EARLIEST:
        raise InvalidInputError("day", str(first), f"no day before {EARLIEST} is audited")
    earliest = None
    lake = Lake(settings.lake)
    for model in models:
        try:
            if lake.exists(checkpoint_folder(model, first)):
                return  # the listing of all days grows with each
            known = lake.first_day(model)
        except BaseException as error:
            if not is_failure(error):
                raise
            return  # unknown: that model's audit says what is wrong with its folder
        if known is not None and known.year <= first.year:
            return
        earliest = min((day for day in (earliest, known) if day is not None), default=None)
    if earliest is not None:
        raise InvalidInputError(
            "day", str(first), f"the first checkpoint of {', '.join(models[:3])} is of {earliest}"
        )


def check_inputs(settings: Settings, models: Sequence[str], last: dt.date) -> None:
    """Refuse a day after the newest inputs of all these models: its record would be their newest.

    The expected night is taken without inputs, which may be late: yesterday, or one whose deadline
    is to come. So is what cannot be looked up: its audit says why.

    Raises:
        InvalidInputError: no model has a checkpoint, or rows of its table, of that day or later.
    """
    now, lake, newest = dt.datetime.now(dt.UTC), Lake(settings.lake), dt.date.min
    if last >= settings.yesterday(now):
        return
    for model in models:
        try:
            found = _newest_inputs(settings, model, lake)
        except BaseException as error:
            if not is_failure(error):
                raise
            return
        if found is None or found >= last or now < settings.deadline_of(model, last):
            return
        newest = max(newest, found)
    raise InvalidInputError(
        "day",
        str(last),
        f"the newest inputs of {', '.join(models[:3])} are of {newest}: give a day up to then",
    )


def _newest_inputs(settings: Settings, name: str, lake: Lake) -> dt.date | None:
    """Return the newest day of a model's table, or of its checkpoints; None where none is known.

    Raises:
        AuditError: the inputs cannot be looked up.
    """
    inputs = external_inputs_of(settings.model_named(name))
    if isinstance(inputs, SuppliedScores):
        return None if inputs.tables.query else newest_day(inputs.tables)
    if isinstance(inputs, InPlace):
        return newest_day(inputs.labels)
    folders = lake.day_folders(f"models/{name}")
    return max((one.day for one in folders if one.day is not None), default=None)


_POLL = 30.0
"""Seconds between two looks at the lake."""
_OPTIONS: dict[str, Any] = {
    "on_failure": [tell_as_failed],
    "task_runner": RUNNER,
    "validate_parameters": True,
    "persist_result": False,
}
"""Of every flow that audits."""


def _asked(
    settings: str | None, models: list[str] | None, day: dt.date | None
) -> tuple[Settings, list[str], dt.date]:
    """Return the settings, the models and the day of a run.

    The day is resolved once, from the time that the run was planned for: one that starts late
    audits the same day.
    """
    loaded = load_settings(settings)
    loaded.check_listed(models or ())
    names = models or [model.name for model in loaded.models]
    if day is not None:
        check_days(loaded, names, day, day)
    return loaded, names, day or loaded.yesterday(flow_run.scheduled_start_time or _now())


@prefect.flow(name="nightly-audit", flow_run_name=lambda: f"night {audited_day()}", **_OPTIONS)
def nightly_audit(
    day: dt.date | None = None,
    models: list[str] | None = None,
    settings: str | None = None,
    *,
    wait: bool = True,
) -> list[AuditRow]:
    """Audit `models` on `day`, each as soon as its checkpoint and labels are complete.

    A model that waits for its inputs waits until its deadline: then its record says what is
    missing. An audit that has not ended by its deadline is `not_evaluable: deadline`. A run that
    begins after the deadline, by hand or late, is wanted all the same: it has none.

    Args:
        day: the audited day; the day before the scheduled time if left out.
        models: names of configured models; all of them if left out.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.
        wait: whether to wait for inputs. Otherwise the models whose inputs are there now are
            audited, and the others are left out without a record.

    Returns:
        The committed rows, in the order of the models. Every verdict, also `not_evaluable`,
        completes the flow.

    Raises:
        AuditsFailedError: an audit ended with an error that is not its input's; all the others
            went on, and every record is committed.
        AlertsUndeliveredError: an alert could not be delivered; every record is committed.
        ReportUnpublishedError: the report could not be written; every record is committed.
        InvalidInputError: the day is in the future, or before the first checkpoint's year.
        UnlistedModelError: a model is not configured; nothing is stored.
    """
    loaded, names, audited = _asked(settings, models, day)
    begin(loaded)
    night, ray = _Night(names, audited, loaded, wait=wait), loaded.ray
    ready = night.look()  # before Ray, which takes seconds to start: nobody waits in silence
    with on_ray(ray.address, ray.cpus) as executor:
        done = gather(night.submit(ready, executor), loaded)
    done.sort(key=lambda audit: names.index(audit.row.model))
    # Prefect unwraps the state for the caller.
    return conclude(done, loaded)  # type: ignore[return-value]


class _Night:
    """Models of a night whose audits are submitted once their inputs are there."""

    def __init__(self, names: list[str], day: dt.date, settings: Settings, *, wait: bool) -> None:
        self._lookups, begun = Lookups(Lake(settings.lake), settings), _now()
        self._settings, self._wait = settings, wait
        self._deadlines = {name: settings.deadline_of(name, day) for name in names}
        self._jobs = {
            name: Job(name, day, deadline=deadline if begun < deadline else None)
            for name, deadline in self._deadlines.items()
        }
        self._waiting, self._announced = list(self._jobs), list[Wait]()

    def look(self) -> list[Planned]:
        """Return whose inputs are complete, or whose deadline has come; announce the others."""
        now = _now()
        ready: list[Planned] = []
        waits: list[Wait] = []
        for planned in self._lookups.plan(self._jobs[name] for name in self._waiting):
            name, missing = planned.job.model, planned.missing
            deadline = self._deadlines[name]
            if missing is None or (self._wait and now >= deadline):
                # Of a model that waited for released labels alone the audit is wanted all the same.
                until = None if planned.only_released else planned.job.deadline
                job = dataclasses.replace(planned.job, deadline=until)
                ready.append(dataclasses.replace(planned, job=job))
            else:
                waits.append(Wait(name, missing, deadline if self._wait else None))
        if waits != self._announced:
            _report_waits(waits, self._announced, len(self._jobs))
        self._announced, self._waiting = waits, [one.model for one in waits]
        return ready

    def submit(self, ready: list[Planned], executor: Executor) -> list[Submitted]:
        """Submit what is ready, and all others as they become so."""
        submitted = submit(ready, self._settings, executor)
        while self._waiting and self._wait:
            time.sleep(_POLL)
            submitted += submit(self.look(), self._settings, executor)
        return submitted


def _report_waits(waits: list[Wait], before: list[Wait], models: int) -> None:
    """Say what is waited for, to listeners and in the run's log: what is new there alone."""
    announce_waits(waits, models)
    known = set(before)
    for one in waits:
        if one not in known:
            how = "is left out" if one.until is None else f"waits until {one.until}"
            run_log().info("%s %s: %s is not there.", one.model, how, one.missing)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class _Overrides(StrictModel):
    """Plan fields for this run alone; what is left out is as the settings say."""


def _optional(name: str) -> tuple[Any, Any]:
    field = Plan.model_fields[name]
    return field.rebuild_annotation() | None, Field(None, description=field.description)


if TYPE_CHECKING:
    PlanOverrides = _Overrides
else:
    # Every field of `Plan`, each optional: Prefect's form shows them all and sends what was set.
    PlanOverrides = create_model(
        "PlanOverrides",
        __base__=_Overrides,
        __doc__=_Overrides.__doc__,
        **{name: _optional(name) for name in Plan.model_fields},
    )


@prefect.flow(
    name="audit-model",
    flow_run_name=lambda: f"run {flow_run.parameters['model']} {audited_day()}",
    **_OPTIONS,
)
def audit_model(
    model: str,
    day: dt.date | None = None,
    plan: PlanOverrides = PlanOverrides(),  # noqa: B008  # frozen
    settings: str | None = None,
) -> list[AuditRow]:
    """Audit one model on one day now, with what is there, and publish the report.

    Args:
        model: name of one of the configured models.
        day: the audited day; the day before the scheduled time if left out.
        plan: fields of the plan for this run alone.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The one committed row, as a list.

    Raises:
        InvalidInputError: the day is after the model's newest inputs; or as `nightly_audit`.
    """
    loaded, _, audited = _asked(settings, [model], day)
    if day is not None:
        check_inputs(loaded, [model], day)
    job = Job(model, audited, plan.model_dump(exclude_none=True, mode="json"))
    begin(loaded)
    planned = plan_night(Lake(loaded.lake), [job], loaded)
    with choose_executor(planned, loaded.ray) as executor:
        done = gather(submit(planned, loaded, executor), loaded)
    # Prefect unwraps the state for the caller.
    return conclude(done, loaded)  # type: ignore[return-value]


BACKFILL = "Backfill"
"""Name under which progress is announced."""


@prefect.flow(name="backfill", flow_run_name="backfill {first} to {last}", **_OPTIONS)
def backfill(
    first: dt.date,
    last: dt.date,
    models: list[str] | None = None,
    force: bool = False,  # noqa: FBT001, FBT002  # flow parameters are given by name
    settings: str | None = None,
) -> list[AuditRow]:
    """Audit every model on every day from `first` to `last`, both included.

    Args:
        first: first audited day.
        last: last audited day.
        models: names of configured models; all of them if left out.
        force: audit again what is committed with figures under today's plan and method.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The rows of the audits that this run made.

    Raises:
        InvalidInputError: `first` is after `last`, or `last` after the newest inputs of all models;
            or as `nightly_audit`.
    """
    loaded = load_settings(settings)
    jobs = plan_backfill(loaded, first, last, models=models, force=force)
    days = (last - first).days + 1
    asked = days * len(models or loaded.models)
    note = f" {asked - len(jobs)} of {asked} audits were committed before."
    if not jobs:  # Prefect unwraps the state for the caller
        return Completed(message=f"0 audits to do.{note}", data=[])  # type: ignore[return-value]
    begin(loaded)
    done: list[Audited] = []
    lake = Lake(loaded.lake)
    ray = loaded.ray
    with on_ray(ray.address, ray.cpus) as executor:
        for day in sorted({job.day for job in jobs}):
            today = [job for job in jobs if job.day == day]
            done += gather(submit(plan_night(lake, today, loaded), loaded, executor), loaded)
            announce(BACKFILL, len(done), len(jobs))
    return conclude(done, loaded, note=note)  # type: ignore[return-value]


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
    withdrawn = warehouse.notes(NoteKind.WITHDRAWN)
    done = (pl.col("status") == Status.EVALUATED) & (pl.col("method_version") == METHOD_VERSION)
    evaluated, started = warehouse.scan("audits").filter(done), first_start()
    if started is not None:
        evaluated = evaluated.filter(pl.col("recorded_at") < started)
    kept = evaluated.join(withdrawn, on="audit_id", how="anti").select("model", "day", "plan")
    return set(warehouse.collect(kept).iter_rows())


class AuditsMissingError(AuditError):
    """Models have no audit although their deadline has passed."""

    def __init__(self, models: tuple[str, ...], day: dt.date) -> None:
        self.models = models
        self.day = day
        super().__init__(
            f"No audit of {', '.join(models)} for {day} by the deadline: see whether nightly-audit "
            f"ran, then privaudit backfill --first {day} --last {day}."
        )


def overdue_models(settings: Settings, day: dt.date, *, now: dt.datetime) -> tuple[str, ...]:
    """Return the configured models that lack a record of `day` although their deadline passed.

    One of each secret that the settings ask for. A record without figures counts: its own alert has
    been delivered. An exploratory one does not: it is under another plan than the settings'. What
    was withdrawn is none.
    """
    warehouse = Warehouse(settings.warehouse)
    recorded = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("day") == day, CONFIGURED)
        .select("audit_id", "model", "secret")
    )
    withdrawn = warehouse.withdrawn(recorded["audit_id"])
    there = {(model, secret) for one, model, secret in recorded.rows() if one not in withdrawn}
    return tuple(
        model.name
        for model in settings.models
        if any((model.name, one.secret_name) not in there for one in settings.plans_of(model.name))
        and now >= settings.deadline_of(model.name, day)
    )


@prefect.flow(name="overdue", validate_parameters=True, persist_result=False)
def overdue(day: dt.date | None = None, settings: str | None = None) -> None:
    """Alert for every model that has no audit at its deadline.

    Args:
        day: the audited day; the day before the scheduled time if left out.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Raises:
        AuditsMissingError: some have none; each alert was sent.
        WebhookError: an alert could not be delivered; all the others were.
    """
    loaded, _, audited = _asked(settings, None, day)
    models = overdue_models(loaded, audited, now=dt.datetime.now(dt.UTC))
    if undelivered := deliver_all((missing(one, audited, loaded) for one in models), loaded):
        raise WebhookError(" ".join(undelivered))
    if models:
        raise AuditsMissingError(models, audited)
