"""Every way to train: what it sees of the labels, what it declares, what it refuses."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import mechanism_from_manifest
from privcore.mechanisms import (
    RandomizedResponse,
    RandomizedResponseWithPrior,
    correct_probabilities,
)
from tests.support.lake import Shuffled
from workers.executors import InProcess
from workers.lake.manifest import Feature, LabelColumn
from workers.training.methods import (
    MECHANISMS,
    Alibi,
    Learner,
    MultiStage,
    Pate,
    TrainingData,
    method_named,
)

LABEL = LabelColumn(column="label", classes=("no", "maybe", "yes"))
FEATURES = (Feature(name="identity", kind="numeric"), Feature(name="city", kind="categorical"))
FEW = {"iterations": 5, "depth": 3, "learning_rate": 0.5}
LEARNER = Learner(LABEL, FEATURES, seed=1, parameters=FEW)


def data(records=600, seed=4):
    random = np.random.default_rng(seed)
    labels = random.choice(3, records, p=(0.5, 0.3, 0.2))
    features = pl.DataFrame(
        {
            "identity": np.arange(records, dtype=np.float32),
            "city": np.array(["AMS", "BER", "CDG"])[labels],
        }
    )
    return TrainingData(features, labels)


def fit(method, given=None, *, learner=LEARNER, executor=None, seed=9):
    random = np.random.default_rng(seed)
    return method.fit(given or data(), learner, random=random, executor=executor or InProcess())


class Watching(Learner):
    """A learner that remembers whose records each of its models was trained on, and the labels."""

    __slots__ = ()
    seen: list[tuple[set[float], np.ndarray]] = []  # noqa: RUF012  # cleared by the fixture

    def fit(self, features, labels, weights=None):
        self.seen.append((set(features["identity"].to_list()), np.asarray(labels)))
        return super().fit(features, labels, weights)


@pytest.fixture
def watching():
    Watching.seen.clear()
    return Watching(LABEL, FEATURES, seed=1, parameters=FEW)


def test_stages_are_disjoint_and_each_label_answers_once(watching, monkeypatch):
    """Models see one stage's records, then two stages', then all; each label answers once."""
    answered = []
    for kind in (RandomizedResponse, RandomizedResponseWithPrior):
        sample = kind.sample

        def counted(self, labels, *rest, sample=sample):
            answered.append(len(labels))
            return sample(self, labels, *rest)

        monkeypatch.setattr(kind, "sample", counted)
    fit(MultiStage(1.0, stages=3), learner=watching)
    first, second, last = (identities for identities, _ in watching.seen)
    assert first < second < last == {float(i) for i in range(600)}
    assert (len(first), len(second)) == (200, 400)
    assert answered == [200, 200, 200]
    # A later stage does not ask again: the labels that were private before are the same ones.
    before = dict(zip(sorted(first), watching.seen[0][1], strict=True))
    after = dict(zip(sorted(last), watching.seen[2][1], strict=True))
    assert all(after[identity] == label for identity, label in before.items())


def test_teachers_are_disjoint_and_never_see_a_query(watching):
    fit(Pate(math.inf, teachers=20, queries=100), learner=watching)
    *teachers, student = (identities for identities, _ in watching.seen)
    assert len(teachers) == 20
    assert len(set.union(*teachers)) == sum(map(len, teachers)) == 500
    assert len(student) == 100
    assert not student & set.union(*teachers)


def test_alibi_draws_its_noise_once(monkeypatch):
    from privcore.mechanisms import LaplaceOneHot  # noqa: PLC0415

    draws = []
    sample = LaplaceOneHot.sample
    monkeypatch.setattr(LaplaceOneHot, "sample", lambda *given: draws.append(1) or sample(*given))
    fit(Alibi(2.0, rounds=3))
    assert draws == [1]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 8.0])
def test_every_manifest_entry_accounts_for_the_declared_epsilon(name, epsilon):
    method = method_named(name, epsilon)
    accounted = mechanism_from_manifest(**method.manifest_entry(3)).epsilon(method.delta)
    assert accounted == pytest.approx(epsilon, rel=1e-9)


def test_a_prior_from_outside_is_declared_costs_nothing_and_asks_no_label(monkeypatch):
    """Stages get the whole budget; nothing is measured, and the manifest says whence it came."""
    prior = (0.5, 0.3, 0.2)
    method = MultiStage(2.0, prior=prior)
    entry = method.manifest_entry(3)
    assert entry == {
        "name": "randomized_response_with_prior",
        "parameters": {"epsilon": 2.0, "prior_from_outside": [0.5, 0.3, 0.2]},
    }
    assert mechanism_from_manifest(**entry).epsilon(0.0) == pytest.approx(2.0, rel=1e-9)
    monkeypatch.setattr("workers.training.methods.measure_prior", None)
    asked = []
    sample = RandomizedResponseWithPrior.sample

    def noted(self, labels, given, random):
        asked.append((self.epsilon, len(labels), {tuple(row) for row in given}))
        return sample(self, labels, given, random)

    monkeypatch.setattr(RandomizedResponseWithPrior, "sample", noted)
    fit(method)
    assert asked == [(2.0, 600, {prior})]
    assert MultiStage(math.inf, prior=prior).manifest_entry(3) is None
    measured = method_named("lp-1st-domain-prior", 2.0).manifest_entry(3)
    assert "prior_from_outside" not in str(measured)


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_noise_every_pipeline_learns_the_labels_and_declares_nothing(name):
    method = method_named(name, math.inf, teachers=5, queries=300)
    given = data()
    chances = LEARNER.predict(fit(method, given).fitted, given.features)
    assert np.mean(np.argmax(chances, axis=1) == given.labels) > 0.95
    assert method.manifest_entry(3) is None


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_same_seed_gives_the_same_model_and_noise_makes_another(name):
    given = data(300)
    loud, quiet = (method_named(name, e, teachers=5, queries=100) for e in (0.5, math.inf))

    def predicted(method, seed):
        return LEARNER.predict(fit(method, given, seed=seed).fitted, given.features)

    assert np.array_equal(predicted(loud, 1), predicted(loud, 1))
    assert not np.array_equal(predicted(loud, 1), predicted(loud, 2))
    assert not np.array_equal(predicted(loud, 1), predicted(quiet, 1))


@pytest.mark.parametrize("answers", ["maximum", "sample"])
def test_whoever_trains_the_teachers_the_student_is_the_same(answers):
    method = Pate(2.0, teachers=7, queries=50, answers=answers)
    given = data()
    one, two = (
        LEARNER.predict(fit(method, given, executor=each).fitted, given.features)
        for each in (InProcess(), Shuffled(3))
    )
    assert np.array_equal(one, two)


def test_noise_correction_brings_the_shares_back():
    """10,000 records at epsilon 1, useless features: shares near (0.8, 0.15, 0.05) again."""
    random = np.random.default_rng(8)
    labels = random.choice(3, 10_000, p=(0.8, 0.15, 0.05))
    features = pl.DataFrame(
        {"identity": random.normal(size=10_000).astype(np.float32), "city": ["AMS"] * 10_000}
    )
    given = TrainingData(features, labels)
    learner = Learner(LABEL, FEATURES, seed=1, parameters={"iterations": 30, "depth": 1})
    plain, corrected = (
        fit(method, given, learner=learner)
        for method in (MultiStage(1.0), MultiStage(1.0, noise_correction=True))
    )
    assert plain.output_correction is None
    # The model itself is the same: what differs is what is made of its answers.
    answers = learner.predict(corrected.fitted, features)
    assert np.array_equal(answers, learner.predict(plain.fitted, features))
    assert abs(answers.mean(axis=0)[0] - 0.8) > 0.2
    flip = RandomizedResponse(corrected.output_correction.epsilon, 3).distribution()
    floor = corrected.output_correction.floor
    shares = correct_probabilities(answers, flip, floor=floor).mean(axis=0)
    assert shares == pytest.approx((0.8, 0.15, 0.05), abs=0.04)


def test_a_prior_that_rules_a_class_out_leaves_a_model_that_knows_all_classes():
    """At prior 0.97 and a small epsilon every answer is the same; the model still has 3 classes."""
    model = fit(MultiStage(0.5, prior=(0.97, 0.02, 0.01)))
    chances = LEARNER.predict(model.fitted, data().features)
    assert chances.shape == (600, 3)
    assert np.all(chances[:, 0] > 0.9)


def test_a_student_of_draws_learns_a_rare_class_that_no_majority_votes_for():
    """6,000 records, two classes of 5%, useless features, 20 teachers, 400 queries, no noise."""
    random = np.random.default_rng(9)
    labels = random.choice(3, 6_000, p=(0.9, 0.05, 0.05))
    features = pl.DataFrame(
        {"identity": random.normal(size=6_000).astype(np.float32), "city": ["AMS"] * 6_000}
    )
    learner = Learner(LABEL, FEATURES, seed=1, parameters={"iterations": 20, "depth": 2})
    by_answers = {
        answers: learner.predict(
            fit(
                Pate(math.inf, teachers=20, queries=400, answers=answers),
                TrainingData(features, labels),
                learner=learner,
            ).fitted,
            features,
        ).mean(axis=0)
        for answers in ("maximum", "sample")
    }
    # The votes and the answers are drawn: 400 answers of a rate of 5% deviate by 1.1%.
    assert by_answers["sample"] == pytest.approx((0.9, 0.05, 0.05), abs=0.06)
    assert by_answers["maximum"][0] > 0.98


def test_validation_labels_choose_how_many_trees_a_model_keeps():
    """Useless features, 2,000 fair coins as labels: each further tree learns noise alone."""
    random = np.random.default_rng(12)
    features = pl.DataFrame(
        {"identity": random.normal(size=4_000).astype(np.float32), "city": ["AMS"] * 4_000}
    )
    labels = random.integers(0, 2, 4_000)
    rows, kept = (
        TrainingData(features[place], labels[place])
        for place in (slice(0, 2_000), slice(2_000, 4_000))
    )
    parameters = {"iterations": 60, "depth": 6, "learning_rate": 0.4}
    whole = Learner(LABEL, FEATURES, 1, parameters)
    chosen = dataclasses.replace(whole, validation=kept)
    models = [fit(MultiStage(math.inf), rows, learner=each).fitted for each in (whole, chosen)]
    assert models[0].tree_count_ == 60
    assert models[1].tree_count_ < 20
    # What is kept are the first trees of the same model.
    few = models[0].copy()
    few.shrink(models[1].tree_count_)
    one, other = (whole.predict(model, rows.features) for model in (few, models[1]))
    assert one == pytest.approx(other, abs=1e-12)

    def loss(model):
        chances = whole.predict(model, kept.features)
        return -np.log(chances[np.arange(2_000), kept.labels]).mean()

    losses = [loss(models[1])]
    for trees in (models[1].tree_count_ + 1, 60):
        longer = models[0].copy()
        longer.shrink(trees)
        losses.append(loss(longer))
    assert losses[0] == min(losses)


def test_teachers_and_student_keep_the_trees_that_validation_labels_choose():
    given = data(400)
    others = TrainingData(given.features, (given.labels + 1) % 3)
    chosen = dataclasses.replace(LEARNER, validation=others)
    plain, few = (
        fit(Pate(math.inf, teachers=4, queries=40, answers="sample"), given, learner=learner).fitted
        for learner in (LEARNER, chosen)
    )
    assert few.tree_count_ < plain.tree_count_


def test_a_floor_of_0_is_the_corrections():
    fitted = fit(MultiStage(1.0, noise_correction=True, floor=0.0))
    assert fitted.output_correction.floor == 0.0


def test_drawn_votes_declare_what_votes_by_majority_do():
    entry = Pate(4.0, teachers=10, queries=20).manifest_entry(3)
    assert set(entry["parameters"]) == {"deviation", "queries"}
    assert Pate(4.0, teachers=10, queries=20, answers="sample").manifest_entry(3) == entry


def test_bad_input_is_named():
    for name in MECHANISMS:
        for epsilon in (0.0, -1.0, math.nan):
            with pytest.raises(InvalidInputError, match="epsilon is"):
                method_named(name, epsilon)
    with pytest.raises(InvalidInputError, match="mechanism is 'lp-0st', but it is one of lp-1st"):
        method_named("lp-0st", 1.0)
    with pytest.raises(InvalidInputError, match="stages is 0"):
        MultiStage(1.0, stages=0)
    with pytest.raises(InvalidInputError, match="parts is 4"):
        fit(MultiStage(1.0, stages=4), data(3))
    with pytest.raises(InvalidInputError, match=r"prior is 0\.9"):
        MultiStage(1.0, prior=(0.5, 0.25, 0.15))
    with pytest.raises(InvalidInputError, match=r"prior is \(0\.5, 0\.5\), but it holds one"):
        fit(MultiStage(1.0, prior=(0.5, 0.5)))
    with pytest.raises(InvalidInputError, match="one stage with a uniform prior"):
        MultiStage(1.0, stages=2, noise_correction=True)
    with pytest.raises(InvalidInputError, match="rounds is 0"):
        Alibi(1.0, rounds=0)
    with pytest.raises(InvalidInputError, match="teachers is 0"):
        Pate(1.0, teachers=0)
    with pytest.raises(InvalidInputError, match="parts is 11, but 10 records"):
        fit(Pate(1.0, teachers=11, queries=10), data(20))
    with pytest.raises(InvalidInputError, match="queries is 30, but there are only 20"):
        fit(Pate(1.0, teachers=2, queries=30), data(20))
    for name in MECHANISMS:
        for label in (-1, 3):
            strange = data(20)
            strange.labels[:] = label
            with pytest.raises(InvalidInputError, match=f"labels is {label}"):
                fit(method_named(name, 1.0, teachers=2, queries=10), strange)
    blind = data(20)
    constant = TrainingData(
        blind.features.with_columns(identity=0.0, city=pl.lit("AMS")), blind.labels
    )
    with pytest.raises(InvalidInputError, match="CatBoost cannot train on them"):
        fit(MultiStage(1.0), constant)
