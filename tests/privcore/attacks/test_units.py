"""One bit per person: partial sums that merge, and size and power with 100 records per person.

Rates are judged with an exact binomial test at level 1e-6 (`tests.simulate.JUDGING_LEVEL`); every
test states its N and seed.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks import (
    LogRatioScore,
    PaperScore,
    ScoredRecords,
    Tally,
    generator,
    label_inference,
    stream_key,
)
from privcore.attacks.hashing import coin_words, record_streams
from privcore.attacks.tally import BINS, confidence_bins
from privcore.attacks.units import UnitScores, unit_label_inference
from privcore.exceptions import InvalidInputError
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, Grid, choice_epsilon_lower, game_evidence
from tests.simulate import assert_rate_at_most, randomized_response, two_columns
from tests.support.tiers import rest_slow

PURE = Claim(family=PureDP(), delta=0.0)
RECORDS, EACH = 60, 100


def bound(tally, seed=0):
    return choice_epsilon_lower(tally, claim=PURE, choice=Grid(), random=generator(seed))


def rows_of(seed, classes=3):
    values = np.random.default_rng(seed).random((RECORDS, classes)) + 1e-3
    return values / values.sum(axis=1, keepdims=True)


def part(rows=range(RECORDS), *, sharing=0.3, repetitions=4, units=None, score=PaperScore()):  # noqa: B008  # frozen
    """Play on some rows of an example of 60 records of 12 people."""
    rows, random = np.array(rows, dtype=np.int64), np.random.default_rng(2)
    labels, people = random.integers(0, 3, RECORDS), random.integers(0, 12, RECORDS)
    return unit_label_inference(
        ScoredRecords(rows_of(0), rows_of(1), labels, 11).of(rows),
        (people if units is None else units)[rows],
        score=score,
        repetitions=repetitions,
        unit_key=7,
        sharing=sharing,
    )


def uniform(word):
    return (int(word) >> 11) / 2**53


@pytest.mark.parametrize("score", [PaperScore(), LogRatioScore()])
@pytest.mark.parametrize("sharing", [0.0, 0.3, 1.0])
def test_it_agrees_with_a_naive_game(sharing, score):
    """Person by person, with Python's integers; the words themselves are tested elsewhere."""
    target, proxy, random = rows_of(0), rows_of(1), np.random.default_rng(2)
    labels, people = random.integers(0, 3, RECORDS), random.integers(0, 12, RECORDS)
    scores, repetitions = score(target, proxy), 4
    own = coin_words(record_streams(RECORDS, key=11, indices=None), repetitions)
    # Mixing once more is what a stream does with its word at repetition 0.
    again = coin_words(own.ravel(), 1).reshape(own.shape)
    guesses = np.zeros((repetitions, BINS), dtype=np.int64)
    correct = np.zeros_like(guesses)
    for person in sorted(set(people.tolist())):
        stream = np.array([stream_key(7, person)], dtype=np.uint64)
        word = coin_words(stream, repetitions)[0]
        common = coin_words(word, 1)[:, 0]
        for r in range(repetitions):
            bit, total = int(word[r]) & 1, 0
            for i in np.flatnonzero(people == person):
                drawn = common[r] if uniform(again[i, r]) < sharing else own[i, r]
                fresh = int(np.sum(uniform(drawn) >= np.cumsum(proxy[i])[:-1]))
                total += round(scores[i, labels[i] if bit else fresh] * 2**32)
            guess = int(word[r]) >> 1 & 1 if total == 0 else int(total > 0)
            cell = int(confidence_bins(np.array([[total / 2**32]]))[0, 0])
            guesses[r, cell] += 1
            correct[r, cell] += guess == bit
    people_seen = len(set(people.tolist()))
    assert part(sharing=sharing, score=score).tally() == Tally(people_seen, guesses, correct)


@given(st.lists(st.integers(0, 2), min_size=RECORDS, max_size=RECORDS))
@settings(max_examples=25, deadline=None)
def test_any_sharding_gives_the_same_scores_in_any_grouping(shards):
    a, b, c = (part(np.flatnonzero(np.array(shards) == shard)) for shard in range(3))
    assert (a + b) + c == a + (b + c)
    assert c + (b + a) == part()
    assert (a + b + c).tally() == part().tally()


def test_zero_is_the_identity_and_units_count_not_records():
    scores = part()
    assert scores + UnitScores.zero(4) == scores == UnitScores.zero(4) + scores
    assert UnitScores.zero(4).tally() == Tally.zero(4)
    assert part([]) == UnitScores.zero(4)
    assert scores.sums.shape == (12, 4)
    tally = scores.tally()
    assert tally.records == 12
    assert np.all(tally.guesses.sum(axis=1) == 12)
    assert scores != part(sharing=0.0)


def test_tallies_of_separate_units_add():
    people = np.random.default_rng(2)
    people.integers(0, 3, RECORDS)
    people = people.integers(0, 12, RECORDS)
    few, rest = part(np.flatnonzero(people < 5)), part(np.flatnonzero(people >= 5))
    assert few.tally() + rest.tally() == part().tally()


