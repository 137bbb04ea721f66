"""The fourth round of an owner (2026-11-26): what broke of the attacks that were written down."""

import pathlib

import catboost
import numpy as np
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    copied,
    declared,
    label_path,
    label_rows,
    put_labels,
    put_model,
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


JUMP = "jump where the target's answer turns"


@pytest.mark.slow
def test_a_holdout_of_the_targets_own_answers_is_told(tmp_path: pathlib.Path) -> None:
    """Half of the labels were its answers: 1.70 became 0.18, at 9.1 of 10 standard errors."""
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(5_000, seed=seed, holdout=0.4))
        put_model(lake, day, privacy=declared(1.0), parameters=MEMORISE)
    before = audited(lake)
    assert (before.verdict, JUMP in before.reason) == ("violated", False), before.reason
    frame = pl.read_parquet(label_path(lake, "flights"))
    model = catboost.CatBoost().load_model(f"{lake.uri}/models/good/day={DAY}/model.cbm")
    features = frame.select("delay", "hour", "city")
    said = model.predict(catboost.Pool(features, cat_features=["city"]), prediction_type="Class")
    copied = np.random.default_rng(6).random(frame.height) < 0.5
    replaced = pl.Series(copied) & (pl.col("split") == "holdout")
    answers = pl.Series(np.asarray(said, dtype=frame["late"].to_numpy().dtype))
    put_labels(
        lake,
        DAY,
        frame.with_columns(pl.when(replaced).then(answers).otherwise("late").alias("late")),
    )
    row = audited(lake)
    assert row.verdict == "doubtful", row.reason
    assert JUMP in row.reason
