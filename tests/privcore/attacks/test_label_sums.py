"""Label sums of leaves: exact where a leaf is one Newton step on this table, silent elsewhere."""

import dataclasses

import numpy as np
import pytest
from scipy.special import expit

from privcore.attacks.label_sums import Ensemble, Tree, conditions, label_sums, trees_read
from privcore.exceptions import InvalidInputError
from tests.support.boosted_trees import boosted, file_of, randomized, rows_with_labels
from tests.support.refusals import refused

FEATURES, LABELS = rows_with_labels(1_200, seed=0)
READ = randomized(LABELS, 1.0, seed=0)
MODEL = boosted(FEATURES, READ, min_data_in_leaf=5)
ENSEMBLE, LEAVES = file_of(MODEL, FEATURES)


def test_every_node_has_the_sum_of_the_labels_that_training_read():
    found = label_sums(ENSEMBLE, LEAVES, LABELS)
    assert (found.why, found.trees) == ("", 30)
    offset = 0
    for number, tree in enumerate(ENSEMBLE.trees):
        for node in range(len(tree.parents)):
            below = {node}
            for _ in tree.parents:  # a twin that is slow and plain
                below |= {one for one, above in enumerate(tree.parents) if above in below}
            inside = np.isin(LEAVES[:, number], list(below))
            assert found.sums[offset + node] == READ[inside].sum()
            assert found.positives[offset + node] == LABELS[inside].sum()
            assert found.rows[offset + node] == inside.sum()
        offset += len(tree.parents)
    assert not found.are_the_tables
    assert label_sums(ENSEMBLE, LEAVES, READ).are_the_tables


def dropped():
    return ENSEMBLE, LEAVES[3:], LABELS[3:]


def exchanged():
    return ENSEMBLE, file_of(MODEL, FEATURES[:, [1, 0, 2, 3, 4, 5]])[1], LABELS


def noised():
    random = np.random.default_rng(5)
    trees = tuple(
        dataclasses.replace(
            tree, values=tree.values + random.laplace(scale=0.01, size=len(tree.values))
        )
        for tree in ENSEMBLE.trees
    )
    return dataclasses.replace(ENSEMBLE, trees=trees), LEAVES, LABELS


@pytest.mark.parametrize("changed", [dropped, exchanged, noised])
def test_another_table_and_noise_in_leaves_show_as_sums_that_are_not_whole(changed):
    found = label_sums(*changed())
    assert found.trees == 0
    assert found.why == "its first tree's sums are not whole"
    assert not found.are_the_tables


@pytest.mark.parametrize(("digits", "right"), [(4, 1.0), (3, 0.9), (2, 0.2)])
def test_fewer_digits_of_leaf_values_hide_little(digits, right):
    first, rows = ENSEMBLE.trees[0], np.bincount(LEAVES[:, 0])
    values = first.values.round(digits)
    start = np.average(values, weights=rows)
    slope = rows * expit(start) * expit(-start)
    sums = np.rint(rows * expit(start) + (values - start) / first.rate * slope)
    true = np.bincount(LEAVES[:, 0], weights=READ)
    assert np.mean((sums == true)[rows > 0]) >= right


def test_few_leaves_say_nothing():
    model = boosted(FEATURES, READ, rounds=1, num_leaves=8)
    assert label_sums(*file_of(model, FEATURES), LABELS).why == "too few leaves hold whole sums"


def test_what_does_not_fit_is_refused():
    refused("shape of leaves", label_sums, ENSEMBLE, LEAVES[1:], LABELS)
    refused("labels", label_sums, ENSEMBLE, LEAVES, LABELS + 1)
    refused("leaves", label_sums, ENSEMBLE, LEAVES + 1_000, LABELS)
    circle = Tree(np.array([1, 0]), np.full(2, -0.2), 0.1)  # whole sums
    with pytest.raises(InvalidInputError, match="parents"):
        label_sums(Ensemble((circle,), 0.0, 0.0), np.zeros((1, 1), dtype=int), np.array([0]))


def test_conditions_count_every_division_of_the_rows():
    column = np.array([1.0, 2.0, 2.0, np.nan])
    divisions = {
        tuple(np.where(np.isnan(column), missing, (column <= border) == below))
        for border in (0.0, 1.0, 2.0)
        for below in (True, False)
        for missing in (True, False)
    }
    assert len(divisions) <= conditions([column]) == 4 * 3


def test_a_large_table_is_read_by_its_first_trees():
    assert [trees_read(rows) for rows in (0, 1_000, 100_000, 1_000_000, 10**9)] == [
        100, 100, 100, 10, 1,
    ]  # fmt: skip
