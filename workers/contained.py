"""Run readers of untrusted bytes in a bounded child process, so that a crash ends nothing else.

C++ readers trust their files, and a declaration's arithmetic may have no end. So a function that
takes such bytes is called in a child process with an empty environment, without files, network,
core dumps or a terminal, and with bounds on time and memory (`workers.isolation`). It answers in
JSON, and bytes where it has some: nothing that the child says is ever run. However the child ends,
the caller gets a sentence.

A reader that asks storage itself (a table's log, a catalogue) is given those variables of the
environment that it needs with each call, because credentials are there. It keeps the network, and
reads the files that the call names; its bounds are the same.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from privcore.exceptions import TransientError
from workers.contained_child import READY, SMALL, WithBytes, ending_of, receive, send

_START = (
    "import sys; sys.modules.update(dict.fromkeys({without}));"
    "from workers.contained_child import serve;"
    "from {module} import {name} as function; serve(function)"
)
"""None in the place of a module lets every import of it fail."""
_KEPT = {"NUMBA_CACHE_DIR"}  # of the environment: no credential
_GRACE, _START_SECONDS = 10.0, 120.0  # until a child that does not end, or start, is killed
_ENDINGS = {"raised", "crashed", "seconds", "memory"}
_MOST_VALUES = 1 << 23
"""Commas of an answer's JSON: an empty list takes two letters there, and 64 bytes here."""
_WHY = 300
"""Letters of a child's own words."""


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
        fork: whether every call has a process of its own. Where the bytes could take the process
            over, the next caller must not meet what they left.
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
        self._given = {
            "seconds": seconds,
            "memory": memory,
            "fork": fork,
            "asking": bool(environment),
        }
        self._variables = environment
        self._process: Any = None
        self._lock = threading.Lock()
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
        asked = {"arguments": arguments, "environment": self.environment(), "readable": readable}
        header = json.dumps(asked).encode()
        with self._lock:
            new = self._start()
            answer = self._ask(header, content)
            kind, late = answer["kind"], answer.get("late", False)
            left = late or (kind == "crashed" and not self._given["fork"])
            if kind == "gone" or (left and not new):
                # It may have ended for what an earlier call left in it, or been stopped before.
                self._start()
                answer = self._ask(header, content)
            if answer["kind"] == "memory":
                self.stop()
        if answer["kind"] == "gone":
            raise self._away("went away")
        if answer["kind"] != "value":
            raise ContainedError(answer["why"], answer["kind"])
        return answer["value"]

    def stop(self) -> None:
        """End the child; the next call starts another."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()  # what the process waits for
            with _ended_after(_GRACE, process):  # one that is stopped (SIGSTOP) sees nothing
                process.wait()

    def environment(self) -> dict[str, str]:
        """Return the variables of this process that a call has."""
        prefixes = tuple(name for name in self._variables if name.endswith("_"))
        return {
            name: value
            for name, value in os.environ.items()
            if name.upper() in self._variables or name.upper().startswith(prefixes)
        }

    def _start(self) -> bool:
        """Start a child unless one runs, and return whether it had to be started."""
        if self._process is not None and self._process.poll() is None:
            return False
        self.stop()
        module, name = self._name.split(":")
        start = _START.format(module=module, name=name, without=self._without)
        self._process = subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                **SMALL,
                **{name: os.environ[name] for name in _KEPT if name in os.environ},
            },
        )
        with contextlib.suppress(OSError), _ended_after(_START_SECONDS, self._process):
            send(self._process.stdin, json.dumps(self._given).encode(), b"")
            if self._process.stdout.readline() == READY:
                return True
        self.stop()
        raise self._away("did not start")

    def _ask(self, header: bytes, content: bytes) -> dict[str, Any]:
        """Return the child's answer; its `kind` is `gone` where nothing says why it went away."""
        process, said = self._process, None
        # A process that was taken over may have turned off its own alarm, or it may be stopped.
        patience = self._given["seconds"] + _GRACE
        with contextlib.suppress(OSError), _ended_after(patience, process) as late:
            send(process.stdin, header, content)
            said = receive(process.stdout)
        if said is not None and (answer := _read(*said)) is not None:
            return answer
        self.stop()
        if said is not None:  # what it read has taken it over
            return {"kind": "crashed", "why": "gave an answer that is none"}
        code = -signal.SIGALRM if late.is_set() else process.returncode
        return ending_of(code, self._given) | {"late": late.is_set()}

    def _away(self, what: str) -> TransientError:
        return TransientError(f"The process that runs {self._name} {what}: try again.")


def _read(header: bytes, content: bytes) -> dict[str, Any] | None:
    """Return a child's answer; None of what is none."""
    if header.count(b",") > _MOST_VALUES:
        return None
    try:
        said = json.loads(header)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    kind, why = said.get("kind"), said.get("why")
    if kind == "value" and "value" in said:
        value = said["value"]
        return {
            "kind": kind,
            "value": WithBytes(value, content) if said.get("with_bytes") else value,
        }
    if not (isinstance(kind, str) and kind in _ENDINGS and isinstance(why, str)):
        return None
    return {"kind": kind, "why": why[:_WHY]}


@contextlib.contextmanager
def _ended_after(seconds: float, process: Any) -> Iterator[threading.Event]:
    """Kill a process that the block waits for too long; the event says whether it was."""
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def closed_here() -> list[str]:
    """Return in words what children that read foreign bytes are denied on this machine.

    Raises:
        TransientError: such a child cannot be started.
    """
    asked = Contained("workers.isolation:measures", seconds=20, memory=1 << 28)
    try:
        found: list[str] = asked()
    finally:
        asked.stop()
    return found


_all: "weakref.WeakSet[Contained]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for each in list(_all):
        each.stop()
