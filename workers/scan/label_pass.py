"""One pass over a day's labels: its work units fanned out, found again where done, added up."""

import datetime as dt
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.exceptions import too_late
from workers.executors import DeadlinePassedError, Executor, OnRay, Total
from workers.lake.model_sandbox import let_go
from workers.scan.before_the_pass import with_row_draws, with_students
from workers.scan.partial_results import ByGame, Game, LabelPass, PartialResult
from workers.scan.work_unit import Cost, nothing_scanned, scan_work_unit

_log = logging.getLogger(__name__)
_PLAIN = re.compile(r'[^\s"=\\]*')


def scan_labels(
    shared: LabelPass,
    *,
    executor: Executor,
    progress: Callable[[int, int], None] | None = None,
    deadline: dt.datetime | None = None,
    prepare: Callable[[LabelPass], LabelPass] | None = None,
) -> "Scan":
    """Scan all work units and return the sum, which no executor, order or failure changes.

    Each work unit that is done is logged once, here, with its files and its cost, whichever
    worker did it and however often it was tried. What `prepare` returns is scanned in the pass's
    place; its games have their students by then.

    Raises:
        NotEvaluableError: `deadline`; it passed before all was done.
    """
    units = shared.partition.work_units
    done = 0

    def on_done(cost: Cost) -> None:
        nonlocal done
        done += 1
        fields = {
            "event": "work_unit_done",
            "bytes_read": cost.bytes_read,
            "models": [game.source.model for game in shared.games.values()],
            "dataset": shared.partition.dataset,
            "day": str(shared.partition.day),
            "shards": cost.unit,
            "rows": cost.rows,
            "seconds": round(cost.seconds, 3),
            "cpu_seconds": {stage: round(cpu, 3) for stage, cpu in cost.cpu_seconds.items()},
            "worker": cost.worker,
        }
        log_event(_log, fields)
        if progress is not None:
            progress(done, len(units))

    if isinstance(executor, OnRay):
        let_go()  # models are asked there
    try:
        shared = with_row_draws(shared, executor=executor, deadline=deadline)
        shared = with_students(shared, executor=executor, deadline=deadline)
        if prepare is not None:
            shared = prepare(shared)
        found = executor.total(scan_work_unit, shared, units, on_done=on_done, deadline=deadline)
    except DeadlinePassedError:
        before = (
            f"the labels of {shared.partition.dataset} for {shared.partition.day} were scanned: "
            "begin earlier, or give the audit more workers"
        )
        raise too_late(deadline, before) from None
    return Scan(found or Total(nothing_scanned(shared)), shared)


@dataclass(frozen=True, slots=True)
class Scan:
    """What the work units of a pass add up to, and the pass with its games as they were played."""

    total: Total[ByGame[PartialResult]]
    shared: LabelPass

    def of_one_game(self) -> tuple[Game, PartialResult]:
        """Return the only game, and its result beside what was left out of the files before."""
        ((number, game),) = self.shared.games.items()
        return game, self.total.get().parts[number].beside(self.shared.partition.left_out)


def log_event(logger: logging.Logger, fields: Mapping[str, object]) -> None:
    """Log `name=value` for every field, for people; the fields as the record's `privaudit`.

    A text that could be taken for more fields, or for another line, is written as JSON: files are
    called by the labels' writer.
    """
    words = (f"{name}={_word(value)}" for name, value in fields.items())
    logger.info("%s", " ".join(words), extra={"privaudit": dict(fields)})


def _word(value: object) -> str:
    text = str(value)
    plain = not isinstance(value, list | dict) and text.isprintable() and _PLAIN.fullmatch(text)
    return text if plain else json.dumps(value if isinstance(value, list | dict) else text)
