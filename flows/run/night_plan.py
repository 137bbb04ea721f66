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
from flows.settings import ModelSettings, Settings
from privcore.exceptions import TransientError, is_failure
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.checkpoints import DeclaredManifest, read_manifest
from workers.lake.layout import Lake, checkpoint_folder, labels_folder
from workers.sources.supplied import SuppliedScores, find_scores

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
        supplied: its score tables at the versions that hold the day; None of a checkpoint.
        missing: what is not there yet, the target's `_SUCCESS` first; None when nothing is, or
            when waiting cannot help: then the audit says what is wrong.
        label_bytes: how large the day's labels are, which is how long their audit takes.
    """

    job: Job
    declared: DeclaredManifest | None = None
    supplied: SuppliedScores | None = None
    missing: str | None = None
    label_bytes: int = 0

    @property
    def shares(self) -> tuple[str, dt.datetime | None]:
        """What it has in common with those that it can share one read of the labels with."""
        labels = f"of {self.job.model}"
        if self.supplied is not None:
            labels = f"table {self.supplied.tables.table}"
        elif self.declared is not None:
            labels = self.declared.manifest.dataset
        return labels, self.job.deadline


def report_planned(jobs: Iterable[Job], settings: str | None) -> None:
    """Report what this process means to audit, under which settings file, to whoever watches it."""
    planned = [(job.model, str(job.day), job.overrides) for job in jobs]
    report_to_watcher(settings=settings, planned=planned)


def plan_night(lake: Lake, jobs: Iterable[Job], settings: Settings) -> list[Planned]:
    """Look for the inputs of every job."""
    return [plan_audit(lake, job, settings.model_named(job.model)) for job in jobs]


def plan_audit(lake: Lake, job: Job, settings: ModelSettings | None = None) -> Planned:
    """Look for one job's inputs; its settings say where, and which dataset it may name."""
    supplied = None if settings is None else supplied_of(settings)
    allowed = None if settings is None else settings.dataset
    try:
        return _look(lake, job, allowed) if supplied is None else _look_at_tables(job, supplied)
    except TransientError:
        return Planned(job, supplied=supplied, missing="an answer from storage")
    except BaseException as error:
        if not is_failure(error):
            raise
        _log.info("The inputs of %s cannot be read: its audit says why.", job.model)
        return Planned(job, supplied=supplied)


def supplied_of(settings: ModelSettings) -> SuppliedScores | None:
    """Return a model's score tables and declaration; None where it has checkpoints."""
    if settings.scores is None:
        return None
    privacy = None if settings.privacy is None else settings.privacy.as_privacy()
    return SuppliedScores(settings.scores, privacy)


def _look_at_tables(job: Job, supplied: SuppliedScores) -> Planned:
    try:
        source = find_scores(job.model, job.day, supplied)
    except NotEvaluableError as error:
        if error.reason is not Reason.MISSING_LABELS:
            raise
        return Planned(job, supplied=supplied, missing=f"its rows: {error.sentence}")
    size = sum(file.size for file in source.found.files)
    return Planned(job, supplied=source.supplied, label_bytes=size)


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
