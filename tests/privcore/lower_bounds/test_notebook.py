import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit

from flows.study.exam_worlds import Binary
from privcore.attacks.holdout_suspicion import SWAPPED, holdout_lead
from privcore.attacks.odds import odds_tally
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import (
    MINIMUM_CONTROL_RECORDS,
    Arm,
    Verdict,
    audit_models,
    audit_probabilities,
)
from privcore.lower_bounds.notebook_input import checked_arm
from privcore.lower_bounds.verdicts import ReasonCode, judge
from tests.simulate import Model
from tests.support.refusals import refused
from tests.support.verdicts import nothing_wrong
from tests.worlds import ten_classes


def audit(world, **options):
    training, control = world.draw(np.random.default_rng(3))
    return audit_probabilities(Arm(*training), Arm(*control), **options)


REMEMBERED = Binary(base=0.0, learns="interpolates").world("", 12.0, 2_000, 500)


def test_one_call_refutes_a_false_declaration_and_says_so():
    answer = audit(REMEMBERED, epsilon_declared=1.0)
    assert answer.verdict is Verdict.VIOLATED
    assert 2.0 < answer.epsilon_lower <= answer.epsilon_ceiling
    assert answer.claim_pvalue < 1e-6
    assert "more than the declared 1" in answer.reason
    for name in ("epsilon_lower", "epsilon_if_proxy_right", "epsilon_ceiling", "claim_pvalue"):
        assert getattr(answer, name) == getattr(answer.evidence, name)
    judged = judge(answer.evidence, epsilon_declared=1.0)
    assert (answer.verdict, answer.reason_code, answer.reason) == (
        judged.verdict, judged.code, judged.reason,
    )  # fmt: skip


@pytest.mark.parametrize("place", [0, 2])
def test_a_value_under_a_mask_is_no_value(place):
    """numpy reads it as any other: a missing label would have been the number behind it."""
    training, _ = REMEMBERED.draw(np.random.default_rng(3))
    masked = list(training)
    masked[place] = np.ma.array(masked[place], mask=np.zeros(masked[place].shape, dtype=bool))
    assert checked_arm("training", Arm(*masked)).labels.size == len(training[2])
    masked[place][0] = np.ma.masked
    refused("every record has its value", checked_arm, "training", Arm(*masked))


def test_options_reach_the_claim():
    plain = audit(REMEMBERED)
    assert (plain.verdict, plain.claim_pvalue) == (Verdict.UNDECLARED, None)
    assert (plain.evidence.claim.significance, plain.evidence.claim.delta) == (0.05, 0.0)
    assert audit(REMEMBERED, seed=0).epsilon_lower == plain.epsilon_lower
    with_delta = audit(REMEMBERED, epsilon_declared=0.5, delta=1e-5, significance=0.01, seed=4)
    assert with_delta.evidence.claim.delta == 1e-5
    assert with_delta.evidence.claim.significance == 0.01
    assert with_delta.evidence.claim.family.name != plain.evidence.claim.family.name
    assert with_delta.epsilon_lower < plain.epsilon_lower
    assert with_delta.verdict is Verdict.VIOLATED


def test_many_classes_are_audited_too():
    answer = audit(ten_classes(2.0), epsilon_declared=0.5)
    assert answer.verdict is Verdict.VIOLATED
    assert answer.epsilon_lower <= 2.0


