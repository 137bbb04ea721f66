"""Plan of a night and the inputs that exist: each model's manifest is read once a night.

What was read here is handed down to the audit, so that no two parts of a night decide on two
versions of one file. A fault of one model's inputs is met again by that model's audit, which makes
a record of it, so looking for inputs fails for no model.
"""

import dataclasses
import datetime as dt
import importlib.util
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FuturesTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flows.settings import ModelSettings, RaySettings, Settings
from privcore.exceptions import TerminalError, TransientError, is_failure
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor, OneChild, connected, on_ray
from workers.labels.shards import WORK_UNIT_BYTES
from workers.lake.checkpoints import DeclaredManifest, read_manifest
from workers.lake.layout import Lake, checkpoint_folder, labels_folder
from workers.sources.checkpoints.in_place import InPlace, find_ready
from workers.sources.scores.supplied import ExternalInputs, SuppliedScores, find_scores
from workers.sources.tables.day_tables import ReleasedLabels
from workers.sources.tables.table_files import find_day

_PATIENCE = 60.0
"""Seconds that one look at all jobs may take."""
_AT_ONCE = 64
"""Models whose inputs are looked for at once: storage throttles requests for thousands."""
_NO_ANSWER = "an answer from storage"
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
        declared: the checkpoint's manifest; None where there is none that can be read.
        external_inputs: where its night lies, at the versions that hold the day; None in the lake.
        missing: what is not there yet, the target's `_SUCCESS` first; None when nothing is, or
            when waiting cannot help: then the audit says what is wrong.
        label_bytes: how large the day's labels are, which is how long their audit takes.
        only_released: whether nothing but the day's released labels is missing.
    """

    job: Job
    declared: DeclaredManifest | None = None
    external_inputs: ExternalInputs | None = None
    missing: str | None = None
    label_bytes: int = 0
    only_released: bool = False

    @property
    def shares(self) -> tuple[str, dt.datetime | None]:
        """Labels and deadline; jobs of the same ones can share one read of the labels."""
        labels = f"of {self.job.model}"
        if isinstance(self.external_inputs, SuppliedScores):
            labels = f"table {self.external_inputs.tables.table}"
        elif isinstance(self.external_inputs, InPlace):
            labels = f"table {self.external_inputs.labels.table}"
        elif self.declared is not None:
            labels = self.declared.manifest.dataset
        return labels, self.job.deadline


class Lookups:
    """Lookups of a night's inputs, many models' at once: a slow one delays no other model.

    A lookup that is not done goes on, and its job waits for an answer from storage meanwhile. A
    look at the jobs takes at most a minute.
    """

    def __init__(self, lake: Lake, settings: Settings) -> None:
        self._lake, self._settings = lake, settings
        self._asked: dict[tuple[str, dt.date], Future[Planned]] = {}
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    def plan(self, jobs: Iterable[Job]) -> list[Planned]:
        """Return what is there for every job, in their order."""
        jobs, until = list(jobs), time.monotonic() + _PATIENCE
        for job in jobs:
            if (job.model, job.day) not in self._asked:
                self._ask(job)
        return [self._answer(job, until - time.monotonic()) for job in jobs]

    def _ask(self, job: Job) -> None:
        future: Future[Planned] = Future()
        self._asked[job.model, job.day] = future

        def look() -> None:
            try:
                model = self._settings.model_named(job.model)
                with self._turns:
                    future.set_result(plan_audit(self._lake, job, model))
            except BaseException as error:  # noqa: BLE001  # it is raised where it is waited for
                future.set_exception(error)

        # A daemon thread: storage that never answers must not keep the process.
        threading.Thread(target=look, name=f"inputs of {job.model}", daemon=True).start()

    def _answer(self, job: Job, seconds: float) -> Planned:
        try:
            planned = self._asked[job.model, job.day].result(max(seconds, 0.0))
        except FuturesTimeoutError:
            model = self._settings.model_named(job.model)
            return Planned(job, external_inputs=external_inputs_of(model), missing=_NO_ANSWER)
        del self._asked[job.model, job.day]
        return planned


def plan_night(lake: Lake, jobs: Iterable[Job], settings: Settings) -> list[Planned]:
    """Look for the inputs of every job, once."""
    return Lookups(lake, settings).plan(jobs)


def plan_audit(lake: Lake, job: Job, settings: ModelSettings) -> Planned:
    """Look for one job's inputs; its settings say where, and which dataset it may name."""
    external_inputs = external_inputs_of(settings)
    try:
        if external_inputs is None:
            planned = _look(lake, job, settings.dataset)
        else:
            planned = _find_external_inputs(lake, job, external_inputs)
        return _with_released(planned, settings.released_labels)
    except TransientError:
        return Planned(job, external_inputs=external_inputs, missing=_NO_ANSWER)
    except BaseException as error:
        if not is_failure(error):
            raise
        _log.info("The inputs of %s cannot be read: its audit says why.", job.model)
        return Planned(job, external_inputs=external_inputs)


def _with_released(planned: Planned, table: ReleasedLabels | None) -> Planned:
    """Return a job that waits for the day of its released labels, too, where there is a table.

    What is wrong with them costs the model's own audit none of its inputs.
    """
    if planned.missing is not None or table is None:
        return planned
    missing = None
    try:
        find_day(table, planned.job.day)
    except TransientError:
        missing = _NO_ANSWER
    except TerminalError as error:  # their audit says why, where waiting cannot help
        if isinstance(error, NotEvaluableError) and error.reason is Reason.MISSING_LABELS:
            missing = f"its released labels: {error.sentence}"
    return dataclasses.replace(planned, missing=missing, only_released=missing is not None)


def external_inputs_of(settings: ModelSettings) -> ExternalInputs | None:
    """Return where a model's night lies, and what the settings declare; None of the lake."""
    privacy = None if settings.privacy is None else settings.privacy.as_privacy()
    if settings.scores is not None:
        return SuppliedScores(settings.scores, privacy)
    if settings.labels is not None:
        trust = settings.mode(released=False)
        return InPlace(settings.labels, settings.checkpoints, privacy, trust=trust)
    return None


def _find_external_inputs(lake: Lake, job: Job, external_inputs: ExternalInputs) -> Planned:
    declared = None
    try:
        if isinstance(external_inputs, SuppliedScores):
            source = find_scores(job.model, job.day, external_inputs)
            external_inputs, found = source.supplied, source.found
        else:
            if external_inputs.checkpoints is None:
                declared = read_manifest(lake, job.model, job.day)
            external_inputs, found = find_ready(external_inputs, job.model, job.day)
    except NotEvaluableError as error:
        if error.reason not in {Reason.MISSING_TARGET, Reason.MISSING_LABELS}:
            raise
        what = "its rows" if error.reason is Reason.MISSING_LABELS else "its checkpoint"
        return Planned(job, declared, external_inputs, missing=f"{what}: {error.sentence}")
    size = 0 if found is None else sum(file.size for file in found.files)
    return Planned(job, declared, external_inputs, label_bytes=size)


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


@contextmanager
def choose_executor(planned: Sequence[Planned], ray: RaySettings) -> Iterator[Executor]:
    """Yield the executor: Ray, or a child process where Ray is not installed.

    So is where there is one work unit at most: starting a Ray would take longer than the audit.
    """
    small = sum(each.label_bytes for each in planned) <= WORK_UNIT_BYTES
    small = small or importlib.util.find_spec("ray") is None
    if small and ray.address == "local" and not connected():
        with OneChild() as child:
            yield child
    else:
        with on_ray(ray.address, ray.cpus) as executor:
            yield executor
