"""Refused values of `[models.checkpoints]` and `[models.labels]` in the settings."""

import pytest
from pydantic import ValidationError

from tests.support.in_place import labels
from workers.sources.checkpoints.in_place_settings import CheckpointPaths


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": "models:/ads/3-{day}"}, "write models:/NAME@"),
        ({"path": "models:/ads@{day:%Y/%m/%d}"}, "with an alias of letters"),
        ({"path": "models:/ads@{day}", "format": "xgboost"}, "remove both keys"),
        ({"path": "models:/ads@{day}", "ready": "done/{day}"}, "remove both keys"),
        (
            {"path": "m/{day}/model.json", "artifacts": ["s3://b"]},
            "artifacts works only with paths of a registry",
        ),
        ({"path": "models:/ads@{day}", "artifacts": ["s3://k:v@b"]}, "holds a credential"),
        ({"path": "models:/ads@{day}", "artifacts": ["file://elsewhere/m"]}, "the machine"),
        ({"path": "m/model.json"}, "names no day"),
        ({"path": "{day}/model.pkl"}, r"ends in none of .cbm.*\[models.scores\]"),
        ({"path": "{day}/model"}, "set format to catboost"),
        ({"path": "{day}.json", "format": "sklearn"}, "reading it may run code"),
        ({"path": "{day}.json", "ready": "done/{date}"}, "ready"),
    ],
)
def test_what_settings_cannot_say_of_model_files(changes, words):
    with pytest.raises(ValidationError, match=words):
        CheckpointPaths.model_validate(changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": (0, 0)}, "names one twice"),
        ({"record": "id"}, "Extra inputs"),
        ({"holdout": "x > 1"}, "is not a rule"),
        ({"ready": "done"}, "names no day"),
    ],
)
def test_what_settings_cannot_say_of_labels(changes, words):
    with pytest.raises(ValidationError, match=words):
        labels("t", **changes)
