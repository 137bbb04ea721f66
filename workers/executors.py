"""Who carries work: this process, a child of it, or Ray on one machine or many; one answer."""

import contextlib
import datetime as dt
import functools
import importlib.util
import logging
import multiprocessing
import operator
import os
import pathlib
import secrets
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from privcore.exceptions import AuditError, TerminalError, TransientError, is_failure
from workers.isolation import private_folder
from workers.patience import within
from workers.versions import by_one_version


class _Ray:
    """Ray, imported as it is used: that takes over a second, and most commands do without.

    A lazy module among `sys.modules` would be loaded by whoever looks through these (`inspect`).
    """

    def __getattr__(self, name: str) -> Any:
        import ray as loaded  # noqa: PLC0415

        return getattr(loaded, name)


ray: Any = _Ray()

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
Report = TypeVar("Report")

_PENDING_PER_CPU = 4
_MERGED = 4  # results that one task adds: all of them are in its node's object store at once
STUCK = 1200.0  # seconds in which a worker finishes something
_RETRIES = 3
_LATE_SECONDS = 60.0
_SESSION_SECONDS = 7 * 86400.0  # in which somebody may want to read the logs of a run
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # where Ray keeps its objects
_LONGEST = 107 - len("/session_2026-11-28_07-51-45_248661_4194304/sockets/plasma_store")
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


class DeadlinePassedError(AuditError):
    """The time that was given is over; nothing that was done so far is a result."""


class PanicError(TerminalError):
    """A library gave up in the middle of an item."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"A library panicked ({kind}): its message is in the worker's log.")
        self.kind = kind


class LostWorkerError(TransientError):
    """Workers that ran one item kept dying: the item may be what kills them."""


class Executor:
    """Applies a function to many items: here and now, unless a subclass does it elsewhere."""

    def map(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield `function(shared, item)` for every item; in any order, where others do it."""
        for item in items:
            yield self._call(function, shared, item, None)

    def total(
        self,
        function: Callable[[Shared, Item], tuple[Report, Result]],
        shared: Shared,
        items: Iterable[Item],
        *,
        on_done: Callable[[Report], None],
        deadline: dt.datetime | None = None,
    ) -> "Total[Result] | None":
        """Return the sum of all results, where it was made; None without items.

        `on_done` gets each item's report.

        Raises:
            DeadlinePassedError: the deadline passed before all was done.
        """
        made: Any = None
        for item in items:
            check_deadline(deadline)
            report, result = self._call(function, shared, item, deadline)
            on_done(report)
            made = result if made is None else made + result
        return None if made is None else Total(made)

    def fold(
        self,
        function: Callable[[Shared, Item], tuple[Report, Result]],
        shared: Shared,
        items: Iterable[Item],
        *,
        on_done: Callable[[Report], None] = lambda _: None,
        deadline: dt.datetime | None = None,
    ) -> Result | None:
        """Return what `total` does, in this process."""
        made = self.total(function, shared, items, on_done=on_done, deadline=deadline)
        return None if made is None else made.get()

    def _call(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        item: Item,
        _deadline: dt.datetime | None,
    ) -> Result:
        return function(shared, item)


class InProcess(Executor):
    """Does the work in this process."""


