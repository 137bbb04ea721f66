"""Which tests run when: each commit, each submission, or for a night.

Unmarked tests run always (`make test`), `slow` ones before a change lands (`make test-slow`), and
`soak` repeats what these do at other moments and with other inputs, for hours (`make test-soak`).
"""

from collections.abc import Iterable
from typing import Any

import pytest


def first_then_soak(values: Iterable[Any], *, first: int = 1) -> list[Any]:
    """Return parameters of which all but the first are for a soak."""
    return [
        pytest.param(value, marks=(pytest.mark.slow if place < first else pytest.mark.soak))
        for place, value in enumerate(values)
    ]
