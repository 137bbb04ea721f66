"""Rows counted in model files: as many as trained them, or nothing where the file cannot tell."""

import json
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


QUIET: dict[str, dict[str, Any]] = {
    "catboost": {"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    "lightgbm": {"num_threads": 1, "verbose": -1},
    "xgboost": {"nthread": 1},
}
SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "catboost": (4, {}), "lightgbm": (6, {"min_data_in_leaf": 5}), "xgboost": (4, {"max_depth": 3}),
}  # fmt: skip
"""Rounds of a small model, and its settings."""


def fitted(
    name: str, rows: Any, labels: np.ndarray, rounds: int, *, weight: Any = None, begin: Any = None,
    words: Any = (), **more: Any,
) -> Any:  # fmt: skip
    """Return a model of as many classes as its labels have; `words` are categorical columns."""
    classes, given = int(labels.max()) + 1, QUIET[name] | more
    if name == "catboost":
        model = catboost.CatBoostClassifier(iterations=rounds, cat_features=[*words], **given)
        return model.fit(rows, labels, sample_weight=weight, init_model=begin)
    if name == "xgboost":
        several = {"objective": "multi:softprob", "num_class": classes}
        given = (several if classes > 2 else {"objective": "binary:logistic"}) | given
        data = xgboost.DMatrix(rows, labels, weight=weight, enable_categorical=bool(words))
        return xgboost.train(given, data, rounds)
    several = {"objective": "multiclass", "num_class": classes}
    given = (several if classes > 2 else {"objective": "binary"}) | given
    data = lightgbm.Dataset(rows, labels, weight=weight, categorical_feature=[*words])
    return lightgbm.train(given, data, rounds, init_model=begin)


def saved(model: Any) -> bytes:
    """Return a model's file."""
    if isinstance(model, xgboost.Booster):
        return bytes(model.save_raw("ubj"))
    if isinstance(model, lightgbm.Booster):
        return str(model.model_to_string()).encode()
    return bytes(model._serialize_model())


def small(
    name: str, *, many: bool = False, weight: Any = None, resumed: bool = False, **more: Any
) -> bytes:
    """Return a small model's file; the last trees of one that was resumed are of other rows."""
    rounds, usual = SMALL[name]

    def fit(size: int, begin: Any = None) -> Any:
        labels, given = CLASSES if many else LATE, usual | more
        weights = None if weight is None else weight[:size]
        return fitted(name, X[:size], labels[:size], rounds, weight=weights, begin=begin, **given)

    return saved(fit(400, fit(ROWS)) if resumed else fit(ROWS))


def rows_of(content: bytes, name: str) -> CountedRows | None:
    """Return the rows that a file says of itself."""
    return describe_model(content, form=name).rows


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("catboost", {}, EXACT),
        ("catboost", {"bootstrap_type": "Bernoulli", "subsample": 0.5}, EXACT),
        ("catboost", {"bootstrap_type": "Bayesian"}, EXACT),
        ("catboost", {"weight": WEIGHTS}, None),
        ("catboost", {"auto_class_weights": "Balanced"}, None),
        ("catboost", {"class_weights": [1, 10]}, None),
        ("catboost", {"scale_pos_weight": 3}, None),
        ("catboost", {"resumed": True}, None),
        ("catboost", {"many": True}, None),
        ("lightgbm", {}, EXACT),
        ("lightgbm", {"weight": WEIGHTS}, EXACT),
        ("lightgbm", {"many": True}, EXACT),
        ("lightgbm", {"bagging_fraction": 0.5}, EXACT),
        ("lightgbm", {"bagging_fraction": 0.5, "bagging_freq": 100}, None),
        ("lightgbm", {"neg_bagging_fraction": 0.5, "bagging_freq": 100}, None),
        ("lightgbm", {"data_sample_strategy": "goss", "learning_rate": 0.5}, None),
        ("lightgbm", {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}, None),
        ("lightgbm", {"resumed": True}, None),
        ("xgboost", {}, LEAST),
        ("xgboost", {"base_score": 0.2}, LEAST),
        ("xgboost", {"booster": "dart"}, LEAST),
        ("xgboost", {"many": True}, LEAST),
        ("xgboost", {"weight": WEIGHTS}, None),
        ("xgboost", {"scale_pos_weight": 3}, None),
        ("xgboost", {"objective": "binary:logitraw"}, None),
    ],
)  # fmt: skip
def test_a_file_counts_the_rows_that_trained_it_or_says_nothing(name, more, expected):
    assert rows_of(small(name, **more), name) == expected


