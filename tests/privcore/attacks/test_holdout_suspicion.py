"""A holdout that was trained on is suspected; one that was not is, very seldom."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression

from privcore.attacks import SUSPICIOUS, holdout_suspicion, suspect_sentence
from privcore.attacks.holdout_suspicion import MOST_RECORDS, RIDGE, fit_logistic


def world(random, records, *, known=0.0, better=0.5, memory=2.0):
    """The target knows `better` of what the student lacks, and remembers `known` of the labels."""
    student = random.normal(-0.5, 1.0, records)
    lacking = better * random.normal(size=records)
    labels = (random.random(records) < expit(student + lacking)).astype(int)
    remembered = random.random(records) < known
    target = student + lacking + 0.5 * random.normal(size=records)
    target = target + remembered * memory * (2 * labels - 1)
    proxy = student + 0.5 * random.normal(size=records)
    return target[:, None], student[:, None], proxy[:, None], labels


@pytest.mark.slow
def test_a_clean_holdout_is_not_suspected():
    """N = 100, seed 1, 5,000 records: the target is better than its student by 0.33."""
    random = np.random.default_rng(1)
    found = [holdout_suspicion(*world(random, 5_000, better=0.33)) for _ in range(100)]
    assert max(found) < SUSPICIOUS
    none = [holdout_suspicion(*world(random, 5_000, better=0.0)) for _ in range(100)]
    assert np.mean(none) == pytest.approx(0.0, abs=0.4)
    assert np.std(none) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(("known", "least"), [(0.25, 10), (0.75, 10), (1.0, 10)])
def test_a_holdout_that_was_trained_on_is_suspected(known, least):
    """10 of 10, seed 2, 5,000 records."""
    random = np.random.default_rng(2)
    found = [holdout_suspicion(*world(random, 5_000, known=known)) for _ in range(10)]
    assert sum(one > SUSPICIOUS for one in found) >= least


def test_a_target_much_better_than_its_student_is_suspected_wrongly():
    """Why it is a remark and no verdict: half a unit better, and nothing was trained on."""
    random = np.random.default_rng(9)
    found = [holdout_suspicion(*world(random, 5_000, better=0.5)) for _ in range(10)]
    assert max(found) > SUSPICIOUS


def test_what_training_saw_and_what_features_tell_differ_to_a_student_alone():
    """Of a quarter of the records the target knows the labels, in either world: the same numbers.

    In the first it was trained on them; in the second a feature tells them, which a student learns.
    """
    target, student, proxy, labels = world(np.random.default_rng(17), 5_000, better=0.0)
    known = np.where(np.arange(5_000) % 4 == 0, 4.0 * (2 * labels - 1), 0.0)[:, None]
    target = target + known
    assert holdout_suspicion(target, student, proxy, labels) > SUSPICIOUS
    assert abs(holdout_suspicion(target, student + known, proxy, labels)) < 4.0


def test_it_is_the_root_of_the_likelihoods_ratio():
    """Against a general optimiser."""
    target, student, proxy, labels = world(np.random.default_rng(3), 800, known=0.1)
    sign = 2.0 * labels - 1.0

    def best(*columns):
        design = np.column_stack([np.ones(800), *columns])
        loss = lambda by: -log_expit(sign * (design @ by)).sum()  # noqa: E731
        return -minimize(loss, np.zeros(design.shape[1]), tol=1e-12).fun

    gained = best(student, proxy, target - student) - best(student, proxy)
    found = holdout_suspicion(target, student, proxy, labels)
    assert found == pytest.approx(np.sqrt(2.0 * gained), rel=1e-4)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_sign_is_the_targets_whatever_the_proxy_says(side):
    """Student and proxy are right; what the target says beyond them is, too, or is wrong."""
    _, student, proxy, labels = world(np.random.default_rng(12), 1_000)
    proxy = proxy - side * 0.5 * (2 * labels[:, None] - 1)
    target = student + side * 0.5 * (2 * labels[:, None] - 1)
    target = target + np.random.default_rng(13).normal(size=target.shape)
    assert side * holdout_suspicion(target, student, proxy, labels) > 5.0


def test_of_many_records_the_first_decide():
    arrays = world(np.random.default_rng(8), 3 * MOST_RECORDS, known=0.2)
    first = tuple(each[:MOST_RECORDS] for each in arrays)
    assert holdout_suspicion(*arrays) == holdout_suspicion(*first)


def test_what_models_say_counts_up_to_twelve():
    random = np.random.default_rng(10)
    *said, labels = world(random, 400, known=0.5)
    said = [6.0 * each for each in said]
    found = holdout_suspicion(*said, labels)
    cut = {
        most: holdout_suspicion(*(np.clip(each, -most, most) for each in said), labels)
        for most in (11.0, 12.0)
    }
    assert found == cut[12.0] != cut[11.0]
    assert (MOST_RECORDS, SUSPICIOUS) == (5_000, 10.0)


def test_of_three_classes_it_is_the_same_ratio_of_the_most_frequent_one():
    """The last class is the most frequent one, and its column alone is read."""
    target, student, proxy, ones = world(np.random.default_rng(11), 600, known=0.1)
    labels = np.where(ones == 1, 2, np.arange(600) % 2)
    labels[:5], ones[:5] = 2, 1
    assert np.bincount(labels).argmax() == 2
    wide = [np.concatenate([-each, 0.3 * each, each], axis=1) for each in (target, student, proxy)]
    expected = holdout_suspicion(target, student, proxy, ones)
    assert holdout_suspicion(*wide, labels) == expected


def test_both_classes_are_treated_alike():
    *said, labels = world(np.random.default_rng(14), 800, known=0.1)
    found = holdout_suspicion(*said, labels)
    assert holdout_suspicion(*(-each for each in said), 1 - labels) == pytest.approx(found)


def test_what_its_student_says_one_label_alone_and_no_records_show_nothing():
    target, student, proxy, labels = world(np.random.default_rng(15), 200)
    assert holdout_suspicion(target, student, proxy, labels) > 0.0
    assert holdout_suspicion(student, student, proxy, labels) == 0.0
    assert holdout_suspicion(target, student, proxy, np.ones(200, dtype=int)) == 0.0
    assert holdout_suspicion(target[:0], student[:0], proxy[:0], labels[:0]) == 0.0


def test_a_coefficient_is_searched_up_to_three_hundred():
    """Sixty steps of at most five: a lead of 1e-5 is right everywhere, and still shows little."""
    sign = np.repeat([-1.0, 1.0], 200)
    nothing = np.zeros((400, 1))
    found = holdout_suspicion(1e-5 * sign[:, None], nothing, nothing, (sign > 0).astype(int))
    gained = 400.0 * (log_expit(300.0 * 1e-5) + np.log(2.0))
    assert found == pytest.approx(np.sqrt(2.0 * gained), rel=1e-6)


def test_where_the_student_is_always_right_too_the_target_adds_little():
    """Coefficients are then finite by the penalty 1e-6 b^2/2 alone; one equation gives either."""
    sign = np.repeat([-1.0, 1.0], 20)[:, None]

    def loss(length):
        """Return the loss at the best coefficients along said values of this length."""
        left = lambda by: 40.0 * length * expit(-length * by) - 1e-6 * by  # noqa: E731
        return 40.0 * float(-log_expit(length * brentq(left, 0.0, 100.0, xtol=1e-13)))

    found = holdout_suspicion(3.0 * sign, sign, 0.0 * sign, (sign[:, 0] > 0).astype(int))
    assert found == pytest.approx(np.sqrt(2.0 * (loss(1.0) - loss(np.sqrt(5.0)))), rel=1e-5)


def test_the_sentence_is_said_above_the_level_alone():
    assert suspect_sentence(SUSPICIOUS) == ""
    assert suspect_sentence(10.1).startswith("holdout_suspect: ")
    assert "(10.1 standard errors)" in suspect_sentence(10.1)


def test_coefficients_are_those_of_scikit_learn():
    """200 rows of three columns that stand for other numbers of records, some for none; seed 5."""
    random = np.random.default_rng(5)
    design = random.normal(size=(200, 3))
    ones = random.random(200) < expit(design @ np.array([0.5, -1.0, 2.0]))
    weights = random.integers(0, 5, 200).astype(float)
    peer = LogisticRegression(C=1.0 / RIDGE, fit_intercept=False, tol=1e-10, max_iter=1_000)
    peer.fit(design, ones, sample_weight=weights)
    found = fit_logistic(design, np.where(ones, 1.0, -1.0), weights)
    assert found == pytest.approx(peer.coef_[0], abs=1e-4)


def test_a_column_that_tells_all_labels_has_a_large_coefficient_and_no_error():
    design = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    found = fit_logistic(design, np.sign(design[:, 0]), np.ones(4))
    assert 5.0 < found[0] < np.inf
