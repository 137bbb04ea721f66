"""Whether a model's inputs are there, and how long the night waits for them."""

import datetime as dt
import json

from flows.settings import Settings
from privcore.exceptions import TransientError
from workers.exceptions import NotEvaluableError
from workers.lake import Lake, checkpoint_folder, labels_folder


def missing_input(lake: Lake, model: str, day: dt.date, *, dataset: str | None) -> str | None:
    """Return the `_SUCCESS` that is not there yet, the target's first; None when both are.

    Whatever is wrong otherwise (a name, a manifest) is not worth waiting for: the audit says it.
    """
    try:
        folder = checkpoint_folder(model, day)
        if not lake.exists(folder):
            return f"{folder}/_SUCCESS"
        named = dataset or _dataset_of(lake, folder)
        if named is None:
            return None
        labels = labels_folder(named, day)
        return None if lake.exists(labels) else f"{labels}/_SUCCESS"
    except NotEvaluableError:
        return None
    except TransientError:
        return "an answer from storage"


def still_worth_waiting(settings: Settings, model: str, day: dt.date, now: dt.datetime) -> bool:
    """Whether the model's deadline lies ahead."""
    return now < settings.deadline_of(model, day)


def _dataset_of(lake: Lake, folder: str) -> str | None:
    try:
        manifest = json.loads(lake.read(f"{folder}/manifest.json"))
    except (OSError, ValueError):
        return None
    dataset = manifest.get("dataset") if isinstance(manifest, dict) else None
    return dataset if isinstance(dataset, str) else None
