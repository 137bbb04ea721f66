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
from workers.lake.formats.contract import shared_sum
from workers.lake.formats.inputs import CountedRows, ModelInputs
from workers.lake.model_sandbox import ModelRefusedError, describe_model, read_leaves

ROWS = 600
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(ROWS, 3))
CLASSES = np.digitize(X[:, 0] + RANDOM.normal(size=ROWS), [-0.3, 0.9])
LATE = (CLASSES > 1).astype(int)
WEIGHTS = RANDOM.random(ROWS) + 0.5
EXACT, LEAST = CountedRows(count=ROWS, exact=True), CountedRows(count=ROWS, exact=False)


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
    return describe_model(content, form=name).rows


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
    assert shared_sum(np.array(leaves), np.array([len(leaves)])) == expected


def read_in(frame: pl.DataFrame, content: bytes, name: str, labels: np.ndarray = LATE) -> LabelSums:
    """Return the label sums of a file, by the rows of a table."""
    describe_model(content, form=name)
    inputs = ModelInputs(frame, matrix=name != "catboost")
    return label_sums(*read_leaves(content, inputs, form=name, most=100), labels)


def read_at(rows: np.ndarray, content: bytes, name: str, labels: np.ndarray = LATE) -> LabelSums:
    """Return the label sums of a file, by other rows than those of this module."""
    frame = pl.DataFrame(rows, schema=["0", "1", "2"]).cast(NUMBERS[name])
    return read_in(frame, content, name, labels)


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


def of_several(
    name: str, labels: np.ndarray, *, rows: np.ndarray = X, rounds: int = 5, **more: Any
) -> bytes:
    """Return the file of a model of more than two classes."""
    classes = int(labels.max()) + 1
    if name == "catboost":
        quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        model = catboost.CatBoostClassifier(iterations=rounds, **quiet | more)
        return bytes(model.fit(rows, labels)._serialize_model())
    if name == "xgboost":
        quiet = {"objective": "multi:softprob", "num_class": classes, "nthread": 1}
        data = xgboost.DMatrix(rows, labels)
        return bytes(xgboost.train(quiet | more, data, rounds).save_raw("ubj"))
    quiet = {"objective": "multiclass", "num_class": classes, "num_threads": 1, "verbose": -1}
    model = lightgbm.train(quiet | more, lightgbm.Dataset(rows, labels), rounds)
    return str(model.model_to_string()).encode()


@pytest.mark.parametrize("classes", [3, 5, 10])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("lightgbm", {"min_data_in_leaf": 5}),
        ("lightgbm", {"lambda_l2": 3.0, "learning_rate": 0.2, "boost_from_average": False}),
        ("xgboost", {}),
        ("xgboost", {"eta": 0.07, "lambda": 2.5, "base_score": 0.5}),
        ("catboost", {}),
        ("catboost", {"l2_leaf_reg": 0.5, "grow_policy": "Lossguide", "bootstrap_type": "MVS"}),
    ],
)
def test_a_file_of_several_classes_holds_the_exact_sums_of_each(
    name: str, more: dict[str, Any], classes: int
) -> None:
    order = np.argsort(X[:, 0] + np.random.default_rng(classes).normal(size=ROWS))
    labels = np.empty(ROWS, dtype=int)
    labels[order] = np.arange(ROWS) * classes // ROWS
    found = read_at(X, of_several(name, labels, **more), name, labels)
    assert (found.why, found.are_the_tables) == ("", True)
    assert found.trees == (5 if name == "catboost" else 5 * classes)
    # Another table's sums are not whole: no label is moved by chance.
    other = np.random.default_rng(1).permutation(labels)
    assert not read_at(X, of_several(name, other, **more), name, labels).are_the_tables
    assert not read_at(X[3:], of_several(name, labels, **more), name, labels[3:]).trees


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_several_classes_with_missing_values_and_a_rare_class(name: str) -> None:
    holed = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
    rare = CLASSES.copy()
    rare[:4] = 3
    content = of_several(name, rare, rows=holed)
    found = read_at(holed, content, name, rare)
    assert (found.why, found.are_the_tables) == ("", True)
    roots = found.sums[(found.depths == 0) & (found.counted == 3)]
    assert set(roots) == {(rare == 3).sum()}


def test_a_class_without_a_split_takes_no_step() -> None:
    labels = CLASSES.copy()
    labels[np.random.default_rng(5).random(ROWS) < 0.3] = 3  # which no feature predicts
    content = of_several("lightgbm", labels, rounds=12, min_gain_to_split=12)
    found = read_at(X, content, "lightgbm", labels)
    assert (found.why, found.are_the_tables) == ("", True)
    trees, leaves = content.count(b"Tree="), content.count(b"num_leaves=1\n")
    assert trees == 48
    assert found.trees == trees - leaves + 1 < 40  # the first holds the start


