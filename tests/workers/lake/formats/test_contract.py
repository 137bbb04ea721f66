"""Rows counted in model files: as many as trained them, or nothing where the file cannot tell."""

import json
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import polars as pl
import pytest
import xgboost

from privcore.attacks.label_sums import LabelSums, label_sums
from workers.lake.formats import NUMBERS
from workers.lake.formats.contract import CountedRows, same_count, whole_sum
from workers.lake.formats.inputs import ModelInputs
from workers.lake.model_sandbox import UnreadableModelError, describe_model, read_leaves

ROWS = 600
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(ROWS, 3))
CLASSES = np.digitize(X[:, 0] + RANDOM.normal(size=ROWS), [-0.3, 0.9])
LATE = (CLASSES > 1).astype(int)
WEIGHTS = RANDOM.random(ROWS) + 0.5
EXACT, LEAST = CountedRows(ROWS, exact=True), CountedRows(ROWS, exact=False)


def of_catboost(
    *, many: bool = False, weight: Any = None, resumed: bool = False, **more: Any
) -> bytes:
    label = CLASSES if many else LATE

    def fitted(rows: int, begin: Any = None) -> Any:
        model = catboost.CatBoostClassifier(
            iterations=4, thread_count=1, verbose=0, allow_writing_files=False, **more
        )
        given = None if weight is None else weight[:rows]
        return model.fit(X[:rows], label[:rows], sample_weight=given, init_model=begin)

    model = fitted(400, fitted(ROWS)) if resumed else fitted(ROWS)
    return bytes(model._serialize_model())


def of_lightgbm(
    *, many: bool = False, weight: Any = None, resumed: bool = False, **more: Any
) -> bytes:
    objective = {"objective": "multiclass", "num_class": 3} if many else {"objective": "binary"}

    def fitted(rows: int, begin: Any = None) -> Any:
        given = None if weight is None else weight[:rows]
        data = lightgbm.Dataset(X[:rows], (CLASSES if many else LATE)[:rows], weight=given)
        quiet = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
        return lightgbm.train(objective | quiet | more, data, 6, init_model=begin)

    model = fitted(400, fitted(ROWS)) if resumed else fitted(ROWS)
    return str(model.model_to_string()).encode()


def of_xgboost(*, many: bool = False, weight: Any = None, **more: Any) -> bytes:
    objective = (
        {"objective": "multi:softprob", "num_class": 3} if many else
        {"objective": "binary:logistic"}
    )  # fmt: skip
    data = xgboost.DMatrix(X, CLASSES if many else LATE, weight=weight)
    quiet = {"nthread": 1, "max_depth": 3}
    return bytes(xgboost.train(objective | quiet | more, data, 4).save_raw("ubj"))


def rows_of(content: bytes, name: str) -> CountedRows | None:
    """Return the rows that a file says of itself."""
    return describe_model(content, format=name).rows


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("catboost", of_catboost, EXACT),
        ("catboost", lambda: of_catboost(bootstrap_type="Bernoulli", subsample=0.5), EXACT),
        ("catboost", lambda: of_catboost(bootstrap_type="Bayesian"), EXACT),
        ("catboost", lambda: of_catboost(weight=WEIGHTS), None),
        ("catboost", lambda: of_catboost(auto_class_weights="Balanced"), None),
        ("catboost", lambda: of_catboost(class_weights=[1, 10]), None),
        ("catboost", lambda: of_catboost(scale_pos_weight=3), None),
        ("catboost", lambda: of_catboost(resumed=True), None),
        ("catboost", lambda: of_catboost(many=True), None),
        ("lightgbm", of_lightgbm, EXACT),
        ("lightgbm", lambda: of_lightgbm(weight=WEIGHTS), EXACT),
        ("lightgbm", lambda: of_lightgbm(many=True), EXACT),
        ("lightgbm", lambda: of_lightgbm(bagging_fraction=0.5), EXACT),
        ("lightgbm", lambda: of_lightgbm(bagging_fraction=0.5, bagging_freq=100), None),
        ("lightgbm", lambda: of_lightgbm(neg_bagging_fraction=0.5, bagging_freq=100), None),
        ("lightgbm", lambda: of_lightgbm(data_sample_strategy="goss", learning_rate=0.5), None),
        ("lightgbm", lambda: of_lightgbm(boosting="rf", bagging_fraction=0.6, bagging_freq=1),
         None),
        ("lightgbm", lambda: of_lightgbm(resumed=True), None),
        ("xgboost", of_xgboost, LEAST),
        ("xgboost", lambda: of_xgboost(base_score=0.2), LEAST),
        ("xgboost", lambda: of_xgboost(booster="dart"), LEAST),
        ("xgboost", lambda: of_xgboost(many=True), LEAST),
        ("xgboost", lambda: of_xgboost(weight=WEIGHTS), None),
        ("xgboost", lambda: of_xgboost(scale_pos_weight=3), None),
        ("xgboost", lambda: of_xgboost(objective="binary:logitraw"), None),
    ],
)  # fmt: skip
def test_a_file_counts_the_rows_that_trained_it_or_says_nothing(
    name: str, content: Any, expected: CountedRows | None
) -> None:
    assert rows_of(content(), name) == expected