@dataclass(frozen=True, slots=True)
class OnRay(Executor):
    """Does the work in tasks on the Ray that this process is connected to.

    Work in flight is bounded. A task is tried again where a worker or node was lost or the function
    raised `TransientError`, and never for anything else. A node with another version of privaudit
    refuses it.

    Who gives work up leaves the tasks in flight to their end: Ray 2.60 may end the process that
    cancels one as it finishes (a failed check in its task manager, ray-project/ray#54798).
    """

    def map(
        self, function: Callable[..., Result], shared: Shared, items: Iterable[Item], *values: Any
    ) -> Iterator[Result]:
        """Yield the results as they come, or raise what the function raises.

        It is given `values`, which are references, between what is shared and the item.
        """
        references = (ray.put(shared), *values)
        task = self._task(function)
        limit = self._limit()
        pending: list[Any] = []
        for item in items:
            if len(pending) >= limit:
                done, pending = ray.wait(pending)
                yield _result(done[0])
            pending.append(task.remote(*references, item))
        while pending:
            done, pending = ray.wait(pending)
            yield _result(done[0])

    def total(
        self,
        function: Callable[[Shared, Item], tuple[Report, Result]],
        shared: Shared,
        items: Iterable[Item],
        *,
        on_done: Callable[[Report], None],
        deadline: dt.datetime | None = None,
    ) -> "Total[Result] | None":
        """Return what `Executor.total` does.

        Results stay on the nodes that made them and are added there, four at a time: this process
        sees their reports.

        Raises:
            TransientError: Ray kept losing the workers that carried an item, or finished nothing in
                twenty minutes: a full object store can bring it to a halt.
        """
        task, add = self._task(function, num_returns=2), self._task(_sum)
        reference = ray.put(shared)
        waiting = iter(items)
        pending: dict[Any, Any] = {}  # an item's report -> its result
        sums: set[Any] = set()  # under way
        ready: list[Any] = []
        limit, more = self._limit(), True
        while True:
            while more and len(pending) < limit:
                item = next(waiting, None)
                more = item is not None
                if more:
                    report, result = task.remote(reference, item)
                    pending[report] = result
            while len(ready) >= _MERGED or (
                len(ready) > 1 and not more and not pending and not sums
            ):
                sums.add(add.remote(*ready[:_MERGED]))
                del ready[:_MERGED]
            if not pending and not sums:
                return Total(ready[0], self) if ready else None
            left = seconds_left(deadline)
            done, _ = ray.wait([*pending, *sums], timeout=left, fetch_local=False)
            check_deadline(deadline)
            if not done:
                raise TransientError(
                    f"Ray finished no task in {STUCK / 60.0:.0f} minutes, with {len(pending)} "
                    f"work units and {len(sums)} sums under way: see whether its nodes have "
                    "the memory, then try again."
                )
            for reference_done in done:
                if reference_done in pending:
                    on_done(_result(reference_done))
                    ready.append(pending.pop(reference_done))
                else:
                    sums.remove(reference_done)
                    ready.append(reference_done)

    def _task(self, function: Callable[..., Any], **more: Any) -> Any:
        # Ray's stubs know retry_exceptions only as a bool, and less of the rest.
        options: dict[str, Any] = {
            "num_cpus": 1,  # a task works on one thread
            "max_retries": _RETRIES,
            "retry_exceptions": [TransientError],
        }
        return ray.remote(**options, **more)(without_panic(by_one_version(function)))

    def _limit(self) -> int:
        """Return how many tasks may be in flight: some for every CPU, so that no CPU waits."""
        cluster: Any = ray
        return _PENDING_PER_CPU * max(1, int(cluster.cluster_resources().get("CPU", 1)))


