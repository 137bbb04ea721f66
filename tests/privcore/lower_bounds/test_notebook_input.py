"""What a notebook is given: indexes, contexts, other labels, related rows, a second reference."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from privcore.attacks import (
    Context,
    fit_student,
    folds_of,
    holdout_suspicion,
    label_counts,
    learned,
    odds_tally,
    probabilities_of,
    stream_key,
)
from privcore.attacks.hashing import record_streams
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import Arm, Verdict, audit_models, audit_probabilities
from privcore.lower_bounds.notebook_input import checked_arm, second_reference, value_groups
from privcore.lower_bounds.verdicts import ReasonCode
from tests.simulate import Model, two_columns
from tests.support.refusals import refused
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong

NAMES = [f"r{row}" for row in range(300)]


def frame(rows=300, seed=0):
    """Return rows whose target and proxy tell them apart, named by an index."""
    random = np.random.default_rng(seed)
    columns = {name: random.uniform(0.1, 0.9, rows) for name in ("target", "proxy", "feature")}
    labels = random.integers(0, 2, rows)
    return pd.DataFrame({**columns, "labels": labels, "other": random.integers(0, 3, rows)},
                        index=NAMES[:rows])  # fmt: skip


def arm(rows, **changes):
    """Return an arm of a frame's columns, some of them given otherwise."""
    given = {"target": rows.target, "proxy": rows.proxy, "labels": rows.labels,
             "context": rows[["feature"]], "other_labels": rows.other}  # fmt: skip
    return Arm(**(given | changes))


ROWS = frame()
SORTED = ROWS.sort_values("target")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": SORTED.target}, r"training.proxy is \['r0', .*training.target begins with"),
        ({"labels": ROWS.labels.reset_index(drop=True)}, r"training.labels is \[0, 1, 2\]"),
        ({"context": ROWS[["feature"]][:299]}, "index of training.context is"),
    ],
)
def test_indexes_that_differ_are_refused(changes, message):
    refused(message, checked_arm, "training", arm(ROWS, **changes))


def test_arrays_beside_indexes_that_agree_are_positions():
    given = arm(ROWS, target=ROWS.target.to_numpy(), proxy=pl.Series(ROWS.proxy.to_numpy()))
    expected = checked_arm("training", arm(ROWS))
    np.testing.assert_array_equal(checked_arm("training", given).target, expected.target)


def test_models_are_asked_about_rows_in_their_labels_order_alone():
    """Labels and holdout of another order would be those of other rows."""
    models, holdout = (Model(ROWS.target), Model(ROWS.proxy)), ROWS.feature > 0.6
    refused("the index of labels is", audit_models, *models, ROWS, SORTED.labels, holdout)
    with pytest.raises(InvalidInputError, match="number of rows of context is 299"):
        audit_models(*models, ROWS, ROWS.labels, holdout, context=pl.DataFrame({"x": [0.0] * 299}))


@pytest.mark.parametrize("column", ["labels", "turned"])
def test_a_label_is_no_context(column):
    arms = frame(300, 1), frame(120, 2)
    given = [arm(rows, context=rows.assign(turned=3 - rows.labels)[["feature", column]])
             for rows in arms]  # fmt: skip
    refused("column 1 of the context is 'the label'", audit_probabilities, *given)


def test_groups_are_values_that_both_arms_share():
    words = [["a", "b", "a"], ["b", "c"]]
    arms = [
        checked_arm("training", Arm([0.5] * len(some), [0.5] * len(some), [0] * len(some),
                    other_labels=np.array([[each, 1.0] for each in some], dtype=object)))
        for some in words
    ]  # fmt: skip
    one, other, groups = value_groups(*arms)
    assert (one.tolist(), other.tolist(), groups) == ([0, 1, 0], [1, 2], 3)
    with pytest.raises(InvalidInputError, match="both arms have the same other labels"):
        value_groups(arms[0], arms[1]._replace(other_labels=None))
    many = [each._replace(other_labels=np.arange(50)[: len(each.labels)]) for each in arms]
    assert value_groups(*many)[2] == 3
    rows = checked_arm("training", arm(ROWS, other_labels=np.arange(300)))
    refused("number of values of other_labels is 300", value_groups, rows, rows)


def two_tasks(seed, *, leak=0.0, agree=0.8):
    """Return arms of a target that learned another label by heart, which agrees with the label.

    Of the label itself it knows randomized response at epsilon `leak`, and of labels in general
    what the proxy knows, with an error of its own.
    """
    random = np.random.default_rng([57, seed])
    arms = []
    for records, seen in ((3_000, True), (1_500, False)):
        log_odds = random.normal(0.0, 1.2, records)
        labels = (random.random(records) < expit(log_odds)).astype(int)
        other = np.where(random.random(records) < agree, labels, 1 - labels)
        told = np.where(random.random(records) < expit(leak), labels, 1 - labels)
        heard = np.log(agree / (1.0 - agree)) * (2 * other - 1) + leak * (2 * told - 1)
        target = log_odds + random.normal(0.0, 0.2, records) + seen * heard
        proxy = log_odds + random.normal(0.0, 0.4, records)
        arms.append(Arm(expit(target), expit(proxy), labels, other_labels=other))
    return arms[0], arms[1]


