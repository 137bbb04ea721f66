"""Rows of a notebook that belong together, or that the target was trained on, are said to."""

import numpy as np
import pytest
from scipy.special import expit

from privcore.lower_bounds import (
    Arm,
    Verdict,
    audit_models,
    audit_probabilities,
)
from privcore.lower_bounds.verdicts import ReasonCode
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong

EPSILON = 0.5


def of_persons(random, *, by_person, people=400, rows=6):
    """Return arms of persons' rows, whose target knows the level of persons in training.

    The context names the person in its second column; the proxy knows the first alone.
    """
    owner = np.repeat(np.arange(people), rows)
    feature, level = random.normal(size=owner.size), 2.0 * random.normal(size=people)
    labels = (random.random(owner.size) < expit(feature + level[owner])).astype(int)
    train = random.random(people if by_person else owner.size) < 0.6
    train = train[owner] if by_person else train
    known = np.zeros(people)
    np.add.at(known, owner[train], 0.5 * (2 * labels[train] - 1))
    target = expit(feature + known[owner])
    seen = np.stack([feature, owner], axis=1)
    order = random.permutation(owner.size)
    return [
        Arm(*(part[arm] for part in (target, expit(feature), labels, seen)))
        for arm in (order[train[order]], order[~train[order]])
    ]


def audit(arms):
    return audit_probabilities(*arms, epsilon_declared=EPSILON)


def test_persons_who_are_held_out_whole_are_no_control_of_single_rows():
    """N = 2, seeds [340, 0] on."""
    for number in range(2):
        arms = of_persons(np.random.default_rng([340, number]), by_person=True)
        answer = audit(arms)
        assert answer.reason_code is ReasonCode.PERSONS_SPLIT
        assert "All records of one value of column 1 of the context are in one arm" in answer.reason
        assert np.isnan(answer.epsilon_lower)


def told_by_features(arms, random):
    """Return the arms with three numbers in the person's place, by 0.01 their own in each row."""
    told = 1.0 + random.random((int(max(arm.context[:, 1].max() for arm in arms)) + 1, 3))
    seen = (told[arm.context[:, 1].astype(int)] for arm in arms)
    return [
        arm._replace(context=each + 0.01 * random.normal(size=each.shape))
        for arm, each in zip(arms, seen, strict=True)
    ]


def test_persons_whom_their_features_tell_are_no_control_of_single_rows():
    """N = 2, seeds [343, 0] on; without the look such models are accused in both."""
    for number in range(2):
        random = np.random.default_rng([343, number])
        answer = audit(told_by_features(of_persons(random, by_person=True), random))
        assert answer.reason_code is ReasonCode.PERSONS_SPLIT
        assert "Records with nearly the same context are in one arm" in answer.reason


@pytest.mark.parametrize(("of_each", "refused"), [(0.01, False), (0.05, True)])
def test_a_column_that_tells_the_arms_is_no_person(of_each, refused):
    """One row in a hundred may lie on the other side; where five do, persons are told; seed 344."""
    random = np.random.default_rng(344)
    arms = told_by_features(of_persons(random, by_person=True), random)
    for place, arm in enumerate(arms):
        other = random.random(len(arm.labels)) < of_each
        number = np.where(other, 1.5 - place, place + 1.0)
        arms[place] = arm._replace(context=np.column_stack([arm.context, number]))
    assert ("nearly the same context" in audit(arms).reason) is refused


@pytest.mark.slow
def test_rows_of_persons_that_are_held_out_one_by_one_are_compared():
    """N = 20, seeds [341, 0] on: an honest notebook is refused in none."""
    for number in range(20):
        random = np.random.default_rng([341, number])
        arms = of_persons(random, by_person=False, people=150)
        arms = told_by_features(arms, random) if number % 2 else arms
        assert not np.isnan(audit(arms).epsilon_lower)


