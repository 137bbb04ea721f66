"""CatBoost's trees, evaluated by our own kernel: its predictions to the bit."""

import catboost
import numpy as np
import pytest

from privcore.attacks.oblivious_trees import ObliviousTrees
from privcore.exceptions import InvalidInputError

FIXED = {"thread_count": 1, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
ROWS = 3_000


def rows(seed, records=ROWS):
    """Numbers as features are: missing, infinite, constant, and borders alike in six digits."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(7, records)).astype(np.float32)
    columns[1, ::7] = np.nan
    columns[2, ::9], columns[2, 1::9] = np.inf, -np.inf
    columns[3] = 1.7e9 + np.float32(128.0) * random.integers(0, 60, records)
    columns[4] = 1.0
    columns[5] *= 1e-30
    return columns


def outputs_of(columns, outputs):
    known = np.nan_to_num(np.clip(columns, -3.0, 3.0))
    said = known[0] * known[1] + known[2] + (columns[3] - 1.7e9) / 2_000.0
    return np.stack([said + place * columns[5] * 1e30 for place in range(outputs)], axis=1)


def fitted(outputs=1, **settings):
    columns = rows(1)
    loss = "RMSE" if outputs == 1 else "MultiRMSE"
    chosen = {"iterations": 40, "depth": 6, "border_count": 64} | settings
    model = catboost.CatBoost({"loss_function": loss, **chosen, **FIXED})
    said = outputs_of(columns, outputs)
    return model.fit(columns.T, said[:, 0] if outputs == 1 else said)


@pytest.mark.parametrize(
    ("outputs", "settings"),
    [(1, {}), (3, {}), (1, {"depth": 1}), (1, {"depth": 8, "border_count": 254})],
)
def test_predictions_are_those_of_catboost_to_the_bit(outputs, settings):
    model = fitted(outputs, **settings)
    trees = ObliviousTrees.of(model)
    for records in (1, 511, 512, 513, ROWS):
        asked = rows(2, records)
        theirs = np.asarray(model.predict(asked.T, thread_count=1)).reshape(records, outputs)
        assert np.array_equal(trees.predict(asked), theirs)
    assert np.std(trees.predict(rows(2))[:, 0]) > 1.0


def test_a_record_at_a_border_is_where_catboost_has_it():
    model = fitted()
    trees = ObliviousTrees.of(model)
    finite = [border[np.isfinite(border)] for border in trees.borders]
    asked = np.zeros((7, 3 * max(map(len, finite))), dtype=np.float32)
    with np.errstate(over="ignore"):  # below the border that tells what is missing
        for feature, borders in zip(trees.used, finite, strict=True):
            near = [np.nextafter(borders, -np.inf), borders, np.nextafter(borders, np.inf)]
            asked[feature, : 3 * len(borders)] = np.concatenate(near)
    assert np.array_equal(trees.predict(asked)[:, 0], model.predict(asked.T))


def test_trees_of_fewer_levels_stand_among_the_others():
    columns = np.zeros((1, 400), dtype=np.float32)
    columns[0, 200:] = 1.0  # one question tells all
    model = catboost.CatBoost({"loss_function": "RMSE", "iterations": 3, "depth": 4, **FIXED})
    model.fit(columns.T, columns[0])
    assert np.array_equal(ObliviousTrees.of(model).predict(columns)[:, 0], model.predict(columns.T))


def test_a_models_scale_and_bias_are_its_own():
    model = fitted()
    model.set_scale_and_bias(2.5, -0.75)
    assert np.array_equal(ObliviousTrees.of(model).predict(rows(2))[:, 0], model.predict(rows(2).T))


def test_no_records_are_no_predictions():
    assert ObliviousTrees.of(fitted(3)).predict(rows(2, 0)).shape == (0, 3)


def test_trees_that_are_too_deep_are_refused():
    with pytest.raises(InvalidInputError, match="at most 8 and 254"):
        ObliviousTrees.of(fitted(depth=9, iterations=2))
