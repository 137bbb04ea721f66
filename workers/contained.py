"""Run readers of untrusted bytes in a bounded child process, so that a crash ends nothing else.

C++ readers trust their files, and a declaration's arithmetic may have no end. So a function that
takes such bytes is called in a child process with an empty environment, without files, network,
core dumps or a terminal, and with bounds on time and memory (`workers.isolation`). It answers in
JSON, and bytes where it has some: nothing that the child says is ever run. However the child ends,
the caller gets a sentence. A child may be held, and asked again about what it was given. All are
forked from one process, which has imported the reader.

A reader that asks storage itself (a table's log, a catalogue) is given those variables of the
environment that it needs with each call, because credentials are there. It keeps the network, and
reads the files that the call names; its bounds are the same.
"""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privcore.exceptions import TransientError
from workers.contained_child import CONTENT_BYTES, SMALL, Channel, WithBytes, too_much_memory

_START = (
    "import sys; sys.modules.update(dict.fromkeys({without}));"
    "from workers.contained_child import serve;"
    "from {module} import {name} as function; serve(function)"
)
"""None in the place of a module lets every import of it fail."""
_KEPT = {"NUMBA_CACHE_DIR"}  # of the environment: no credential
_GRACE, _START_SECONDS = 10.0, 120.0  # until a child that does not end, or start, is killed
_MOST_VALUES = 1 << 23
"""Commas of an answer's JSON: an empty list takes two letters there, and 64 bytes here."""
_KILLED = -signal.SIGKILL  # by Linux, for want of memory
_BY_SOMEBODY_ELSE = {0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGPIPE}
_WHY = 300
"""Letters of a child's own words."""
_STRANGE = "gave an answer that is none"


class ContainedError(Exception):
    """The work did not end well.

    Attributes:
        why: completes a sentence, as in "crashed the process (SIGABRT)".
        kind: `raised`, `crashed`, `seconds` or `memory`.
    """

    def __init__(self, why: str, kind: str) -> None:
        self.why = why
        self.kind = kind
        super().__init__(why)


