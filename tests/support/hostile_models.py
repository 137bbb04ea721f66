"""What a model file could do that has taken its reader over, as it is asked to score rows.

A model of `TREES` trees or more is one. An attempt that succeeds answers as an honest model would,
so that its audit would come to figures.
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

TREES = 10
PLANTED = "planted-secret-of-the-worker"
_hostile: dict[int, int] = {}


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


ATTEMPTS: dict[str, Callable[[int], None] | None] = {
    "opens_a_socket": _opens_a_socket,
    "reads_the_environment": _reads_the_environment,
    "writes_a_file": _writes_a_file,
    "forks": _forks,
    "eats_memory": _eats_memory,
    "loops": _loops,
    "crashes": _crashes,
    "alters_features": _alters_features,
    "shrinks_features": _shrinks_features,
    "shrinks_its_answers": None,
    "kills_its_parent": _kills_its_parent,
}


def answer(content: bytes, *, verb: str, number: int, file: int = -1, **about: Any) -> Any:
    """Answer as CatBoost's reader does, but for a model of so many trees that it is an attempt."""
    if verb in {"load", "describe"}:
        _hostile[number] = catboost.load(content).model.tree_count_ - TREES
    honest = catboost.answer(content, verb=verb, number=number, file=file, **about)
    if verb == "score" and _hostile[number] >= 0:
        attempt = list(ATTEMPTS.values())[_hostile[number]]
        if attempt is None:
            return WithBytes(None, honest.content[:-8])
        attempt(file)
    return honest
