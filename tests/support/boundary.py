"""Contained processes of tests, which are stopped at the end."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from workers.contained import Contained


@contextlib.contextmanager
def contained(function: Callable[..., Any] | str, **more: Any) -> Iterator[Contained]:
    """Yield a process that answers by a function, or by one of this name."""
    name = function if isinstance(function, str) else f"{function.__module__}:{function.__name__}"
    made = Contained(name, **{"seconds": 10, "memory": 1 << 30} | more)
    try:
        yield made
    finally:
        made.stop()
