"""Resources for a source before its rows can be read: an executor, and a place for rows."""

import contextlib
import datetime as dt
import logging
import os
import pathlib
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from privcore.exceptions import TransientError
from workers.executors import Executor, Item, Result, Shared
from workers.lake.layout import Lake
from workers.lake.places import local_path
from workers.lake.retries import patiently
from workers.lake.tagged import TaggedLake

ROWS = ".rows"
"""Ending of a folder of rows, by which a sweep of the staging area knows it."""
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

    def fold(
        self,
        function: Callable[[Shared, Item], tuple[None, Result]],
        shared: Shared,
        items: Iterable[Item],
    ) -> Result:
        """Return the sum of `function(shared, item)` over items, of which there is one at least."""
        total = self.executor.fold(
            function, shared, items, on_done=lambda _: None, deadline=self.deadline
        )
        if total is None:
            raise ValueError("There is nothing to do: give one item at least.")
        return total

    def scratch_folder(self) -> TaggedLake:
        """Return a new, empty folder that all workers reach, deleted when `made` is closed.

        Others may write there: what they write is not read.
        """
        name = f"{uuid.uuid4().hex}{ROWS}"
        root = Lake(self.place or tempfile.gettempdir())
        if (local := local_path(root.uri)) is not None:
            local.mkdir(parents=True, exist_ok=True)
            pathlib.Path(local, name).mkdir(mode=0o700)
            scratch_folder = TaggedLake(os.fspath(local / name))
        else:
            scratch_folder = TaggedLake(f"{root.uri.rstrip('/')}/{name}")
        self.made.callback(_delete, root, name)
        return scratch_folder


def _delete(root: Lake, name: str) -> None:
    """Delete a folder; one that storage does not let go of now is swept with the staging area."""
    try:
        patiently(lambda: root.files.delete_dir(name), name)
    except FileNotFoundError:
        pass  # another process swept it first
    except (TransientError, OSError) as error:
        _log.warning("Rows of an audit are left in %s, and swept later: %s", name, error)
