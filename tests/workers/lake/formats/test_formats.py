"""Every framework's model says here what it says there; hostile files end as one model's record."""

import json
import pickle
import re
from typing import Any

import catboost
import lightgbm
import numpy as np
import onnx
import polars as pl
import pytest
import xgboost

from privcore.exceptions import TerminalError
from tests.support.audits import audited
from tests.support.damages import MaliciousFile, with_bytes_changed
from tests.support.frameworks import (
    CITIES,
    Trained,
    as_pandas,
    probabilities,
    put_trained,
    rows_with_gaps,
    train_lightgbm,
    train_onnx,
    train_xgboost,
)
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    declared,
    edit_manifest,
    manifest_for,
    put_labels,
    put_model,
)
from tests.support.onnx_files import ONES, onnx_file
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake import formats
from workers.lake.checkpoints import read_checkpoint
from workers.lake.formats import FILES
from workers.lake.formats.contract import LoadedModel, ModelRefusedError, check_places
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn, parse_manifest
from workers.lake.model_sandbox import describe_model

TRAINERS = {"xgboost": train_xgboost, "lightgbm": train_lightgbm, "onnx": train_onnx}
THREE = LabelColumn(column="late", classes=(0, 1, 2))
LABELS = {2: BINARY, 3: THREE}


@pytest.fixture(scope="module")
def models():
    frame = rows_with_gaps(400, seed=0)
    return {name: train(frame) for name, train in TRAINERS.items()}


@pytest.fixture
def lake(tmp_path):
    return Lake(str(tmp_path))


def batch_of(frame: pl.DataFrame) -> Batch:
    return Batch(frame.to_arrow(), "labels.parquet", ("labels.parquet", 0, 0))


def scored(lake: Lake, frame: pl.DataFrame) -> np.ndarray:
    checkpoint = read_checkpoint(lake, "good", DAY)
    return probabilities(checkpoint, batch_of(frame).features(checkpoint.manifest))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["xgboost", "xgboost json", "xgboost dart", "lightgbm", "onnx"])
def test_predictions_are_the_frameworks_own(lake, kind, classes):
    frame = rows_with_gaps(600, seed=1, classes=classes)
    name, _, how = kind.partition(" ")
    more = {"json": {"kind": "json"}, "dart": {"booster": "dart", "rate_drop": 0.3}}.get(how, {})
    trained = TRAINERS[name](frame, classes, **more)
    put_trained(lake, DAY, trained, label=LABELS[classes])
    asked = rows_with_gaps(500, seed=2, classes=classes)

    found = scored(lake, asked)

    assert found.shape == (500, classes)
    expected = trained.says(asked)
    assert expected.std() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_lightgbm_is_asked_in_64_bits(lake):
    offset = 1e9  # where 32 bits count in steps of 64
    frame = rows_with_gaps(600, seed=1, offset=offset)
    trained = train_lightgbm(frame)
    put_trained(lake, DAY, trained)
    np.testing.assert_allclose(scored(lake, frame), trained.says(frame), atol=1e-6, rtol=0)
    rounded = frame.with_columns(pl.col("hour").cast(pl.Float32).cast(pl.Float64))
    assert np.abs(trained.says(rounded) - trained.says(frame)).max() > 0.01


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_category_that_training_did_not_know_is_missing(lake, models, kind):
    put_trained(lake, DAY, models[kind])
    frame = rows_with_gaps(100, seed=3)
    unknown, missing = (
        frame.with_columns(city=pl.lit(value, pl.String)) for value in ("NEW", None)
    )
    np.testing.assert_array_equal(scored(lake, unknown), scored(lake, missing))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(np.bool_, (0, 1)), (np.int8, (False, True)), (np.float64, (0, 1)), (np.str_, ("0.0", "1.0"))],
)
def test_catboosts_classes_are_those_of_the_manifest_whatever_their_type(lake, labels, classes):
    """CatBoost calls them True and False, 0 and 1, 0.0 and 1.0, or as the text does."""
    frame = rows_with_gaps(300, seed=6)
    rows = frame.select("delay", "hour", city=pl.col("city").fill_null(""))
    quiet = {"iterations": 5, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(cat_features=["city"], **quiet)
    model.fit(rows, frame["late"].to_numpy().astype(labels))
    label = LabelColumn(column="late", classes=classes)
    trained = Trained("catboost", model._serialize_model(), model.predict_proba)
    put_trained(lake, DAY, trained, label=label)
    np.testing.assert_allclose(scored(lake, frame), trained.says(rows), atol=1e-6, rtol=0)
    put_trained(lake, DAY, trained, label=LabelColumn(column="late", classes=("no", "yes")))
    with pytest.raises(NotEvaluableError, match=r"knows the classes .*list the model's"):
        read_checkpoint(lake, "good", DAY)


def matrix_of_codes(frame: pl.DataFrame) -> tuple[np.ndarray, pl.Series]:
    codes = frame["city"].replace_strict(CITIES, range(3), return_dtype=pl.Float64)
    columns = [frame["delay"].to_numpy(), frame["hour"].to_numpy(), codes.to_numpy()]
    return np.column_stack(columns), codes


def test_lightgbms_codes_stand_for_themselves(lake):
    frame = rows_with_gaps(400, seed=4)
    matrix, codes = matrix_of_codes(frame)
    quiet = {"objective": "binary", "verbosity": -1, "min_data_per_group": 5}
    data = lightgbm.Dataset(matrix, label=frame["late"].to_numpy(), categorical_feature=[2])
    booster = lightgbm.train(quiet, data, 5)
    expected, content = booster.predict(matrix), booster.model_to_string().encode()
    put_trained(lake, DAY, Trained("lightgbm", content, lambda _: expected))

    found = scored(lake, frame.with_columns(city=codes.cast(pl.Int64)))

    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6, rtol=0)
    other = codes.cast(pl.Int64) * 10 + 10  # whose codes training made of them, and tells nobody
    for column in (frame["city"], other):
        with pytest.raises(NotEvaluableError, match="takes categories like 0, 1, 2: write the"):
            scored(lake, frame.with_columns(city=column))


