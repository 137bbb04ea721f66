"""Loaded by pytest before anything else: compiled kernels are those of the sources as they are.

In a fresh clone all workers need the same kernels at once. One compiles, the others wait and read
what it kept.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import privaudit

privaudit.keep_kernels()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold the lock of the folder of kernels: a call within a call holds it already."""
    folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile_once() -> None:
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415

    compile_kernel, within = Dispatcher.compile, False

    @functools.wraps(compile_kernel)
    def compiled(self: Any, signature: Any) -> Any:
        nonlocal within
        if within:
            return compile_kernel(self, signature)
        with _one_at_a_time():
            within = True
            try:
                return compile_kernel(self, signature)
            finally:
                within = False

    Dispatcher.compile = compiled


if "PYTEST_XDIST_WORKER" in os.environ:
    _compile_once()
