"""Tiers of tests: always, before a change lands, or for a night.

Unmarked tests run always (`make test`), `slow` ones before a change lands (`make test-slow`), and
`soak` repeats what these do at other moments and with other inputs, for hours (`make test-soak`).
"""

from collections.abc import Iterable
from typing import Any

import pytest


def tiered(values: Iterable[Any], *, always: int = 0, slow: int = 0) -> list[Any]:
    """Return parameters: the first run always, the next are slow, the rest are for a soak.

    A tuple is several parameters of one case.
    """
    marks = ([()] * always) + [(pytest.mark.slow,)] * slow
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=marks[place] if place < len(marks) else (pytest.mark.soak,),
        )
        for place, value in enumerate(values)
    ]


def rest_slow(values: Iterable[Any], *, always: int = 1) -> list[Any]:
    """Return parameters: the first run always, all others are slow."""
    listed = list(values)
    return tiered(listed, always=always, slow=len(listed) - always)
