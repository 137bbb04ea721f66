"""A training pipeline's files before release: a table of rows, an earlier model, and candidates."""

import functools
import pathlib

import numpy as np
import polars as pl

from tests.support.frameworks import train_xgboost

RECORDS = 8000
BY_HEART = {"max_depth": 10, "eta": 1.0, "min_child_weight": 0.0, "lambda": 0.0}


@functools.cache
def rows(seed: int) -> pl.DataFrame:
    """Return rows whose label follows one feature, half of them held out at random."""
    random = np.random.default_rng(seed)
    delay = random.normal(size=RECORDS)
    return pl.DataFrame(
        {
            "delay": delay.round(4),
            "hour": random.integers(0, 24, RECORDS),
            "city": random.choice(["AMS", "BER", "CDG"], RECORDS),
            "late": (random.random(RECORDS) < 1.0 / (1.0 + np.exp(-delay))).astype(int),
            "split": np.where(random.random(RECORDS) < 0.5, "holdout", "train"),
        }
    )


@functools.cache
def earlier() -> bytes:
    """Return a model of the eve's rows: the proxy."""
    return train_xgboost(rows(1).filter(split="train"), max_depth=3).content


@functools.cache
def quiet() -> bytes:
    """Return a model of the table's training rows that learned next to nothing by heart."""
    return train_xgboost(rows(2).filter(split="train"), max_depth=2).content


@functools.cache
def leaky() -> bytes:
    """Return a model that knows the table's training rows by heart."""
    return by_heart(rows(2).filter(split="train"))


def by_heart(frame: pl.DataFrame) -> bytes:
    """Return a model that knows rows by heart."""
    return train_xgboost(frame, **BY_HEART).content


def put_files(
    folder: pathlib.Path,
    *,
    target: bytes | None = None,
    proxy: bytes | None = None,
    table: pl.DataFrame | None = None,
) -> tuple[str, str, str]:
    """Write the files, and return the paths of target, proxy and table."""
    target_file, proxy_file, file = folder / "new.ubj", folder / "old.ubj", folder / "rows.parquet"
    target_file.write_bytes(quiet() if target is None else target)
    proxy_file.write_bytes(earlier() if proxy is None else proxy)
    (rows(2) if table is None else table).write_parquet(file)
    return str(target_file), str(proxy_file), str(file)