def test_a_sample_of_rows_counts_fewer_and_is_called_so():
    found = rows_of(small("xgboost", subsample=0.5, seed=1), "xgboost")
    assert found.count < ROWS
    assert not found.exact


@pytest.mark.parametrize("said", ["1e999", "-5", "0", "1e300"])
def test_counts_that_are_none_are_not_believed(said):
    learner = json.loads(bytes(fitted("xgboost", X, LATE, 2).save_raw("json")))
    tree = learner["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["sum_hessian"] = [float(said)] * len(tree["sum_hessian"])
    content = json.dumps(learner).replace("Infinity", "1e38").encode()
    assert rows_of(content, "xgboost") is None


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [([3.0, 4.0], 7), ([3.0, 4.5], None), ([], None), ([np.inf], None), ([np.nan], None),
     ([-1.0, 4.0], None), ([1e300], None), ([100_000.02, 0.0], 100_000)],
)  # fmt: skip
def test_leaves_that_are_whole_are_counts(leaves, expected):
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
    ("name", "more"),
    [
        ("lightgbm", {}),
        ("lightgbm", {"feature_fraction": 0.5}),
        ("lightgbm", {"lambda_l2": 3.0}),
        ("lightgbm", {"extra_trees": True}),
        ("lightgbm", {"min_data_in_leaf": 1}),
        ("lightgbm", {"boost_from_average": False}),
        ("lightgbm", {"learning_rate": 1.0}),
        ("lightgbm", {"data_sample_strategy": "goss"}),
        ("xgboost", {}),
        ("xgboost", {"eta": 0.07, "lambda": 2.5}),
        ("xgboost", {"colsample_bytree": 0.5}),
        ("xgboost", {"tree_method": "approx"}),
        ("xgboost", {"tree_method": "exact"}),
        ("xgboost", {"base_score": 0.5}),
        ("catboost", {}),
        ("catboost", {"boosting_type": "Ordered"}),
        ("catboost", {"bootstrap_type": "MVS"}),
        ("catboost", {"bootstrap_type": "Bernoulli", "subsample": 0.5}),
        ("catboost", {"boost_from_average": True}),
        ("catboost", {"grow_policy": "Lossguide"}),
        ("catboost", {"grow_policy": "Depthwise", "depth": 4}),
        ("catboost", {"leaf_estimation_iterations": 10}),
        ("lightgbm", {"resumed": True}),
    ],
)
def test_a_file_holds_the_exact_sums_of_labels(name, more):
    found = sums_of(small(name, **more), name)
    resumed = "resumed" in more  # its last trees are of other rows
    assert (found.why, found.are_the_tables, found.trees > 5) == ("", True, name == "lightgbm")
    assert not resumed or found.trees == 6


@pytest.mark.parametrize("classes", [3, 10])
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
def test_a_file_of_several_classes_holds_the_exact_sums_of_each(name, more, classes):
    order = np.argsort(X[:, 0] + np.random.default_rng(classes).normal(size=ROWS))
    labels = np.empty(ROWS, dtype=int)
    labels[order] = np.arange(ROWS) * classes // ROWS
    found = read_at(X, saved(fitted(name, X, labels, 5, **more)), name, labels)
    assert (found.why, found.are_the_tables) == ("", True)
    assert found.trees == (5 if name == "catboost" else 5 * classes)
    # Another table's sums are not whole: no label is moved by chance.
    other = np.random.default_rng(1).permutation(labels)
    assert not read_at(X, saved(fitted(name, X, other, 5, **more)), name, labels).are_the_tables
    assert not read_at(X[3:], saved(fitted(name, X, labels, 5, **more)), name, labels[3:]).trees


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_several_classes_with_missing_values_and_a_rare_class(name):
    holed = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
    rare = CLASSES.copy()
    rare[:4] = 3
    content = saved(fitted(name, holed, rare, 5))
    found = read_at(holed, content, name, rare)
    assert (found.why, found.are_the_tables) == ("", True)
    roots = found.sums[(found.depths == 0) & (found.counted == 3)]
    assert set(roots) == {(rare == 3).sum()}


