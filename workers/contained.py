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
import gc
import json
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from privcore.exceptions import TransientError
from workers import isolation
from workers.memory import bounded_memory

_LENGTHS = struct.Struct(">QQ")
_START = (
    "import sys; sys.modules.update(dict.fromkeys({without}));"
    "from workers.contained import serve; from {module} import {name} as function; serve(function)"
)
"""None in the place of a module lets every import of it fail."""
_READY = b"ready\n"
_HEADER_BYTES, _CONTENT_BYTES = 1 << 28, 1 << 31
"""The most bytes that are read of a question or an answer: of its JSON, and of its content."""
_KEPT = {"NUMBA_CACHE_DIR"}  # of the environment: no credential
_SMALL = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
    "MALLOC_ARENA_MAX": "2",
    "RUST_MIN_STACK": "1048576",
}
"""No pools of threads: the process may fork, and each thread takes address space."""
_GIB = float(1 << 30)
_FILES = {False: 256, True: 8192}  # asking storage: a log of many commits is read all at once
_GRACE, _START_SECONDS = 10.0, 120.0  # until a child that does not end, or start, is killed
_BY_SOMEBODY_ELSE = {0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGPIPE}


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


@dataclass(frozen=True, slots=True)
class WithBytes:
    """An answer of what JSON holds, and of bytes beside it."""

    value: Any
    content: bytes


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
        value = answer["value"]
        return WithBytes(value, answer["content"]) if answer["with_bytes"] else value

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
                **_SMALL,
                **{name: os.environ[name] for name in _KEPT if name in os.environ},
            },
        )
        with contextlib.suppress(OSError), _ended_after(_START_SECONDS, self._process):
            _send(self._process.stdin, json.dumps(self._given).encode(), b"")
            if self._process.stdout.readline() == _READY:
                return True
        self.stop()
        raise self._away("did not start")

    def _ask(self, header: bytes, content: bytes) -> dict[str, Any]:
        """Return the child's answer; its `kind` is `gone` where nothing says why it went away."""
        process, said = self._process, None
        # A process that was taken over may have turned off its own alarm, or it may be stopped.
        patience = self._given["seconds"] + _GRACE
        with contextlib.suppress(OSError), _ended_after(patience, process) as late:
            _send(process.stdin, header, content)
            said = _receive(process.stdout)
        if said is not None:
            answer: dict[str, Any] = json.loads(said[0])
            return answer | {"content": said[1]}
        self.stop()
        code = -signal.SIGALRM if late.is_set() else process.returncode
        return _ended(code, self._given) | {"late": late.is_set()}

    def _away(self, what: str) -> TransientError:
        return TransientError(f"The process that runs {self._name} {what}: try again.")


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


def serve(function: Callable[..., Any]) -> None:
    """Answer every call on standard input with a line of JSON on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    requests, answers = open(os.dup(0), "rb"), open(os.dup(1), "wb")  # noqa: PTH123, SIM115
    given = json.loads((_receive(requests) or (b"{}", b""))[0])
    gc.freeze()  # a collection in a fork would write to all pages, and so copy them
    if not given["asking"]:
        isolation.follow_a_child()  # libraries may have threads, which namespaces do not allow
    if not given["fork"]:
        given = given | {"memory": bounded_memory(given["memory"])}
        isolation.enter()
        _confine(given)
    elif not given["asking"]:
        isolation.enter_to_fork()
    answers.write(_READY)
    answers.flush()
    while request := _receive(requests):
        if given["fork"]:
            answer = _in_a_child(function, request, given, closed=(requests, answers))
        else:
            answer = _answer(function, request, given)
        _send(answers, *answer)
    # A library may wait at its end for threads of its own, which a forked process does not have.
    os._exit(0)


def _send(stream: BinaryIO, header: bytes, content: bytes) -> None:
    stream.write(_LENGTHS.pack(len(header), len(content)))
    stream.write(header)
    stream.write(content)
    stream.flush()


def _receive(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return what `_send` wrote; None where it was cut off, or is larger than what is read."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header, content = _LENGTHS.unpack(lengths)
    if header > _HEADER_BYTES or content > _CONTENT_BYTES:
        return None
    said = stream.read(header), stream.read(content)
    return said if (len(said[0]), len(said[1])) == (header, content) else None


def _in_a_child(
    function: Callable[..., Any],
    request: tuple[bytes, bytes],
    given: dict[str, Any],
    *,
    closed: tuple[BinaryIO, ...],
) -> tuple[bytes, bytes]:
    """Return the answer of a child, to which `closed` are: it must not answer the next call."""
    given = given | {"memory": bounded_memory(given["memory"])}  # of this call alone
    mine, theirs = os.pipe()
    child = isolation.fork_alone()
    if child == 0:
        os.close(mine)
        for stream in closed:
            stream.close()
        with contextlib.suppress(BaseException), os.fdopen(theirs, "wb") as answer:
            _confine(given, json.loads(request[0])["readable"])
            seconds = given["seconds"]
            resource.setrlimit(resource.RLIMIT_CPU, (seconds + 1, seconds + 5))
            _send(answer, *_answer(function, request, given))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as answer:
        said = _receive(answer)
    code = isolation.signalled(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if code == 0 and said is not None and _is_json(said[0]):
        return said
    ended = _ended(code, given)
    return json.dumps(_too_much_memory(given) if ended["kind"] == "gone" else ended).encode(), b""


def _is_json(said: bytes) -> bool:
    """Return whether an inherited child answers with what its caller can read."""
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(said), dict)
    return False


def _answer(
    function: Callable[..., Any], request: tuple[bytes, bytes], given: dict[str, Any]
) -> tuple[bytes, bytes]:
    header, content = request
    signal.alarm(given["seconds"])
    try:
        asked = json.loads(header)
        os.environ.update(asked["environment"] | _SMALL)
        value, more = function(content, **asked["arguments"]), b""
        if with_bytes := isinstance(value, WithBytes):
            value, more = value.value, value.content
        answer = {"kind": "value", "value": value, "with_bytes": with_bytes}
        return json.dumps(answer).encode(), more
    except MemoryError:
        return json.dumps(_too_much_memory(given)).encode(), b""
    except BaseException as error:  # noqa: BLE001  # whatever bad bytes make it raise, a panic too
        return json.dumps({"kind": "raised", "why": f"raised {type(error).__name__}"}).encode(), b""
    finally:
        signal.alarm(0)


def _ended(code: int, given: dict[str, Any]) -> dict[str, Any]:
    """Return how a child that did not answer ended."""
    if code in {-signal.SIGALRM, -signal.SIGXCPU}:
        return {"kind": "seconds", "why": f"took over {given['seconds']} seconds"}
    if code in _BY_SOMEBODY_ELSE:
        return {"kind": "gone"}
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return {"kind": "crashed", "why": f"crashed ({how})"}


def _too_much_memory(given: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "memory", "why": f"took over {given['memory'] / _GIB:.3g} GiB of memory"}


def _confine(given: dict[str, Any], readable: Sequence[str] = ()) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    most = _address_space() + given["memory"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    files = min(_FILES[given["asking"]], resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    isolation.give_up_files(network=given["asking"], readable=readable)


def _address_space() -> int:
    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:  # no Linux
        return 0
    return pages * resource.getpagesize()
