"""The label game against a naive twin, and attribute inference: its posterior and a known leak."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.attacks import (
    Deal,
    LogRatioScore,
    PaperScore,
    Tally,
    generator,
    label_inference,
    odds_tally,
    replay,
    stream_key,
)
from privcore.attacks.game import BINS, attribute_posterior, confidence_bin
from privcore.attacks.hashing import record_streams
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import Grid, choice_epsilon_lower
from tests.simulate import PURE
from tests.support.refusals import refused
from tests.support.words import WORD, naive_draw

RECORDS = 60


def probabilities(classes, seed):
    values = np.random.default_rng(seed).random((RECORDS, classes)) + 1e-3
    return values / values.sum(axis=1, keepdims=True)


def example(classes=3):
    labels = np.random.default_rng(2).integers(0, classes, RECORDS)
    return probabilities(classes, 0), probabilities(classes, 1), labels


def part(rows, classes=3, repetitions=4):
    target, proxy, labels = example(classes)
    rows = np.array(rows, dtype=np.int64)
    return label_inference(
        target[rows],
        proxy[rows],
        labels[rows],
        score=PaperScore(),
        repetitions=repetitions,
        key=11,
        indices=rows,
    )


@given(st.permutations(range(RECORDS)), st.integers(0, RECORDS), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_any_sharding_and_order_gives_the_same_tally(order, cut, classes):
    whole = part(range(RECORDS), classes)
    assert part(order[:cut], classes) + part(order[cut:], classes) == whole
    assert part(order[cut:], classes) + part(order[:cut], classes) == whole
    assert whole + Tally.zero(4) == whole != part(range(RECORDS - 1), classes)


def test_tallies_of_different_repetitions_do_not_add():
    with pytest.raises(InvalidInputError, match="repetitions is 3"):
        part(range(5)) + Tally.zero(3)


bins_of = np.vectorize(confidence_bin, otypes=[int])


def test_bins_are_monotone_in_confidence_and_hold_ties_apart():
    sizes = np.concatenate([[0.0], np.geomspace(1e-30, 1e6, 2_000)])
    bins = bins_of(sizes)
    assert bins[0] == 0
    assert np.all(np.diff(bins) >= 0)
    assert bins[1] == 1
    assert bins[-1] == BINS - 1
    assert np.array_equal(bins_of(-sizes), bins)


@pytest.mark.paper("observational", "Definition 4")
@pytest.mark.parametrize("score", [PaperScore(), LogRatioScore()])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_kernel_plays_the_naive_game_bit_by_bit(classes, score):
    """Every fifth record ties whatever is shown, of every other fifth all labels but two do."""
    target, proxy, labels = example(classes)
    target[::5] = proxy[::5]
    target[1::5] = proxy[1::5]
    target[1::5, -2:] = proxy[1::5, :-3:-1]
    key, repetitions = WORD - 3, 5
    tally = label_inference(target, proxy, labels, score=score, repetitions=repetitions, key=key)
    scores, bins = score(target, proxy), bins_of(score(target, proxy))
    assert np.any((scores == 0.0).sum(axis=1) == classes - 2) or classes == 2
    guesses, correct = np.zeros((2, repetitions, BINS), dtype=np.int64)
    for i, label in enumerate(labels):
        for repetition in range(repetitions):
            bit, coin, uniform = naive_draw(key, i, repetition)
            drawn = int((uniform / 2**53 >= np.cumsum(proxy[i])[:-1]).sum())
            shown = label if bit else drawn
            guess = int(scores[i, shown] > 0) if scores[i, shown] != 0 else coin
            guesses[repetition, bins[i, shown]] += 1
            correct[repetition, bins[i, shown]] += guess == bit
    assert tally == Tally(RECORDS, guesses, correct)


@pytest.mark.slow
def test_most_confident_takes_exact_numbers_and_splits_the_border_bin_fairly():
    guesses = np.zeros((20_000, BINS), dtype=np.int64)
    correct = np.zeros_like(guesses)
    guesses[:, 100], correct[:, 100] = 10, 9
    guesses[:, 50], correct[:, 50] = 20, 5
    tally = Tally(30, guesses, correct)
    taken = tally.most_confident(np.array([0, 10, 18, 30]), generator(4))
    assert np.all(taken[:, 0] == 0)
    assert np.all(taken[:, 1] == 9)
    assert np.all(taken[:, 3] == 14)
    drawn = taken[:, 2] - 9
    assert drawn.min() >= 0
    assert drawn.max() <= 5
    # Hypergeometric: 8 of 20 of which 5 are right; mean 2, variance 8 * 0.25 * 0.75 * 12 / 19.
    assert abs(drawn.mean() - 2.0) < 5 * np.sqrt(8 * 0.25 * 0.75 * 12 / 19 / 20_000)
    refused("each lies in 0 to 30", tally.most_confident, np.array([31]), generator(4))


def test_a_number_that_begins_like_the_border_is_decided_by_its_last_bit():
    """1,000 records, key 4: each border is the record's own uniform number, or one above it."""
    numbers = [naive_draw(4, i, 0) for i in range(1_000)]
    for above in (0, 1):
        deal = Deal(
            outcomes=np.tile(np.array([200, 400, 600], dtype=np.uint16), (1_000, 1)),
            borders=np.array([[uniform + above for _, _, uniform in numbers]], dtype=np.uint64),
            streams=record_streams(1_000, key=4, indices=None),
        )
        guesses = replay(deal, repetitions=1).guesses[0]
        own = sum(bit for bit, _, _ in numbers)
        assert (guesses[100], guesses[200], guesses[300]) == (
            (1_000 - own) * above,
            (1_000 - own) * (1 - above),
            own,
        )


