"""`[together]` of the settings: what all models on the same labels may promise together."""

from pydantic import BaseModel, ConfigDict, Field

from workers.lake.manifest import LARGEST_EPSILON


class TogetherSettings(BaseModel):
    """The total for one day's labels; without it there is no alert."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(
        gt=0.0,
        le=LARGEST_EPSILON,
        allow_inf_nan=False,
        description="What all models trained on the same labels may promise together. Above it "
        "there is an alert.",
    )
    delta: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="Delta at which declarations are composed."
    )
