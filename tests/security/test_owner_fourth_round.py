"""The fourth round of an owner (2026-11-26): what broke of the attacks that were written down."""

import pathlib
import shutil

import numpy as np
import polars as pl
import pytest

from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    PLAN,
    declared,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(2_000, seed=seed))
        put_model(lake, day, privacy=declared(0.5), parameters=MEMORISE)
    return lake


RESEMBLE = "Holdout rows resemble training rows too often"


@pytest.mark.parametrize(("share", "jitter"), [(0.75, 0.001), (1.0, 0.05)])
def test_a_holdout_of_near_copies_of_training_rows_is_told(
    remembered: Lake, tmp_path: pathlib.Path, share: float, jitter: float
) -> None:
    """The model knows their labels as those of their originals: 1.70 became 0.2, unsaid."""
    lake = Lake(str(shutil.copytree(remembered.uri, tmp_path / "lake")))
    before = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (before.verdict, RESEMBLE in before.reason) == ("violated", False), before.reason
    random = np.random.default_rng(5)
    frame = pl.read_parquet(label_path(lake, "flights"))
    train, holdout = (frame.filter(pl.col("split") == arm) for arm in ("train", "holdout"))
    many = int(share * holdout.height)
    moved = pl.col("delay") + pl.Series(random.normal(0.0, jitter, many))
    copies = train.sample(many, seed=5).with_columns(delay=moved, split=pl.lit("holdout"))
    whole = pl.concat([train, holdout[many:], copies]).sample(fraction=1.0, shuffle=True, seed=5)
    put_labels(lake, DAY, whole)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.verdict == "consistent", row.reason
    assert RESEMBLE in row.reason
