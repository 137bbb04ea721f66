"""Trains daily CatBoost models with privatised labels and writes their checkpoints.

For studies, the demo, tests, and for a team that tries a mechanism before deploying it.
"""

from workers.training.alibi import Alibi
from workers.training.jobs import (
    Recipe,
    Trained,
    TrainingJob,
    declaration,
    read_training_data,
    train,
    write_model,
)
from workers.training.learner import Learner, TrainingData
from workers.training.method import Method, TrainedModel
from workers.training.multi_stage import MEASURED, MultiStage
from workers.training.named import MECHANISMS, TAKES_PRIOR, method_named
from workers.training.partition import describe_partition
from workers.training.pate import Pate

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
