"""Calls that are refused."""

import pytest

from privcore.exceptions import InvalidInputError


def refused(message, call, /, *given, **named):
    """Fail unless the call refuses what it is given, in these words."""
    with pytest.raises(InvalidInputError, match=message):
        call(*given, **named)