HALF = np.full((4, 2), 0.5)
LABELS = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": HALF * np.nan}, "target is nan"),
        (
            {"proxy": HALF[:3]},
            r"shape of training.proxy is \(3, 2\), but training.target has the shape",
        ),
        ({"labels": LABELS + 0.5}, "labels are whole numbers"),
        ({"labels": ["no", "yes", "no", "yes"]}, "training.labels is 'no', but labels are whole"),
        ({"labels": [None, 1, 0, 1]}, "labels are whole numbers"),
        ({"target": [0.1, 0.2, 3.0, 0.4]}, "training.target is 3.0.*scores and log-odds are none"),
        ({"target": "a model"}, "training.target is 'str', but it is an array"),
        ({"epsilon_declared": "2"}, "epsilon_declared is '2', but it is a number"),
        ({"control_labels": np.array([0.0, np.nan, 1.0, 1.0])}, "labels are whole numbers"),
        ({"control_labels": LABELS + 1}, "control.labels is 2"),
        ({"control_proxy": HALF * 0.9}, "sum to 1"),
        ({"significance": 0.0}, "significance is 0"),
        ({"delta": -1.0}, "delta is -1"),
        ({"delta": 1.0}, "delta is 1"),
        ({"epsilon_declared": -0.5}, "epsilon_declared is -0.5"),
        ({"epsilon_declared": np.nan}, "epsilon_declared is nan"),
        (
            {"control_target": np.full((4, 3), 1 / 3), "control_proxy": np.full((4, 3), 1 / 3)},
            r"classes of control.target is \(3,\)",
        ),
        (
            {"control_target": HALF[:0], "control_proxy": HALF[:0], "control_labels": LABELS[:0]},
            "at least 1 record",
        ),
        ({"control_context": HALF}, "shape of training.context is None"),
        ({"context": HALF}, "shape of control.context is None"),
        ({"context": HALF[:3], "control_context": HALF}, r"training.context is \(3, 2\)"),
        ({"context": LABELS, "control_context": HALF}, r"shape of training.context is \(4,\)"),
        ({"context": HALF, "control_context": np.zeros((4, 3))}, "columns of control.context is 3"),
    ],
)
def test_bad_input_is_named(change, message):
    given, roles = dict(change), {"target": HALF, "proxy": HALF, "labels": LABELS, "context": None}
    arms = [
        Arm(*(given.pop(prefix + role, default) for role, default in roles.items()))
        for prefix in ("", "control_")
    ]
    refused(message, audit_probabilities, *arms, **given)


def weak_leak(seed, *, epsilon):
    """Draw two arms whose features tell labels to the target, and nothing to the proxy.

    The target adds what randomized response at `epsilon` gave it of its own records' labels.
    """
    random = np.random.default_rng([340, seed])
    arms = []
    for number, leaks in ((6_000, True), (3_000, False)):
        features = random.normal(size=(number, 3))
        log_odds = 2.5 * features[:, 0]
        labels = (random.random(number) < expit(log_odds)).astype(int)
        kept = random.random(number) < expit(epsilon)
        sides = np.where(kept, labels, 1 - labels) * 2 - 1
        chance = expit(log_odds + leaks * epsilon * sides)
        arms.append(Arm(chance, np.full(number, 0.5), labels, features))
    return arms


def test_with_a_context_a_weak_leak_is_seen_through_the_student():
    training, control = weak_leak(0, epsilon=1.0)
    seen = audit_probabilities(training, control, epsilon_declared=0.2)
    blind = audit_probabilities(
        training._replace(context=None), control._replace(context=None), epsilon_declared=0.2
    )
    assert blind.epsilon_lower + 0.2 < seen.epsilon_lower <= 1.0
    assert seen.verdict is Verdict.VIOLATED
    assert seen.evidence.epsilon_if_proxy_right == blind.evidence.epsilon_if_proxy_right


def test_of_many_classes_a_context_changes_nothing():
    world = ten_classes(2.0).draw(np.random.default_rng(3))
    wide = [np.hstack([arm[0], np.zeros((len(arm[2]), 40))]) for arm in world]
    proxies = [np.hstack([arm[1], np.zeros((len(arm[2]), 40))]) for arm in world]
    features = [np.zeros((len(arm[2]), 1)) for arm in world]
    without, beside = (
        audit_probabilities(
            *(Arm(wide[i], proxies[i], world[i][2], features[i] if there else None) for i in (0, 1))
        )
        for there in (False, True)
    )
    assert beside.epsilon_lower == without.epsilon_lower