def test_a_class_without_a_split_takes_no_step():
    labels = CLASSES.copy()
    labels[np.random.default_rng(5).random(ROWS) < 0.3] = 3  # which no feature predicts
    content = saved(fitted("lightgbm", X, labels, 12, min_gain_to_split=12))
    found = read_at(X, content, "lightgbm", labels)
    assert (found.why, found.are_the_tables) == ("", True)
    trees, leaves = content.count(b"Tree="), content.count(b"num_leaves=1\n")
    assert trees == 48
    assert found.trees == trees - leaves + 1 < 40  # the first holds the start


def test_several_classes_before_an_early_stop():
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
        content = saved(fitted(name, rows, labels, 5, words=["2"], **more))
        return content, rows.cast({"0": pl.Float32, "1": pl.Float32})
    if name == "xgboost":
        return saved(fitted(name, table, labels, 5, words=[2], **more)), codes
    given = {"min_data_in_leaf": 5} | more
    return saved(fitted(name, codes.to_numpy(), labels, 5, words=[2], **given)), codes


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
def test_categories_leave_the_sums_exact_and_boxes_open(name, categories, more):
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
        if not tree.asks.any():
            borders = table.select("0", "1").with_columns(leaf=leaf)
            boxes = borders.group_by("leaf").agg(pl.all().min(), high=pl.col("0").max())
            assert boxes.height == len(np.unique(leaf))


def test_catboost_orders_rows_for_statistics_of_categories():
    """Training saw other leaves than the file gives, so no sum from there on is whole."""
    table, labels = with_words(12)
    content, rows = of_words("catboost", table, labels, max_ctr_complexity=1, random_seed=2)
    found = read_in(rows, content, "catboost", labels)
    assert not found.are_the_tables
    assert found.trees < 5


def test_missing_values_fall_where_training_put_them():
    holed = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
    for name, (rounds, more) in (SMALL | {"xgboost": (4, {"max_depth": 5})}).items():
        content = saved(fitted(name, holed, LATE, rounds, **more))
        assert read_at(holed, content, name).are_the_tables, name


def test_trees_before_an_early_stop_and_before_goss_begins_are_read():
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
    ("name", "more"),
    [
        ("lightgbm", {"bagging_fraction": 0.5, "bagging_freq": 1}),
        ("lightgbm", {"boosting": "dart", "drop_rate": 1.0, "skip_drop": 0.0}),
        ("lightgbm", {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}),
        ("lightgbm", {"weight": WEIGHTS}),
        ("lightgbm", {"scale_pos_weight": 2}),
        ("lightgbm", {"is_unbalance": True}),
        ("lightgbm", {"lambda_l1": 1.0}),
        ("lightgbm", {"path_smooth": 2.0}),
        ("lightgbm", {"use_quantized_grad": True}),
        ("lightgbm", {"max_delta_step": 0.5}),
        ("xgboost", {"subsample": 0.5}),
        ("xgboost", {"scale_pos_weight": 2}),
        ("xgboost", {"max_delta_step": 0.3}),
        ("xgboost", {"alpha": 1.0}),
        ("xgboost", {"weight": WEIGHTS}),
        ("catboost", {"weight": WEIGHTS}),
        ("catboost", {"auto_class_weights": "Balanced"}),
    ],
)
def test_where_a_leaf_is_another_step_nothing_is_read(name, more):
    assert sums_of(small(name, **more), name).why == "its first tree's sums are not whole"


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("xgboost", {"booster": "dart"}),
        ("xgboost", {"num_parallel_tree": 2}),
        ("xgboost", {"many": True, "num_parallel_tree": 2}),
        ("catboost", {"many": True, "leaf_estimation_iterations": 3}),
        ("catboost", {"leaf_estimation_method": "Gradient"}),
    ],
)
def test_models_of_other_leaves_are_refused(name, more):
    with pytest.raises(ModelRefusedError, match="was not trained for one binary label"):
        sums_of(small(name, **more), name)