def without_panic(function: Callable[..., Result]) -> Callable[..., Result]:
    """A panic in Rust is no `Exception`: Ray would take it for the death of the worker."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Result:
        try:
            return function(*arguments)
        except BaseException as error:
            if isinstance(error, Exception) or not is_failure(error):
                raise
            raise PanicError(type(error).__name__) from None

    return run


def _sum(*results: Any) -> Any:
    return functools.reduce(operator.add, results)


def check_deadline(deadline: dt.datetime | None) -> None:
    """Raise `DeadlinePassedError` where it has."""
    if deadline is not None and _now() >= deadline:
        raise DeadlinePassedError(f"The deadline, {deadline.isoformat()}, has passed.")


def before_deadline(deadline: dt.datetime | None, action: Callable[[], Result]) -> Result:
    """Return what `action` returns, or raise what it raises.

    It is for what only waits for storage: it goes on in a thread, where it is not done in time.
    After the deadline it has a minute: what comes then says what was not done.

    Raises:
        DeadlinePassedError: the deadline passed first.
    """
    if deadline is None:
        return action()
    left = (deadline - _now()).total_seconds()
    try:
        return within(left if left > 0.0 else _LATE_SECONDS, action)
    except TimeoutError:  # its own, or one of storage
        check_deadline(deadline)
        raise


def seconds_left(deadline: dt.datetime | None) -> float:
    """Return seconds to wait for the next task: until the deadline, or until it must be stuck."""
    if deadline is None:
        return STUCK
    return min(STUCK, max(0.0, (deadline - _now()).total_seconds()))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def connected() -> bool:
    """Return whether this process is connected to a Ray."""
    return "ray._raylet" in sys.modules and bool(ray.is_initialized())


@contextlib.contextmanager
def on_ray(address: str = "local", cpus: int | None = None) -> Iterator[OnRay]:
    """Yield an executor on Ray, connecting first where this process has not yet.

    `address` is `local` (a Ray of our own, in this process, with `cpus`), `auto` (the one that this
    machine or job belongs to), `host:port`, or `ray://host:port`. Who connected
    disconnects.

    Raises:
        TerminalError: the address is none; this process has no token, or another version of Ray.
        TransientError: no answer, or the token is refused: Ray gives the same error for both.
    """
    mine = not connected()
    if mine:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":
            _start_here(cpus)
        else:
            _join(address)
    try:
        yield OnRay()
    finally:  # after an interrupt threads still use it: Ray, shut down, would end this with code 1
        if mine and sys.exc_info()[0] is not KeyboardInterrupt:
            ray.shutdown()


def _start_here(cpus: int | None) -> None:
    """Start a Ray that no other machine reaches, and whose files no other user reads."""
    # So Ray listens on the loopback alone, on Linux too. It reads this when it is imported.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    kept = pathlib.Path(os.path.expanduser("~/.ray/auth_token"))  # noqa: PTH111  # never raises
    if not kept.exists() and not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray writes one there
    folder = _folder_of_ray()
    try:
        ray.init(
            "local",
            include_dashboard=False,
            num_cpus=cpus,
            job_config=_searching_as_here(),
            _temp_dir=str(folder),
            **_QUIET,
        )
    except Exception as error:
        raise TerminalError(
            f"Ray did not start on this machine ({type(error).__name__}): see that {folder} and "
            f"{_SHARED_MEMORY} have space; its logs in {folder} say more."
        ) from error


def _folder_of_ray() -> pathlib.Path:
    """Return where Ray keeps its files: Ray opens a folder of its own choice to all users.

    Raises:
        TerminalError: there can be no such folder.
    """
    if os.path.exists(_SHARED_MEMORY) and not os.access(_SHARED_MEMORY, os.W_OK):  # noqa: PTH110
        raise TerminalError(f"Ray cannot write to {_SHARED_MEMORY}: mount a writable tmpfs there.")
    chosen = os.environ.get("RAY_TMPDIR")
    folder = (pathlib.Path(chosen).absolute() if chosen else private_folder()) / "ray"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TerminalError(
            f"Ray cannot keep its files in {folder} ({error.strerror}): remove what has a folder's "
            "name there, or set RAY_TMPDIR to a folder of your own."
        ) from None
    if chosen and len(str(folder)) > _LONGEST:
        raise TerminalError(
            f"RAY_TMPDIR is {chosen}, where Ray's sockets would have paths of over 107 characters: "
            f"set it to a folder of at most {_LONGEST - len('/ray')} characters, or unset it."
        )
    if not chosen:
        _remove_old_sessions(folder)
    return folder


def _remove_old_sessions(folder: pathlib.Path) -> None:
    """Remove what Ray kept of runs of long ago: its logs, and where it was killed rows on disk.

    A session whose driver runs is kept, however old it looks: a study may take longer, and a clock
    may have jumped. Its name ends with the driver's process id.
    """
    before = time.time() - _SESSION_SECONDS
    for session in folder.glob("session_*"):
        with contextlib.suppress(OSError):
            driver = session.name.rpartition("_")[2]
            runs = session.name.count("_") > 2 and pathlib.Path("/proc", driver).exists()
            if not runs and not session.is_symlink() and session.stat().st_mtime < before:
                shutil.rmtree(session)


def _searching_as_here() -> Any:
    """Return a job whose workers look for modules where this process does.

    Ray itself would put the working folder first, in which a team may have a `workers` of its own.
    """

    class SearchingAsHere(ray.job_config.JobConfig):  # type: ignore[misc]
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # so Ray adds neither the working folder nor the script's

    installed = {sys.prefix, sys.base_prefix}  # what a node has of its own
    paths = [pathlib.Path(path).absolute() for path in reversed(sys.path)]  # the last comes first
    searched = [str(path) for path in paths if not any(map(path.is_relative_to, installed))]
    return SearchingAsHere(_py_driver_sys_path=searched)


def _join(address: str) -> None:
    """Connect to a Ray that runs, or say in one sentence why not."""
    if address.startswith("ray://") and importlib.util.find_spec("grpc") is None:
        raise TerminalError(
            f"To reach {address}, install privaudit with its extra: privaudit[cluster]."
        )
    named = os.environ.get("RAY_ADDRESS") if address == "auto" else None
    where = f"Ray at {f'RAY_ADDRESS={named}' if named else address}"
    # One attempt waits 40 seconds; of the 20 that are usual, all but one only repeat themselves.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    try:
        with warnings.catch_warnings(action="ignore"):  # what they say, the sentence says
            job = None if address.startswith("ray://") else _searching_as_here()
            ray.init(address, job_config=job, **_QUIET)
    except ray.exceptions.AuthenticationError:
        raise TerminalError(
            f"{where} wants a token and there is none here: set RAY_AUTH_TOKEN_PATH to a "
            "file with the token of its nodes."
        ) from None
    except ConnectionError:
        raise TransientError(
            f"{where} does not answer or refuses this process: see that its head runs, "
            "and that RAY_AUTH_MODE and the token are the same here as on its nodes."
        ) from None
    except ValueError:
        raise TerminalError(
            f"{named or address!r} is not a Ray address. Use local, auto, host:port or ray://host:port."
        ) from None
    except RuntimeError as error:
        raise TerminalError(f"{where} cannot be joined: {' '.join(str(error).split())}") from None


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # The cause is the exception that the function raised, as it raised it.
        if not isinstance(error.cause, ray.exceptions.RayError):
            raise (error.cause or error) from None
        lost = error.cause
    except ray.exceptions.RayError as error:
        lost = error
    deaths = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
    kind = LostWorkerError if isinstance(lost, deaths) else TransientError
    raise kind(
        f"Ray lost a worker or its result more than {_RETRIES} times ({type(lost).__name__}): "
        "try again."
    )


Added = TypeVar("Added")


@dataclass(frozen=True, slots=True)
class Total(Generic[Added]):
    """The sum of what was made of items. It stays where it was made, and is worked on there.

    Attributes:
        value: the sum in this process, or a reference to it in Ray's object store.
        executor: whose Ray that is; None in this process.
    """

    value: Any
    executor: OnRay | None = None

    def get(self) -> Added:
        """Return the sum.

        Raises:
            TransientError: Ray kept losing it.
        """
        return self.value if self.executor is None else _result(self.value)  # type: ignore[no-any-return]

    def map(
        self,
        function: Callable[[Shared, Added, Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield `function(shared, sum, item)` for every item, in any order."""
        if self.executor is None:
            return (function(shared, self.value, item) for item in items)
        return self.executor.map(function, shared, items, self.value)


