"""A boosted model asked with its first rounds answers as its framework does with these."""

import dataclasses

import catboost
import lightgbm
import numpy as np
import xgboost

from workers.lake.formats import catboost as of_catboost
from workers.lake.formats import lightgbm as of_lightgbm
from workers.lake.formats import xgboost as of_xgboost

ROUNDS, FIRST = 20, 7
_RANDOM = np.random.default_rng(0)
ROWS = _RANDOM.normal(size=(300, 3)).astype(np.float32)
LABELS = (ROWS[:, 0] + _RANDOM.normal(size=300) > 0).astype(int)


def check(form, content: bytes, inputs, expected: np.ndarray) -> None:
    loaded = form.load(content)
    assert form.count_rounds(loaded) == ROUNDS
    first = form.predict(dataclasses.replace(loaded, rounds=FIRST), inputs, threads=1)
    assert np.abs(first[:, 1] - expected).max() < 1e-6
    assert np.abs(form.predict(loaded, inputs, threads=1) - first).max() > 0.05
    whole = form.predict(dataclasses.replace(loaded, rounds=ROUNDS), inputs, threads=1)
    assert np.array_equal(form.predict(loaded, inputs, threads=1), whole)


def test_catboost() -> None:
    model = catboost.CatBoostClassifier(iterations=ROUNDS, depth=3, verbose=False,
                                        allow_writing_files=False)  # fmt: skip
    model.fit(ROWS, LABELS)
    expected = model.predict_proba(ROWS, ntree_end=FIRST)[:, 1]
    check(of_catboost, model._serialize_model(), catboost.Pool(ROWS), expected)


def test_xgboost() -> None:
    data = xgboost.DMatrix(ROWS, LABELS)
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, ROUNDS)
    expected = model.predict(data, iteration_range=(0, FIRST))
    check(of_xgboost, bytes(model.save_raw("ubj")), ROWS, expected)


def test_lightgbm() -> None:
    data = lightgbm.Dataset(ROWS, LABELS)
    model = lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, data, ROUNDS)
    expected = np.asarray(model.predict(ROWS, num_iteration=FIRST))
    check(of_lightgbm, model.model_to_string().encode(), ROWS.astype(np.float64), expected)
