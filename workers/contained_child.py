"""Serve calls in the bounded child process that `workers.contained` starts, and end as they do.

A question and an answer are a JSON text and bytes, each with its length before it, on standard
input and output. Where bytes could take the process over, each call is answered by a child of it.
"""

import contextlib
import gc
import json
import os
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from workers import isolation
from workers.memory import address_space, bounded_memory

READY = b"ready\n"
SMALL = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
    "MALLOC_ARENA_MAX": "2",
    "RUST_MIN_STACK": "1048576",
}
"""No pools of threads: the process may fork, and each thread takes address space."""
_LENGTHS = struct.Struct(">QQ")
_HEADER_BYTES, _CONTENT_BYTES = 1 << 28, 1 << 31
"""The most bytes that are read of a question or an answer: of its JSON, and of its content."""
_GIB = float(1 << 30)
_FILES = {False: 256, True: 8192}  # asking storage: a log of many commits is read all at once
_BY_SOMEBODY_ELSE = {0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGPIPE}


@dataclass(frozen=True, slots=True)
class WithBytes:
    """An answer of what JSON holds, and of bytes beside it."""

    value: Any
    content: bytes


def serve(function: Callable[..., Any]) -> None:
    """Answer calls on standard input until it is closed, and end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    requests, answers = open(os.dup(0), "rb"), open(os.dup(1), "wb")  # noqa: PTH123, SIM115
    given = json.loads((receive(requests) or (b"{}", b""))[0])
    gc.freeze()  # a collection in a fork would write to all pages, and so copy them
    if not given["asking"]:
        isolation.follow_a_child()  # libraries may have threads, which namespaces do not allow
    if not given["fork"]:
        given = given | {"memory": bounded_memory(given["memory"])}
        isolation.enter()
        _confine(given)
    elif not given["asking"]:
        isolation.enter_to_fork()
    answers.write(READY)
    answers.flush()
    while request := receive(requests):
        if given["fork"]:
            answer = _in_a_child(function, request, given, closed=(requests, answers))
        else:
            answer = _answer(function, request, given)
        send(answers, *answer)
    # A library may wait at its end for threads of its own, which a forked process does not have.
    os._exit(0)


def send(stream: BinaryIO, header: bytes, content: bytes) -> None:
    """Write a question or an answer: its JSON, and its content."""
    stream.write(_LENGTHS.pack(len(header), len(content)))
    stream.write(header)
    stream.write(content)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return what `send` wrote; None where it was cut off, or is larger than what is read."""
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
            send(answer, *_answer(function, request, given))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as answer:
        said = receive(answer)
    code = isolation.signalled(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if code == 0 and said is not None:
        return said
    ended = ending_of(code, given)
    return json.dumps(_too_much_memory(given) if ended["kind"] == "gone" else ended).encode(), b""


def _answer(
    function: Callable[..., Any], request: tuple[bytes, bytes], given: dict[str, Any]
) -> tuple[bytes, bytes]:
    header, content = request
    signal.alarm(given["seconds"])
    try:
        asked = json.loads(header)
        os.environ.update(asked["environment"] | SMALL)
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


def ending_of(code: int, given: dict[str, Any]) -> dict[str, Any]:
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
    most = address_space() + given["memory"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    files = min(_FILES[given["asking"]], resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    isolation.give_up_files(network=given["asking"], readable=readable)
