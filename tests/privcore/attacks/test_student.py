"""A student learns what the target would say of a stranger; it reads no label."""

import warnings

import numpy as np
import pytest
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier

from privcore.attacks import (
    Context,
    LabelCounts,
    compare_arms,
    fit_student,
    folds_of,
    label_counts,
    learned,
    probabilities_of,
)
from privcore.attacks import student as module
from privcore.attacks.hashing import record_streams
from privcore.attacks.oblivious_trees import ObliviousTrees, TreeSize
from privcore.attacks.student import FEWEST, FOLDS
from tests.simulate import assert_rate_at_most, two_columns
from tests.support.refusals import refused


def context(numbers, codes=None):
    codes = np.zeros((len(numbers), 0), dtype=np.int64) if codes is None else codes
    return Context(np.asarray(numbers, dtype=np.float64), codes)


def taught(records=2_000, seed=1):
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(records, 3))
    outputs = (numbers[:, 0] * numbers[:, 1] + numbers[:, 2])[:, None]
    folds = folds_of(record_streams(records, key=seed, indices=None))
    return context(numbers), outputs, folds


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_what_is_learned_stands_for_the_probabilities(classes):
    said = np.random.default_rng(7).dirichlet(np.ones(classes), 50)
    np.testing.assert_allclose(probabilities_of(learned(said)), said, atol=1e-5)
    assert learned(said).shape == (50, 1 if classes == 2 else classes)
    certain = learned(two_columns(np.array([0.0, 1.0])))
    assert certain[:, 0].tolist() == pytest.approx([logit(1e-6), -logit(1e-6)])


def test_there_is_none_where_nothing_can_be_learned():
    seen, outputs, folds = taught()
    few = np.arange(FEWEST - 1)
    assert fit_student(seen.some(few), outputs[few], folds[few]) is None
    assert fit_student(context(np.zeros((2_000, 0))), outputs, folds) is None
    assert fit_student(context(np.ones((2_000, 2))), outputs, folds) is None
    assert fit_student(seen, np.ones((2_000, 1)), folds) is None
    assert fit_student(seen, outputs, np.zeros(2_000, dtype=np.int64)) is None
    enough = np.arange(FEWEST)
    assert fit_student(seen.some(enough), outputs[enough], folds[enough]) is not None


def test_an_empty_batch_is_asked_about_nothing():
    student = fit_student(*taught())
    assert student.predict(context(np.zeros((0, 3))), np.zeros(0, dtype=int)).shape == (0, 1)


def test_shapes_and_folds_that_do_not_fit_are_refused():
    seen, outputs, folds = taught()
    refused("of the same records", fit_student, seen, outputs[1:], folds)
    for moved, ends in ((1, r"\(1, 5\)"), (-1, r"\(-1, 3\)")):
        refused(f"{ends}.*they are from 0 to 4", fit_student, seen, outputs, folds + moved)


def arms_pvalue(random, *, of_proxy):
    """Return what honest arms look like: labels are chance, and the target learned some by heart.

    Of 700 training and 230 holdout records of two features; target and proxy are trees of depth 2.
    """
    features = random.normal(size=(1_630, 2))
    labels = random.integers(0, 2, 1_630)
    arms = slice(0, 700), slice(700, 930)
    said = [
        two_columns(
            HistGradientBoostingClassifier(max_iter=30, max_depth=2, learning_rate=0.5)
            .fit(features[rows], labels[rows])
            .predict_proba(features[:930])[:, 1]
        )
        for rows in (arms[0], slice(930, None))
    ]
    folds = random.integers(0, FOLDS, 930)
    control = arms[1]
    student = fit_student(
        context(features[control]), learned(said[of_proxy][control]), folds[control]
    )
    asked = probabilities_of(student.predict(context(features[:930]), folds))
    beside = [label_counts(said[1][arm], labels[arm], student=asked[arm]) for arm in arms]
    nothing = LabelCounts.zero(groups=1, classes=2)
    return compare_arms(nothing, nothing, random=random, beside=tuple(beside)).pvalue / 2


@pytest.mark.slow
def test_a_leak_is_no_difference_of_the_arms():
    """N = 150, seed 20: p-values below 0.1, judged at 1e-6; the target's student fails."""
    rates = []
    for of_proxy in (True, False):
        random = np.random.default_rng(20)
        found = np.array([arms_pvalue(random, of_proxy=of_proxy) for _ in range(150)])
        rates.append(int((found < 0.1).sum()))
    assert_rate_at_most(rates[0], 150, 0.1)
    assert rates[1] > 1.5 * rates[0] + 10


FEW = TreeSize(100, levels=4, rate=0.05)
MANY = TreeSize(75, levels=6, rate=0.2)
MANY_OF_PROXY = TreeSize(50, levels=6, rate=0.25)


def told(codes, outputs, asked):
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


def fitted(seen, outputs, rows, asked, size):
    """Return what trees say of the asked rows, fitted to others, as it is written."""

    def design(at):
        means = [told(column[rows], outputs[rows], column[at]) for column in seen.codes.T]
        return np.column_stack([seen.numbers[at], *means]).astype(np.float32)

    trees = ObliviousTrees.fit(design(rows).T, outputs[rows], size)
    return trees.predict(design(asked).T)


def taught_numbers(records, outputs):
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
    seen, said, folds = taught_numbers(records, outputs)
    student = fit_student(seen, said, folds, **({"of_proxy": True} if of_proxy else {}))
    assert student.outputs == outputs
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
    seen, outputs, folds = taught_numbers(200, 1)
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