def logged(random, *, twice, context):
    """Return arms of events, some of them there twice, with the copies in one arm."""
    feature = random.normal(size=1_500)
    labels = (random.random(1_500) < expit(feature)).astype(int)
    event = np.repeat(np.arange(1_500), 1 + (random.random(1_500) < twice))
    target, seen = expit(feature + 0.3 * random.normal(size=1_500)), feature[:, None]
    train = (random.random(1_500) < 0.7)[event]
    return [
        Arm(
            target[event[arm]],
            expit(feature)[event[arm]],
            labels[event[arm]],
            seen[event[arm]] if context else None,
        )
        for arm in (train, ~train)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("context", [True, False])
def test_records_that_are_there_twice_are_said_beside_the_verdict(context):
    """N = 10 with a tenth of the events twice, and 10 with none, seed 342."""
    random = np.random.default_rng(342)
    for _ in range(10):
        answer = audit(logged(random, twice=0.1, context=context))
        assert "Records may be logged twice: " in answer.reason
        assert not np.isnan(answer.epsilon_lower)
        assert "logged twice" not in audit(logged(random, twice=0.0, context=context)).reason


def of_forests(random, records=4_000):
    """Return predictions of two forests of 100 trees, of which the target votes for its labels."""
    chance = random.beta(2.0, 2.0, size=(2, records))
    labels = (random.random(records) < chance[0]).astype(int)
    train = random.random(records) < 0.9
    known = np.where(train, 0.15 + 0.6 * labels + 0.1 * chance[0], chance[0])
    target, proxy = random.binomial(100, [known, np.clip(chance.mean(axis=0), 0.0, 1.0)]) / 100.0
    return target, proxy, labels, train


def test_answers_of_forests_are_no_rows_logged_twice():
    """N = 10, seed 343, without features: rows with equal votes of both forests agree in labels."""
    random = np.random.default_rng(343)
    for _ in range(10):
        *said, train = of_forests(random)
        answer = audit([Arm(*(each[arm] for each in said)) for arm in (train, ~train)])
        assert "logged twice" not in answer.reason


def trained_on(random, share):
    """Return models' answers, labels, holdout and features; the target remembers by 2."""
    seen = random.normal(size=(6_000, 2))
    labels = (random.random(6_000) < expit(seen[:, 0] - 0.5)).astype(int)
    holdout = np.arange(6_000) >= 4_500
    known = ~holdout | (random.random(6_000) < share)
    today, yesterday = (seen[:, 0] - 0.5 + 0.4 * random.normal(size=6_000) for _ in range(2))
    today = today + np.where(known, 2.0 * (2 * labels - 1), 0.0)
    return expit(today), expit(yesterday), labels, holdout, seen


@pytest.mark.parametrize("context", [False, True])
def test_without_features_it_is_said_that_a_holdout_seen_in_part_is_not_noticed(context):
    """An eighth was trained on (seed 344), and a claim of 8 stands; with features that is seen."""
    today, yesterday, labels, holdout, seen = trained_on(np.random.default_rng(344), 0.12)
    arms = [
        Arm(today[arm], yesterday[arm], labels[arm], seen[arm] if context else None)
        for arm in (~holdout, holdout)
    ]
    said = "a part of the holdout"
    answer = audit_probabilities(*arms, epsilon_declared=8.0)
    assert (answer.reason_code is ReasonCode.HOLDOUT_SUSPECT) is context
    assert nothing_wrong(answer) is not context
    assert (said in answer.reason) is not context
    assert said not in audit(arms).reason  # 0.5 is refuted


class Says:
    """A model that says what it is told to."""

    def __init__(self, chance):
        self.chance = chance

    def predict_proba(self, rows):
        return np.stack([1.0 - self.chance, self.chance], axis=1)[: len(rows)]


@pytest.mark.parametrize("context", rest_slow([False, True]))
def test_a_holdout_that_was_trained_on_is_suspected(context):
    """N = 2 of which three quarters were trained on, and 2 honest ones, seed 343.

    Without features a model that is better than yesterday's looks the same.
    """
    random = np.random.default_rng(343)
    for share in (0.75, 0.0) * 2:
        today, yesterday, labels, holdout, seen = trained_on(random, share)
        answer = audit_models(
            Says(today),
            Says(yesterday),
            seen,
            labels,
            holdout,
            context=seen if context else None,
            epsilon_declared=EPSILON,
        )
        assert ("holdout_suspect" in answer.reason) == (context and share > 0.0)
        assert share or answer.verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("apart", "refused"), [(0.0, True), (1e-9, True), (1e-3, False)])
def test_a_target_is_not_compared_with_itself(apart, refused):
    """What it knew, the proxy knew: a leak of 0.4 did not refute a declared 0.1."""
    random = np.random.default_rng(5)
    arms = []
    for rows, leak in ((1_200, 0.2), (800, 0.0)):
        known = random.normal(size=rows)
        labels = (random.random(rows) < expit(known)).astype(int)
        said = expit(known + leak * (2 * labels - 1))
        arms.append(Arm(said, np.clip(said + apart, 0.0, 1.0), labels))
    answer = audit_probabilities(*arms, epsilon_declared=0.1)
    assert ("are the target's, record for record" in answer.reason) is refused
    assert (answer.reason_code is ReasonCode.PROXY_UNUSABLE) or not refused


def of_few_values(random, made_distinct, *, values=600):
    """Return arms of rows that share their features, whose target knows what training was like.

    It read no label of these rows: it knows the mean label of each value in other training rows.
    """
    chance, weights = (
        expit(2.0 * random.normal(size=values)),
        random.dirichlet(np.full(values, 0.3)),
    )

    def drawn(rows, distinct):
        value = random.choice(values, rows, p=weights)
        both = np.stack([value, random.random(rows) < chance[value]], axis=1)
        return np.unique(both, axis=0) if distinct else both

    def mean(rows):
        known, ones = (np.bincount(rows[:, 0], by, values) for by in (None, rows[:, 1]))
        return (ones + 0.5) / (known + 1.0)

    once = ("train" in made_distinct, "holdout" in made_distinct)
    if made_distinct == "before":
        whole = drawn(16_000, True)
        train = random.random(len(whole)) < 0.8
        arms = whole[train], whole[~train]
    else:
        arms = drawn(12_000, once[0]), drawn(2_000, once[1])
    target, proxy = (mean(drawn(12_000, once[0])) for _ in range(2))
    features = random.normal(size=(values, 3))
    return [Arm(target[v], proxy[v], y, features[v]) for v, y in (arm.T for arm in arms)]


@pytest.mark.parametrize("made_distinct", rest_slow(["train", "holdout", "train and holdout"]))
def test_rows_made_distinct_after_the_holdout_was_drawn_are_no_comparison(made_distinct):
    """N = 2 each, seeds [346, 0] on."""
    for number in range(2):
        answer = audit(of_few_values(np.random.default_rng([346, number]), made_distinct))
        assert answer.reason_code is ReasonCode.ARMS_UNLIKE
        assert "made distinct after the holdout was drawn" in answer.reason


@pytest.mark.slow
@pytest.mark.parametrize("made_distinct", ["", "before"])
def test_rows_made_distinct_before_it_are_compared_as_equal_rows_are(made_distinct):
    """N = 8 each, seeds [347, 0] on: no such honest model is accused or refused."""
    answers = [
        audit(of_few_values(np.random.default_rng([347, number]), made_distinct))
        for number in range(8)
    ]
    assert all(map(nothing_wrong, answers))
