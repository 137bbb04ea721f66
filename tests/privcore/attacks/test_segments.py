"""Segments divide all records by features; a tree finds where a model moved."""

import numpy as np
import pytest

from privcore.attacks import Context, SegmentTree, Split, fit_segments
from privcore.attacks.segments import MOST_FEATURES, MOST_LEAVES
from privcore.exceptions import InvalidInputError

RECORDS = 4_000


def records(columns: int = 2) -> Context:
    random = np.random.default_rng(0)
    numbers = random.normal(size=(RECORDS, columns))
    numbers[random.random(RECORDS) < 0.02, 0] = np.nan
    return Context(numbers, random.integers(-1, 5, (RECORDS, 2)))


def test_every_record_lies_in_one_segment_of_each_division() -> None:
    context = records()
    trees = fit_segments(context, np.abs(context.numbers[:, 1]), share=1 / 32)
    assert len(trees) == 1 + 4
    for tree in trees:
        found = tree.segments(context)
        assert found.min() >= 0
        inside = [
            np.logical_and.reduce([split.holds(context) == answer for split, answer in leaf])
            for leaf in tree.leaves
        ]
        assert np.array_equal(np.sum(inside, axis=0), np.ones(RECORDS))
        assert all(np.array_equal(found == place, one) for place, one in enumerate(inside))


def test_the_tree_finds_where_a_model_moved_by_two_features_together() -> None:
    context = records()
    there = (context.numbers[:, 1] > 0.7) & (context.codes[:, 0] == 3)
    movement = np.abs(np.random.default_rng(1).normal(size=RECORDS)) + 3.0 * there
    tree = fit_segments(context, movement, share=0.02)[0]
    found = tree.segments(context)
    share = [there[found == place].mean() for place in range(len(tree.leaves))]
    assert max(share) > 0.9
    assert there[found == int(np.argmax(share))].sum() > 0.8 * there.sum()


def test_segments_hold_their_share_and_are_few() -> None:
    context = records()
    tree = fit_segments(context, np.abs(context.numbers[:, 1]), share=0.07)[0]
    sizes = np.bincount(tree.segments(context), minlength=len(tree.leaves))
    assert sizes.min() >= 0.07 * RECORDS
    assert 8 < len(tree.leaves) <= MOST_LEAVES
    assert fit_segments(context, np.abs(context.numbers[:, 1]), share=0.6)[0].leaves == ((),)


def test_one_feature_is_divided_in_quarters_and_categories() -> None:
    context = records()
    _, first, second, third, _ = fit_segments(context, np.zeros(RECORDS), share=0.1)
    missing = np.isnan(context.numbers[:, 0])
    assert np.all(first.segments(context)[missing] == 3)
    for tree in (first, second):
        assert np.bincount(tree.segments(context)).min() > 0.22 * RECORDS
    assert {leaf[-1] for leaf in third.leaves[:-1]} == {
        (Split(0, code=code), True) for code in range(5)
    }
    assert np.all(context.codes[third.segments(context) == 5, 0] == -1)


def test_of_many_features_those_that_moved_unlike_are_divided() -> None:
    context = records(columns=MOST_FEATURES + 6)
    trees = fit_segments(context, np.abs(context.numbers[:, 7]), share=0.1)
    assert len(trees) == 1 + MOST_FEATURES
    assert 7 in {tree.leaves[0][0][0].column for tree in trees[1:]}


def test_the_same_records_give_the_same_segments_and_borders_can_be_read() -> None:
    context = records()
    movement = np.abs(context.numbers[:, 1])
    one, two = (fit_segments(context, movement, share=0.05) for _ in range(2))
    assert one == two
    borders = [split.border for leaf in one[0].leaves for split, _ in leaf if split.border]
    assert all(border == float(f"{border:.4g}") for border in borders)


def test_features_that_are_all_the_same_divide_nothing() -> None:
    context = Context(np.full((50, 1), np.nan), np.full((50, 1), -1))
    assert fit_segments(context, np.ones(50), share=0.1) == (SegmentTree(((),)),)
    nobody = Context(np.zeros((0, 1)), np.zeros((0, 1), dtype=np.int64))
    assert fit_segments(nobody, np.zeros(0), share=0.1) == (SegmentTree(((),)),)


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_is_one(share: float) -> None:
    with pytest.raises(InvalidInputError, match="share"):
        fit_segments(records(), np.zeros(RECORDS), share=share)


def test_movements_are_of_the_records() -> None:
    with pytest.raises(InvalidInputError, match="movement"):
        fit_segments(records(), np.zeros(3), share=0.1)
