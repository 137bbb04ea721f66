"""Scores of made-up applications, written to the database that PRIVAUDIT_DATABASE_BANK names."""  # noqa: INP001

import datetime as dt
import os

import adbc_driver_postgresql.dbapi
import lightgbm
import numpy as np
import pyarrow as pa

day = dt.date(2026, 3, 2)
random = np.random.default_rng(0)
applicants = random.normal(size=(20_000, 12))  # income, debt, age of the account, ...
risk = 1.0 / (1.0 + np.exp(2.0 - applicants[:, :4].sum(axis=1)))
defaulted = (random.random(len(risk)) < risk).astype(np.int64)
held_out = random.random(len(risk)) < 0.3
yesterday, today = np.array_split(np.arange(len(risk)), 2)


def train(rows: np.ndarray) -> lightgbm.Booster:
    """Return a model of some applications, less those that are held out."""
    rows = rows[~held_out[rows]]
    settings = {"objective": "binary", "num_leaves": 127, "min_data_in_leaf": 5, "verbosity": -1}
    return lightgbm.train(settings, lightgbm.Dataset(applicants[rows], defaulted[rows]), 60)


served, retrained = train(yesterday), train(today)
scores = pa.table(
    {
        "scored_on": [day] * len(today),
        "application_id": today,
        "defaulted": defaulted[today],
        "pd_served": served.predict(applicants[today]),  # before the label was known
        "pd_retrained": retrained.predict(applicants[today]),  # the job to add
        "split": np.where(held_out[today], "holdout", "train"),
    }
)
with adbc_driver_postgresql.dbapi.connect(os.environ["PRIVAUDIT_DATABASE_BANK"]) as connection:
    with connection.cursor() as cursor:
        cursor.adbc_ingest("credit_scores", scores, mode="replace")
    connection.commit()