def test_xgboosts_codes_say_nothing_where_the_file_lists_no_categories():
    frame = rows_with_gaps(400, seed=4)
    matrix, label = matrix_of_codes(frame)[0], frame["late"].to_numpy()
    data = xgboost.DMatrix(
        matrix, label=label, feature_types=["q", "q", "c"], enable_categorical=True
    )
    booster = xgboost.train({"objective": "binary:logistic"}, data, 5)
    with pytest.raises(ModelRefusedError, match="does not list the categories of 'f2'"):
        describe_model(bytes(booster.save_raw("ubj")), form="xgboost")


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINERS)
def test_an_audit_of_any_framework_comes_to_figures(lake, models, kind):
    for seed, day in enumerate((EVE, DAY)):
        split = pl.Series("split", ["train", "train", "holdout"] * 200)
        put_labels(lake, day, rows_with_gaps(600, seed=seed).with_columns(split))
    put_model(lake, EVE)  # its proxy may be of another
    put_trained(lake, DAY, models[kind], privacy=declared(4.0))

    row = audited(lake)

    found = (row.status, row.verdict, row.reason_code, row.epsilon_lower)
    assert found == ("evaluated", "inconclusive", "too_small", 0.0), row.reason
    assert row.target_log_loss < 0.69


@pytest.mark.parametrize("kind", TRAINERS)
def test_damaged_files_end_in_a_sentence(models, kind):
    ends = set()
    for seed in range(30):
        content = with_bytes_changed(models[kind].content, seed)
        try:
            describe_model(content, form=kind)
        except ModelRefusedError as error:
            ends.add(re.sub(r"\(.*\)", "", error.why))
        else:
            ends.add("read")
    assert len(ends) > 1
    assert ends - {"read"}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("content", [b"", b"{}", b"tree\n", b"\xff" * 99, b"CBM1"])
def test_what_is_no_model_is_said_to_be_none(kind, content):
    with pytest.raises(ModelRefusedError, match=r"is not in|cannot be read"):
        describe_model(content, form=kind)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (r"(left_child)=\S+", r"\1=0", "runs in a circle"),
        (r"(right_child)=\S+", r"\1=-77777", "that are not there"),
        # What LightGBM reads beyond its arrays may end it before anything is checked.
        (r"(split_feature)=\S+", r"\1=7", "asks for a feature|LightGBM crashed"),
        (r"(objective)=.*", r"\1=regression", "was trained for regression"),
        (r"(is_linear)=0", r"\1=1", "linear trees|raised|crashed"),
        (r"(cat_boundaries=0) 1", r"\1 700", "asks for categories"),
    ],
)
def test_trees_that_lead_nowhere_are_refused_in_lightgbms_text(models, old, new, said):
    text = models["lightgbm"].content.decode()
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    sizes = re.sub(r"tree_sizes=.*\n", "", changed)
    with pytest.raises(ModelRefusedError, match=said):
        describe_model(sizes.encode(), form="lightgbm")


