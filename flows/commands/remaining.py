"""Remaining time of a progress bar, also where its parts take minutes."""

import datetime as dt

from rich.progress import ProgressColumn, Task
from rich.text import Text


class RemainingColumn(ProgressColumn):
    """Time left, by the mean time of the parts that were done since the bar began.

    rich's own column forgets parts that are older than half a minute, knows nothing before the
    second one, and stands still from one part to the next, however long it takes. Parts that were
    done before (the bar's field `begun`) say nothing of time.
    """

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._latest: dict[int, tuple[float, float]] = {}  # bar -> parts done, seconds until then

    def render(self, task: Task) -> Text:
        """Return "left", and hours, minutes and seconds."""
        if task.finished:
            return Text("")
        return Text(f"left {self._left(task)}", style="progress.remaining")

    def _left(self, task: Task) -> str:
        elapsed = task.elapsed or 0.0
        done = task.completed - task.fields.get("begun", 0)
        if done <= 0 or task.total is None:
            return "-:--:--"
        if self._latest.get(task.id, (0.0, 0.0))[0] != done:
            self._latest[task.id] = (done, elapsed)
        _, until = self._latest[task.id]
        left = until / done * (task.total - task.completed) - (elapsed - until)
        return str(dt.timedelta(seconds=round(max(0.0, left))))
