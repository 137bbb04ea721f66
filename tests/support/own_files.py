"""Files of a reader of docs/tutorial/first-audit.md, from before privaudit knows of them."""

import pathlib

import numpy as np
import polars as pl
from catboost import CatBoostClassifier


def write_own_files(folder: pathlib.Path) -> None:
    """Write two days of somebody's own rows and models: rows-1.parquet, model-1.cbm, and so on."""
    for day in (1, 2):
        random = np.random.default_rng(day)
        rows = pl.DataFrame(
            {
                "price": random.normal(size=2000).round(3),
                "country": random.choice(["DE", "FR", "NL"], 2000),
                "clicked": random.integers(0, 2, 2000),
                "split": np.where(random.random(2000) < 0.2, "holdout", "train"),
            }
        )
        rows.write_parquet(folder / f"rows-{day}.parquet")
        trained = rows.filter(split="train")
        model = CatBoostClassifier(iterations=20, depth=3, verbose=0)
        features = trained.select("price", "country").to_pandas()
        model.fit(features, trained["clicked"].to_numpy(), cat_features=["country"])
        model.save_model(str(folder / f"model-{day}.cbm"))
