"""One pass over a day's labels: units fanned out, found again where they were done, added up."""

import datetime as dt
import hashlib
import json
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

from privcore.exceptions import TerminalError
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import DeadlinePassedError, Executor
from workers.labels.shards import Unit, unit_name
from workers.logs import log_event
from workers.scan.partial_results import Pass, Score, Scores, Work
from workers.scan.staging import Staging
from workers.scan.work_unit import play_unit
from workers.versions import CODE_VERSION, METHOD_VERSION

_log = logging.getLogger(__name__)
_VERSION = f"{CODE_VERSION} (method version {METHOD_VERSION})"


def play_pass(
    shared: Pass,
    *,
    executor: Executor,
    staging: Staging | None = None,
    progress: Callable[[int, int], None] | None = None,
    deadline: dt.datetime | None = None,
) -> Scores:
    """Play all units and return the sum, which no executor, order or failure changes.

    Each unit that is done is logged once, here, with its files and what it cost, whichever worker
    did it and however often it was tried.

    Raises:
        NotEvaluableError: `deadline`; it passed before all was done.
        TransientError: storage or workers kept failing.
    """
    units = shared.partition.units
    key, done = pass_key(shared), 0

    def tell(work: Work) -> None:
        nonlocal done
        done += 1
        log_event(_log, _fields(shared, key, work))
        if progress is not None:
            progress(done, len(units))

    try:
        total = executor.fold(
            play_or_find, Staged(shared, staging), units, tell=tell, deadline=deadline
        )
    except DeadlinePassedError:
        raise NotEvaluableError(
            Reason.DEADLINE,
            f"The deadline, {deadline:%Y-%m-%d %H:%M:%S %Z}, passed before the labels of "
            f"{shared.partition.dataset} for {shared.partition.day} were played: begin earlier, "
            "or give the audit more workers.",
        ) from None
    return Scores(tuple(Score.zero(game) for game in shared.games)) if total is None else total


def pass_key(shared: Pass) -> str:
    """Return a digest of all that the tallies depend on, known before anything is read."""
    partition = shared.partition
    content = {
        "method_version": METHOD_VERSION,
        "code_version": CODE_VERSION,
        "dataset": partition.dataset,
        "day": str(partition.day),
        "files": partition.files,
        "games": [
            [
                game.target.manifest.sha256,
                game.target.manifest_sha256,
                game.proxy.manifest.sha256,
                game.proxy.manifest_sha256,
                game.plan.model_dump(mode="json"),
            ]
            for game in shared.games
        ],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Staged:
    """A pass, where its finished units are kept, and the code that began it."""

    shared: Pass
    staging: Staging | None
    version: str = _VERSION


def play_or_find(staged: Staged, unit: Unit) -> tuple[Work, Scores]:
    """Return a unit's scores: found where it was done before, played and kept where not.

    Raises:
        TerminalError: this node has another version of privaudit than who began the pass.
    """
    if staged.version != _VERSION:
        raise TerminalError(
            f"The node {socket.gethostname()} has privaudit {_VERSION}, but the audit was begun by "
            f"{staged.version}: install the same on every node."
        )
    if staged.staging is None:
        return play_unit(staged.shared, unit)
    found = staged.staging.load(unit)
    if found is not None:
        return Work(unit_name(unit), reused=True), found
    work, scores = play_unit(staged.shared, unit)
    staged.staging.save(unit, scores)
    return work, scores


def _fields(shared: Pass, key: str, work: Work) -> dict[str, object]:
    return {
        "event": "unit_done",
        "pass": key,
        "models": [game.target.manifest.model for game in shared.games],
        "dataset": shared.partition.dataset,
        "day": str(shared.partition.day),
        "shards": work.unit,
        "rows": work.rows,
        "bytes_read": work.bytes_read,
        "seconds": round(work.seconds, 3),
        "cpu_seconds": {stage: round(cpu, 3) for stage, cpu in work.cpu_seconds.items()},
        "reused": work.reused,
        "worker": work.worker,
    }