def test_units_may_be_words_or_integers_of_any_width():
    words = np.array([f"person {i % 7}" for i in range(RECORDS)])
    assert part(units=words) == part(units=words.astype(object))
    numbers = np.arange(RECORDS) % 7
    same = part(units=numbers)
    for kind in (np.int8, np.uint64, object):
        assert part(units=numbers.astype(kind)) == same
    assert part(units=words) != same


def test_a_unit_of_one_record_plays_the_label_game():
    """Success by confidence agrees with `label_inference`: 3,000 replays, five standard errors."""
    alone = part(units=np.arange(RECORDS), repetitions=3_000, sharing=1.0).tally()
    labels = np.random.default_rng(2).integers(0, 3, RECORDS)
    records = label_inference(
        rows_of(0), rows_of(1), labels, score=PaperScore(), repetitions=3_000, key=3
    )
    counts = np.array([10, 30, RECORDS])
    ours, theirs = (tally.most_confident(counts, generator(1)) for tally in (alone, records))
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 3_000)
    assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5.0 * error)


@pytest.mark.parametrize("sharing", [0.0, 0.5, 1.0])
def test_sharing_draws_the_proxys_labels_with_the_stated_dependence(sharing):
    """Sums of two records' indicators: mean 2p, variance 2p(1-p)(1 + sharing^2); 40,000 draws."""
    units, p = 200, 0.3
    proxy = two_columns(np.full(2 * units, p))
    scores = unit_label_inference(
        ScoredRecords(
            np.tile([0.0, 1.0], (2 * units, 1)), proxy, np.zeros(2 * units, dtype=np.int64), 2
        ),
        np.repeat(np.arange(units), 2),
        score=Indicator(),
        repetitions=400,
        unit_key=1,
        sharing=sharing,
    )
    words = coin_words(scores.streams, 400)
    shown = (scores.sums / 2**32)[(words & np.uint64(1)) == 0]
    variance = 2 * p * (1 - p) * (1 + sharing**2)
    assert abs(shown.mean() - 2 * p) < 5 * np.sqrt(variance / shown.size)
    # The fourth central moment of a sum in {0, 1, 2} is at most 2^4 / 3.
    assert abs(shown.var() - variance) < 5 * np.sqrt(16 / 3 / shown.size)


class Indicator:
    """Scores each label by the target's number, whatever it is."""

    def __call__(self, target, proxy):
        return target + 0.0 * proxy


def test_game_evidence_reads_a_tally_of_units():
    evidence = game_evidence(
        part().tally(), claim=PURE, choice=Grid(), paper_delta=1e-5, random=generator(0)
    )
    assert evidence.records == 12


def clustered_null(people, random, *, prior, pull):
    """Return a target that knows nothing of these labels, which cluster: 100 alike per person.

    The proxy is right about every single label. The target has a belief per person, off by
    `pull` on average.
    """
    labels = np.repeat(random.random(people) < prior, EACH).astype(np.int64)
    belief = expit(logit(prior) + random.normal(pull, 1.0, people))
    return two_columns(np.repeat(belief, EACH)), two_columns(np.full(people * EACH, prior)), labels


def three_bounds(world, random, seed, *, sharing, score, repetitions):
    """Bounds of one audit: records as if alone, units, one record per unit."""
    target, proxy, labels = world
    arguments = {"score": score, "repetitions": repetitions, "key": int(random.integers(2**63))}
    units = unit_label_inference(
        ScoredRecords(target, proxy, labels, arguments["key"]),
        np.arange(labels.size) // EACH,
        score=score,
        repetitions=repetitions,
        unit_key=seed,
        sharing=sharing,
    )
    first = slice(None, None, EACH)
    return (
        bound(label_inference(target, proxy, labels, **arguments), seed),
        bound(units.tally(), seed),
        bound(label_inference(target[first], proxy[first], labels[first], **arguments), seed),
    )


@pytest.mark.parametrize("repetitions", rest_slow([1, 5]))
@pytest.mark.parametrize(("prior", "pull"), rest_slow([(0.5, 0.0), (0.1, -0.5)]))
def test_ignoring_units_over_reports_and_the_unit_bound_does_not(prior, pull, repetitions):
    """Nothing leaks. N = 100 audits of 100 people with 100 records each, seed 40."""
    random = np.random.default_rng(40)
    bounds = np.array(
        [
            three_bounds(
                clustered_null(100, random, prior=prior, pull=pull),
                random,
                i,
                sharing=1.0,
                score=PaperScore(),
                repetitions=repetitions,
            )
            for i in range(100)
        ]
    )
    ignored, units, one_each = (int(n) for n in np.sum(bounds > 0.0, axis=0))
    assert ignored > 40
    assert_rate_at_most(units, 100, PURE.significance)
    assert_rate_at_most(one_each, 100, PURE.significance)


