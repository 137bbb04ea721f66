"""Readmissions of 2,000 patients, and two models that predict them: for docs/how-to/walks.md."""  # noqa: INP001

import datetime as dt

import numpy as np
import polars as pl
from catboost import CatBoostClassifier
from numpy.typing import NDArray

FEATURES = ["age", "nights", "ward"]
rng = np.random.default_rng(0)
patients, stays = 2_000, 3
patient = np.repeat(np.arange(patients), stays)
frail = np.repeat(rng.normal(0, 1, patients), stays)  # of the person: all stays share it
table = pl.DataFrame(
    {
        "day": [dt.date(2026, 3, 2)] * len(patient),
        "patient": patient,
        "age": np.repeat(rng.integers(18, 95, patients), stays),
        "nights": rng.integers(1, 40, len(patient)),
        "ward": rng.choice(["heart", "lung", "surgery"], len(patient)),
        "readmitted": (rng.normal(0, 1, len(patient)) + frail > 1.0).astype(int),
        # Persons are held out, never single stays.
        "split": np.repeat(np.where(rng.random(patients) < 0.3, "holdout", "train"), stays),
    }
)
earlier = table["patient"].to_numpy() < patients // 4  # the model of last year knows these
held_out = (table["split"] == "holdout").to_numpy()


def train(rows: NDArray[np.bool_], trees: int) -> CatBoostClassifier:
    """Return a model of some rows; many trees learn them by heart."""
    model = CatBoostClassifier(iterations=trees, depth=8, learning_rate=0.3, verbose=0)
    part = table.filter(rows)
    return model.fit(
        part[FEATURES].to_pandas(), part["readmitted"].to_numpy(), cat_features=["ward"]
    )


def predicted(model: CatBoostClassifier, rows: pl.DataFrame) -> NDArray[np.float64]:
    """Return the probability that each stay is followed by another one."""
    return np.asarray(model.predict_proba(rows[FEATURES].to_pandas()))[:, 1]


served, new = train(earlier & ~held_out, 50), train(~earlier & ~held_out, 1_000)
audited = table.filter(~earlier)
audited.with_columns(
    pl.Series("p_served", predicted(served, audited)), pl.Series("p_new", predicted(new, audited))
).write_parquet("readmissions.parquet")
