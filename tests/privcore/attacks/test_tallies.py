"""What one pass leaves behind adds, field by field, and is read as it was counted."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from privcore.attacks import (
    LabelCounts,
    OddsTally,
    PaperScore,
    SliceTallies,
    StudentTallies,
    Tallies,
    Tally,
    compare_arms,
    draw_counterfactuals,
    generator,
    label_counts,
    label_inference,
    odds_cells,
    odds_tally,
    slice_tallies,
)
from tests.simulate import play


def arm(records, classes, seed):
    """Return an arm's game, odds in two groups, student and label counts."""
    random = np.random.default_rng(seed)
    target, proxy, student = (random.dirichlet(np.ones(classes), records) for _ in range(3))
    labels = random.integers(0, classes, records)
    game = play(target, proxy, labels, np.random.default_rng(seed))
    groups = slice(0, records // 3), slice(records // 3, records)

    def counted(said):
        return tuple(odds_tally(target[some], said[some], labels[some]) for some in groups)

    beside = label_counts(proxy, labels, student=student, group=1, groups=2)
    alone = label_counts(proxy, labels, group=1, groups=2) if classes > 2 else None
    return game, counted(proxy), StudentTallies(counted(student), beside), alone


def tallies(seed, classes=2):
    """Return tallies in whose every field there are other records."""
    one, other = arm(90, classes, seed), arm(60, classes, seed + 100)
    few = [arm(30, classes, seed + more)[1] for more in (200, 300)]
    return Tallies(
        game=one[0],
        control_game=other[0],
        odds=one[1],
        control_odds=other[1],
        classes=classes,
        student=one[2],
        control_student=other[2],
        labels=one[3],
        control_labels=other[3],
        unread=few[0],
        control_unread=few[1],
    )


ADDED = [field.name for field in fields(Tallies) if field.name != "classes"]


def added(one, other):
    """Return the sum as it is written, of a field."""
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(one, StudentTallies):
        return StudentTallies(added(one.odds, other.odds), one.labels + other.labels)
    return None if one is None else one + other


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_every_field_is_the_sum_of_both(classes):
    """In either order, and the tallies of no records change nothing."""
    one, other = tallies(1, classes), tallies(2, classes)
    for name in ADDED:
        expected = added(getattr(one, name), getattr(other, name))
        assert getattr(one + other, name) == getattr(other + one, name) == expected
    nothing = Tallies.zero(repetitions=1, classes=classes, groups=2, student=True)
    assert nothing + one == one == one + nothing
    assert (one.labels is None) == (classes == 2)


def test_no_records_of_each_design_have_its_fields_and_no_others():
    plain = Tallies.zero(repetitions=2, classes=2)
    assert plain.game == plain.control_game == Tally.zero(2)
    assert plain.odds == plain.control_odds == (OddsTally.zero(),)
    assert (plain.classes, plain.student) == (2, None)
    assert (plain.labels, plain.unread) == (None, ())
    full = Tallies.zero(repetitions=1, classes=3, groups=2, student=True)
    assert full.odds == full.control_odds == (OddsTally.zero(),) * 2
    assert full.labels == full.control_labels == LabelCounts.zero(groups=2, classes=3)
    beside = LabelCounts.zero(groups=2, classes=3, student=True)
    assert full.student == full.control_student == StudentTallies((OddsTally.zero(),) * 2, beside)


def test_what_one_part_did_not_count_the_sum_does_not_have():
    whole = tallies(1, 3)
    bare = replace(
        tallies(2, 3), student=None, control_student=None, labels=None,
        control_labels=None, unread=(), control_unread=(),
    )  # fmt: skip
    for found in (whole + bare, bare + whole):
        assert (found.student, found.control_student) == (None, None)
        assert (found.labels, found.control_labels) == (None, None)
        assert (found.unread, found.control_unread) == (whole.unread, whole.control_unread)


def test_unread_labels_are_counted_with_the_others_once_asked_for():
    found = tallies(3)
    assert found.unread_records == 60
    read = found.with_unread()
    assert read.odds == added(found.odds, found.unread)
    assert read.control_odds == added(found.control_odds, found.control_unread)
    assert (read.unread, read.control_unread, read.unread_records) == ((), (), 0)
    assert (read.game, read.student) == (found.game, found.student)


@pytest.mark.parametrize("classes", [2, 3])
def test_arms_are_compared_by_all_that_was_counted(classes):
    """With the student of the proxy where both arms have one; of slices there is none."""
    found = tallies(5, classes)
    alone = found.label_counts()
    if classes == 2:
        of_odds = tuple(LabelCounts.of_odds(odds) for odds in (found.odds, found.control_odds))
        assert alone == of_odds
    else:
        assert alone == (found.labels, found.control_labels)
        half = replace(found, control_labels=None)
        assert half.label_counts()[0] == LabelCounts.of_odds(found.odds)
    one, other = found.student, found.control_student
    assert one is not None
    assert other is not None
    beside = one.labels, other.labels
    assert found.compare_arms(generator(1)) == compare_arms(
        *alone, random=generator(1), beside=beside
    )
    without = compare_arms(*alone, random=generator(1))
    assert without != found.compare_arms(generator(1))
    for less in (
        replace(found, student=None),
        replace(found, control_student=None),
        replace(found, student=replace(one, labels=None)),
        replace(found, control_student=replace(other, labels=None)),
    ):
        assert less.compare_arms(generator(1)) == without


VALUES = ("a", "b", "c", "d")
RECORDS = 600
STUDENT = np.random.default_rng(8).dirichlet(np.ones(3), RECORDS)


def play_slices(rows, *, values=VALUES, control=False, student=False):
    random = np.random.default_rng(2)
    target, proxy = (random.dirichlet(np.ones(3), RECORDS) for _ in range(2))
    labels, groups = random.integers(0, 3, RECORDS), random.integers(0, 4, RECORDS)
    common = {"score": PaperScore(), "repetitions": 12, "key": 5, "indices": rows}
    some = target[rows], proxy[rows], labels[rows]
    dealt = draw_counterfactuals(*some, score=PaperScore(), key=5, indices=rows)
    references = [odds_cells(*some), *([odds_cells(target, STUDENT, labels)[rows]] * student)]
    sliced = slice_tallies(
        dealt, references, groups[rows], values=values, control=control, repetitions=12
    )
    whole = label_inference(*some, **common)
    mine = [rows[groups[rows] == place] for place in range(4)]
    alone = [
        (
            label_inference(target[own], proxy[own], labels[own], **common | {"indices": own}),
            odds_tally(target[own], proxy[own], labels[own]),
        )
        for own in mine
    ]
    return sliced, whole, alone


def test_slices_are_the_games_of_their_records_alone_and_add_up_to_the_whole():
    sliced, whole, alone = play_slices(np.arange(RECORDS))
    together = Tally.zero(10)
    for value, (game, odds) in zip(VALUES, alone, strict=True):
        tallies = sliced.tallies(value, classes=3)
        assert tallies.game.records == game.records > 100
        assert np.array_equal(tallies.game.guesses, game.guesses[:10])
        assert np.array_equal(tallies.game.correct, game.correct[:10])
        assert tallies.odds == (odds,)
        assert tallies.control_game.records == tallies.control_odds[0].records == 0
        together += tallies.game
    assert np.array_equal(together.guesses, whole.guesses[:10])
    assert np.array_equal(together.correct, whole.correct[:10])


@pytest.mark.parametrize(("asked", "played"), [(4, 4), (10, 10), (12, 10)])
def test_slices_play_ten_games_at_most_and_so_does_their_zero(asked, played):
    assert SliceTallies.zero(asked).repetitions == played


def test_shards_that_know_other_values_are_aligned():
    rows = np.arange(RECORDS)
    low, high = (play_slices(rows)[0], play_slices(rows, values=("b", "c", "d", "e"))[0])
    both = low + high
    assert both.values == ("a", "b", "c", "d", "e")
    assert both.tallies("a", classes=3).game == low.tallies("a", classes=3).game
    assert both.tallies("e", classes=3).odds == high.tallies("e", classes=3).odds
    shared = low.tallies("b", classes=3).game + high.tallies("b", classes=3).game
    assert both.tallies("b", classes=3).game == shared


def test_the_controls_records_are_kept_apart():
    rows = np.arange(RECORDS)
    audit, control = play_slices(rows)[0], play_slices(rows, control=True)[0]
    tallies = (audit + control).tallies("c", classes=3)
    assert tallies.control_game == tallies.game
    assert tallies.control_odds == tallies.odds
    assert control.tallies("c", classes=3).game.records == 0


def test_with_a_student_each_slice_has_its_odds_as_well():
    rows = np.arange(RECORDS)
    without, audit, control = (
        play_slices(rows)[0],
        play_slices(rows, student=True)[0],
        play_slices(rows[:300], student=True, control=True)[0],
    )
    random = np.random.default_rng(2)
    target, _ = (random.dirichlet(np.ones(3), RECORDS) for _ in range(2))
    labels, groups = random.integers(0, 3, RECORDS), random.integers(0, 4, RECORDS)
    for place, value in enumerate(VALUES):
        tallies = (audit + control).tallies(value, classes=3)
        alone = without.tallies(value, classes=3)
        assert (tallies.game, tallies.odds) == (alone.game, alone.odds)
        assert alone.student is alone.control_student is None
        for arm, last in ((tallies.student, RECORDS), (tallies.control_student, 300)):
            own = np.flatnonzero(groups[:last] == place)
            assert arm.odds == (odds_tally(target[own], STUDENT[own], labels[own]),)
            assert arm.labels is None  # the arms are compared once, of all records


def test_any_sharding_gives_the_same_slices_with_a_student():
    cuts = (0, 170, 400, RECORDS)
    shards = [np.arange(*ends) for ends in itertools.pairwise(cuts)]
    one, two, three = (play_slices(rows, student=True)[0] for rows in shards)
    whole = play_slices(np.arange(RECORDS), student=True)[0]
    assert (three + one) + two == one + (two + three) == whole
    assert SliceTallies.zero(12, student=True) + whole == whole
    assert whole != play_slices(np.arange(RECORDS))[0]


def test_within_its_values_the_odds_are_of_each_and_the_comparison_of_all():
    rows = np.arange(RECORDS)
    sliced = (
        play_slices(rows, student=True)[0] + play_slices(rows[:300], student=True, control=True)[0]
    )
    whole = Tallies.zero(repetitions=1, classes=3, student=True)
    parts = [sliced.tallies(value, classes=3) for value in VALUES]
    found = sliced.within(whole)
    assert found.odds == tuple(part.odds[0] for part in parts)
    assert found.control_odds == tuple(part.control_odds[0] for part in parts)
    assert whole.student is not None
    assert whole.control_student is not None
    for arm, of_all, of_each in (
        (found.student, whole.student, [part.student for part in parts]),
        (found.control_student, whole.control_student, [part.control_student for part in parts]),
    ):
        assert arm.odds == tuple(each.odds[0] for each in of_each)
        assert arm.labels is of_all.labels
    bare = Tallies.zero(repetitions=1, classes=3)
    assert play_slices(rows)[0].within(bare).student is None
    assert SliceTallies.zero(12).within(whole) is whole