def test_several_classes_before_an_early_stop() -> None:
    data = lightgbm.Dataset(X, CLASSES, free_raw_data=False)
    other = lightgbm.Dataset(X[::2], 2 - CLASSES[::2], reference=data)
    quiet = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
    stop = lightgbm.early_stopping(2, verbose=False)
    early = lightgbm.train(quiet, data, 50, valid_sets=[other], callbacks=[stop])
    found = read_at(X, early.model_to_string().encode(), "lightgbm", CLASSES)
    assert (found.are_the_tables, found.trees) == (True, 3 * early.best_iteration)


def with_words(categories: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Return two numbers and a word of some categories, and labels that depend on them."""
    random = np.random.default_rng(categories)
    place = random.integers(0, categories, ROWS)
    odds = X[:, 0] + random.normal(size=categories)[place]
    words = [f"w{one:03}" for one in range(categories)]
    table = pl.DataFrame(
        {"0": X[:, 0], "1": X[:, 1], "2": pl.Series([words[one] for one in place])},
        schema_overrides={"2": pl.Enum(words)},
    )
    return table, (random.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(int)


def of_words(
    name: str, table: pl.DataFrame, labels: np.ndarray, **more: Any
) -> tuple[bytes, pl.DataFrame]:
    """Return a model's file, and the rows as its reader takes them."""
    codes = table.with_columns(pl.col("2").to_physical()).cast(NUMBERS[name])
    if name == "catboost":
        rows = table.with_columns(pl.col("2").cast(pl.String))
        quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False, "iterations": 5}
        model = catboost.CatBoostClassifier(cat_features=["2"], **quiet | more)
        return bytes(model.fit(rows, labels)._serialize_model()), rows.cast(
            {"0": pl.Float32, "1": pl.Float32}
        )
    if name == "xgboost":
        data = xgboost.DMatrix(table, labels, enable_categorical=True)
        quiet = {"objective": "binary:logistic", "nthread": 1}
        return bytes(xgboost.train(quiet | more, data, 5).save_raw("ubj")), codes
    quiet = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    data = lightgbm.Dataset(codes.to_numpy(), labels, categorical_feature=[2])
    return lightgbm.train(quiet | more, data, 5).model_to_string().encode(), codes


@pytest.mark.parametrize(
    ("name", "categories", "more"),
    [
        ("lightgbm", 3, {}),  # one against all others
        ("lightgbm", 12, {"num_leaves": 4}),  # sorted: leaves right below have cat_l2
        ("lightgbm", 12, {"num_leaves": 4, "cat_l2": 2.0, "lambda_l2": 1.0}),
        ("lightgbm", 3, {"max_cat_to_onehot": 3}),
        ("lightgbm", 12, {"max_cat_to_onehot": 13}),
        ("xgboost", 3, {}),
        ("xgboost", 12, {}),
        ("catboost", 2, {}),
        ("catboost", 12, {"one_hot_max_size": 12}),
    ],
)
def test_categories_leave_the_sums_exact_and_boxes_open(
    name: str, categories: int, more: dict[str, Any]
) -> None:
    table, labels = with_words(categories)
    content, rows = of_words(name, table, labels, **more)
    found = read_in(rows, content, name, labels)
    assert (found.why, found.are_the_tables) == ("", True)
    assert found.numeric[found.depths == 0].all()
    assert 0 < found.numeric.mean() < 1.0
    # A node of the same records, whatever category each has, is a box of numbers alone.
    ensemble, leaves = read_leaves(
        content, ModelInputs(rows, matrix=name != "catboost"), form=name, most=100
    )
    for tree, leaf in zip(ensemble.trees, leaves.T, strict=True):
        assert tree.asks is not None
        if not tree.asks.any():
            borders = table.select("0", "1").with_columns(leaf=leaf)
            boxes = borders.group_by("leaf").agg(pl.all().min(), high=pl.col("0").max())
            assert boxes.height == len(np.unique(leaf))


def test_catboost_orders_rows_for_statistics_of_categories() -> None:
    """Training saw other leaves than the file gives, so no sum from there on is whole."""
    table, labels = with_words(12)
    content, rows = of_words("catboost", table, labels, max_ctr_complexity=1, random_seed=2)
    found = read_in(rows, content, "catboost", labels)
    assert not found.are_the_tables
    assert found.trees < 5


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
        ("xgboost", of_xgboost, {"booster": "dart"}),
        ("xgboost", of_xgboost, {"num_parallel_tree": 2}),
        ("xgboost", of_xgboost, {"many": True, "num_parallel_tree": 2}),
        ("catboost", of_catboost, {"many": True, "leaf_estimation_iterations": 3}),
        ("catboost", of_catboost, {"leaf_estimation_method": "Gradient"}),
    ],
)
def test_models_of_other_leaves_are_refused(
    name: str, made: Callable[..., bytes], more: dict[str, Any]
) -> None:
    with pytest.raises(ModelRefusedError, match="was not trained for one binary label"):
        sums_of(made(**more), name)
