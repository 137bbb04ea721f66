"""`[publication]` of the settings: what leaves the lake's side, and what that may cost a label."""

import pathlib
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from flows.settings.model import absolute
from workers.plan import MOST_NIGHTS


class PublicationSettings(BaseModel):
    """Publication of statements that are differentially private for labels."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    statements: str = Field(
        description="Where public statements are kept: a folder or address of its own, which more "
        "people may read than the warehouse."
    )
    epsilon: float = Field(
        default=0.1,
        gt=0.0,
        le=10.0,
        description="Privacy loss of one statement for one label; plan.epsilon_public of a model "
        "wins. Audits of some thousand records need 0.5.",
    )
    epsilon_per_label: float = Field(
        default=1.0,
        gt=0.0,
        le=100.0,
        description="What all statements in which a label takes part may cost together.",
    )
    nights_per_test: int | None = Field(
        default=None,
        ge=1,
        le=MOST_NIGHTS,
        description="For models whose labels recur (plan.labels_recur): instead of a statement a "
        "night, one question over up to so many nights, which costs epsilon once. "
        "plan.nights_per_test of a model wins.",
    )
    key_file: str | None = Field(
        default=None, description="File of mode 600 with the key of the noise."
    )
    key: SecretStr | None = Field(
        default=None, description="The key itself; keep it in PRIVAUDIT_PUBLICATION__KEY."
    )

    def with_absolute_paths(self, folder: pathlib.Path) -> Self:
        """Return these settings with whole paths."""
        changes = {
            name: absolute(folder, given)
            for name in ("statements", "key_file")
            if (given := getattr(self, name)) is not None
        }
        return self.model_copy(update=changes)
