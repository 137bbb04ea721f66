"""Settings, and a record's fields, of a model whose night does not lie in the lake."""

import json

from workers.sources.checkpoints.in_place import InPlace
from workers.sources.scores.supplied import SuppliedScores

ExternalInputs = SuppliedScores | InPlace


def external_inputs_from_json(text: str) -> ExternalInputs:
    """Return what a record keeps in its column `source`."""
    if "tables" in json.loads(text):
        return SuppliedScores.from_json(text)
    return InPlace.from_json(text)
