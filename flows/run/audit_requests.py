"""What a plan asks of its audits, under which settings, and who asked; without Prefect."""

import functools
import os
import pwd
from collections.abc import Iterator

from flows.progress import announce
from flows.run.night_plan import Job, Planned
from flows.settings import ModelSettings, Settings
from privcore.lower_bounds.question import Secret
from workers.audit.request import Request
from workers.audit.run import run_batches
from workers.executors import Executor
from workers.lake.layout import Lake
from workers.sources.tables.day_tables import ReleasedNight
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse


def batches(
    planned: tuple[Planned, ...], settings: Settings, executor: Executor, title: str
) -> Iterator[list[AuditRecord]]:
    """Audit models of one day and deadline, and yield their records as they come."""
    first, key = planned[0].job, Warehouse(settings.warehouse).digest_key()
    requests = [
        Request(
            each.job.model,
            plan,
            settings.model_named(each.job.model).dataset,
            each.declared,
            each.external_inputs
            if plan.secret is not Secret.RELEASED
            else released_night_of(each, settings.model_named(each.job.model)),
            digest_key=key,
        )
        for each in planned
        for plan in settings.plans_of(each.job.model, each.job.overrides)
    ]
    yield from run_batches(
        Lake(settings.lake),
        first.day,
        requests,
        executor=executor,
        staging=f"{settings.warehouse}/_staging",
        progress=functools.partial(announce, title),
        deadline=first.deadline,
    )


def released_night_of(planned: Planned, settings: ModelSettings) -> ReleasedNight | None:
    """Return where a model's released labels lie, and what is declared of them; None without."""
    if settings.released_labels is None:
        return None
    manifest = None if planned.declared is None else planned.declared.manifest
    privacy = None if manifest is None else manifest.privacy
    return ReleasedNight(
        released_labels=settings.released_labels,
        privacy=privacy if settings.privacy is None else settings.privacy.as_privacy(),
        trust=settings.mode(released=True),
        target=None if manifest is None else manifest.sha256,
    )


def as_asked(record: AuditRecord, job: Job, settings: Settings) -> AuditRecord:
    """Return a record with its drill, and if its plan is the settings' own."""
    of_labels = record.audit.secret == str(Secret.LABEL)
    asked = {
        "drill": settings.model_named(job.model).drill if of_labels else None,
        "exploratory": settings.plan_of(job.model, job.overrides) != settings.plan_of(job.model),
    }
    return record.model_copy(update={"audit": record.audit.model_copy(update=asked)})


def this_user() -> str:
    """Return the operating system's user, whatever `LOGNAME` says."""
    user = os.getuid()
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:  # a container's user may have no name
        return f"user {user}"