def bounds(seeds, *, known=True, leak=0.0):
    """Return the bounds of audits that know the other label, or do not."""
    drawn = [two_tasks(seed, leak=leak) for seed in range(seeds)]
    if not known:
        drawn = [(one._replace(other_labels=None), two._replace(other_labels=None))
                 for one, two in drawn]  # fmt: skip
    return np.array([audit_probabilities(*arms).epsilon_lower for arms in drawn])


def test_what_another_label_tells_is_no_leak_where_it_is_named_and_more_is_found():
    assert bounds(2, known=False).min() > 0.5
    assert bounds(2).max() == 0.0
    found = bounds(2, leak=2.0)
    assert 0.5 < found.min() <= found.max() <= 2.0


@pytest.mark.slow
def test_beside_another_label_size_and_power_are_as_stated(monkeypatch):
    """Seeds 0 to 199: each bound is false with a chance of at most 0.05; judged at 1e-6."""
    # No bound depends on what would have been seen, which takes most of the time of an audit.
    monkeypatch.setattr("privcore.lower_bounds.evidence.imagine", lambda *_: None)
    silent, leaking = bounds(200), bounds(200, leak=2.0)
    assert binomtest(int((silent > 0.0).sum()), 200, 0.05, "greater").pvalue > 1e-6
    assert binomtest(int((leaking > 2.0).sum()), 200, 0.05, "greater").pvalue > 1e-6
    assert np.mean(leaking > 0.5) >= 0.9


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


def test_answers_of_forests_are_no_rows_logged_twice():
    """N = 10, seed 343, without features: rows with equal votes of both forests agree in labels."""
    random = np.random.default_rng(343)
    for _ in range(10):
        chance = random.beta(2.0, 2.0, size=(2, 4_000))
        labels = (random.random(4_000) < chance[0]).astype(int)
        train = random.random(4_000) < 0.9
        known = np.where(train, 0.15 + 0.6 * labels + 0.1 * chance[0], chance[0])
        target, proxy = random.binomial(100, [known, chance.mean(axis=0)]) / 100.0
        answer = audit([Arm(target[arm], proxy[arm], labels[arm]) for arm in (train, ~train)])
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


@pytest.mark.parametrize("context", rest_slow([False, True]))
def test_a_holdout_that_was_trained_on_is_suspected(context):
    """N = 2 of which three quarters were trained on, and 2 honest ones, seed 343.

    Without features a model that is better than yesterday's looks the same.
    """
    random = np.random.default_rng(343)
    for share in (0.75, 0.0) * 2:
        today, yesterday, labels, holdout, seen = trained_on(random, share)
        answer = audit_models(
            Model(today),
            Model(yesterday),
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


def taught_arm(name, records, seed):
    """Return an arm whose models say something of two features, each with an error of its own."""
    random = np.random.default_rng(seed)
    context = random.normal(size=(records, 2))
    truth = 1.0 / (1.0 + np.exp(-context[:, 0] * context[:, 1]))
    said = [two_columns(np.clip(truth + random.normal(0.0, 0.1, records), 0.01, 0.99))
            for _ in range(2)]  # fmt: skip
    labels = (random.random(records) < truth).astype(int)
    return checked_arm(name, Arm(*said, labels, context))


def test_each_record_is_asked_of_the_part_that_was_not_fitted_to_its_fold():
    """The target's student is bet against, and the proxy's stands beside the arms' labels."""
    arms = taught_arm("training", 400, 1), taught_arm("control", 300, 2)
    held = arms[1]
    folds = [
        folds_of(record_streams(len(one.labels), key=stream_key(5, name, "fold"), indices=None))
        for one, name in zip(arms, ("training", "control"), strict=True)
    ]
    contexts = [Context(one.context, np.zeros((len(one.labels), 0), dtype=int)) for one in arms]
    students = [
        fit_student(contexts[1], learned(said), folds[1], of_proxy=said is held.proxy)
        for said in (held.target, held.proxy)
    ]
    found = second_reference(*arms, 5, value_groups(*arms))
    for beside, one, context, fold in zip(found[:2], arms, contexts, folds, strict=True):
        target, proxy = (probabilities_of(each.predict(context, fold)) for each in students)
        assert beside.odds == (odds_tally(one.target, target, one.labels),)
        assert beside.labels == label_counts(one.proxy, one.labels, student=proxy)
    said = students[0].predict(contexts[1], folds[1])
    assert found.suspicion == holdout_suspicion(
        learned(held.target), said, learned(held.proxy), held.labels
    )
