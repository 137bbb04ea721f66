"""Loaded by pytest before anything else: compiled kernels are those of the sources as they are.

In a fresh clone all workers need the same kernels and modules at once. One compiles, the others
wait and read what it kept.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
from collections.abc import Generator, Iterator
from typing import Any, TextIO

import pytest

import privaudit

privaudit.keep_kernels()

_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_TESTS = pathlib.Path(__file__).parents[1]
_FRESH = _WORKER and not any((_TESTS / "workers" / "__pycache__").glob("test_*"))


def _lock(name: str) -> TextIO:
    folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / name).open("w")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let one worker of a fresh clone import all modules before the others do."""
    if not _FRESH:
        return (yield)
    with _lock("collection") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold the lock of the folder of kernels: a call within a call holds it already."""
    with _lock("lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile_once() -> None:
    from numba.core.compiler_lock import global_compiler_lock  # noqa: PLC0415
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415

    compile_kernel, within = Dispatcher.compile, False

    @functools.wraps(compile_kernel)
    def compiled(self: Any, signature: Any) -> Any:
        nonlocal within
        # numba's own lock first: else a thread that holds it may wait for one that asks for it.
        with global_compiler_lock:
            if within:
                return compile_kernel(self, signature)
            with _one_at_a_time():
                within = True
                try:
                    return compile_kernel(self, signature)
                finally:
                    within = False

    Dispatcher.compile = compiled


if _WORKER:
    _compile_once()
