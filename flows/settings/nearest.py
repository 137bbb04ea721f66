"""The name that a user may have meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?", or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
