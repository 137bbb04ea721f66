"""Boosted trees against exact sums, against their own questions, and beside CatBoost."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import catboost
import numpy as np
import pytest

from privcore.attacks.oblivious_trees import ObliviousTrees, TreeSize, _borders, boost

SMALL = TreeSize(6, levels=3, rate=0.3)
ADDED = 3.0  # records without anything left, in each leaf


def rows(seed, records=600):
    """Numbers as features are: missing, infinite, constant, of few values, and tiny."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(7, records)).astype(np.float32)
    columns[1, ::7] = np.nan
    columns[2, ::9], columns[2, 1::9] = np.inf, -np.inf
    columns[3] = random.integers(0, 4, records)
    columns[4] = 1.0
    columns[5] *= 1e-30
    columns[6, random.random(records) < 0.8] = 0.0
    return columns


def outputs_of(columns, outputs):
    """Sums of what the features say; of normal columns each output has another share."""
    known = np.nan_to_num(np.clip(columns, -3.0, 3.0)).astype(np.float64)
    said = known[0] * known[1] + known[2] + (columns[3] > 1.0) * known[6]
    return np.stack([said + place * columns[5] * 1e30 for place in range(outputs)], axis=1)


@pytest.mark.parametrize("records", [1, 511, 512, 513, 3_000])
def test_a_record_is_told_the_same_alone_and_among_others(records):
    trees = ObliviousTrees.fit(rows(1), outputs_of(rows(1), 2), TreeSize(40, levels=6, rate=0.2))
    asked = rows(2, 3_000)
    whole = trees.predict(asked)
    assert np.array_equal(trees.predict(asked[:, :records]), whole[:records])
    assert np.array_equal(trees.predict(asked[:, 7:8])[0], whole[7])
    assert whole[:, 0].std() > 0.5
    assert trees.predict(asked[:, :0]).shape == (0, 2)


def said_by(trees, columns):
    """Return what trees say by their questions alone, one record after the other."""
    said = np.tile(trees.start, (columns.shape[1], 1))
    for features, ranks, leaves in zip(trees.features, trees.ranks, trees.leaves, strict=True):
        values = columns[trees.used[features]]
        above = values > trees.borders[features, ranks][:, None]
        said += leaves[(above << np.arange(len(features))[:, None]).sum(axis=0)]
    return said


@pytest.mark.parametrize(("outputs", "size"), [(1, 5), (1, 13), (2, 10)])
def test_trees_are_asked_in_blocks_as_one_after_the_other(outputs, size):
    """The same sums in the same order, for a number of trees that is no multiple of five, too."""
    trees = ObliviousTrees.fit(rows(1), outputs_of(rows(1), outputs), TreeSize(size, 4, 0.3))
    asked = rows(2, 1_100)
    assert np.array_equal(trees.predict(asked), said_by(trees, asked))


def test_borders_that_no_tree_asks_about_are_left_out():
    trees = ObliviousTrees.fit(rows(1), outputs_of(rows(1), 1), SMALL)
    asked = set(zip(trees.features.ravel(), trees.ranks.ravel(), strict=True))
    assert len(asked) == (trees.borders < np.inf).sum() <= 6 * 3
    assert set(trees.features.ravel()) == set(range(trees.used.size))


def test_codes_are_read_by_a_table_as_their_values_would_be():
    random, columns = np.random.default_rng(7), rows(1)
    values = [random.normal(size=(5, 2)), random.normal(size=(3, 2))]
    codes = np.stack([random.integers(-2, 7, 600), random.integers(0, 4, 600)])
    known = [np.where((each < 0) | (each >= len(value)), -1, each) for each, value in
             zip(codes, values, strict=True)]  # fmt: skip
    of_codes = [value[each].T for each, value in zip(known, values, strict=True)]
    design = np.concatenate([columns, *of_codes]).astype(np.float32)
    wanted = outputs_of(columns, 1) + 3.0 * of_codes[0][:1].T + 3.0 * of_codes[1][1:].T
    trees = ObliviousTrees.fit(design, wanted, TreeSize(20, 4, 0.3))
    assert {7, 10} <= set(trees.used.tolist())
    found, tables = np.full((600, 1), 9.0), trees.tabulated(values, len(columns))
    some = np.sort(random.permutation(600)[:555])
    trees.write(found, columns, codes, tables, rows=some)
    assert np.array_equal(found[some], trees.predict(design)[some])
    assert (np.delete(found, some) == 9.0).all()


