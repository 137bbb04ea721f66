"""CatBoost as the methods use it: hard labels, soft labels, probabilities."""

from dataclasses import dataclass, field
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import weighted_copies
from privcore.mechanisms.parameter_checks import check_labels
from workers.lake.manifest import Feature, LabelColumn


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The day's training rows.

    Attributes:
        features: one row per record, numeric as Float32, categorical as String without nulls.
        labels: shape (records,), class indices: what a method makes private.
    """

    features: pl.DataFrame
    labels: NDArray[np.int64]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """Trains models of one shape; it travels to the workers.

    Attributes:
        label: its classes are the model's, also those that no label has.
        features: in the model's order.
        seed: of CatBoost.
        parameters: of CatBoost, beyond what is set here.
        validation: rows whose labels choose how many trees a model keeps: those up to the best
            log-loss on them. None keeps all. No mechanism protects these labels.
    """

    label: LabelColumn
    features: tuple[Feature, ...]
    seed: int
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: TrainingData | None = None

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.label.classes)

    def fit(
        self,
        features: pl.DataFrame,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> Any:
        """Return a model trained on hard labels, shape (records,), even if all are the same.

        Raises:
            InvalidInputError: a label outside the classes, or CatBoost cannot train on these
                features or with these parameters.
        """
        check_labels(labels, (labels.size, self.classes))
        model = catboost.CatBoostClassifier(
            random_seed=self.seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
            allow_const_label=True,
            loss_function="Logloss" if self.classes == 2 else "MultiClass",
            class_names=list(self.label.classes),
            **self.parameters,
        )
        kept = self.validation
        try:
            model.fit(
                self._pool(features, labels, weights),
                eval_set=self._pool(kept.features, kept.labels) if kept else None,
            )
        except catboost.CatBoostError as error:
            rule = f"CatBoost cannot train on them: {error}"
            raise InvalidInputError("features", features.columns, rule) from None
        return model

    def _pool(
        self,
        features: pl.DataFrame,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> catboost.Pool:
        names = [feature.name for feature in self.features if feature.kind == "categorical"]
        given = np.array(self.label.classes)[labels]
        return catboost.Pool(features, label=given, weight=weights, cat_features=names)

    def fit_soft(self, features: pl.DataFrame, soft: NDArray[np.float64]) -> Any:
        """Return a model trained on soft labels, shape (records, classes), by weighted copies."""
        copies = weighted_copies(soft)
        return self.fit(features[copies.rows], copies.labels, copies.weights)

    def predict(self, model: Any, features: pl.DataFrame) -> NDArray[np.float64]:
        """Return the model's probabilities, shape (records, classes)."""
        chances: NDArray[np.float64] = model.predict_proba(features, thread_count=1)
        return chances
