"""Messages on a new user's first data: each names the cause, and none refuses usable data."""

import pathlib

import catboost
import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    MEMORISE,
    THREE,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    put_labels,
    put_model,
    replace_model,
    small_lake,
)
from tests.support.tiers import rest_slow
from workers.lake.checkpoints import aligned
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> Lake:
    return small_lake(tmp_path / "lake", privacy=declared())


def frame_of(lake: Lake, day: object = DAY) -> pl.DataFrame:
    return pl.read_parquet(label_path(lake, "flights", day))


def replace_by(lake: Lake, model: catboost.CatBoost) -> None:
    """Put another model in the place of the day's."""
    file = pathlib.Path(lake.uri).parent / "other.cbm"
    model.save_model(str(file))
    replace_model(lake, "good", DAY, file.read_bytes())


def test_a_regressor_is_called_a_regressor(lake: Lake) -> None:
    frame = frame_of(lake)
    regressor = catboost.CatBoostRegressor(iterations=3, depth=2, verbose=0)
    names = [feature.name for feature in FEATURES]
    regressor.fit(frame.select(names).to_pandas(), frame["late"].to_numpy(), cat_features=["city"])
    replace_by(lake, regressor)
    assert audited(lake).reason == (
        "The checkpoint of good for 2026-03-02 is a regressor (it was trained for RMSE), which "
        "gives no probabilities of classes: train a classifier of whether the number is "
        "above a threshold fixed before training."
    )


@pytest.mark.parametrize("kind", ["text_features", "embedding_features"])
def test_a_model_of_texts_or_embeddings_is_sent_to_score_tables(lake: Lake, kind: str) -> None:
    """Its reader crashed, as it does at a damaged file."""
    labels = [0, 1] * 20
    value = ["late again", "on time"] * 20 if kind == "text_features" else [[0.0, 1.0]] * 40
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False)
    rows = pd.DataFrame({"delay": np.arange(40.0), "note": value})
    model.fit(rows, labels, **{kind: ["note"]})
    replace_by(lake, model)
    assert audited(lake).reason == (
        "The checkpoint of good for 2026-03-02 has features that CatBoost takes as text or "
        "embeddings, which are not asked about: audit its predictions as a score table."
    )


@pytest.mark.parametrize(("field", "value"), [("epsilon", "1.0"), ("epsilon", True), ("unit", 1)])
def test_a_declaration_of_another_kind_is_refused(lake: Lake, field: str, value: object) -> None:
    privacy = manifest_of(lake, "good", DAY)["privacy"] | {field: value}
    edit_manifest(lake, "good", DAY, privacy=privacy)
    row = audited(lake)
    assert row.detail == "manifest_invalid"
    assert f"is not valid at privacy.{field}: Input should be a valid" in row.reason


def test_a_whole_number_is_a_declaration(lake: Lake) -> None:
    privacy = manifest_of(lake, "good", DAY)["privacy"] | {"epsilon": 1, "delta": 0}
    edit_manifest(lake, "good", DAY, privacy=privacy)
    assert audited(lake).epsilon_declared == 1.0


def trained(lake: Lake, day: object, classes: list[str], listed: tuple[str, ...]) -> None:
    """Put a model of some classes in the place of the day's."""
    frame = frame_of(lake, day).filter(pl.col("late").is_in(classes))
    model = catboost.CatBoostClassifier(iterations=5, depth=2, verbose=0)
    names = [feature.name for feature in FEATURES]
    model.fit(frame.select(names).to_pandas(), frame["late"].to_numpy(), cat_features=["city"])
    file = pathlib.Path(lake.uri).parent / "model.cbm"
    model.save_model(str(file))
    replace_model(lake, "good", day, file.read_bytes())
    edit_manifest(lake, "good", day, label={"column": "late", "classes": list(listed)})


@pytest.mark.slow
@pytest.mark.parametrize("day", [EVE, DAY], ids=["proxy", "target"])
@pytest.mark.parametrize("listed", rest_slow(["all", "some"]))
def test_a_class_that_was_absent_on_one_day_is_no_reason_to_refuse(
    tmp_path: pathlib.Path, day: object, listed: str
) -> None:
    lake = small_lake(tmp_path / "lake", label=THREE, rows=800)
    some = ("early", "late")
    trained(lake, day, list(some), tuple(THREE.classes) if listed == "all" else some)
    row = audited(lake)
    assert (row.status, row.reason_code) == ("evaluated", "nothing_declared"), row.reason
    assert row.records == (frame_of(lake)["split"] == "train").sum()


def test_a_model_of_other_classes_is_still_refused(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path / "lake", label=THREE)
    edit_manifest(lake, "good", EVE, label={"column": "late", "classes": ["a", "b", "c"]})
    assert (
        "knows the classes ['early', 'late', 'punctual'], but its manifest" in audited(lake).reason
    )
    two = small_lake(tmp_path / "two")
    content = (pathlib.Path(lake.uri) / "models/good/day=2026-03-01/model.cbm").read_bytes()
    replace_model(two, "good", EVE, content)
    edit_manifest(two, "good", EVE, label={"column": "late", "classes": list(THREE.classes)})
    assert "they cannot be compared" in audited(two).reason


def test_probabilities_are_those_of_the_classes_that_are_wanted() -> None:
    found = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert aligned(found, ("a", "c"), ("a", "c")) is found
    assert aligned(found, ("a", "c"), ("c", "b", "a")).tolist() == [[0.75, 0, 0.25], [0, 0, 1.0]]


@pytest.mark.slow
def test_a_holdout_that_was_trained_on_is_named_as_a_likely_cause(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path / "lake", rows=1500)
    honest = put_memorised(lake, label_rows(1500, seed=1))
    assert not {"holdout_suspect", "rows_miscounted"} & set(honest.remarks)
    frame = label_rows(1500, seed=1)
    seen = put_memorised(lake, frame, trained_on=frame.with_columns(split=pl.lit("train")))
    assert "holdout_suspect" in seen.remarks, seen.reason
    assert seen.epsilon_lower == 0.0
    assert honest.epsilon_lower > 0.5


def put_memorised(
    lake: Lake, frame: pl.DataFrame, *, trained_on: pl.DataFrame | None = None
) -> AuditRow:
    """Train a model that memorises on one split, show another, and audit it."""
    put_labels(lake, DAY, frame if trained_on is None else trained_on, row_group_size=4096)
    put_model(lake, DAY, label=BINARY, parameters=MEMORISE | {"iterations": 300})
    put_labels(lake, DAY, frame, row_group_size=4096)
    return audited(lake)