def test_places_beyond_their_arrays_are_refused():
    check_places("a feature", np.array([0, 2]), 3)
    for places in ([0, 3], [-1, 0]):
        with pytest.raises(ModelRefusedError, match="asks for a feature that is not there"):
            check_places("a feature", np.array(places), 3)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("left_children", 0, "runs in a circle|crashed|raised"),
        ("split_indices", 7, "asks for a feature|crashed|raised"),
        ("tree_info", 5, "asks for a class"),
    ],
)
def test_trees_that_lead_nowhere_are_refused_in_xgboosts_json(models, field, value, said):
    booster = xgboost.Booster()
    booster.load_model(bytearray(models["xgboost"].content))
    document: dict[str, Any] = json.loads(bytes(booster.save_raw("json")))
    model = document["learner"]["gradient_booster"]["model"]
    (model if field in model else model["trees"][0])[field][0] = value
    with pytest.raises(ModelRefusedError, match=said):
        describe_model(json.dumps(document).encode(), form="xgboost")


def test_boosters_that_give_no_probabilities_are_refused():
    frame = rows_with_gaps(300, seed=5)
    for objective in ("reg:squarederror", "binary:hinge"):
        with pytest.raises(ModelRefusedError, match=f"was trained for {objective}"):
            describe_model(train_xgboost(frame, objective=objective).content, form="xgboost")
    with pytest.raises(ModelRefusedError, match="was trained for regression"):
        describe_model(train_lightgbm(frame, objective="regression").content, form="lightgbm")


def test_trees_after_the_best_round_are_refused():
    frame = rows_with_gaps(300, seed=5)
    booster = xgboost.Booster()
    booster.load_model(bytearray(train_xgboost(frame).content))
    booster.set_attr(best_iteration="3")
    with pytest.raises(ModelRefusedError, match=r"stopped early.*num_boost_round=4"):
        describe_model(bytes(booster.save_raw("ubj")), form="xgboost")
    numbers = frame.select("delay", "hour").to_numpy()
    data = xgboost.DMatrix(numbers, label=frame["late"].to_numpy())
    booster = xgboost.train({"objective": "binary:logistic"}, data, 8)
    booster.set_attr(best_iteration="3")
    with pytest.raises(ModelRefusedError, match=r"stopped early.*save it from XGBClassifier"):
        describe_model(bytes(booster.save_raw("ubj")), form="xgboost")
    best = booster[:4]
    best.set_attr(best_iteration="3")
    assert describe_model(bytes(best.save_raw("ubj")), form="xgboost").class_count == 2


def test_a_classifier_that_was_stopped_early_predicts_with_its_best_round(tmp_path):
    frame = rows_with_gaps(400, seed=5)
    rows, label = as_pandas(frame), frame["late"].to_numpy()
    classifier = xgboost.XGBClassifier(
        n_estimators=60,
        early_stopping_rounds=5,
        learning_rate=1.0,
        max_depth=6,
        enable_categorical=True,
        n_jobs=1,
    ).fit(rows[:300], label[:300], eval_set=[(rows[300:], label[300:])], verbose=False)
    classifier.save_model(tmp_path / "model.ubj")
    content = (tmp_path / "model.ubj").read_bytes()
    unserved = classifier.get_booster().num_boosted_rounds() - classifier.best_iteration - 1
    assert describe_model(content, form="xgboost").unserved_rounds == unserved > 0
    served = classifier.predict_proba(rows)
    lake = Lake(str(tmp_path / "lake"))
    put_trained(lake, DAY, Trained("xgboost", content, lambda _: served))
    assert np.abs(classifier.predict_proba(rows, iteration_range=(0, 3)) - served).max() > 0.01
    np.testing.assert_allclose(scored(lake, frame), served, atol=1e-6, rtol=0)


