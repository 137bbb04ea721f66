"""Settings of models and rows where they lie: `[models.checkpoints]` and `[models.labels]`."""

import datetime as dt
import os
import pathlib
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from privcore.exceptions import TerminalError
from workers.lake.formats import ENDINGS
from workers.lake.manifest import FormatName, Label, Name, named_twice
from workers.lake.places import (
    REGISTRY,
    DayPath,
    check_uri,
    day_path,
    local_path,
    registry_address,
    split_day_path,
)
from workers.plain_files import read_key
from workers.sources.tables.day_tables import WHERE, DayTable
from workers.strict_model import StrictModel

_ANY_DAY = dt.date(2026, 3, 2)


def _allowed(place: str) -> str:
    try:
        return place if local_path(place) is not None else check_uri(place)
    except TerminalError as error:
        raise ValueError(str(error)) from None


class CheckpointPaths(StrictModel):
    """Places of each day's model file, instead of a folder of the lake."""

    path: DayPath
    """Path or URI of a day's model file, with {day} or {day:%Y/%m/%d}, and maybe {model}; or
    models:/NAME@{day}, a model of an MLflow registry by an alias for each day. The day is the last
    whose labels it was trained on."""
    format: FormatName | None = None
    """Framework that wrote it; told by the path's ending if left out."""
    features: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """The model's features in its order, where its file does not name them; else they are called
    Column_0, Column_1 (LightGBM) or f0, f1."""
    ready: DayPath | None = None
    """A file that is written when the day's model is complete, like
    s3://bucket/{model}/{day}/_DONE; without it, a model is complete once its file is there."""

    artifacts: tuple[Annotated[Name, AfterValidator(_allowed)], ...] | None = None
    """Paths and URIs below which a registry's artifacts are read, besides its own artifact root and
    the lake."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.registered:
            registry_address(day_path(self.path, "model", _ANY_DAY))
            if self.format is not None or self.ready is not None:
                raise ValueError(
                    "a path of models:/ takes no format and no ready, which the registry gives: "
                    "remove both keys"
                )
        elif self.artifacts is not None:
            raise ValueError(
                "artifacts works only with paths of a registry (models:/): leave it out"
            )
        elif self.format is None and self._ending not in ENDINGS:
            raise ValueError(
                f"path ends in none of {', '.join(ENDINGS)}: set format to catboost, xgboost, "
                "lightgbm or onnx; of other models, give the probabilities as a table "
                "([models.scores])"
            )
        return self

    @property
    def _ending(self) -> str:
        return pathlib.PurePath(split_day_path(self.path, "model", _ANY_DAY)[1]).suffix

    @property
    def registered(self) -> bool:
        """True if an MLflow registry names the files."""
        return self.path.startswith(REGISTRY)

    @property
    def known_format(self) -> str:
        """The framework that writes the files; a registry says it of each model instead."""
        return self.format or ENDINGS[self._ending]


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
        known = self.classes or ()
        if named_twice(known):
            raise ValueError(f"classes {list(map(str, known))} names one twice: write each once")
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
