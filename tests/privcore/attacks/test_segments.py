"""Segments divide all records by features; a tree finds where a model moved."""

import numpy as np
import pytest

from privcore.attacks import Context, SegmentTree, Split, fit_segments
from privcore.attacks.segments import MOST_FEATURES
from tests.support.refusals import refused

RECORDS = 4_000


def records(columns=2):
    random = np.random.default_rng(0)
    numbers = random.normal(size=(RECORDS, columns))
    numbers[random.random(RECORDS) < 0.02, 0] = np.nan
    return Context(numbers, random.integers(-1, 5, (RECORDS, 2)))


def test_every_record_lies_in_one_segment_of_each_division():
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


def test_the_tree_finds_where_a_model_moved_by_two_features_together():
    context = records()
    there = (context.numbers[:, 1] > 0.7) & (context.codes[:, 0] == 3)
    movement = np.abs(np.random.default_rng(1).normal(size=RECORDS)) + 3.0 * there
    tree = fit_segments(context, movement, share=0.02)[0]
    found = tree.segments(context)
    share = [there[found == place].mean() for place in range(len(tree.leaves))]
    assert max(share) > 0.9
    assert there[found == int(np.argmax(share))].sum() > 0.8 * there.sum()


def test_features_that_are_all_the_same_divide_nothing():
    context = Context(np.full((50, 1), np.nan), np.full((50, 1), -1))
    assert fit_segments(context, np.ones(50), share=0.1) == (SegmentTree(((),)),)
    nobody = Context(np.zeros((0, 1)), np.zeros((0, 1), dtype=np.int64))
    assert fit_segments(nobody, np.zeros(0), share=0.1) == (SegmentTree(((),)),)


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_is_one(share):
    refused("share", fit_segments, records(), np.zeros(RECORDS), share=share)


def test_movements_are_of_the_records():
    refused("movement", fit_segments, records(), np.zeros(3), share=0.1)


def borders(column, parts):
    """Return the values at even shares of those that are finite, in four digits."""
    values = np.sort(column[np.isfinite(column)])
    places = (int((values.size - 1) * part / parts) for part in range(1, parts))
    return sorted({float(f"{values[place]:.4g}") for place in places})


def gain(yes, moved, fewest):
    """Return how much of the squares about the mean a split explains; 0 where a part is small."""
    parts = moved[yes], moved[~yes]
    if min(part.size for part in parts) < fewest:
        return 0.0
    return float(moved.size * moved.var() - sum(part.size * part.var() for part in parts))


def answered(question, context):
    """Return each record's answer; a number that is missing is above every border."""
    if question.code is not None:
        return np.array([code == question.code for code in context.codes[:, question.column]])
    column = context.numbers[:, question.column].astype(np.float32)
    return np.array([value <= np.float32(question.border) for value in column])


def naive_tree(context, moved, fewest):
    """Split the segment where it explains most, by every question, until there are twelve."""
    questions = [
        Split(column, border=border)
        for column, values in enumerate(context.numbers.T)
        for border in borders(values, 32)
    ]
    questions += [
        Split(column, code=code)
        for column, codes in enumerate(context.codes.T)
        for code in sorted(set(codes.tolist()) - {-1})
    ]
    answers = [answered(question, context) for question in questions]
    for question, expected in zip(questions, answers, strict=True):
        assert np.array_equal(question.holds(context), expected)
    segments = [((), np.arange(moved.size))]
    while len(segments) < 12:
        gains = np.array(
            [[gain(yes[rows], moved[rows], fewest) for yes in answers] for _, rows in segments]
        )
        if gains.max() < 1e-6:
            break
        place, asked = np.unravel_index(gains.argmax(), gains.shape)
        conditions, rows = segments.pop(place)
        segments += [
            ((*conditions, (questions[asked], answer)), rows[answers[asked][rows] == answer])
            for answer in (True, False)
        ]
    return tuple(conditions for conditions, _ in segments)


def naive_division(split_at):
    """Return the conditions of asking one question after the other."""
    return tuple(
        (*((before, False) for before in split_at[:place]), *((split, True) for split in last))
        for place in range(len(split_at) + 1)
        for last in [split_at[place : place + 1]]
    )


@pytest.mark.slow
@pytest.mark.parametrize("columns", [3, MOST_FEATURES + 3])
def test_segments_are_what_asking_every_question_finds(columns):
    """Some of 320 records have a movement that is cut; features of little say are left out."""
    random = np.random.default_rng(columns)
    numbers = random.normal(size=(320, columns))
    numbers[random.random(320) < 0.05, 1] = np.nan
    numbers[random.random(320) < 0.05, 1] = np.inf
    numbers[:, 0] = numbers[:, 0].round(1)  # borders are values
    codes = np.stack([random.integers(-1, 3, 320), random.permutation(320) % 10 - 1], axis=1)
    context = Context(numbers, codes)
    movement = np.abs(random.normal(size=320) + numbers[:, 0] + (codes[:, 0] == 0))
    movement[:4] += 100.0
    moved = np.minimum(movement, np.quantile(movement, 0.98))
    tree, *others = fit_segments(context, movement, share=0.0499)
    assert tree.leaves == naive_tree(context, moved, 16)
    divisions = [
        naive_division([Split(column, border=border) for border in borders(values, 4)])
        for column, values in enumerate(numbers.T)
    ]
    for column in range(2):
        known = codes[codes[:, column] >= 0, column]
        words = sorted(set(known.tolist()), key=lambda code: (-np.sum(known == code), code))
        divisions.append(naive_division([Split(column, code=code) for code in words[:7]]))
    explained = []
    for leaves in divisions:
        groups = SegmentTree(leaves).segments(context)
        means = np.array([moved[groups == place].mean() for place in range(len(leaves))])
        explained.append(means[groups].var())
    most = np.sort(np.argsort(-np.array(explained), kind="stable")[:24])
    assert [other.leaves for other in others] == [divisions[place] for place in most]
    assert len(divisions[-1]) == 8


def test_a_segment_may_hold_its_share_exactly_and_must_explain_something():
    """A split explains at least 10^-9 of the sum of squared movements."""
    codes = np.repeat([0, 1], [380, 20])[:, None]
    context = Context(np.zeros((400, 0)), codes)
    for share, segments in ((0.05, 2), (0.0501, 1)):
        tree = fit_segments(context, 1.0 + codes[:, 0], share=share)[0]
        assert len(tree.leaves) == segments
    halves = Context(np.zeros((400, 0)), np.arange(400)[:, None] % 2)
    for apart, segments in ((7e-5, 2), (5.5e-5, 1), (0.0, 1)):
        movement = 10.0 * (1.0 + apart * halves.codes[:, 0])
        tree = fit_segments(halves, movement, share=0.05)[0]
        assert len(tree.leaves) == segments
    whole = fit_segments(halves, 1.0 + halves.codes[:, 0], share=1.0)
    assert whole[0].leaves == ((),)
    alone = Context(np.zeros((5, 0)), np.array([[0], [0], [0], [0], [1]]))
    assert len(fit_segments(alone, alone.codes[:, 0] + 1.0, share=0.2)[0].leaves) == 2
    same = fit_segments(
        Context(np.ones((5, 1)), np.zeros((5, 0), dtype=int)), np.ones(5), share=1.0
    )
    assert [tree.leaves for tree in same] == [((),), naive_division([Split(0, border=1.0)])]