def test_a_sample_of_rows_counts_fewer_and_is_called_so() -> None:
    found = rows_of(of_xgboost(subsample=0.5, seed=1), "xgboost")
    assert found is not None
    assert found.count < ROWS
    assert not found.exact


@pytest.mark.parametrize("said", ["1e999", "-5", "0", "1e300"])
def test_counts_that_are_none_are_not_believed(said: str) -> None:
    learner = json.loads(of_xgboost_as_json())
    tree = learner["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["sum_hessian"] = [float(said)] * len(tree["sum_hessian"])
    content = json.dumps(learner).replace("Infinity", "1e38").encode()
    assert rows_of(content, "xgboost") is None


def of_xgboost_as_json() -> bytes:
    data = xgboost.DMatrix(X, LATE)
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 2)
    return bytes(model.save_raw("json"))


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [([3.0, 4.0], 7), ([3.0, 4.5], None), ([], None), ([np.inf], None), ([np.nan], None),
     ([-1.0, 4.0], None), ([1e300], None), ([100_000.02, 0.0], 100_000)],
)  # fmt: skip
def test_leaves_that_are_whole_are_counts(leaves: list[float], expected: int | None) -> None:
    assert whole_sum(np.array(leaves)) == expected


def test_trees_that_differ_have_no_count() -> None:
    assert same_count([5, 5]) == 5
    assert same_count([5, 6]) is same_count([]) is same_count([None]) is None


def read_at(rows: np.ndarray, content: bytes, name: str) -> LabelSums:
    """Return the label sums of a file, by other rows than those of this module."""
    describe_model(content, format=name)
    frame = pl.DataFrame(rows, schema=["0", "1", "2"]).cast(NUMBERS[name])
    inputs = ModelInputs(frame, matrix=name != "catboost")
    return label_sums(*read_leaves(content, inputs, format=name, most=100), LATE)


def sums_of(content: bytes, name: str) -> LabelSums:
    """Return the label sums of a file, by the rows of this module."""
    return read_at(X, content, name)


@pytest.mark.parametrize(
    ("name", "made", "more"),
    [
        ("lightgbm", of_lightgbm, {}),
        ("lightgbm", of_lightgbm, {"feature_fraction": 0.5}),
        ("lightgbm", of_lightgbm, {"lambda_l2": 3.0}),
        ("lightgbm", of_lightgbm, {"extra_trees": True}),
        ("lightgbm", of_lightgbm, {"min_data_in_leaf": 1}),
        ("lightgbm", of_lightgbm, {"boost_from_average": False}),
        ("lightgbm", of_lightgbm, {"learning_rate": 1.0}),
        ("lightgbm", of_lightgbm, {"data_sample_strategy": "goss"}),
        ("xgboost", of_xgboost, {}),
        ("xgboost", of_xgboost, {"eta": 0.07, "lambda": 2.5}),
        ("xgboost", of_xgboost, {"colsample_bytree": 0.5}),
        ("xgboost", of_xgboost, {"tree_method": "approx"}),
        ("xgboost", of_xgboost, {"tree_method": "exact"}),
        ("xgboost", of_xgboost, {"base_score": 0.5}),
        ("catboost", of_catboost, {}),
        ("catboost", of_catboost, {"boosting_type": "Ordered"}),
        ("catboost", of_catboost, {"bootstrap_type": "MVS"}),
        ("catboost", of_catboost, {"bootstrap_type": "Bernoulli", "subsample": 0.5}),
        ("catboost", of_catboost, {"boost_from_average": True}),
        ("catboost", of_catboost, {"grow_policy": "Lossguide"}),
        ("catboost", of_catboost, {"grow_policy": "Depthwise", "depth": 4}),
        ("catboost", of_catboost, {"leaf_estimation_iterations": 10}),
        ("lightgbm", of_lightgbm, {"resumed": True}),
    ],
)
def test_a_file_holds_the_exact_sums_of_labels(
    name: str, made: Callable[..., bytes], more: dict[str, Any]
) -> None:
    found = sums_of(made(**more), name)
    resumed = "resumed" in more  # its last trees are of other rows
    assert (found.why, found.are_the_tables, found.trees > 5) == ("", True, name == "lightgbm")
    assert not resumed or found.trees == 6


