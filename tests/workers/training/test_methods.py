"""Every way to train: what it sees of the labels, what it declares, what it refuses."""

import dataclasses
import math
from functools import partial

import numpy as np
import polars as pl
import pytest

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    RandomizedResponse,
    RandomizedResponseWithPrior,
    correct_probabilities,
)
from tests.support.refusals import refused
from workers.lake.manifest import Feature, LabelColumn
from workers.training.methods import Learner, MultiStage, Pate, TrainingData

LABEL = LabelColumn(column="label", classes=("no", "maybe", "yes"))
FEATURES = (Feature(name="identity", kind="numeric"), Feature(name="city", kind="categorical"))
METHODS = {
    "lp-1st": MultiStage,
    "domain-prior": partial(MultiStage, measured_prior=True),
    "noise-correction": partial(MultiStage, noise_correction=True),
    "lp-2st": partial(MultiStage, stages=2),
    "lp-mst": partial(MultiStage, stages=3),
    "pate": partial(Pate, teachers=5, queries=100),
}
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


def useless(labels, random):
    """Return rows with these labels, whose features say nothing of them."""
    identity = random.normal(size=labels.size).astype(np.float32)
    features = pl.DataFrame({"identity": identity}).with_columns(city=pl.lit("AMS"))
    return TrainingData(features, labels)


def fit(method, given=None, *, learner=LEARNER, seed=9):
    random, given = np.random.default_rng(seed), given or data()
    if isinstance(method, Pate):
        asked, votes = method.vote(given, learner, random=random)
        return method.graduate(given.features[asked], votes, learner, random=random)
    return method.fit(given, learner, random=random)


class Watching(Learner):
    """A learner that remembers whose records each of its models was trained on, and the labels."""

    __slots__ = ()
    seen: list[tuple[set[float], np.ndarray]] = []  # noqa: RUF012  # cleared by the fixture

    def fit(self, features, labels):
        self.seen.append((set(features["identity"].to_list()), np.asarray(labels)))
        return super().fit(features, labels)


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


@pytest.mark.parametrize("name", METHODS)
def test_without_noise_every_pipeline_learns_the_labels(name):
    method = METHODS[name](math.inf)
    given = data()
    chances = LEARNER.predict(fit(method, given).fitted, given.features)
    assert np.mean(np.argmax(chances, axis=1) == given.labels) > 0.95


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_model_and_noise_makes_another(name):
    given = data(300)
    loud, quiet = (METHODS[name](epsilon) for epsilon in (0.5, math.inf))

    def predicted(method, seed):
        return LEARNER.predict(fit(method, given, seed=seed).fitted, given.features)

    assert np.array_equal(predicted(loud, 1), predicted(loud, 1))
    assert not np.array_equal(predicted(loud, 1), predicted(loud, 2))
    assert not np.array_equal(predicted(loud, 1), predicted(quiet, 1))


def test_noise_correction_brings_the_shares_back():
    """10,000 records at epsilon 1, useless features: shares near (0.8, 0.15, 0.05) again."""
    random = np.random.default_rng(8)
    given = useless(random.choice(3, 10_000, p=(0.8, 0.15, 0.05)), random)
    learner = Learner(LABEL, FEATURES, seed=1, parameters={"iterations": 30, "depth": 1})
    plain, corrected = (
        fit(method, given, learner=learner)
        for method in (MultiStage(1.0), MultiStage(1.0, noise_correction=True))
    )
    assert plain.output_correction is None
    # The model itself is the same: what differs is what is made of its answers.
    answers = learner.predict(corrected.fitted, given.features)
    assert np.array_equal(answers, learner.predict(plain.fitted, given.features))
    assert abs(answers.mean(axis=0)[0] - 0.8) > 0.2
    flip = RandomizedResponse(corrected.output_correction.epsilon, 3).distribution()
    floor = corrected.output_correction.floor
    shares = correct_probabilities(answers, flip, floor=floor).mean(axis=0)
    assert shares == pytest.approx((0.8, 0.15, 0.05), abs=0.04)


def test_a_student_of_draws_learns_a_rare_class_that_no_majority_votes_for():
    """6,000 records, two classes of 5%, useless features, 20 teachers, 400 queries, no noise."""
    random = np.random.default_rng(9)
    given = useless(random.choice(3, 6_000, p=(0.9, 0.05, 0.05)), random)
    learner = Learner(LABEL, FEATURES, seed=1, parameters={"iterations": 20, "depth": 2})
    student = fit(Pate(math.inf, teachers=20, queries=400), given, learner=learner)
    # The votes and the answers are drawn: 400 answers of a rate of 5% deviate by 1.1%.
    shares = learner.predict(student.fitted, given.features).mean(axis=0)
    assert shares == pytest.approx((0.9, 0.05, 0.05), abs=0.06)


def test_validation_labels_choose_how_many_trees_a_model_keeps():
    """Useless features, 2,000 fair coins as labels: each further tree learns noise alone."""
    random = np.random.default_rng(12)
    rows, kept = (useless(random.integers(0, 2, 2_000), random) for _ in range(2))
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


def test_bad_input_is_named():
    for make in METHODS.values():
        for epsilon in (0.0, -1.0, math.nan):
            refused("epsilon is", make, epsilon)
        for label in (-1, 3):
            strange = data(200)
            strange.labels[:] = label
            refused(f"labels is {label}", fit, make(1.0), strange)
    refused("stages is 0", MultiStage, 1.0, stages=0)
    refused("parts is 4", fit, MultiStage(1.0, stages=4), data(3))
    refused("one stage with a uniform prior", MultiStage, 1.0, stages=2, noise_correction=True)
    refused("teachers is 0", Pate, 1.0, teachers=0)
    refused("parts is 11, but 10 records", fit, Pate(1.0, teachers=11, queries=10), data(20))
    with pytest.raises(InvalidInputError, match="queries is 30, but there are only 20"):
        fit(Pate(1.0, teachers=2, queries=30), data(20))
    blind = data(20)
    constant = TrainingData(
        blind.features.with_columns(identity=0.0, city=pl.lit("AMS")), blind.labels
    )
    refused("CatBoost cannot train on them", fit, MultiStage(1.0), constant)
