"""The flow `nightly-audit`: one day, every model, as soon as its inputs are there."""

import datetime as dt
import time

import prefect
from prefect.runtime import flow_run

from flows.notify.prefect_context import run_log, tell_as_failed
from flows.progress import Wait, announce_waits
from flows.run.auditing import RUNNER, Submitted, begin, gather, submit
from flows.run.conclusion import conclude
from flows.run.days import audited_day, check_days
from flows.run.night_plan import Job, Lookups, Planned
from flows.settings import Settings, load_settings
from workers.executors import Executor, on_ray
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow

_POLL = 30.0
"""Seconds between two looks at the lake."""


@prefect.flow(
    name="nightly-audit",
    flow_run_name=lambda: f"night {audited_day()}",
    on_failure=[tell_as_failed],
    task_runner=RUNNER,
    validate_parameters=True,
    persist_result=False,
)
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
    loaded = load_settings(settings)
    loaded.check_listed(models or ())
    # Resolved once, from the time it was planned for: a run that starts late audits the same day.
    audited = day or loaded.yesterday(flow_run.scheduled_start_time or _now())
    names = models or [model.name for model in loaded.models]
    if day is not None:
        check_days(loaded, names, day, day)
    begin(loaded)
    night, ray = _Night(names, audited, loaded, wait=wait), loaded.ray
    ready = night.look()  # before Ray, which takes seconds to start: nobody waits in silence
    with on_ray(ray.address, ray.cpus, ray.task_cpus, ray.task_memory) as executor:
        done = gather(night.submit(ready, executor), loaded)
    done.sort(key=lambda audit: names.index(audit.row.model))
    # Prefect unwraps the state for the caller.
    return conclude("nightly-audit", f"Audits of {audited}", done, loaded)  # type: ignore[return-value]


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
                ready.append(planned)
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