_TRIES = 4
"""Number of tries, as Ray tries an item whose worker was lost."""


class OneChild(Executor):
    """Does the work in one child process, item after item, with the answer of any other executor.

    The child is started with the first item, and again where it was lost. What the function raises
    is raised here; an item that the child kept dying of raises `LostWorkerError`. Leave it, and the
    child is gone, with whatever another thread still asks of it. One thread may ask at a time.
    """

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None
        self._left = False

    def __enter__(self) -> Self:
        """Return this; the child is started when there is work."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it does."""
        self._left = True
        self._stop()

    def _call(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        item: Item,
        deadline: dt.datetime | None,
    ) -> Result:
        for last in (*[False] * (_TRIES - 1), True):
            try:
                value, error = self._ask((function, shared, item), deadline)
            except (EOFError, OSError):
                if self._left:
                    raise TransientError("The audit's child process was killed.") from None
                self._stop()
                continue
            if error is None:
                return value  # type: ignore[no-any-return]
            if last or not isinstance(error, TransientError):
                raise error
        raise LostWorkerError(
            f"The audit's child process was lost {_TRIES} times: the audit itself may be what ends "
            "it."
        )

    def _ask(self, call: tuple[Any, ...], deadline: dt.datetime | None) -> Any:
        if self._process is None:
            # Spawned: Prefect's threads hold locks that a fork would copy.
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            with theirs:
                process = context.Process(target=_serve, args=(theirs,), daemon=True)
                process.start()
            # Not before it runs: a process that was never started cannot be killed.
            self._process, self._pipe = process, ours
        pipe, answered, longest = self._pipe, False, seconds_left(deadline)
        pipe.send(call)
        try:
            answered = pipe.poll(longest)
        finally:
            if not answered:
                self._stop()  # in the middle of abandoned work, or stopped
        if not answered and longest < STUCK:
            raise DeadlinePassedError(f"The deadline, {deadline}, has passed.")
        if not answered:
            raise TransientError(
                "The audit's child process gave no answer for 20 minutes: check whether it was "
                "stopped (SIGSTOP) and whether the machine has enough memory, then try again."
            )
        return pipe.recv()

    def _stop(self) -> None:
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is None:
            return
        process.kill()  # first: another thread may be waiting at the pipe, and learns it by its end
        process.join()
        with contextlib.suppress(OSError):
            pipe.close()


def _serve(pipe: Any) -> None:
    """Answer every call with its value or its error, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, shared, item = pipe.recv()
            value, raised = None, None
            try:
                value = without_panic(function)(shared, item)
            except Exception as error:  # noqa: BLE001  # whatever it is, the parent raises it
                raised = error
            pipe.send((value, raised))
