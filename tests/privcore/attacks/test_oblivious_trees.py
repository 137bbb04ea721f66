"""Boosted trees against a twin that reckons each gain anew, and against CatBoost's accuracy."""

from concurrent.futures import ThreadPoolExecutor

import catboost
import numpy as np
import pytest

from privcore.attacks.oblivious_trees import ObliviousTrees, TreeSize, _borders
from privcore.exceptions import InvalidInputError

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


def twin(columns, outputs, size):
    """Return the trees' predictions for their own records, every gain computed from the records."""
    said = np.tile(outputs.mean(axis=0), (len(outputs), 1))
    for _ in range(size.trees):
        left, leaf = outputs - said, np.zeros(len(outputs), dtype=int)
        for level in range(size.levels):
            best, chosen = -np.inf, None
            for column in columns:
                for border in _borders(column):
                    gain = 0.0
                    for place in np.unique(leaf):
                        for inside in (column > border, ~(column > border)):
                            some = left[(leaf == place) & inside]
                            gain += (some.sum(axis=0) ** 2).sum() / (len(some) + ADDED)
                    if gain > best * (1.0 + 1e-12):
                        best, chosen = gain, column > border
            leaf |= chosen.astype(int) << level
        for place in np.unique(leaf):
            some = leaf == place
            said[some] += size.rate * left[some].sum(axis=0) / (some.sum() + ADDED)
    return said


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_trees_ask_what_explains_most_and_say_a_share_of_what_is_left(outputs):
    columns = rows(1, records=200)
    wanted = outputs_of(columns, outputs)
    trees = ObliviousTrees.fit(columns, wanted, SMALL)
    assert np.allclose(trees.predict(columns), twin(columns, wanted, SMALL), rtol=0.0, atol=1e-9)
    assert 4 not in trees.used  # it is constant
    assert trees.leaves.shape == (6, 8, outputs)


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


def test_of_equal_gains_the_first_feature_is_asked():
    columns = rows(1)[:1]
    trees = ObliviousTrees.fit(np.concatenate([columns, columns]), outputs_of(rows(1), 1), SMALL)
    assert trees.used.tolist() == [0]


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


@pytest.mark.parametrize("levels", [0, 9])
def test_levels_that_no_leaf_number_holds_are_refused(levels):
    with pytest.raises(InvalidInputError, match="there are 1 to 8"):
        ObliviousTrees.fit(rows(1), outputs_of(rows(1), 1), TreeSize(1, levels, 0.1))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.01, np.nan])
def test_trees_that_say_nothing_or_more_than_is_left_are_refused(rate):
    with pytest.raises(InvalidInputError, match="above 0 and at most 1"):
        ObliviousTrees.fit(rows(1), outputs_of(rows(1), 1), TreeSize(1, 3, rate))


def test_threads_fit_the_same_trees_side_by_side():
    columns = rows(6)
    wanted = outputs_of(columns, 1)
    alone = ObliviousTrees.fit(columns, wanted, SMALL).predict(columns)
    with ThreadPoolExecutor(4) as threads:
        fits = list(threads.map(lambda _: ObliviousTrees.fit(columns, wanted, SMALL), range(16)))
    assert all(np.array_equal(fit.predict(columns), alone) for fit in fits)
