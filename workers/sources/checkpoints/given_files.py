"""Two model files and a table that a user names, before anything of them is in production."""

import datetime as dt

from privcore.exceptions import TerminalError
from workers.lake.formats import ENDINGS
from workers.lake.manifest import Privacy
from workers.lake.places import check_uri, local_path
from workers.sources.checkpoints.checkpoint_paths import CheckpointPaths
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.checkpoints.label_tables import LabelTable
from workers.sources.checkpoints.placed_models import PlacedModel
from workers.sources.tables.table_files import parent_of


def in_place_files(
    target: str, proxy: str, labels: LabelTable, *, day: dt.date, privacy: Privacy | None
) -> InPlace:
    """Return the inputs of an audit of two model files on the rows of a table.

    They are those of `[models.checkpoints]` and `[models.labels]`, pinned to these files: whatever
    is tested there is tested here. A path does not say when a model was trained, so the proxy's
    knowledge of the labels is tested, too.

    Raises:
        TerminalError: a file is missing, its ending names no framework, or an address holds a
            credential.
    """
    audited = _placed(target, day, "target")
    return InPlace(
        labels=labels,
        # Both files are pinned, so that no path is made of this template.
        checkpoints=CheckpointPaths.model_validate({"path": "{day}", "format": audited.format}),
        privacy=privacy,
        target=audited,
        proxy=_placed(proxy, day - dt.timedelta(days=1), "proxy"),
    )


def _placed(file: str, day: dt.date, role: str) -> PlacedModel:
    local = local_path(file)
    folder, name = parent_of(str(local) if local is not None else check_uri(file))
    ending = f".{name.rpartition('.')[2].lower()}"
    if ending not in ENDINGS:
        raise TerminalError(
            f"The {role} {file!r} ends in none of {', '.join(ENDINGS)}: save the model in the own "
            "format of CatBoost, XGBoost or LightGBM, or as ONNX. Nothing else is read."
        )
    if not folder.has(name):
        raise TerminalError(
            f"The {role} {file!r} is not a file: give the path of the model's file."
        )
    return PlacedModel(day, folder.uri, name, ENDINGS[ending])