def test_more_records_than_a_lane_can_count_are_all_counted():
    """150,000 records of one cell, key 9: as in three parts, and each guesses once."""
    half = np.full((150_000, 2), 0.5)
    target = half + np.array([0.25, -0.25])
    labels = np.zeros(150_000, dtype=np.int64)

    def play(rows):
        return label_inference(
            target[rows], half[rows], labels[rows], score=PaperScore(), repetitions=5, key=9,
            indices=rows,
        )  # fmt: skip

    whole = play(np.arange(150_000))
    assert np.all(whole.guesses.sum(axis=1) == 150_000)
    parts = [play(rows) for rows in np.split(np.arange(150_000), 3)]
    assert whole == parts[0] + parts[1] + parts[2]


def test_streams_are_fixed_by_what_they_name():
    assert stream_key(0, "a", "bc") != stream_key(0, "ab", "c")
    assert stream_key(1) != stream_key("1")
    assert stream_key(7, "model", "2013-02-01", "part.parquet", 3) == 9_003_722_267_483_186_242


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full((3, 2), np.nan)}, r"target is nan, but a probability lies in \[0, 1\]"),
        ({"proxy": np.full((3, 2), 0.4)}, "sum to 1 within 1e-6"),
        ({"proxy": np.full((4, 2), 0.5)}, "has the target's shape"),
        ({"labels": np.array([0, 1, 2])}, "labels is 2, but a label is a class from 0 to 1"),
        ({"labels": np.array([0, -1, 1])}, "labels is -1"),
        ({"labels": np.array([0, 1])}, "their shape is"),
        ({"labels": np.array([0.0, 1.0, 1.0])}, "dtype of labels is 'float64'"),
        ({"labels": np.array([0.0, np.nan, 1.0])}, "labels are whole numbers"),
        ({"labels": np.array([True, False, True])}, "dtype of labels is 'bool'"),
        ({"target": np.full((3, 1), 1.0)}, "classes >= 2"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {
        "target": np.full((3, 2), 0.5),
        "proxy": np.full((3, 2), 0.5),
        "labels": np.array([0, 1, 1]),
    } | change
    refused(message, label_inference, *arguments.values(), score=PaperScore(), repetitions=1, key=0)
    refused(message, odds_tally, *arguments.values())


def test_other_bad_values_are_named():
    half = np.full((1, 2), 0.5)
    with pytest.raises(InvalidInputError, match="at least once"):
        label_inference(half, half, np.array([0]), score=PaperScore(), repetitions=0, key=0)
    nothing = half * np.nan
    with pytest.raises(InvalidInputError, match="score is nan, but a score is a number"):
        label_inference(half, half, np.array([0]), score=lambda *_: nothing, repetitions=1, key=0)
    refused("power is -1", PaperScore, power=-1.0)
    refused("floor is 0", LogRatioScore, floor=0.0)


@pytest.mark.parametrize("most", [0, 1, 255, 256, 65_536, 2**40])
def test_pickled_tallies_are_the_same(most):
    """The largest count needs one byte, two, four or eight."""
    guesses = np.full((2, BINS), most, dtype=np.int64)
    tally = Tally(most * BINS, guesses, guesses // 2)
    again = pickle.loads(pickle.dumps(tally))  # noqa: S301
    assert again == tally
    assert (again.guesses.dtype, again.correct.dtype) == (np.int64, np.int64)
    assert again + again == tally + tally


def test_counts_of_few_records_are_pickled_as_two_bytes_each():
    guesses = np.full((100, BINS), 300, dtype=np.int64)
    tally = Tally(300 * BINS, guesses, guesses)
    assert len(pickle.dumps(tally)) < 2 * 2 * guesses.size + 1000


COLUMN_RECORDS, VALUES = 40, 3


def naive_posterior(prior, likelihood):
    found = []
    for beliefs, chances in zip(prior, likelihood, strict=True):
        joint = [belief * chance for belief, chance in zip(beliefs, chances, strict=True)]
        found.append([part / sum(joint) for part in joint])
    return np.array(found)


@given(st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_posterior_is_bayes_rule(seed):
    random = np.random.default_rng(seed)
    target = random.random((COLUMN_RECORDS, VALUES))
    prior = random.dirichlet(np.ones(VALUES), COLUMN_RECORDS)
    posterior = attribute_posterior(prior, target)
    assert np.allclose(posterior, naive_posterior(prior, target), rtol=1e-12, atol=0.0)
    shared = attribute_posterior(prior[0], target)
    assert np.allclose(shared, naive_posterior(np.tile(prior[0], (COLUMN_RECORDS, 1)), target))
    assert np.allclose(attribute_posterior(prior, np.full_like(target, 0.3)), prior)


@pytest.mark.paper("observational", "Algorithm 2")
def test_a_set_of_attributes_is_one_whose_values_are_their_pairs():
    """Columns of 2 and 3 values are one of 6, and a model that remembers pairs is found."""
    random, records = np.random.default_rng(4), 3_000
    pairs = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])
    secret = random.choice(6, records, p=pairs.ravel())
    general = random.uniform(0.2, 0.8, (records, 6))  # what holds of the record's label in general
    remembered = np.where(np.eye(6, dtype=bool)[secret], 0.95, general)
    both = {
        name: attribute_posterior(pairs.ravel(), likelihood).reshape(records, 2, 3)
        for name, likelihood in {"target": remembered, "proxy": general}.items()
    }
    given_first = (general.reshape(records, 2, 3) * pairs).sum(axis=2) / pairs.sum(axis=1)
    alone = attribute_posterior(pairs.sum(axis=1), given_first)
    assert np.allclose(both["proxy"].sum(axis=2), alone)  # the pair's posterior is Bayes' rule

    def found(target, values):
        about = {"score": PaperScore(), "repetitions": 4, "key": 5}
        beliefs = (each.reshape(records, -1) for each in (target, both["proxy"]))
        game = label_inference(*beliefs, values, **about)
        return choice_epsilon_lower(game, claim=PURE, choice=Grid(), random=generator(5))

    assert found(both["target"], secret) > 0.3
    # What the model remembers of others is no news of fresh pairs with the same distribution.
    fresh = [random.choice(6, p=chances.ravel()) for chances in both["proxy"]]
    assert found(both["target"], np.array(fresh)) == 0.0


def test_posterior_at_the_extremes():
    prior = np.array([0.5, 0.5, 0.0])
    tiny = attribute_posterior(prior, np.array([[3e-320, 1e-320, 1.0]]))
    assert tiny[0] == pytest.approx([0.75, 0.25, 0.0], abs=1e-3)
    certain = attribute_posterior(prior, np.array([[0.0, 0.2, 0.9]]))
    assert np.array_equal(certain, [[0.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihood": np.full((2, 3), np.nan)}, "likelihood is nan, but a probability lies in"),
        ({"prior": np.array([0.5, 0.4, 0.0])}, "prior is 0.9, but a record's prior sums to 1"),
        ({"prior": np.array([0.5, 0.5])}, r"prior is \(2,\), but its shape is \(2, 3\) or \(3,\)"),
        ({"likelihood": np.full((2, 1), 0.5)}, "values >= 2"),
        (
            {"likelihood": np.array([[0.1, 0.1, 0.1], [0.0, 0.0, 0.0]])},
            "likelihood is 0.0, but the label of record 1 is possible with some value",
        ),
    ],
)
def test_bad_input_of_attributes_is_named(change, message):
    given = {"prior": np.array([0.5, 0.3, 0.2]), "likelihood": np.full((2, 3), 0.5)} | change
    refused(message, attribute_posterior, **given)
