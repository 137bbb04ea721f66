"""A model file is first read where it may crash: in a process that has nothing to lose.

CatBoost's reader is C++ and trusts the file: about 4% of files with a few bytes changed end the
process that loads them. A child of its own reads each file and scores one row
(`workers.contained`), so that no file meets what another has left.
"""

from dataclasses import dataclass
from typing import Any

import catboost

from workers.contained import Contained, ContainedError
from workers.lake import limits


class UnreadableModelError(Exception):
    """CatBoost cannot read the model file; `why` completes "the file ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a model file says of itself.

    Attributes:
        features: names, in the model's order.
        categorical: positions of the categorical ones.
        classes: as text, in the order of the probabilities.
    """

    features: tuple[str, ...]
    categorical: tuple[int, ...]
    classes: tuple[str, ...]


def describe_model(content: bytes) -> ModelDescription:
    """Return what the model file `content` says of itself.

    Raises:
        UnreadableModelError: it is no CatBoost model, or reading it or scoring one row with it
            crashes, or takes too long or too much memory.
        TransientError: the process that reads models went away.
    """
    try:
        found = _contained(content)
    except ContainedError as error:
        why = "is not in CatBoost's format" if error.kind == "raised" else "cannot be read"
        raise UnreadableModelError(f"{why}: CatBoost {error.why}") from None
    return ModelDescription(
        *(tuple(found[name]) for name in ("features", "categorical", "classes"))
    )


def describe(content: bytes) -> dict[str, Any]:
    """Return a description as JSON holds it; runs in a contained process."""
    model = catboost.CatBoost()
    model.load_model(blob=content, format="cbm")
    names = list(model.feature_names_)
    categorical = [int(position) for position in model.get_cat_feature_indices()]
    row = ["" if position in categorical else 0.0 for position in range(len(names))]
    pool = catboost.Pool([row], cat_features=categorical, feature_names=names)
    model.predict(pool, prediction_type="Probability", thread_count=1)
    classes = [str(value) for value in model.classes_]
    return {"features": names, "categorical": categorical, "classes": classes}


_contained = Contained(
    f"{__name__}:{describe.__name__}",
    seconds=limits.MODEL_SECONDS,
    memory=limits.MODEL_MEMORY_BYTES,
    fork=True,
)