class Contained:
    """A function that is called in a child process, which is kept for the next call.

    Args:
        function: `module:name` of a function that takes bytes and keyword arguments that JSON
            holds, and returns what JSON holds, or that `WithBytes`.
        seconds: after which a call is ended.
        memory: bytes that a call may take, on top of what the idle child holds; less where the
            machine or the container has less.
        fork: whether every call has a child of its own. Where the bytes could take the child over,
            the next caller must not meet what they left; else one answers call after call.
        environment: which of this process's variables a call has, by name, or by a prefix that
            ends in _; case does not count. A call that has some has the network too; only where
            each has a process of its own.
        without: modules that the child cannot import, because a library would import them although
            the function needs none: each call copies the tables of the child's memory.
    """

    def __init__(
        self,
        function: str,
        *,
        seconds: int,
        memory: int,
        fork: bool = False,
        environment: tuple[str, ...] = (),
        without: tuple[str, ...] = (),
    ) -> None:
        self._name = function
        self._without = without
        self._given = {"memory": memory, "asking": bool(environment)}
        self._fork = fork
        self._kept: Held | None = None
        self._seconds = seconds
        self._variables = environment
        self._process: Any = None
        self._channel: Any = None
        self._lock = threading.RLock()
        _all.add(self)

    def __call__(
        self, content: bytes = b"", *, readable: Sequence[str] = (), **arguments: Any
    ) -> Any:
        """Return what the function answers.

        Args:
            content: what the function is given.
            readable: files and folders that the call may read, where it has a process of its own.
            arguments: of the function.

        Raises:
            ContainedError: the function raised, crashed the process, or met a limit.
            TransientError: the process went away by itself.
        """
        with self._lock:
            kept = self._kept
            try:
                return self._call(content, readable, arguments)
            except TransientError:  # what it is forked from may have been stopped before
                pass
            except ContainedError:  # for what an earlier call left in a kept child, or it was idle
                if kept is None:
                    raise
            return self._call(content, readable, arguments)

    def hold(self, *, readable: Sequence[str] = ()) -> "Held":
        """Return a child that answers call after call until it is ended, where each has its own.

        Raises:
            TransientError: the process that it is forked from went away.
        """
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            self._start()
            said = self._tell({"readable": list(readable)}, _START_SECONDS, theirs.fileno())
        if said is None:
            ours.close()
            raise self._away()
        return Held(self, self._process, Channel(ours), **said)

    def end(self, held: "Held", seconds: float) -> int | None:
        """Return the exit code of a held child, which is killed if it goes on for so long.

        None where the process that it was forked from is gone: the child then is, too.
        """
        with self._lock:
            if held.forked_from is not self._process:
                return None
            asked = {"child": held.child, "seconds": seconds}
            code: int | None = self._tell(asked, seconds + _GRACE)
            return code

    def stop(self) -> None:
        """End the child, and all that are held; the next call starts another."""
        process, self._process, self._kept = self._process, None, None
        if process is not None:
            self._channel.socket.close()  # what the process waits for
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:  # one that is stopped (SIGSTOP) sees nothing
                process.kill()
                process.wait()

    def environment(self) -> dict[str, str]:
        """Return the variables of this process that a call has."""
        if not self._variables:
            return {}  # to look through all takes longer than many a call
        prefixes = tuple(name for name in self._variables if name.endswith("_"))
        return {
            name: value
            for name, value in os.environ.items()
            if name.upper() in self._variables or name.upper().startswith(prefixes)
        }

    def question(self, arguments: dict[str, Any], seconds: int | None) -> tuple[bytes, int]:
        """Return a question's header, and the seconds that it may take."""
        most = self._seconds if seconds is None else seconds
        asked = {"arguments": arguments, "environment": self.environment(), "seconds": most}
        return json.dumps(asked).encode(), most

    def _call(self, content: bytes, readable: Sequence[str], arguments: dict[str, Any]) -> Any:
        held, self._kept = self._kept or self.hold(readable=readable if self._fork else ()), None
        try:
            found = held.ask(content, arguments)
        except BaseException:
            held.end()
            raise
        if self._fork:
            held.end()
        else:
            self._kept = held
        return found

    def _start(self) -> None:
        """Start the process that children are forked from, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        module, name = self._name.split(":")
        start = _START.format(module=module, name=name, without=self._without)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own code
                [sys.executable, "-P", "-c", start],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={
                    "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                    **SMALL,
                    **{name: os.environ[name] for name in _KEPT if name in os.environ},
                },
            )
        self._channel = Channel(ours)
        if self._tell(self._given, _START_SECONDS) is None:
            raise self._away("did not start")

    def _tell(self, asked: Any, seconds: float, file: int | None = None) -> Any:
        """Return what the process itself answers; None, and it is ended, where it gives none."""
        with contextlib.suppress(OSError, ValueError):
            self._channel.socket.settimeout(seconds)
            self._channel.send(json.dumps(asked).encode(), file=file)
            if (said := self._channel.receive(seconds=seconds)) is not None:
                return json.loads(said[0])
        self.stop()
        return None

    def _away(self, how: str = "went away") -> TransientError:
        return TransientError(f"The process that runs {self._name} {how}: try again.")


@dataclass(eq=False)
class Held:
    """A child of its own: what one call leaves in it, the next one finds.

    Attributes:
        of: whose function it calls.
        forked_from: the process that made it.
        channel: to it; None once it has ended.
        child: its number there.
        memory: bytes that it may take.
    """

    of: Contained
    forked_from: Any
    channel: Channel | None
    child: int
    memory: int

    def ask(
        self,
        content: bytes,
        arguments: dict[str, Any],
        *,
        seconds: int | None = None,
        at_most: int = CONTENT_BYTES,
        file: int | None = None,
    ) -> Any:
        """Return what the function answers; after one that it did not, the child is ended.

        Args:
            content: what the function is given.
            arguments: of the function.
            seconds: after which the call is ended, where it is not as for others.
            at_most: bytes that it may answer.
            file: an open file, which the function has under this name.

        Raises:
            ContainedError: the function raised, crashed the process, or met a limit; or the child
                has ended before.
            TransientError: what it was forked from went away.
        """
        channel = self.channel
        if channel is None:
            raise ContainedError("has ended", "crashed")
        header, most = self.of.question(arguments, seconds)
        ended: ContainedError | None = None  # by what it said; else by its exit code
        try:
            # A process that was taken over may have turned off its own alarm, or it may be stopped.
            channel.socket.settimeout(most + _GRACE)
            channel.send(header, content, file=file)
            said = channel.receive(at_most=at_most, seconds=most + _GRACE)
            if said is not None:
                return _read(*said)
        except ContainedError as error:
            ended = error
        except TimeoutError:
            ended = ContainedError(f"took over {most} seconds", "seconds")
        except (ValueError, RecursionError):
            ended = ContainedError(_STRANGE, "crashed")
        except OSError:  # it has gone
            pass
        code = self.end(_GRACE if ended is None else 0.0)
        if ended is None and code is None:
            raise TransientError("A process that reads foreign bytes went away: try again.")
        raise ended or _ended(code or 0, most, self.memory) from None

    def end(self, seconds: float = 0.0) -> int | None:
        """Return its exit code, once: it is killed if it goes on for so long; None where gone."""
        channel, self.channel = self.channel, None
        if channel is None:
            return None
        channel.socket.close()
        return self.of.end(self, seconds)


def _read(header: bytes | bytearray, content: bytes | bytearray) -> Any:
    """Return what a child answers, or raise how it says that it ended.

    Raises:
        ValueError: it is no answer.
    """
    if header.count(b",") > _MOST_VALUES:
        raise ValueError
    match json.loads(header):
        case {"value": value, "with_bytes": with_bytes}:
            return WithBytes(value, bytes(content)) if with_bytes else value
        case {"kind": "raised" | "memory" as kind, "why": str(why)}:
            raise ContainedError(why[:_WHY], kind)
    raise ValueError


def _ended(code: int, seconds: int, memory: int) -> ContainedError:
    """Return how a child that did not answer ended, by its exit code."""
    if code == _KILLED:
        return ContainedError(too_much_memory(memory), "memory")
    if code == -signal.SIGALRM:
        return ContainedError(f"took over {seconds} seconds", "seconds")
    if code in _BY_SOMEBODY_ELSE:
        return ContainedError(_STRANGE, "crashed")
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return ContainedError(f"crashed ({how})", "crashed")


def closed_here() -> list[str]:
    """Return in words what children that read foreign bytes are denied on this machine.

    Raises:
        TransientError: such a child cannot be started.
    """
    asked = Contained("workers.isolation:measures", seconds=20, memory=1 << 28)
    try:
        found: list[str] = asked()
        return found
    finally:
        asked.stop()


_all: "weakref.WeakSet[Contained]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for each in list(_all):
        each.stop()
