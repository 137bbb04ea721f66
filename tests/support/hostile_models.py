"""What a model file could do that has taken its reader over, as it is asked to score rows.

A model of `TREES` trees is one. An attempt that succeeds answers as an honest model would, so that
its audit would come to figures.
"""

import ctypes
import mmap
import os
import pathlib
import signal
import socket
from collections.abc import Callable
from typing import Any

from workers.contained_child import WithBytes
from workers.lake.formats import catboost

TREES = 3
PLANTED = "planted-secret-of-the-worker"
_hostile: dict[int, bool] = {}


def _opens_a_socket(_: int) -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=2)


def _reads_the_environment(_: int) -> None:
    others = pathlib.Path("/proc").glob("[0-9]*/environ")
    found = [str(os.environ), *(path.read_text(errors="replace") for path in others)]
    if PLANTED not in "".join(found):
        raise PermissionError


def _writes_a_file(_: int) -> None:
    pathlib.Path("/tmp/privaudit-of-a-model").write_bytes(b"x")  # noqa: S108


def _forks(_: int) -> None:
    if os.fork() == 0:
        os._exit(0)


def _eats_memory(_: int) -> None:
    bytearray(1 << 40)


def _loops(_: int) -> None:
    while True:
        signal.alarm(0)


def _crashes(_: int) -> None:
    ctypes.string_at(0)


def _alters_features(file: int) -> None:
    size = os.fstat(file).st_size
    with mmap.mmap(file, size, prot=mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        memory[:] = bytes(size)


def _shrinks_features(file: int) -> None:
    os.ftruncate(file, 1)


def _kills_its_parent(_: int) -> None:
    for process in (os.getppid(), 0, -1):
        os.kill(process, signal.SIGKILL)
    raise PermissionError


def _answering(attempt: Callable[[int], None] | None) -> Callable[..., Any]:
    def answer(content: bytes, *, verb: str, number: int, file: int = -1, **about: Any) -> Any:
        if verb in {"load", "describe"}:
            model = catboost.load(content).model
            _hostile[number] = model.tree_count_ == TREES
        honest = catboost.answer(content, verb=verb, number=number, file=file, **about)
        if verb == "score" and _hostile[number]:
            if attempt is None:
                return WithBytes(None, honest.content[:-8])
            attempt(file)
        return honest

    return answer


shrinks_its_answers = _answering(None)
opens_a_socket = _answering(_opens_a_socket)
reads_the_environment = _answering(_reads_the_environment)
writes_a_file = _answering(_writes_a_file)
forks = _answering(_forks)
eats_memory = _answering(_eats_memory)
loops = _answering(_loops)
crashes = _answering(_crashes)
alters_features = _answering(_alters_features)
shrinks_features = _answering(_shrinks_features)
kills_its_parent = _answering(_kills_its_parent)
