"""A student's parts against trees that are fitted here, and what categories are told as."""

import warnings

import numpy as np
import pytest

from privcore.attacks import Context, fit_student, folds_of, learned
from privcore.attacks import student as module
from privcore.attacks.oblivious_trees import ObliviousTrees, TreeSize

FEW = TreeSize(100, levels=4, rate=0.05)
MANY = TreeSize(75, levels=6, rate=0.2)
MANY_OF_PROXY = TreeSize(50, levels=6, rate=0.25)


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


def fitted(seen: Context, outputs: np.ndarray, rows: np.ndarray, asked: np.ndarray, size: TreeSize):
    """Return what trees say of the asked rows, fitted to others, as it is written."""

    def design(at: np.ndarray) -> np.ndarray:
        means = [told(column[rows], outputs[rows], column[at]) for column in seen.codes.T]
        return np.column_stack([seen.numbers[at], *means]).astype(np.float32)

    trees = ObliviousTrees.fit(design(rows).T, outputs[rows], size)
    return trees.predict(design(asked).T)


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
    """The first fold's part has 1,999 of the others' 2,499 records, and the last one's 2,000."""
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


def test_of_one_person_alone_there_is_no_student_and_no_warning():
    """All rows are in one fold, so the part of that fold would be fitted to none."""
    seen, outputs, folds = taught(200, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_student(seen, outputs, 0 * folds) is None


def test_a_code_above_all_that_were_seen_is_told_like_one_that_is_not_known():
    """Also where a single code was seen."""
    codes = np.repeat([0, -1], [150, 50])[:, None]
    outputs, folds = 1.0 + codes, np.arange(200) % 5
    student = fit_student(Context(np.zeros((200, 0)), codes), outputs, folds)
    asked = Context(np.zeros((4, 0)), np.array([[-1], [1], [2], [0]]))
    unknown, *above, known = student.predict(asked, np.zeros(4, dtype=int))[:, 0]
    assert above == [unknown, unknown]
    assert known > unknown + 0.5
