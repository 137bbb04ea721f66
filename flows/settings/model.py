"""`[[models]]` of the settings: one audited model, and where its night lies."""

import pathlib
from typing import Any, Self

from pydantic import model_validator

from flows.settings.problems import SettingsError
from flows.settings.values import TimeOfDay
from privcore.exceptions import TerminalError
from workers.lake.day_paths import REGISTRY
from workers.lake.manifest import Name
from workers.lake.places import local_path
from workers.plan import Attribute, Plan, TrainingSampling
from workers.sources.checkpoints.checkpoint_paths import CheckpointPaths
from workers.sources.checkpoints.label_tables import LabelTable
from workers.sources.scores.score_tables import DeclaredPrivacy, ScoreTables
from workers.sources.tables.day_tables import TablePlace
from workers.strict_model import StrictModel


class ModelSettings(StrictModel):
    """One audited model."""

    name: Name
    """Name of the model's folder in the lake."""
    dataset: str | None = None
    """The only label dataset that its manifest may name; any if left out."""
    deadline: TimeOfDay | None = None
    """Instead of the night's deadline, for this model."""
    notify: tuple[str, ...] = ()
    """Who is notified: addresses or channels, passed on with each alert."""
    plan: Plan = Plan()
    """Instead of the common plan, field by field."""
    attribute: Attribute | None = None
    """A categorical feature whose values are audited as well, by their own claim."""
    sampling: TrainingSampling | None = None
    """How training sampled its rows by their label; the holdout is sampled likewise. Left out,
    training took every row that is not held out."""
    membership: bool = False
    """Whether it is audited as well, by its own claim, if records are told to have been trained
    on."""
    drill: Name | None = None
    """Another listed model: the same learner, trained on the same rows without a mechanism. Whether
    it is refuted shows whether a dropped mechanism would be seen."""
    scores: ScoreTables | None = None
    """Tables of both models' probabilities, instead of checkpoints in the lake."""
    checkpoints: CheckpointPaths | None = None
    """Where model files lie, instead of the lake and its manifests."""
    labels: LabelTable | None = None
    """A table of labelled rows, instead of a dataset of the lake."""
    privacy: DeclaredPrivacy | None = None
    """What is declared, where no manifest in the lake declares."""

    @model_validator(mode="after")
    def _declared_once(self) -> Self:
        if self.scores is not None and (self.checkpoints or self.labels):
            raise ValueError(
                "scores hold probabilities and labels: take [models.checkpoints] and "
                "[models.labels] out, or [models.scores]"
            )
        if self.checkpoints is not None and (self.labels is None or self.labels.label is None):
            raise ValueError(
                "checkpoints outside of the lake have no manifest to name their labels: add "
                "[models.labels] with table, day and label"
            )
        if self.privacy is not None and self.scores is None and self.checkpoints is None:
            raise ValueError(
                "privacy is for models with [models.scores] or [models.checkpoints]: of a "
                "checkpoint in the lake, its manifest declares"
            )
        if self.dataset is not None and (self.scores or self.labels):
            key = "labels" if self.scores is None else "scores"
            raise ValueError(f"dataset is of labels in the lake: {key}.table names the labels")
        return self


def with_absolute_paths(model: ModelSettings, folder: pathlib.Path, *, lake: str) -> ModelSettings:
    """Return a model whose paths are absolute; an Iceberg table, or a query, has a name, no path.

    A registry's artifacts may lie in the lake, too.
    """
    changes: dict[str, Any] = {}
    if model.scores is not None:
        others = {
            role: other.model_copy(update=_table_with_absolute_paths(other, folder))
            for role, other in model.scores.others.items()
        }
        changed = _table_with_absolute_paths(model.scores, folder)
        changes["scores"] = model.scores.with_parts(others).model_copy(update=changed)
    if model.labels is not None:
        changed = _table_with_absolute_paths(model.labels, folder) | _paths_with_absolute_paths(
            model.labels, folder
        )
        changes["labels"] = model.labels.model_copy(update=changed)
    if model.checkpoints is not None:
        changed = _paths_with_absolute_paths(model.checkpoints, folder)
        if model.checkpoints.registered:
            artifacts = (absolute(folder, each) for each in model.checkpoints.artifacts or ())
            changed["artifacts"] = (*artifacts, lake)
        changes["checkpoints"] = model.checkpoints.model_copy(update=changed)
    return model.model_copy(update=changes)


def _table_with_absolute_paths(place: TablePlace, folder: pathlib.Path) -> dict[str, Any]:
    named = place.catalog is not None or getattr(place, "query", None) is not None
    return {} if named else {"table": absolute(folder, place.table)}


def _paths_with_absolute_paths(
    given: CheckpointPaths | LabelTable, folder: pathlib.Path
) -> dict[str, Any]:
    """Return a part's templates of paths below the settings' folder, whose braces are its own."""
    own = str(folder).replace("{", "{{").replace("}", "}}")
    return {
        name: str(pathlib.Path(own) / template)
        for name in ("path", "ready")
        if (template := getattr(given, name, None)) is not None
        and "://" not in template
        and not template.startswith(REGISTRY)
    }


def absolute(folder: pathlib.Path, place: str) -> str:
    """Return a path below the settings' folder as a whole one, and an address as it is.

    Raises:
        SettingsError: it can be neither.
    """
    try:
        relative = "://" not in place and not pathlib.Path(place).is_absolute()
        local = local_path(str(folder / place) if relative else place)
    except TerminalError as error:
        raise SettingsError(str(error)) from None
    return place if local is None else str(local)
