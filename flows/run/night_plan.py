"""What is to be audited, and what is there for it: each model's manifest is read once a night.

What was read here is handed down to the audit, so that no two parts of a night decide on two
versions of one file. Whatever goes wrong with one model's inputs is met again by that model's
audit, which makes a record of it: looking for them fails for nobody.
"""

import datetime as dt
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.ledger import report_to_watcher
from flows.settings import Settings
from privcore.exceptions import TransientError, is_failure
from workers.lake.checkpoints import DeclaredManifest, read_manifest
from workers.lake.layout import Lake, checkpoint_folder, labels_folder

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One audit to do.

    `overrides` are plan fields that win over the settings; after the `deadline`, what is not done
    is not evaluable.
    """

    model: str
    day: dt.date
    overrides: Mapping[str, Any] | None = None
    deadline: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, and what is there for it.

    Attributes:
        job: the audit to do.
        declared: the checkpoint's manifest; None where there is none that can be read.
        missing: the `_SUCCESS` that is not there yet, the target's first; None when both are, or
            when waiting cannot help: then the audit says what is wrong.
        label_bytes: how large the day's labels are, which is how long their audit takes.
    """

    job: Job
    declared: DeclaredManifest | None = None
    missing: str | None = None
    label_bytes: int = 0

    @property
    def shares(self) -> tuple[str, dt.datetime | None]:
        """What it has in common with those that it can share one read of the labels with."""
        dataset = (
            f"of {self.job.model}" if self.declared is None else self.declared.manifest.dataset
        )
        return dataset, self.job.deadline


def report_planned(jobs: Iterable[Job], settings: str | None) -> None:
    """Report what this process means to audit, under which settings file, to whoever watches it."""
    planned = [(job.model, str(job.day), job.overrides) for job in jobs]
    report_to_watcher(settings=settings, planned=planned)


def plan_night(lake: Lake, jobs: Iterable[Job], settings: Settings) -> list[Planned]:
    """Look for the inputs of every job."""
    return [plan_audit(lake, job, settings.model_named(job.model).dataset) for job in jobs]


def plan_audit(lake: Lake, job: Job, allowed: str | None = None) -> Planned:
    """Look for one job's inputs; `allowed` is the only dataset that its settings let it name."""
    try:
        return _look(lake, job, allowed)
    except TransientError:
        return Planned(job, missing="an answer from storage")
    except BaseException as error:
        if not is_failure(error):
            raise
        _log.info("The inputs of %s cannot be read: its audit says why.", job.model)
        return Planned(job)


def _look(lake: Lake, job: Job, allowed: str | None) -> Planned:
    folder = checkpoint_folder(job.model, job.day)
    if not lake.exists(folder):
        return Planned(job, missing=f"{folder}/_SUCCESS")
    declared = read_manifest(lake, job.model, job.day)
    dataset = declared.manifest.dataset
    if allowed not in {None, dataset}:
        return Planned(job, declared)
    labels = labels_folder(dataset, job.day)
    if not lake.exists(labels):
        return Planned(job, declared, missing=f"{labels}/_SUCCESS")
    size = sum(file.size for file in lake.label_files(dataset, job.day))
    return Planned(job, declared, label_bytes=size)
