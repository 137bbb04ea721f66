"""Valid and refused values of `[models.labels]` in the settings."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.in_place import labels


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": (0, 0)}, "names one twice"),
        ({"record": "id"}, "Extra inputs"),
        ({"holdout": "x > 1"}, "is not a rule"),
        ({"ready": "done"}, "names no day"),
    ],
)
def test_what_settings_cannot_say_of_labels(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        labels("t", **changes)