def test_missing_values_fall_where_training_put_them() -> None:
    holed = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
    quiet = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    text = lightgbm.train(quiet, lightgbm.Dataset(holed, LATE), 6).model_to_string().encode()
    quiet = {"objective": "binary:logistic", "nthread": 1, "max_depth": 5}
    raw = bytes(xgboost.train(quiet, xgboost.DMatrix(holed, LATE), 4).save_raw("ubj"))
    model = catboost.CatBoostClassifier(
        iterations=4, thread_count=1, verbose=0, allow_writing_files=False
    )
    cbm = bytes(model.fit(holed, LATE)._serialize_model())
    for content, name in ((text, "lightgbm"), (raw, "xgboost"), (cbm, "catboost")):
        assert read_at(holed, content, name).are_the_tables, name


def test_trees_before_an_early_stop_and_before_goss_begins_are_read() -> None:
    data = lightgbm.Dataset(X, LATE, free_raw_data=False)
    quiet = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    other = lightgbm.Dataset(X[::2], 1 - LATE[::2], reference=data)
    stop = lightgbm.early_stopping(2, verbose=False)
    early = lightgbm.train(quiet, data, 50, valid_sets=[other], callbacks=[stop])
    assert early.best_iteration < 50
    found = read_at(X, early.model_to_string().encode(), "lightgbm")
    assert (found.are_the_tables, found.trees) == (True, early.best_iteration)
    drawn = lightgbm.train(quiet | {"data_sample_strategy": "goss"}, data, 30)
    assert read_at(X, drawn.model_to_string().encode(), "lightgbm").trees == 10


@pytest.mark.parametrize(
    ("name", "made", "more"),
    [
        ("lightgbm", of_lightgbm, {"bagging_fraction": 0.5, "bagging_freq": 1}),
        ("lightgbm", of_lightgbm, {"boosting": "dart", "drop_rate": 1.0, "skip_drop": 0.0}),
        ("lightgbm", of_lightgbm, {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}),
        ("lightgbm", of_lightgbm, {"weight": WEIGHTS}),
        ("lightgbm", of_lightgbm, {"scale_pos_weight": 2}),
        ("lightgbm", of_lightgbm, {"is_unbalance": True}),
        ("lightgbm", of_lightgbm, {"lambda_l1": 1.0}),
        ("lightgbm", of_lightgbm, {"path_smooth": 2.0}),
        ("lightgbm", of_lightgbm, {"use_quantized_grad": True}),
        ("lightgbm", of_lightgbm, {"max_delta_step": 0.5}),
        ("xgboost", of_xgboost, {"subsample": 0.5}),
        ("xgboost", of_xgboost, {"scale_pos_weight": 2}),
        ("xgboost", of_xgboost, {"max_delta_step": 0.3}),
        ("xgboost", of_xgboost, {"alpha": 1.0}),
        ("xgboost", of_xgboost, {"weight": WEIGHTS}),
        ("catboost", of_catboost, {"weight": WEIGHTS}),
        ("catboost", of_catboost, {"auto_class_weights": "Balanced"}),
    ],
)
def test_where_a_leaf_is_another_step_nothing_is_read(
    name: str, made: Callable[..., bytes], more: dict[str, Any]
) -> None:
    assert sums_of(made(**more), name).why == "its first tree's sums are not whole"


@pytest.mark.parametrize(
    ("name", "made", "more"),
    [
        ("lightgbm", of_lightgbm, {"many": True}),
        ("xgboost", of_xgboost, {"many": True}),
        ("xgboost", of_xgboost, {"booster": "dart"}),
        ("xgboost", of_xgboost, {"num_parallel_tree": 2}),
        ("catboost", of_catboost, {"many": True}),
        ("catboost", of_catboost, {"leaf_estimation_method": "Gradient"}),
    ],
)
def test_models_of_other_leaves_are_refused(
    name: str, made: Callable[..., bytes], more: dict[str, Any]
) -> None:
    with pytest.raises(UnreadableModelError, match="was not trained for one binary label"):
        sums_of(made(**more), name)