def softmax_file(kind: str) -> bytes:
    node, last = onnx.helper.make_node, onnx.helper.make_node("Softmax", ["Z"], ["Y"])
    scores, own = node("MatMul", ["X", "W"], ["Z"]), {"domain": "com.example"}
    if kind == "no softmax":
        nodes = [scores, node("Add", ["Z", "V"], ["Y"])]
        return onnx_file(nodes, W=ONES, V=np.full(2, 3.0, dtype=np.float32))
    if kind == "hidden operator":
        said = [onnx.helper.make_tensor_value_info("B", 1, None)]
        branch = onnx.helper.make_graph([node("Fetch", ["X"], ["B"], **own)], "branch", [], said)
        choose = node("If", ["T"], ["Z"], then_branch=branch, else_branch=branch)
        return onnx_file([choose, last], T=np.bool_(1), **own)
    if kind == "huge":
        fill = [node("ConstantOfShape", ["S"], ["H"]), node("ReduceSum", ["H"], ["R"], keepdims=1),
                node("MatMul", ["X", "W"], ["M"]), node("Add", ["M", "R"], ["Z"])]  # fmt: skip
        return onnx_file([*fill, last], W=ONES, S=[1 << 20, 1 << 20])
    return onnx_file([scores, last], W=ONES)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("hidden operator", "has the operator 'Fetch' of 'com.example'"),
        ("no softmax", "gives no probabilities"),
        ("huge", "GiB of memory"),
    ],
)
def test_onnx_files_that_ask_for_more_than_rows_are_refused(kind, said):
    good = describe_model(softmax_file("good"), form="onnx")
    told = good.model_dump(include={"kinds", "names", "classes", "class_count"})
    assert told == {"kinds": (None,) * 3, "names": None, "classes": None, "class_count": 2}
    with pytest.raises(ModelRefusedError, match=said):
        describe_model(softmax_file(kind), form="onnx")


@pytest.mark.parametrize("kind", FILES)
def test_code_is_never_read(tmp_path, kind):
    witness = tmp_path / "ran"
    for content in (pickle.dumps(MaliciousFile(witness)), b"PK\x03\x04 a zip archive"):
        with pytest.raises(ModelRefusedError, match=r"never read; save .*\[models.scores\]"):
            describe_model(content, form=kind)
    assert not witness.exists()
    pickle.loads(pickle.dumps(MaliciousFile(witness)))  # noqa: S301  # it would have come
    assert witness.exists()


@pytest.mark.parametrize("name", ["pickle", "joblib", "skops", "torchscript", "pyfunc", "Keras"])
def test_formats_that_hold_code_are_refused_by_name(name):
    said = manifest_for().model_dump(mode="json") | {"format": name}
    with pytest.raises(NotEvaluableError, match=rf"format: {name} is refused.*\[models.scores\]"):
        parse_manifest(json.dumps(said).encode(), where="here")


def test_a_library_that_is_not_there_is_named(models, monkeypatch):
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TerminalError, match=r"install privaudit\[lightgbm\]"):
        describe_model(models["lightgbm"].content, form="lightgbm")


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("xgboost", {"label": THREE.model_dump()}, "tells 2 classes apart"),
        ("lightgbm", {"features": [FEATURES[0].model_dump()]}, "trained on the features"),
        ("xgboost", {"features": [f.model_dump() | {"kind": "numeric"} for f in FEATURES]},
         "takes 'city' as categorical"),
        ("onnx", {"features": [f.model_dump() | {"kind": "numeric"} for f in FEATURES]},
         "takes 'city' as categorical"),
    ],
)  # fmt: skip
def test_a_manifest_that_does_not_fit_is_refused(lake, models, kind, changes, said):
    put_trained(lake, DAY, models[kind])
    edit_manifest(lake, "good", DAY, **changes)
    with pytest.raises(NotEvaluableError, match=said):
        read_checkpoint(lake, "good", DAY)


def test_a_category_of_two_codes_is_refused():
    """Of 1 and "1" in one column, which pandas keeps apart, all rows got the last one's code."""
    one = (("a", 0), ("b", 1))
    assert LoadedModel(None, (one, None, one)).categories[0] == one
    with pytest.raises(ModelRefusedError, match="gives the category 'a' two codes"):
        LoadedModel(None, (None, (*one, ("a", 2))))
