"""Serve calls in the bounded child process that `workers.contained` starts, and end as they do.

A question and an answer are a JSON text and bytes, with their lengths before them, on a pair of
sockets; with a question may come an open file. The process that was started serves no call: it
forks children that do, each of which has a pair of its own.
"""

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workers import isolation
from workers.memory import address_space, bounded_memory

SMALL = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
    "MALLOC_ARENA_MAX": "2",
    "RUST_MIN_STACK": "1048576",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""No pools of threads: the process may fork, and each thread takes address space."""
_LENGTHS = struct.Struct(">QQ")
_HEADER_BYTES, CONTENT_BYTES = 1 << 28, 1 << 31
"""The most bytes that are read of a question or an answer: of its JSON, and of its content."""
IDLE_SECONDS = 600.0
"""After which a child that is held and asked nothing ends by itself."""
_GIB = float(1 << 30)
_FILES = {False: 256, True: 8192}  # asking storage: a log of many commits is read all at once
Message = tuple[bytes | bytearray, bytes | bytearray]
"""What is sent: a JSON text, and bytes."""
_POLL = 0.01  # seconds between looks at whether a child has ended


@dataclass(frozen=True, slots=True)
class WithBytes:
    """An answer of what JSON holds, and of bytes beside it."""

    value: Any
    content: bytes


class Channel:
    """One end of a pair of sockets.

    Attributes:
        socket: it.
        file: the open file that came with the last question; -1 for none.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.file = -1

    def send(self, header: bytes, content: bytes = b"", *, file: int | None = None) -> None:
        """Write a question or an answer: its JSON, its content, and an open file."""
        lengths = _LENGTHS.pack(len(header), len(content))
        socket.send_fds(self.socket, [lengths], [] if file is None else [file])
        self.socket.sendall(header)
        self.socket.sendall(content)

    def receive(
        self, *, at_most: int = CONTENT_BYTES, seconds: float | None = None, files: bool = False
    ) -> Message | None:
        """Return what `send` wrote; None where it was cut off.

        Args:
            at_most: bytes of content.
            seconds: until `TimeoutError` is raised, however much has come by then.
            files: whether an open file may come with it; who may be hostile sends none.

        Raises:
            ValueError: it is larger than what is read.
        """
        until = time.monotonic() + seconds if seconds else None
        self.file = -1
        self.socket.settimeout(seconds or None)
        if files:
            begin, given, _, _ = socket.recv_fds(self.socket, _LENGTHS.size, 1)
            self.file = next(iter(given), -1)
            lengths: bytes | bytearray = (
                begin + self._exactly(_LENGTHS.size - len(begin), until) if begin else b""
            )
        else:
            lengths = self._exactly(_LENGTHS.size, until)
        if len(lengths) < _LENGTHS.size:
            return None
        header, content = _LENGTHS.unpack(lengths)
        if header > _HEADER_BYTES or content > at_most:
            raise ValueError
        said = self._exactly(header, until), self._exactly(content, until)
        return said if (len(said[0]), len(said[1])) == (header, content) else None

    def _exactly(self, size: int, until: float | None) -> bytes | bytearray:
        """Return so many bytes; fewer where the other end is closed."""
        found, got = bytearray(size), 0
        while got < size:
            if until is not None:
                self.socket.settimeout(max(until - time.monotonic(), 1e-3))
            more = self.socket.recv_into(memoryview(found)[got:])
            if not more:
                break
            got += more
        return bytes(found[:got]) if got < size else found


def serve(function: Callable[..., Any]) -> None:
    """Answer calls on standard input until it is closed, and end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    caller = Channel(socket.socket(fileno=os.dup(0)))
    given = json.loads((caller.receive() or (b"{}", b""))[0])
    gc.freeze()  # a collection in a fork would write to all pages, and so copy them
    if not given["asking"]:
        isolation.follow_a_child()  # libraries may have threads, which namespaces do not allow
        isolation.enter_to_fork()
    caller.send(b"{}")
    with contextlib.suppress(OSError):  # the caller is gone
        _serve_children(function, caller, given)
    # A library may wait at its end for threads of its own, which a forked process does not have.
    os._exit(0)


def _serve_calls(function: Callable[..., Any], caller: Channel, given: dict[str, Any]) -> None:
    while request := caller.receive(files=True, seconds=IDLE_SECONDS):
        answer = _answer(function, request, given, caller.file)
        if caller.file >= 0:
            os.close(caller.file)
        caller.send(*answer)


def _serve_children(function: Callable[..., Any], caller: Channel, given: dict[str, Any]) -> None:
    """Fork a child that serves calls for each socket that comes, and say how they ended."""
    while request := caller.receive(files=True):
        asked = json.loads(request[0])
        if caller.file < 0:
            ended = _ended(asked["child"], asked["seconds"])
            caller.send(json.dumps(ended).encode())
            continue
        end = caller.file
        bound = given | {"memory": bounded_memory(given["memory"])}  # of this child alone
        child = isolation.fork_alone()
        if child == 0:
            os.setsid()  # signals to a group of processes pass the borders of namespaces
            caller.socket.close()  # it must not answer for another child
            with contextlib.suppress(BaseException), socket.socket(fileno=end) as own:
                _confine(bound, asked["readable"])
                _serve_calls(function, Channel(own), bound)
            os._exit(0)
        os.close(end)
        caller.send(json.dumps({"child": child, "memory": bound["memory"]}).encode())


def _ended(child: int, seconds: float) -> int:
    """Return the exit code of a child, which is killed if it has not ended after so long."""
    until = time.monotonic() + seconds
    ended = os.waitpid(child, os.WNOHANG)
    while ended[0] == 0 and time.monotonic() < until:
        time.sleep(_POLL)
        ended = os.waitpid(child, os.WNOHANG)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)
    return isolation.signalled(os.waitstatus_to_exitcode(ended[1]))


def _answer(
    function: Callable[..., Any], request: Message, given: dict[str, Any], file: int
) -> tuple[bytes, bytes]:
    header, content = request
    try:
        asked = json.loads(header)
        signal.alarm(asked["seconds"])
        os.environ.update(asked["environment"] | SMALL)
        if file >= 0:
            asked["arguments"]["file"] = file
        value, more = function(bytes(content), **asked["arguments"]), b""
        if with_bytes := isinstance(value, WithBytes):
            value, more = value.value, value.content
        return json.dumps({"value": value, "with_bytes": with_bytes}).encode(), more
    except MemoryError:
        ended = {"kind": "memory", "why": too_much_memory(given["memory"])}
    except BaseException as error:  # noqa: BLE001  # whatever bad bytes make it raise, a panic too
        ended = {"kind": "raised", "why": f"raised {type(error).__name__}"}
    finally:
        signal.alarm(0)
    return json.dumps(ended).encode(), b""


def too_much_memory(most: int) -> str:
    """Return in words that a child took more than its bound."""
    return f"took over {most / _GIB:.3g} GiB of memory"


def _confine(given: dict[str, Any], readable: Sequence[str] = ()) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    most = address_space() + given["memory"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    files = min(_FILES[given["asking"]], resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    isolation.give_up_files(network=given["asking"], readable=readable)
