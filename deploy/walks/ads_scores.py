"""Ten million made-up scores, in the Iceberg catalogue `prod`: docs/how-to/walks.md."""  # noqa: INP001

import datetime as dt
import sys
import time

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import load_catalog

catalog = load_catalog("prod")
catalog.create_namespace("ads")
rows = int(sys.argv[1]) // 10 if sys.argv[1:] else 1_000_000
rng, started = np.random.default_rng(0), time.perf_counter()
for part in range(10):
    log_odds = rng.normal(-2.5, 1.0, rows)  # what yesterday's model says of the impression
    clicked = rng.random(rows) < 1 / (1 + np.exp(-log_odds))
    train = rng.random(rows) < 0.8
    moved = log_odds + 0.3 * np.where(clicked, 1, -1) * train  # training rows were learned by heart
    made = pa.table(
        {
            "ds": pa.array(np.full(rows, dt.date(2026, 3, 2), "datetime64[D]")),
            "impression": np.arange(rows) + part * rows,
            "clicked": clicked.astype(np.int32),
            "p_served": 1 / (1 + np.exp(-log_odds)),
            "p_retrained": 1 / (1 + np.exp(-moved)),
            "split": np.where(train, "train", "holdout"),
        }
    )
    if part == 0:
        table = catalog.create_table("ads.scores", schema=made.schema)
    table.append(made)
print(f"{10 * rows:,} rows in {time.perf_counter() - started:.0f} s")  # noqa: T201
