"""A student's parts against trees that are fitted here, and what categories are told as."""

import catboost
import numpy as np
import pytest

from privcore.attacks import Context, fit_student, folds_of, learned
from privcore.attacks import student as module

FEW = {"iterations": 100, "depth": 4, "learning_rate": 0.05}
MANY = {"iterations": 75, "depth": 6, "learning_rate": 0.2}
MANY_OF_PROXY = {"iterations": 50, "depth": 6, "learning_rate": 0.25}
FIXED = {"bootstrap_type": "No", "boosting_type": "Plain", "random_strength": 0}
FIXED |= {"border_count": 64, "thread_count": 1, "logging_level": "Silent"}
FIXED |= {"allow_writing_files": False}


def told(codes: np.ndarray, outputs: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the mean output of each asked code, with ten records of the mean of all."""
    known = range(codes.max() + 1)
    middle = outputs.mean(axis=0)
    return np.array(
        [
            (outputs[same].sum(axis=0) + 10.0 * middle) / (same.sum() + 10.0)
            for code in asked
            for same in [codes == (code if code in known else -1)]
        ]
    )


def fitted(seen: Context, outputs: np.ndarray, rows: np.ndarray, asked: np.ndarray, trees: dict):
    """Return what trees say of the asked rows, fitted to others, as it is written."""

    def design(at: np.ndarray) -> np.ndarray:
        means = [told(column[rows], outputs[rows], column[at]) for column in seen.codes.T]
        return np.column_stack([seen.numbers[at], *means]).astype(np.float32)

    loss = "RMSE" if outputs.shape[1] == 1 else "MultiRMSE"
    model = catboost.CatBoost({"loss_function": loss, **trees, **FIXED})
    model.fit(design(rows), outputs[rows])
    return model.predict(design(asked)).reshape(asked.size, -1)


def taught(records: int, outputs: int) -> tuple[Context, np.ndarray, np.ndarray]:
    """Return a context of two numbers and two categories, outputs, and folds of even size."""
    random = np.random.default_rng([31, records])
    numbers = random.normal(size=(records, 2))
    codes = np.stack([random.integers(-1, 12, records), random.integers(0, 3, records)], axis=1)
    effects = random.normal(size=(13, outputs))
    made = numbers[:, :1] * numbers[:, 1:] + effects[codes[:, 0]] * (1.0 + codes[:, 1:])
    return Context(numbers, codes), made, np.arange(records) % 5


@pytest.mark.parametrize(
    ("records", "outputs", "of_proxy", "trees"),
    [
        (2_499, 1, False, (FEW, MANY)),
        (2_499, 1, True, (FEW, MANY_OF_PROXY)),
        (400, 3, False, (FEW, FEW)),
    ],
)
def test_a_part_is_these_trees_fitted_to_the_other_folds(records, outputs, of_proxy, trees):
    """Of 2,499 records the first fold's part has 1,999 of the others, and the last one's 2,000."""
    seen, said, folds = taught(records, outputs)
    student = fit_student(seen, said, folds, **({"of_proxy": True} if of_proxy else {}))
    assert (student.records, student.outputs) == (records, outputs)
    for fold, chosen in ((0, trees[0]), (4, trees[1])):
        rows, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)[:40]
        expected = fitted(seen, said, rows, asked, chosen)
        found = student.predict(seen.some(asked), folds[asked])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_fold_and_an_arm_are_these():
    """Bits above the 33rd of a stream, modulo five."""
    streams = np.array([0, 1 << 33, (7 << 33) + 5, (1 << 64) - 1], dtype=np.uint64)
    assert folds_of(streams).tolist() == [0, 1, 2, ((1 << 31) - 1) % 5]
    assert (module.FOLDS, module.FEWEST, module.MOST_CLASSES) == (5, 100, 20)


def test_centred_logarithms_are_learned_of_three_classes():
    said = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    logs = np.log(np.clip(said, 1e-6, 1.0 - 1e-6))
    assert learned(said).tolist() == (logs - logs.mean(axis=1, keepdims=True)).tolist()
    two = learned(said[:, :2] / said[:, :2].sum(axis=1, keepdims=True))
    assert two[:, 0] == pytest.approx([np.log(0.6), np.log(1e-6)], abs=1e-5)
