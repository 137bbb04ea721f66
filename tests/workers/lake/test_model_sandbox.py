import resource

import catboost
import lightgbm
import numpy as np
import onnx
import polars as pl
import pytest
import xgboost

from tests.support.audits import audited
from tests.support.call_imports import imported_by_a_call
from tests.support.damages import with_bytes_changed
from tests.support.frameworks import rows_with_gaps, train_xgboost
from tests.support.lake import DAY, clone_model, model_path, replace_model
from tests.support.onnx_files import onnx_file
from workers.lake.formats.inputs import CountedRows, ModelInputs
from workers.lake.model_sandbox import (
    ModelDescription,
    ModelRefusedError,
    describe_model,
    score_rows,
)


@pytest.fixture(scope="module")
def model(template):
    return (model_path(template, "good") / "model.cbm").read_bytes()


def crashes(content: bytes) -> bool:
    """Return whether a file crashes CatBoost's reader."""
    try:
        describe_model(content)
    except ModelRefusedError as error:
        return "CatBoost crashed (SIG" in error.why
    return False


def first_that_crashes(model: bytes) -> bytes:
    """Return a damaged file that crashes each time: some do so in one process and not in others."""
    for content in (with_bytes_changed(model, seed) for seed in range(400)):
        if all(crashes(content) for _ in range(3)):
            return content
    pytest.fail("No damage crashed CatBoost's reader: is the sandbox still needed?")


def test_a_model_is_described_as_it_is(model):
    assert describe_model(model).model_copy(update={"row_seconds": 0.0}) == ModelDescription(
        kinds=("numeric", "numeric", "categorical"),
        names=("delay", "hour", "city"),
        classes=("0", "1"),
        class_count=2,
        rows=CountedRows(count=299, exact=True),
    )


def test_a_file_that_crashes_catboost_ends_as_a_record_and_the_next_audit_goes_on(model, lake):
    clone_model(lake, "bad")
    replace_model(lake, "bad", DAY, first_that_crashes(model))

    row = audited(lake, model="bad")

    assert (row.status, row.detail) == ("not_evaluable", "checkpoint_invalid")
    assert f"The checkpoint of bad for {DAY} cannot be read: CatBoost crashed (SIG" in row.reason
    assert audited(lake).status == "evaluated"


def onnx_of(ir: int = 9, opset: int = 13) -> bytes:
    """Return a file of another version of the standard."""
    made = onnx.load_model_from_string(onnx_file([onnx.helper.make_node("Softmax", ["X"], ["Y"])]))
    made.ir_version, made.opset_import[0].version = ir, opset
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("content", "asked", "what"),
    [
        (b"binf\0\1" + b"\0" * 99, "xgboost", "old binary format, which XGBoost 3.1"),
        (b"\0" * 99 + b"binary:logistic\0gbtree", "xgboost", "XGBoost's old binary format"),
        (b'[ { "nodeid": 0 } ]', "xgboost", "XGBoost's dump of trees as JSON: save it by"),
        (b"booster[0]:\n0:[f0<1]", "lightgbm", "XGBoost's dump of trees: save it by save_model"),
        (b'{"tree_info": [], "max_feature_idx": 1}', "lightgbm", "LightGBM's dump as JSON"),
        (b'{"features_info": {}, "scale_and_bias": []}', "xgboost", "CatBoost's export as JSON"),
        (b"tree\nversion=v4\n", "xgboost", "a file of LightGBM: give it the format, or the"),
        (b"CBM1\0\0", "lightgbm", "a file of CatBoost: give it the format"),
        (b'{"learner": {"gradient_booster": {}}}', "catboost", "a file of XGBoost"),
        (b'{"a": 1}', "xgboost", "is damaged: save it again, by save_model"),
        (b"\1", "onnx", "is damaged: save it again, by onnx.save"),
        (onnx_of(ir=99), "onnx", "has the IR version 99, and onnxruntime "),
        (onnx_of(opset=99), "onnx", "has the opset 99 of ai.onnx, and onnxruntime "),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_named_with_what_to_do(content, asked, what):
    with pytest.raises(ModelRefusedError) as raised:
        describe_model(content, form=asked)
    assert what in raised.value.why
    assert "raised" not in raised.value.why
    assert "Error" not in raised.value.why


@pytest.fixture(scope="module")
def files():
    """Return a file of each framework whose reader reserves what the file says it needs."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 3))
    label = (rows[:, 0] > 0).astype(int)
    boosted = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(rows, label)
    leaves = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=3, verbose=-1, n_jobs=1)
    return {
        "xgboost": bytes(boosted.get_booster().save_raw("json")),
        "lightgbm": leaves.fit(rows, label).booster_.model_to_string().encode(),
    }


BOMBS = [
    ("xgboost", b'"num_feature":"3"', b'"num_feature":"2000000000"'),
    ("lightgbm", b"\nmax_feature_idx=2\n", b"\nmax_feature_idx=2000000000\n"),
    ("lightgbm", b"\nnum_leaves=3\n", b"\nnum_leaves=2000000000\n"),
]


@pytest.mark.parametrize(("kind", "said", "asked"), BOMBS)
def test_a_small_file_that_asks_for_much_is_refused(files, kind, said, asked):
    assert describe_model(files[kind], form=kind).class_count == 2
    bomb = files[kind].replace(said, asked)
    assert bomb != files[kind]
    assert len(bomb) < 10_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelRefusedError):
        describe_model(bomb, form=kind)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kB


def test_a_file_that_ends_a_models_child_leaves_the_files_beside_it(files):
    (_, said, asked), good = BOMBS[1], files["lightgbm"]
    both = {"form": "lightgbm", "model": "both of a model share a child"}
    described = describe_model(good, **both)
    rows = ModelInputs(pl.DataFrame(np.zeros((4, 3))), matrix=True)
    answers = score_rows(good, described, rows, **both)
    with pytest.raises(ModelRefusedError):
        describe_model(good.replace(said, asked), **both)
    assert (score_rows(good, described, rows, **both) == answers).all()


@pytest.mark.slow
def test_reading_a_model_imports_nothing():
    model = train_xgboost(rows_with_gaps(100, seed=1)).content
    assert (
        imported_by_a_call("workers.lake.formats.xgboost", "describe(load(content))", model) == []
    )


def test_who_has_a_model_read_does_not_load_its_framework():
    describe = "describe_model(content, form='xgboost')"
    model = train_xgboost(rows_with_gaps(100, seed=1)).content
    assert "xgboost" not in imported_by_a_call("workers.lake.model_sandbox", describe, model)


@pytest.mark.parametrize("place", [4, 8, 16])
def test_a_catboost_file_that_says_it_is_larger_is_refused(model, place):
    bomb = model[:place] + b"\xff\xff\xff\x7f" + model[place + 4 :]
    with pytest.raises(ModelRefusedError):
        describe_model(bomb)


def test_a_classifier_of_several_labels_is_refused():
    """Its answers do not add up to one, and were played as if they did."""
    rows = np.random.default_rng(1).normal(size=(60, 2))
    labels = np.stack([rows[:, 0] > 0.0, rows[:, 1] > 0.0], axis=1).astype(int)
    model = catboost.CatBoostClassifier(
        loss_function="MultiLogloss", iterations=3, verbose=0, allow_writing_files=False
    )
    model.fit(rows, labels)
    with pytest.raises(ModelRefusedError, match="do not add up to one"):
        describe_model(model._serialize_model())
