"""Boosting in whole numbers against a twin that adds up records in numbers of any size."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privcore.attacks.oblivious_trees import _smaller_halves, boost

ADDED = 3.0  # records without anything left, in each leaf
LARGEST = float(np.finfo(np.float32).max)


def rows(records, borders, *, outputs=1, seed=1):
    """Return bins of features with so many borders, and outputs that they tell in part."""
    random = np.random.default_rng(seed)
    bins = np.stack([random.integers(0, many + 1, records) for many in borders]).astype(np.uint8)
    told = bins[0] / borders[0] + (bins[-1] > 0) * (2.0 * bins[0] > borders[0])
    noise = random.normal(size=(records, outputs))
    return bins, np.array(borders), told[:, None] * np.arange(1.0, outputs + 1.0) + 0.3 * noise


def unit_of(outputs):
    """Return what one stands for among the whole numbers."""
    spread = (outputs.max(axis=0) - outputs.min(axis=0)).max()
    return Fraction(2) ** (math.frexp(spread)[1] + 2 * len(outputs).bit_length() - 63)


def twin(bins, borders, outputs, trees, levels, rate):
    """Return questions, leaves and start of sums over records, in integers without a limit."""
    unit, lowest = unit_of(outputs), outputs.min(axis=0)
    wanted = np.array(
        [[round(Fraction(each) / unit) for each in row] for row in outputs - lowest], dtype=object
    )
    start = wanted.sum(axis=0) // len(outputs)
    left, asked, leaves = wanted - start, [], []
    for _ in range(trees):
        leaf = np.zeros(len(outputs), dtype=int)
        for level in range(levels):
            best = -1.0, 0, 0
            for feature, rank in questions(borders):
                gain = gain_of(left, leaf, bins[feature] > rank, 1 << level)
                best = max(best, (gain, feature, rank), key=lambda found: found[0])
            asked.append(best[1:])
            leaf |= (bins[best[1]] > best[2]).astype(int) << level
        for place in range(1 << levels):
            inside = leaf == place
            said = [int(rate * total / (inside.sum() + ADDED)) for total in left[inside].sum(0)]
            left[inside] -= np.array(said, dtype=object)
            leaves.append([float(each * unit) for each in said])
    features, ranks = np.reshape(asked, (trees, levels, 2)).transpose(2, 0, 1)
    return features, ranks, np.reshape(leaves, (trees, 1 << levels, -1)), lowest + [
        float(each * unit) for each in start
    ]  # fmt: skip


def questions(borders):
    return [(feature, rank) for feature, many in enumerate(borders) for rank in range(many)]


def gain_of(left, leaf, above, leaves):
    gain = 0.0
    for output in left.T:
        for place in range(leaves):
            halves = [(leaf == place) & side for side in (~above, above)]
            below, beyond = (
                float(output[half].sum()) ** 2 / (half.sum() + ADDED) for half in halves
            )
            gain += below + beyond
    return gain


def same(found, expected):
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("records", "borders", "outputs", "levels"),
    [
        (300, (5, 9, 1), 1, 4),
        (300, (5, 9, 1), 3, 3),
        (150, (2, 2), 20, 2),
        (400, (255, 1), 1, 2),
        (40, (3, 4), 2, 8),
        (60, (7,), 1, 1),
    ],
)
def test_trees_are_those_of_exact_sums(records, borders, outputs, levels):
    """Small and large halves on either side, empty leaves, and leaves of one record."""
    bins, borders, wanted = rows(records, borders, outputs=outputs)
    asked = bins, borders, wanted, 3, levels, 0.3
    assert same(boost(*asked), twin(*asked))


@pytest.mark.parametrize("records", [1, 2, 128, 16_383, 16_384])
@pytest.mark.parametrize("high", ["one", "half", "all but one"])
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_no_sum_of_the_largest_outputs_overflows(records, high, rate):
    count = {"one": 1, "half": records // 2, "all but one": records - 1}[high]
    outputs = np.where(np.arange(records) < count, LARGEST, -LARGEST)[:, None]
    bins = (np.arange(records) % 3 + np.array([[0], [1]])) // 2
    bins[0] += np.arange(records) < count
    asked = bins.astype(np.uint8), np.array([2, 1]), outputs, 3, 2, rate
    assert same(boost(*asked), twin(*asked))


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-30, 1.0, 1e30, 1e38])
def test_learning_needs_no_scale_and_no_zero(scale):
    """Outputs of any size are as precise, and beside a far number as it lets them be."""
    bins, borders, outputs = rows(200, (5, 3))
    plain = boost(bins, borders, np.ldexp(outputs, 3), 4, 3, 0.3)
    for asked in (scale * outputs, 1e3 * scale + scale * outputs):
        found = boost(bins, borders, asked, 4, 3, 0.3)
        assert all(np.array_equal(*each) for each in zip(found[:2], plain[:2], strict=True))
        expected = plain[2] / 8.0 * scale
        assert np.allclose(found[2], expected, rtol=1e-6, atol=max(1e-9 * scale, 1e-322))


def test_the_order_of_records_changes_nothing():
    bins, borders, outputs = rows(3_000, (40, 64, 7), outputs=2)
    outputs[:5] *= 1e9
    one = boost(bins, borders, outputs, 20, 6, 0.2)
    order = np.random.default_rng(5).permutation(3_000)
    assert same(
        boost(np.ascontiguousarray(bins[:, order]), borders, outputs[order], 20, 6, 0.2), one
    )


def test_of_questions_that_explain_as_much_the_first_is_asked():
    """A feature, and another that is its reverse: the halves of each leaf change places."""
    bins, borders, outputs = rows(500, (9,), outputs=2)
    for both in ((bins[0], 9 - bins[0]), (9 - bins[0], bins[0])):
        features, *_ = boost(np.stack(both), np.repeat(borders, 2), outputs, 20, 4, 0.2)
        assert not features.any()


def test_a_question_is_asked_again_where_any_other_explains_less():
    """The second feature says all, and halves of equal means by the first one hold less."""
    bins = np.stack([np.arange(90) % 3, np.arange(90) >= 50]).astype(np.uint8)
    asked = bins, np.array([2, 1]), bins[1:].T * 4.0
    features, ranks, *_ = boost(*asked, 2, 3, 0.5)
    assert features.tolist() == [[1, 1, 1]] * 2
    assert not ranks.any()


def test_the_smaller_half_of_each_leaf_is_added_up():
    """Of 3, 6, 5 and 0 records below the border among 10, 10, 10 and none."""
    below, records = np.array([3, 6, 5, 0]), np.array([10, 10, 10, 0])
    sums = np.array([[-7], [9], [0], [0]]) << 4 | np.stack([below, records, records], axis=1)
    assert _smaller_halves(sums, 0, 4).tolist() == [1, 0, 1, 1, 0, 1, 0, 0]


def test_rounding_adds_up_to_no_more_than_one_for_each_tree():
    """Against means in floats for the same questions: what they say differs by 77 units at most."""
    trees, levels, rate = 75, 6, 0.2
    bins, borders, outputs = rows(2_000, (64,) * 5)
    features, ranks, leaves, start = boost(bins, borders, outputs, trees, levels, rate)
    exact, whole = np.tile(outputs.mean(axis=0), (2_000, 1)), np.tile(start, (2_000, 1))
    for of_tree, borders_of_tree, said in zip(features, ranks, leaves, strict=True):
        above = bins[of_tree] > borders_of_tree[:, None]
        leaf = (above << np.arange(levels)[:, None]).sum(axis=0)
        sums, records = np.bincount(leaf, (outputs - exact)[:, 0]), np.bincount(leaf)
        exact[:, 0] += (rate * sums / (records + ADDED))[leaf]
        whole += said[leaf]
    error = np.sqrt(np.mean((exact - whole) ** 2))
    assert 0.0 < error <= (trees + 2) * float(unit_of(outputs))
    assert error < 1e-9