@pytest.mark.parametrize("outputs", [1, 4])
def test_unseen_records_are_told_as_well_as_catboost_tells_them(outputs):
    """4,000 noisy records, as many unseen ones: the error is at most 1.1 times CatBoost's."""
    columns, unseen = rows(3, 4_000), rows(4, 4_000)
    noise = np.random.default_rng(5).normal(size=(4_000, outputs))
    wanted = outputs_of(columns, outputs) + noise
    size = TreeSize(75, levels=6, rate=0.2)
    model = catboost.CatBoost(
        {"loss_function": "RMSE" if outputs == 1 else "MultiRMSE", "iterations": size.trees}
        | {"depth": size.levels, "learning_rate": size.rate, "border_count": 64}
        | {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        | {"bootstrap_type": "No", "random_strength": 0}
    ).fit(columns.T, wanted)
    theirs = np.asarray(model.predict(unseen.T)).reshape(4_000, outputs)
    ours = ObliviousTrees.fit(columns, wanted, size).predict(unseen)
    errors = [np.mean((said - outputs_of(unseen, outputs)) ** 2) for said in (ours, theirs)]
    assert errors[0] < 1.1 * errors[1] < 0.5


def test_missing_values_lie_below_all_others_and_infinite_ones_beyond():
    columns = np.linspace(-1.0, 1.0, 300, dtype=np.float32)[None]
    columns[0, :100] = np.nan
    columns[0, 290:] = np.inf
    wanted = np.where(np.isnan(columns[0]), 5.0, np.where(columns[0] == np.inf, -5.0, 0.0))
    trees = ObliviousTrees.fit(columns, wanted[:, None], TreeSize(50, levels=2, rate=0.5))
    said = trees.predict(np.array([[np.nan, -9.0, 0.5, 9.0, np.inf]], dtype=np.float32))[:, 0]
    assert np.allclose(said[[0, 1, 2, 4]], [5.0, 0.0, 0.0, -5.0], atol=0.2)
    assert said[3] == said[4]  # it lies above all values but the infinite ones, as these do


def test_a_value_at_a_border_lies_below_it():
    columns = np.repeat(np.float32([1.0, 2.0, 3.0]), 100)[None]
    trees = ObliviousTrees.fit(columns, columns.T.astype(float), TreeSize(80, levels=2, rate=0.3))
    near = np.float32([1.0, np.nextafter(np.float32(1.0), np.float32(2.0)), 2.0, 2.5, 3.0])
    assert trees.predict(near[None])[:, 0] == pytest.approx([1.0, 2.0, 2.0, 3.0, 3.0], abs=0.1)


def test_borders_tell_rare_values_apart_beside_a_frequent_one():
    """10,000 zeros and 400 others: 63 borders are quantiles of the others; of few all are told."""
    column = np.concatenate([np.zeros(10_000), np.arange(1, 401)]).astype(np.float32)
    found = _borders(column)
    assert 45 <= found.size <= 64
    assert found[0] == 0.0
    assert found[-1] < 400.0
    assert np.diff(found[1:]).max() <= 2.0 * np.median(np.diff(found[1:]))
    assert _borders(np.float32([3, 1, 1, 2])).tolist() == [1.0, 2.0]
    assert _borders(np.float32([np.nan, 1, 2])).tolist() == [-np.inf, 1.0]
    assert _borders(np.full(9, np.nan, dtype=np.float32)).size == 0
    assert _borders(np.arange(65, dtype=np.float32)).size == 64
    mostly_ten = np.concatenate([np.arange(65), np.full(10_000, 10)]).astype(np.float32)
    assert _borders(mostly_ten).tolist() == list(range(64))
    for frequent in (64, 65):  # the last value that another lies above, and the one above it
        mostly = np.concatenate([np.arange(66), np.full(10_000, frequent)]).astype(np.float32)
        assert _borders(mostly)[-1] == 64.0
    assert _borders(np.arange(5_000, dtype=np.float32)).size == 64
    with_missing = np.concatenate([np.arange(5_000), [np.nan]]).astype(np.float32)
    assert _borders(with_missing).size == 64


@pytest.mark.parametrize(
    ("columns", "outputs"),
    [
        (np.ones((2, 50)), np.arange(50.0)[:, None]),
        (np.arange(50.0)[None], np.ones((50, 2))),
        (np.arange(50.0)[None], np.linspace(0.0, 1e39, 50)[:, None]),
        (np.arange(50.0)[None], np.full((50, 1), np.nan)),
    ],
    ids=["features alike", "outputs alike", "outputs beyond floats", "outputs missing"],
)
def test_where_there_is_nothing_to_learn_there_are_no_trees(columns, outputs):
    assert ObliviousTrees.fit(columns.astype(np.float32), outputs, SMALL) is None


def test_threads_fit_the_same_trees_side_by_side():
    columns = rows(6)
    wanted = outputs_of(columns, 1)
    alone = ObliviousTrees.fit(columns, wanted, SMALL).predict(columns)
    with ThreadPoolExecutor(4) as threads:
        fits = list(threads.map(lambda _: ObliviousTrees.fit(columns, wanted, SMALL), range(16)))
    assert all(np.array_equal(fit.predict(columns), alone) for fit in fits)


LARGEST = float(np.finfo(np.float32).max)


def boosted_rows(records, borders, *, outputs=1, seed=1):
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


def boosting_twin(bins, borders, outputs, trees, levels, rate):
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
    bins, borders, wanted = boosted_rows(records, borders, outputs=outputs)
    asked = bins, borders, wanted, 3, levels, 0.3
    assert same(boost(*asked), boosting_twin(*asked))


@pytest.mark.parametrize("records", [1, 2, 128, 16_383, 16_384])
@pytest.mark.parametrize("high", ["one", "half", "all but one"])
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_no_sum_of_the_largest_outputs_overflows(records, high, rate):
    count = {"one": 1, "half": records // 2, "all but one": records - 1}[high]
    outputs = np.where(np.arange(records) < count, LARGEST, -LARGEST)[:, None]
    bins = (np.arange(records) % 3 + np.array([[0], [1]])) // 2
    bins[0] += np.arange(records) < count
    asked = bins.astype(np.uint8), np.array([2, 1]), outputs, 3, 2, rate
    assert same(boost(*asked), boosting_twin(*asked))


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-30, 1.0, 1e30, 1e38])
def test_learning_needs_no_scale_and_no_zero(scale):
    """Outputs of any size are as precise, and beside a far number as it lets them be."""
    bins, borders, outputs = boosted_rows(200, (5, 3))
    plain = boost(bins, borders, np.ldexp(outputs, 3), 4, 3, 0.3)
    for asked in (scale * outputs, 1e3 * scale + scale * outputs):
        found = boost(bins, borders, asked, 4, 3, 0.3)
        assert all(np.array_equal(*each) for each in zip(found[:2], plain[:2], strict=True))
        expected = plain[2] / 8.0 * scale
        assert np.allclose(found[2], expected, rtol=1e-6, atol=max(1e-9 * scale, 1e-322))


def test_of_questions_that_explain_as_much_the_first_is_asked():
    """A feature, and another that is its reverse: the halves of each leaf change places."""
    bins, borders, outputs = boosted_rows(500, (9,), outputs=2)
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
