"""`[together]` of the settings: what all models on the same labels may promise together."""

from pydantic import Field

from workers.lake.manifest import LARGEST_EPSILON
from workers.strict_model import StrictModel


class TogetherSettings(StrictModel):
    """The total for one day's labels; without it there is no alert."""

    epsilon: float = Field(gt=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)
    """What all models trained on the same labels may promise together. Above it there is an
    alert."""
    delta: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Delta at which declarations are composed."""
