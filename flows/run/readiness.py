"""Whether a model's inputs are there."""

import datetime as dt
import json

from privcore.exceptions import AuditError, TransientError
from workers.exceptions import NotEvaluableError
from workers.lake.layout import Lake, checkpoint_folder, labels_folder


def missing_input(lake: Lake, model: str, day: dt.date, *, dataset: str | None) -> str | None:
    """Return the `_SUCCESS` that is not there yet, the target's first; None when both are.

    Whatever is wrong otherwise (a name, a manifest) is not worth waiting for: the audit says it.
    """
    try:
        folder = checkpoint_folder(model, day)
        if not lake.exists(folder):
            return f"{folder}/_SUCCESS"
        named = dataset or dataset_of(lake, model, day)
        if named is None:
            return None
        labels = labels_folder(named, day)
        return None if lake.exists(labels) else f"{labels}/_SUCCESS"
    except NotEvaluableError:
        return None
    except TransientError:
        return "an answer from storage"


def dataset_of(lake: Lake, model: str, day: dt.date) -> str | None:
    """Return the label dataset that a checkpoint's manifest names; None where none can be read."""
    try:
        manifest = json.loads(lake.read(f"{checkpoint_folder(model, day)}/manifest.json"))
    except (NotEvaluableError, OSError, ValueError):
        return None
    dataset = manifest.get("dataset") if isinstance(manifest, dict) else None
    return dataset if isinstance(dataset, str) else None


def label_bytes(lake: Lake, dataset: str, day: dt.date) -> int:
    """Return how large a day's labels are, which is how long their audit takes; 0 if unknown."""
    try:
        return sum(file.size for file in lake.label_files(dataset, day))
    except (AuditError, OSError):
        return 0
