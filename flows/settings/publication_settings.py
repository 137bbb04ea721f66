"""`[publication]` of the settings: what leaves the lake's side, and what that may cost a label."""

import pathlib
from typing import Self

from pydantic import ConfigDict, Field, SecretStr

from flows.settings.model import absolute
from workers.strict_model import StrictModel


class PublicationSettings(StrictModel):
    """Publication of statements that are differentially private for labels."""

    model_config = ConfigDict(hide_input_in_errors=True)

    statements: str
    """Where public statements are kept: a folder or address of its own, which more people may read
    than the warehouse."""
    epsilon: float = Field(default=0.1, gt=0.0, le=10.0)
    """Privacy loss of one statement for one label; plan.epsilon_public of a model wins. Audits of
    some thousand records need 0.5."""
    epsilon_per_label: float = Field(default=1.0, gt=0.0, le=100.0)
    """What all statements in which a label takes part may cost together."""
    key_file: str | None = None
    """File of mode 600 with the key of the noise."""
    key: SecretStr | None = None
    """The key itself; keep it in PRIVAUDIT_PUBLICATION__KEY."""

    def with_absolute_paths(self, folder: pathlib.Path) -> Self:
        """Return these settings with whole paths."""
        changes = {
            name: absolute(folder, given)
            for name in ("statements", "key_file")
            if (given := getattr(self, name)) is not None
        }
        return self.model_copy(update=changes)
