"""Resources for a source before its rows can be read: an executor, and a place for rows."""

import contextlib
import datetime as dt
import logging
import os
import pathlib
import tempfile
import uuid
from dataclasses import dataclass

from pyarrow import fs

from privcore.exceptions import TransientError
from workers.exceptions import too_late
from workers.executors import Executor
from workers.lake.layout import Lake, patiently
from workers.lake.places import local_path

ROWS = ".rows"
"""Ending of a folder of rows, by which a sweep knows it."""
KEPT = dt.timedelta(days=2)
"""Time that rows of an audit that was cut off are kept; longer than any pass takes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JoinContext:
    """The caller that asks a source for its rows says what it may use to lay them out.

    Attributes:
        executor: does the work.
        made: closed when the rows are no longer needed; deletes what was made.
        place: path or URI that all workers reach; None where they are of this machine.
        deadline: after it, what is not done is not evaluable.
    """

    executor: Executor
    made: contextlib.ExitStack
    place: str | None = None
    deadline: dt.datetime | None = None

    def check_deadline(self, before: str) -> None:
        """Raise `NotEvaluableError` where the deadline passed; `before` ends the sentence."""
        if self.deadline is not None and dt.datetime.now(dt.UTC) > self.deadline:
            raise too_late(self.deadline, before)

    def scratch_folder(self) -> Lake:
        """Return a new, empty folder that all workers reach, deleted when `made` is closed.

        What audits that were cut off left beside it, longer than any pass takes, is deleted, too.
        """
        name = f"{uuid.uuid4().hex}{ROWS}"
        root = Lake(self.place or tempfile.gettempdir())
        if self.place is not None:
            _sweep(root)
        if (local := local_path(root.uri)) is not None:
            local.mkdir(parents=True, exist_ok=True)
            pathlib.Path(local, name).mkdir(mode=0o700)
            scratch_folder = Lake(os.fspath(local / name))
        else:
            scratch_folder = Lake(f"{root.uri.rstrip('/')}/{name}")
        self.made.callback(_delete, root, name)
        return scratch_folder


def _sweep(root: Lake) -> None:
    """Delete folders of rows of which nothing is younger than `KEPT`."""
    selector = fs.FileSelector("", recursive=True, allow_not_found=True)
    entries = patiently(lambda: root.files.get_file_info(selector), "the staging area")
    now, latest = dt.datetime.now(dt.UTC), dict[str, dt.datetime]()
    for entry in entries:
        name = entry.path.partition("/")[0]
        if name.endswith(ROWS):
            latest[name] = max(entry.mtime or now, latest.get(name, entry.mtime or now))
    for name, moment in latest.items():
        if moment < now - KEPT:
            _delete(root, name)


def _delete(root: Lake, name: str) -> None:
    """Delete a folder; one that storage does not let go of now is swept by a later audit."""
    try:
        patiently(lambda: root.files.delete_dir(name), name)
    except FileNotFoundError:
        pass  # another process swept it first
    except (TransientError, OSError) as error:
        _log.warning("Rows of an audit are left in %s, and swept later: %s", name, error)
