"""Single labels: all that the sums determine, and none that is wrong."""

import itertools

import numpy as np
import pytest

from privcore.attacks.label_sums import LabelSums, label_sums
from privcore.attacks.solved_labels import single_labels
from tests.support.boosted_trees import boosted, file_of, randomized, rows_with_labels


def sums_of(leaves, labels):
    """Return the sums of labels by leaf, each tree with leaves of its own."""
    sums = np.bincount(leaves.ravel(), weights=np.repeat(labels, leaves.shape[1])).astype(int)
    rows = np.bincount(leaves.ravel())
    every = np.ones_like(sums)
    return LabelSums(leaves.shape[1], sums, rows, sums, 0 * every, leaves, every, every > 0)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_is_said_only_where_all_tables_of_these_sums_have_it(classes):
    """Against every table of seven records, in 60 worlds: none is wrong, and most are found."""
    random = np.random.default_rng([classes, 62])
    said = determined = 0
    for _ in range(60):
        labels = random.integers(classes, size=7)
        wanted = range(1, 2) if classes == 2 else range(classes)
        trees = [random.integers(3, size=(7, 3)) + 3 * np.arange(3) for _ in wanted]
        found = [sums_of(tree, labels == one) for one, tree in zip(wanted, trees, strict=True)]
        same = [
            table for table in itertools.product(range(classes), repeat=7)
            if all((sums_of(tree, np.array(table) == one).sums == sums.sums).all()
                   for one, tree, sums in zip(wanted, trees, found, strict=True))
        ]  # fmt: skip
        alike = (np.array(same) == labels).all(axis=0)
        single = single_labels(*found)
        assert (single[single >= 0] == labels[single >= 0]).all()
        assert alike[single >= 0].all()
        said, determined = said + (single >= 0).sum(), determined + alike.sum()
    assert said >= 0.95 * determined > 40


@pytest.mark.parametrize(("rows", "seed", "open_"), [(5_000, 0, 0), (6_000, 1, 2)])
def test_a_default_model_gives_away_every_label(rows, seed, open_):
    """But those of records which all trees take for one."""
    features, labels = rows_with_labels(rows, seed=seed)
    read = randomized(labels, 1.0, seed=seed)
    found = label_sums(*file_of(boosted(features, read, rounds=100), features), labels)
    single = single_labels(found)
    assert (single < 0).sum() <= open_
    assert (single[single >= 0] == read[single >= 0]).all()


def test_of_more_records_single_leaves_tell_some():
    features, labels = rows_with_labels(3_000, seed=1)
    found = label_sums(*file_of(boosted(features, labels, min_data_in_leaf=2), features), labels)
    single = single_labels(found)
    assert 100 < (single >= 0).sum() < len(labels)
    assert (single[single >= 0] == labels[single >= 0]).all()


def test_a_class_is_told_by_leaves_that_leave_no_other():
    labels = np.repeat([2, 0, 1, 2], [10, 4, 3, 3])
    halves, all_ = np.repeat([0, 1], 10)[:, None], np.zeros((20, 1), dtype=int)
    trees = [halves, halves, all_]
    found = [sums_of(tree, labels == one) for one, tree in enumerate(trees)]
    assert single_labels(*found).tolist() == [2] * 10 + [-1] * 10
