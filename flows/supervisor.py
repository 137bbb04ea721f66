"""The command `privaudit`: run by one process, watched by another that outlives every fault.

Ray ends its driver when its raylet or its store of cluster state dies (exit code 1 or an abort,
without a word), and a full disk or a signal may end it anywhere. So every command that may use Ray
runs in a child. The watching process turns its end into the right exit code and one sentence, makes
a record of what was left, and leaves no process behind.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from flows.lasting_output import open_closed_streams
from flows.ledger import Ledger, report_to_watcher, reporting
from workers.memory import return_freed_memory

WATCHED = {
    *("run", "night", "backfill", "publish"),
    *("attach", "check", "gate", "locate", "verify"),
    *("demo", "memorization", "release", "study", "train"),
}
"""Commands that may use Ray, and `publish`, which charges labels."""
_ERROR, _INTERRUPTED = 3, 130
_GRACE, _LAST_GRACE = 20.0, 5.0
"""Seconds to end by itself: for an interrupted run, and for what it leaves behind."""
_SET_SIGNAL_OF_PARENTS_DEATH, _SET_CHILD_SUBREAPER = 1, 36
_AGAIN = "Run the same command again to go on: what was made or committed stays"
_OVERDUE = (
    "The night had not ended an hour after its last deadline: something that it waits for is "
    "stopped, or does not answer (a part of Ray, storage, the process itself)."
)


def main() -> None:
    """Run the command line."""
    open_closed_streams()
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    asks = {"--help", "--dry-run"} & set(sys.argv[1:])
    if command in WATCHED and not asks and sys.platform == "linux":
        sys.exit(_watch())
    from flows.cli import main as unwatched  # noqa: PLC0415

    unwatched()


def _watch() -> int:
    """Fork, watch over the child, and return the exit code of the command."""
    # What the child leaves behind becomes ours, however it ended.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    mine, theirs = os.pipe()
    watcher = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(mine)
        _end_with(watcher)
        os.setsid()  # Ctrl-C reaches the watcher alone, which passes it on once
        _carry(theirs)
    os.close(theirs)
    signals = _Signals(child)
    with open(mine, "rb") as reported:  # noqa: PTH123  # a descriptor
        ledger = Ledger.read(_heeded(reported, signals))
    signals.limit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signals.over()
    _end_descendants()
    if signals.asked is not None:
        _say(_how_to_go_on(ledger))
        return _INTERRUPTED if signals.asked == signal.SIGINT else 128 + signals.asked
    if ledger.code is not None and (ledger.why is None or not ledger.planned):
        return ledger.code
    if ledger.why is None:
        ledger.why = _OVERDUE if signals.overdue else _how_it_ended(status)
        _say(f"privaudit: {ledger.why}")
    _say(_record_what_is_left(ledger, ledger.why))
    return _ERROR


def _end_with(watcher: int) -> None:
    """End this process with the watcher: who kills a command by its id, or its build, means it."""
    ctypes.CDLL(None).prctl(_SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != watcher:
        os._exit(_ERROR)


def _heeded(reported: Iterable[bytes], signals: "_Signals") -> Iterator[bytes]:
    """Yield what the child reports; when it says how long it may take, it gets no longer."""
    for line in reported:
        if line.startswith(b'{"seconds": '):
            signals.end_after(json.loads(line)["seconds"])
        yield line


def _carry(watcher: int) -> None:
    """Run the command in this process, report its exit code, and end."""
    from flows.cli import main as unwatched  # noqa: PLC0415

    return_freed_memory()
    code = _ERROR
    try:
        with reporting(watcher):
            try:
                unwatched()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else _ERROR
            report_to_watcher(code=code)
    except BaseException:  # noqa: BLE001  # the child never goes on as the watcher
        traceback.print_exc()
    finally:
        os.close(watcher)
    sys.exit(code)


class _Signals:
    """Passes the first request to stop on to the child; ends it after a while, or at the second."""

    def __init__(self, child: int) -> None:
        self.asked: int | None = None
        self.overdue = False
        self._child: int | None = child
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._heard)
        signal.signal(signal.SIGALRM, self._late)
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._paused)

    def _heard(self, number: int, _frame: Any) -> None:
        if self.asked is not None:
            self._send(signal.SIGKILL)
            return
        self.asked = number
        self._send(number)
        self.limit()

    def _paused(self, *_: Any) -> None:
        # Ctrl-Z reaches the watcher alone; a child at a prompt would go on to read the terminal.
        self._send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)

    def _late(self, *_: Any) -> None:
        self.overdue = self.asked is None
        self._send(signal.SIGKILL)

    def end_after(self, seconds: float) -> None:
        """End the child after that time, unless it is asked to stop before."""
        if self.asked is None:
            signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))

    def limit(self) -> None:
        """Give the child a while to end by itself."""
        signal.setitimer(signal.ITIMER_REAL, _GRACE)

    def over(self) -> None:
        """The child has ended: there is no process to send anything to."""
        self._child = None
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _send(self, number: int) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, number)


def _end_descendants() -> None:
    """End every process that the command started and did not end.

    Who is asked to end may start another one, and on a busy machine one needs longer to be gone.
    """
    for request in (None, signal.SIGTERM, *[signal.SIGKILL] * 3):
        for process in _descendants() if request else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, request)  # type: ignore[arg-type]  # never None here
        end = time.monotonic() + _LAST_GRACE
        while _descendants() and time.monotonic() < end:
            time.sleep(0.05)
        if not _descendants():
            return


def _descendants() -> list[int]:
    """Return this process's descendants that still run; orphans too became its children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.parent.name))
    found, left = [], [os.getpid()]
    while left:
        mine = children.get(left.pop(), [])
        found += mine
        left += mine
    return found


def _how_it_ended(status: int) -> str:
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit code {status}"
    return (
        f"The process that carried the command was ended {how}, which no audit does: "
        "Ray does when a part of it dies, and so does a machine without memory or room on its disk."
    )


def _how_to_go_on(ledger: Ledger) -> str:
    if not ledger.planned:
        return f"privaudit: interrupted. {_AGAIN}."
    done = ", ".join(f"{model} for {day}" for model, day in ledger.committed) or "nothing"
    return (
        f"privaudit: interrupted. Committed: {done}. {_AGAIN}, and labels that were scanned are "
        "not scanned again."
    )


def _record_what_is_left(ledger: Ledger, why: str) -> str:
    """Commit an error for every audit that was planned and has no record, and conclude the run.

    Return what came of it.
    """
    from flows.failures import in_one_sentence  # noqa: PLC0415
    from privcore.exceptions import is_failure  # noqa: PLC0415

    if not ledger.planned:
        return f"privaudit: {_AGAIN}."
    try:
        from flows.run.aftermath import record_lost  # noqa: PLC0415

        lost = record_lost(ledger, why)
    except BaseException as error:
        if not is_failure(error):
            raise
        return f"privaudit: what is left could not be recorded: {in_one_sentence(error)}"
    if not lost:
        return "privaudit: every audit that was begun has its record."
    return f"privaudit: committed as an error: {', '.join(lost)}."


def _say(sentence: str) -> None:
    # The child may have hidden the cursor, and stopped in the middle of a line.
    show = "\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else ""
    with contextlib.suppress(OSError):  # its reader may have gone
        print(f"{show}{sentence}", file=sys.stderr, flush=True)  # noqa: T201
