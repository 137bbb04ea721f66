"""Bad inputs and first data: each message names the cause, and none refuses usable data."""

import pathlib
import shutil

import catboost
import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support.audits import audited, recorded
from tests.support.damages import DAMAGES, witness
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    THREE,
    clone_model,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    replace_model,
    small_lake,
)
from tests.support.score_tables import audited_scores
from tests.support.tiers import rest_slow
from workers.lake.checkpoints import aligned
from workers.warehouse.schema import Status


def frame_of(lake, day=DAY):
    return pl.read_parquet(label_path(lake, "flights", day))


def replace_by(lake, model):
    """Put another model in the place of the day's."""
    file = pathlib.Path(lake.uri).parent / "other.cbm"
    model.save_model(str(file))
    replace_model(lake, "good", DAY, file.read_bytes())


def test_a_regressor_is_called_a_regressor(lake):
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
def test_a_model_of_texts_or_embeddings_is_sent_to_score_tables(lake, kind):
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


def test_a_declaration_of_another_kind_is_refused_and_a_whole_number_is_one(lake):
    privacy = manifest_of(lake, "good", DAY)["privacy"]
    for field, value in (("epsilon", "1.0"), ("epsilon", True), ("unit", 1)):
        edit_manifest(lake, "good", DAY, privacy=privacy | {field: value})
        row = audited(lake)
        assert row.detail == "manifest_invalid"
        assert f"is not valid at privacy.{field}: Input should be a valid" in row.reason
    edit_manifest(lake, "good", DAY, privacy=privacy | {"epsilon": 1, "delta": 0})
    assert audited(lake).epsilon_declared == 1.0


def trained(lake, day, classes, listed):
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
def test_a_class_that_was_absent_on_one_day_is_no_reason_to_refuse(tmp_path, day, listed):
    lake = small_lake(tmp_path / "lake", label=THREE, rows=800)
    some = ("early", "late")
    trained(lake, day, list(some), tuple(THREE.classes) if listed == "all" else some)
    row = audited(lake)
    assert (row.status, row.reason_code) == ("evaluated", "nothing_declared"), row.reason
    assert row.records == (frame_of(lake)["split"] == "train").sum()


def test_a_model_of_other_classes_is_still_refused(tmp_path):
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


def test_probabilities_are_those_of_the_classes_that_are_wanted():
    found = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert aligned(found, ("a", "c"), ("a", "c")) is found
    assert aligned(found, ("a", "c"), ("c", "b", "a")).tolist() == [[0.75, 0, 0.25], [0, 0, 1.0]]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_bad_input_ends_as_a_record_that_says_why(lake, damage):
    clone_model(lake, "bad")
    damage.apply(lake, "bad")

    record = recorded(lake, model="bad")

    row = record.audit
    assert (row.status, row.detail) == (Status.NOT_EVALUABLE, damage.reason), row.reason
    assert (row.verdict, row.reason_code) == (damage.reason.code.verdict, damage.reason.code)
    assert row.reason.endswith(".")
    assert "\n" not in row.reason
    for word in damage.words:
        assert word in row.reason
    assert row.epsilon_lower is None
    assert record.bounds == record.promises == ()
    assert not witness(lake).exists()  # no pickle was read


def test_a_name_that_could_walk_out_of_the_lake_is_refused(lake):
    shutil.copytree(f"{lake.uri}/models/good", f"{lake.uri}/x")
    for name in ("", "..", "../x", "a/b", "/etc", "a\\b", "day=2026-03-02", "a\n", "ü", "x" * 101):
        row = audited(lake, model=name)
        assert (row.status, row.detail) == (Status.NOT_EVALUABLE, "name_invalid")
        assert repr(name) in row.reason


def test_a_context_column_of_two_kinds_ends_one_audit(tmp_path):
    frame = label_rows(1_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    (tmp_path / f"day={DAY}").mkdir()
    words = frame.with_columns(pl.col("delay").cast(pl.String))
    words.write_parquet(tmp_path / f"day={DAY}" / "two.parquet")
    row = audited_scores(tmp_path, frame, context=["delay", "hour"])
    assert (row.status, row.detail) == ("not_evaluable", "feature_invalid"), row.reason
