"""The fourth round of an owner (2026-11-26): what broke of the attacks that were written down."""

import pathlib

import numpy as np
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    copied,
    label_path,
    put_labels,
    remembering_lake,
)
from workers.lake.layout import Lake


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    return remembering_lake(tmp_path_factory.mktemp("lake"))


RESEMBLE = "Holdout rows resemble"


@pytest.mark.slow
@pytest.mark.parametrize(("share", "jitter"), [(0.75, 0.001), (1.0, 0.05)])
def test_a_holdout_of_near_copies_of_training_rows_is_told(
    remembered: Lake, tmp_path: pathlib.Path, share: float, jitter: float
) -> None:
    """The model knows their labels as those of their originals: 1.70 became 0.2, unsaid."""
    lake = copied(remembered, tmp_path)
    before = audited(lake)
    assert (before.verdict, RESEMBLE in before.reason) == ("violated", False), before.reason
    random = np.random.default_rng(5)
    frame = pl.read_parquet(label_path(lake, "flights"))
    train, holdout = (frame.filter(pl.col("split") == arm) for arm in ("train", "holdout"))
    many = int(share * holdout.height)
    moved = pl.col("delay") + pl.Series(random.normal(0.0, jitter, many))
    copies = train.sample(many, seed=5).with_columns(delay=moved, split=pl.lit("holdout"))
    whole = pl.concat([train, holdout[many:], copies]).sample(fraction=1.0, shuffle=True, seed=5)
    put_labels(lake, DAY, whole)
    row = audited(lake)
    assert row.verdict == "doubtful", row.reason
    assert RESEMBLE in row.reason