def test_independent_counterfactuals_betray_labels_that_cluster():
    """The warning of the docstring: sharing 0 where labels are all alike. N = 50, seed 41."""
    random = np.random.default_rng(41)
    bounds = np.array(
        [
            three_bounds(
                clustered_null(100, random, prior=0.1, pull=-0.5),
                random,
                i,
                sharing=0.0,
                score=PaperScore(),
                repetitions=1,
            )
            for i in range(50)
        ]
    )
    errors = np.sum(bounds > 0.0, axis=0)
    assert errors[1] > 20
    assert_rate_at_most(int(errors[2]), 50, PURE.significance)


@pytest.mark.parametrize("epsilon", rest_slow([1.0, 2.0]))
def test_units_cover_a_mechanism_that_leaks_people(epsilon):
    """One noisy answer per person tells all 100 of their labels, which are alike: exactly epsilon.

    N = 40 audits of 1,000 people, 5 repetitions, seed 42; power: 20% of the truth on average. The
    records as if alone exceed the truth in more than 10% of the audits.
    """
    random = np.random.default_rng(42)
    bounds = []
    for i in range(40):
        people = randomized_response(1_000, epsilon, random, priors=(0.1,))
        world = (np.repeat(part, EACH, axis=0) for part in people)
        bounds.append(
            three_bounds(world, random, i, sharing=1.0, score=LogRatioScore(), repetitions=5)
        )
    above = np.sum(np.array(bounds) > epsilon, axis=0)
    assert above[0] > 4
    assert_rate_at_most(int(above[1]), 40, PURE.significance)
    assert_rate_at_most(int(above[2]), 40, PURE.significance)
    assert np.mean(bounds, axis=0)[1] > 0.2 * epsilon


def test_a_persons_records_say_together_what_none_says_alone():
    """Every label by randomized response at epsilon 0.5, independent given the features.

    A person with 100 records loses 50, one record 0.5: the units' bound lies between, the others
    stay below 0.5. N = 40 audits of 100 people, 5 repetitions, seed 43.
    """
    random, epsilon = np.random.default_rng(43), 0.5
    bounds = np.array(
        [
            three_bounds(
                randomized_response(100 * EACH, epsilon, random),
                random,
                i,
                sharing=0.0,
                score=LogRatioScore(),
                repetitions=5,
            )
            for i in range(40)
        ]
    )
    records, units, one_each = bounds.T
    assert_rate_at_most(int(np.sum(records > epsilon)), 40, PURE.significance)
    assert_rate_at_most(int(np.sum(one_each > epsilon)), 40, PURE.significance)
    assert units.max() < EACH * epsilon
    assert units.mean() > 2.0 * epsilon
    assert units.mean() > 3.0 * records.mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full((3, 2), np.nan)}, "target is nan, but a probability lies in"),
        ({"target": np.full((3, 2), -0.5)}, "target is -0.5, but a probability lies in"),
        ({"proxy": np.full((3, 2), 0.4)}, "sum to 1 within 1e-6"),
        ({"labels": np.array([0, 1, 2])}, "labels is 2, but a label is a class from 0 to 1"),
        ({"units": np.array([1, 2])}, r"units is \(2,\), but there is one per label"),
        ({"units": np.array([1.0, np.nan, 2.0])}, "units is nan, but every record"),
        ({"units": np.array(["a", None, "b"])}, "units is None, but every record"),
        ({"units": np.array([1.0, 2.0, 3.0])}, r"units is 1\.0, but units are integers"),
        ({"units": np.array([None, 1, 2])}, "units is None, but every record"),
        ({"units": np.array(["a", "", "b"])}, "units is '', but every record"),
        ({"units": np.array(["a", 1, "b"], dtype=object)}, "units is 1, but .* of one kind"),
        ({"units": np.array([True, False, True])}, "units is True, but units are"),
        ({"indices": np.arange(2)}, r"indices is \(2,\), but their shape is \(3,\)"),
        ({"repetitions": 0}, "at least once"),
        ({"sharing": 1.5}, r"sharing is 1.5, but a probability lies in \[0, 1\]"),
        ({"sharing": np.nan}, r"sharing is nan, but a probability lies in \[0, 1\]"),
        ({"score": lambda target, _: target * np.nan}, "score is nan, but its size is at most"),
        ({"score": lambda target, _: target * 1e9}, "score is 500000000.0, but its size"),
    ],
)
def test_bad_input_is_named(change, message):
    half, labels = np.full((3, 2), 0.5), np.array([0, 1, 1])
    records = ScoredRecords(half, half, labels, 0)
    of_records = {name: change.pop(name) for name in [*change] if hasattr(records, name)}
    arguments = {
        "records": dataclasses.replace(records, **of_records),
        "units": np.array([4, 4, 5]),
        "score": PaperScore(),
        "repetitions": 1,
        "unit_key": 0,
    } | change
    with pytest.raises(InvalidInputError, match=message):
        unit_label_inference(**arguments)


def test_scores_of_different_repetitions_do_not_add():
    with pytest.raises(InvalidInputError, match="repetitions is 3, but scores to add"):
        part() + UnitScores.zero(3)