def test_an_answer_says_why_bets_against_the_proxy_could_not_win():
    """537 of 1,000 training labels and 476 of 1,000 of the holdout are 1: p is about 0.006."""
    random = np.random.default_rng(4)
    answers = []
    for ones in (537, 500):
        labels = [np.arange(1_000) < many for many in (ones, 476)]
        guess = expit(random.normal(0.0, 0.1, (2, 1_000)))
        chances = np.where(labels[0], 0.9, 0.1), guess[1]
        arms = [Arm(*each) for each in zip(chances, np.full((2, 1_000), 0.5), labels, strict=True)]
        answers.append(audit_probabilities(*arms, epsilon_declared=1.0))
    doubted, plain = answers
    assert "chance alone seldom divides labels so" in doubted.reason
    assert (doubted.epsilon_lower, doubted.epsilon_ceiling) == (0.0, 0.0)
    assert plain.verdict == "violated"
    assert "chance alone" not in plain.reason


def one_column(seed=3):
    """Return two arms as a notebook has them: one probability and one label for each record."""
    training, control = REMEMBERED.draw(np.random.default_rng(seed))
    return [(target[:, 1], proxy[:, 1], labels) for target, proxy, labels in (training, control)]


WAYS = {
    "arrays": Arm,
    "lists and booleans": lambda target, proxy, labels: Arm(
        target.tolist(), proxy.tolist(), (labels == 1).tolist()
    ),
    "pandas and whole floats": lambda target, proxy, labels: Arm(
        pd.Series(target), pd.DataFrame({"p": proxy}), pd.Series(labels.astype(float))
    ),
    "polars": lambda target, proxy, labels: Arm(
        pl.Series(np.stack([1.0 - target, target], axis=1).tolist()),
        pl.DataFrame({"no": 1.0 - proxy, "yes": proxy}),
        pl.Series(labels.tolist()),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_arms_are_taken_as_people_have_them(way):
    plain = audit(REMEMBERED, epsilon_declared=1.0)
    given = audit_probabilities(*(WAYS[way](*arm) for arm in one_column()), epsilon_declared=1.0)
    assert given.epsilon_lower == pytest.approx(plain.epsilon_lower, abs=1e-9)
    assert given.verdict is Verdict.VIOLATED


def _golden(arm):
    sure = np.abs(arm.context[:, 0]) > 0.8
    return Arm(*(values[sure] for values in arm[:4]))


def _twice(arm):
    return Arm(*(np.concatenate([values, values]) for values in arm[:4]))


def day(seed=0, *, leak=1.0):
    """Return arms of models that learned what holds, and a target that remembers, besides."""
    random = np.random.default_rng([58, seed])
    arms = []
    for records, seen in ((5_000, True), (2_500, False)):
        context = random.normal(size=(records, 3))
        log_odds = 1.2 * context[:, 0] + 0.8 * context[:, 1]
        labels = (random.random(records) < expit(log_odds)).astype(int)
        memory = leak * seen * (2 * labels - 1)
        target = expit(log_odds + random.normal(0.0, 0.3, records) + memory)
        proxy = expit(log_odds + random.normal(0.0, 0.7, records))
        arms.append(Arm(target, proxy, labels, context))
    return arms


CAUSES = {
    "inverted labels": (
        lambda one, two: [arm._replace(labels=1 - arm.labels) for arm in (one, two)],
        "The target's and the earlier model's probabilities fit the labels far better if their",
    ),
    "the other class's column": (
        lambda one, two: [arm._replace(target=1.0 - arm.target) for arm in (one, two)],
        "The target's probabilities fit the labels far better if their classes are in the order 1",
    ),
    "swapped models": (
        lambda one, two: [arm._replace(target=arm.proxy, proxy=arm.target) for arm in (one, two)],
        "The earlier model knows labels of the training records: it gives those of training",
    ),
    "a golden holdout": (
        lambda one, two: [one, _golden(two)],
        "The earlier model answers otherwise of the holdout than of the training records",
    ),
    "doubled rows": (lambda one, two: [_twice(one), _twice(two)], "Records may be logged twice"),
    "a proxy that saw all": (
        lambda one, two: [
            arm._replace(proxy=expit(logit(arm.proxy) + 2 * arm.labels - 1)) for arm in (one, two)
        ],
        "Bets against the earlier model could not win, as it may know labels of the holdout",
    ),
}


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("what", CAUSES)
def test_the_first_sentence_names_the_cause(what, features):
    change, cause = CAUSES[what]
    leak = 0.0 if what in {"a golden holdout", "doubled rows"} else 1.0
    if what == "a proxy that saw all" and features:
        return  # the student then proves the leak
    arms = change(*day(leak=leak))
    if not features:
        arms = [arm._replace(context=None) for arm in arms]
    answer = audit_probabilities(*arms, epsilon_declared=1.0)
    assert answer.reason.startswith(cause), answer.reason
    assert answer.verdict is not Verdict.VIOLATED
    assert not answer.epsilon_lower > 1.0
    assert "hold out more" not in answer.reason
    assert answer.reason.count(". ") <= 4


def test_swapped_arms_are_suspect_by_their_features_and_noted_without():
    training, control = day(leak=1.0)
    answer = audit_probabilities(control, training, epsilon_declared=1.0)
    assert answer.reason_code is ReasonCode.HOLDOUT_SUSPECT
    assert answer.reason.startswith("holdout_suspect: the target knows labels of holdout records")
    bare = [arm._replace(context=None) for arm in (control, training)]
    answer = audit_probabilities(*bare, epsilon_declared=1.0)
    assert nothing_wrong(answer)  # an honest model can look the same
    assert "So it is if the two arms are swapped" in answer.reason


def test_who_learns_noisy_labels_by_heart_on_a_day_that_moved_is_never_accused():
    """N = 10, seeds [7, 0] on, labels at 0.5: the arms look swapped, and nothing is wrong."""
    for seed in range(10):
        random = np.random.default_rng([7, seed])
        before = 0.5 * random.normal(size=6_000)
        today = before + np.sign(random.normal(size=6_000))
        labels = (random.random(6_000) < expit(today)).astype(int)
        noisy = np.where(random.random(6_000) < expit(0.5), labels, 1 - labels)
        train = random.random(6_000) < 0.75
        target = expit(0.8 * today + np.where(train, 2.0 * (2 * noisy - 1), 0.0))
        arms = [Arm(target[arm], expit(before)[arm], labels[arm]) for arm in (train, ~train)]
        answer = audit_probabilities(*arms, epsilon_declared=0.5)
        assert nothing_wrong(answer) or answer.reason_code is ReasonCode.PROXY_WRONG


def test_an_epsilon_of_100_is_said_to_promise_nothing():
    answer = audit_probabilities(*day(), epsilon_declared=100.0)
    assert answer.reason_code is ReasonCode.DECLARATION_EMPTY
    assert answer.reason.startswith("The declaration says nothing: at its epsilon of 100")


@pytest.mark.slow
def test_honest_days_have_no_cause_but_chance():
    """Seeds 0 to 59: each is refused with a chance of 1 in 700, and never doubted."""
    answers = [audit_probabilities(*day(seed, leak=0.0), epsilon_declared=1.0)
               for seed in range(60)]  # fmt: skip
    wrong = [answer.reason_code for answer in answers if not nothing_wrong(answer)]
    assert len(wrong) <= 2
    assert set(wrong) <= {ReasonCode.PROXY_WRONG}


def test_honest_arms_are_never_called_swapped():
    """None of 200 audits in which nothing leaks (seed 5) is above 5 standard errors."""
    quiet = Binary(base=0.0).world("", 0.0, 400, 200)
    random = np.random.default_rng(5)
    for _ in range(200):
        odds = ([odds_tally(*checked_arm("arm", Arm(*arm))[:3])] for arm in quiet.draw(random))
        assert holdout_lead(*odds) < SWAPPED


def test_who_learns_noisy_labels_by_heart_is_not_called_swapped():
    """Noisy labels that are true in 0.6 of cases, and each said with 0.99."""
    random = np.random.default_rng(7)
    labels, held = (random.integers(0, 2, 4_000) for _ in range(2))
    said = np.where(random.random(4_000) < 0.6, labels, 1 - labels)
    even = np.full(4_000, 0.5)
    unseen = np.clip(0.5 + 0.05 * random.normal(size=4_000), 0.3, 0.7)
    answer = audit_probabilities(
        Arm(np.where(said == 1, 0.99, 0.01), even, labels),
        Arm(unseen, even, held),
        epsilon_declared=0.5,
    )
    assert (nothing_wrong(answer), "swapped" in answer.reason) == (True, False)


@pytest.mark.parametrize("held", [5, MINIMUM_CONTROL_RECORDS - 1])
def test_a_few_holdout_records_never_accuse(held):
    training, control = (Arm(*arm) for arm in one_column())
    few = Arm(*(values[:held] for values in control[:3]))
    answer = audit_probabilities(training, few, epsilon_declared=0.1)
    assert answer.reason_code is ReasonCode.FEW_HELD_OUT
    assert np.isnan(answer.epsilon_lower)
    assert f"There are {held} holdout records, fewer than 30" in answer.reason
    enough = Arm(*(values[:MINIMUM_CONTROL_RECORDS] for values in control[:3]))
    answer = audit_probabilities(training, enough, epsilon_declared=0.1)
    assert not np.isnan(answer.epsilon_lower)


def test_something_else_than_an_arm_is_named():
    training, control = one_column()
    with pytest.raises(InvalidInputError, match="the training arm is 'ndarray', but it is an Arm"):
        audit_probabilities(training[0], control)
    assert audit_probabilities(training, control).verdict is Verdict.UNDECLARED


def test_an_answer_prints_in_ten_lines_and_is_a_table():
    answer = audit(REMEMBERED, epsilon_declared=1.0)
    lines = str(answer).splitlines()
    assert len(lines) == 10
    assert lines[:2] == ["violated: this_night", answer.reason]
    assert lines[2].split()[:2] == [
        "epsilon_lower",
        f"{np.floor(answer.epsilon_lower * 100) / 100:.2f}",
    ]
    page = answer._repr_html_()
    assert page.count("<tr>") == 8
    assert "nan" not in str(
        audit_probabilities(*(Arm(*(v[:9] for v in arm)) for arm in one_column()))
    )


def the_day():
    """Return the probabilities, labels and holdout of all rows of a day."""
    arms = one_column()
    target, proxy, labels = (np.concatenate(parts) for parts in zip(*arms, strict=True))
    return target, proxy, labels, np.arange(len(labels)) >= len(arms[0][2])


def test_models_are_asked_and_their_classes_looked_up():
    target, proxy, labels, holdout = the_day()
    plain = audit(REMEMBERED, epsilon_declared=1.0)
    words = np.where(labels == 1, "yes", "no")
    answer = audit_models(
        Model(target, ["no", "yes"]), Model(proxy, ["no", "yes"]), np.zeros((len(labels), 1)),
        words, holdout, epsilon_declared=1.0,
    )  # fmt: skip
    assert answer.epsilon_lower == pytest.approx(plain.epsilon_lower, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"today": object()}, "today is 'object', but it has predict_proba"),
        ({"yesterday": Model(np.ones(3), [1, 0])}, r"classes of yesterday is \[1, 0\]"),
        ({"labels": np.full(2_500, 7)}, "labels is 7, but the models' classes are"),
        ({"holdout": np.zeros(2_500)}, "holdout is 'float64 of shape"),
        ({"holdout": np.zeros(2_500, dtype=bool)}, "true for some rows and not for all"),
        ({"rows": np.zeros((2_499, 1))}, "number of labels is 2500"),
    ],
)
def test_models_that_do_not_fit_are_named(change, message):
    target, proxy, labels, holdout = the_day()
    given = {
        "today": Model(target, [0, 1]), "yesterday": Model(proxy, [0, 1]),
        "rows": np.zeros((2_500, 1)), "labels": labels, "holdout": holdout,
    } | change  # fmt: skip
    refused(message, audit_models, **given)
