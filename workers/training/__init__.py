"""Trains daily CatBoost models with privatised labels and writes their checkpoints.

For studies, the demo, tests, and for a team that tries a mechanism before deploying it.
"""

from workers.training.jobs import (
    Recipe,
    Trained,
    TrainingJob,
    declaration,
    describe_partition,
    read_training_data,
    train,
    write_model,
)
from workers.training.methods import (
    MEASURED,
    MECHANISMS,
    TAKES_PRIOR,
    Alibi,
    Learner,
    Method,
    MultiStage,
    Pate,
    TrainedModel,
    TrainingData,
    method_named,
)

__all__ = [
    "MEASURED",
    "MECHANISMS",
    "TAKES_PRIOR",
    "Alibi",
    "Learner",
    "Method",
    "MultiStage",
    "Pate",
    "Recipe",
    "Trained",
    "TrainedModel",
    "TrainingData",
    "TrainingJob",
    "declaration",
    "describe_partition",
    "method_named",
    "read_training_data",
    "train",
    "write_model",
]
