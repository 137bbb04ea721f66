"""Labelled rows in a table of any layout: `[models.labels]` of the settings, and of a record."""

import os
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from workers.lake.manifest import Label, Name, named_twice
from workers.lake.places import DayPath
from workers.plain_files import read_key
from workers.sources.tables.day_tables import WHERE, DayTable

HOLDOUT_KEY = "PRIVAUDIT_HOLDOUT_KEY"


class LabelTable(DayTable):
    """Place of a day's features, labels and split, instead of a folder of the lake."""

    KEY: ClassVar[str] = "labels"

    label: Name | None = None
    """Column of the label; where checkpoints have manifests, theirs if left out."""
    classes: tuple[Label, ...] | None = Field(default=None, min_length=2)
    """Values of the label, in the order of the model's probabilities; those that the model's file
    names, or else 0, 1, ..., if left out."""
    columns: dict[Name, Name] = Field(default={})
    """Columns of features that the model knows by another name: { hour = "dep_hour" } reads its
    feature hour in the column dep_hour."""
    holdout_key_file: str | None = None
    """File of mode 600 with the key of holdout = "keyed(column, share)", which training must not
    know; or PRIVAUDIT_HOLDOUT_KEY in the environment. privaudit make-key makes one."""
    ready: DayPath | None = None
    """A file that is written when the table holds the whole day, like s3://bucket/done/{day};
    without it, a day is whole as soon as the table has it."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = [str(value) for value in self.classes or ()]
        if named_twice(self.classes or ()):
            raise ValueError(f"classes {known} names one twice: write each once")
        return self

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the table lies."""
        return self.model_dump(mode="json", exclude={*WHERE, "ready", "holdout_key_file"})

    def holdout_key(self) -> bytes:
        """Return the key of a keyed holdout; nothing where no key divides the rows.

        Raises:
            TerminalError: there is none, or others may read it.
        """
        if not self.holdout_rule.keyed_share:
            return b""
        return read_key(
            os.environ.get(HOLDOUT_KEY),
            self.holdout_key_file,
            setting="labels.holdout_key_file",
            variable=HOLDOUT_KEY,
        )
