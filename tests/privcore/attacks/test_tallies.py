"""What one pass leaves behind adds, field by field, and is read as it was counted."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from privcore.attacks import (
    LabelCounts,
    OddsTally,
    StudentTallies,
    Tallies,
    Tally,
    compare_arms,
    generator,
    label_counts,
    odds_tally,
)
from privcore.attacks.arms import models_known
from tests.simulate import play


def scored(records: int, classes: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return what target, proxy and a student say of records, and their labels."""
    random = np.random.default_rng(seed)
    said = [random.dirichlet(np.ones(classes), records) for _ in range(3)]
    return *said, random.integers(0, classes, records)


def arm(records: int, classes: int, seed: int) -> tuple[Tally, tuple[OddsTally, ...], Any, Any]:
    """Return an arm's game, odds in two groups, student and label counts."""
    target, proxy, student, labels = scored(records, classes, seed)
    game = play(target, proxy, labels, np.random.default_rng(seed))
    groups = slice(0, records // 3), slice(records // 3, records)

    def counted(said: Any) -> tuple[OddsTally, ...]:
        return tuple(odds_tally(target[some], said[some], labels[some]) for some in groups)

    beside = label_counts(proxy, labels, student=student, group=1, groups=2)
    alone = label_counts(proxy, labels, group=1, groups=2) if classes > 2 else None
    return game, counted(proxy), StudentTallies(counted(student), beside), alone


def tallies(seed: int, classes: int = 2) -> Tallies:
    """Return tallies in whose every field there are other records."""
    one, other = arm(90, classes, seed), arm(60, classes, seed + 100)
    few = [arm(30, classes, seed + more)[1] for more in (200, 300, 400)]
    return Tallies(
        game=one[0],
        control_game=other[0],
        odds=one[1],
        control_odds=other[1],
        classes=classes,
        decoys=few[2][1],
        student=one[2],
        control_student=other[2],
        labels=one[3],
        control_labels=other[3],
        unread=few[0],
        control_unread=few[1],
    )


ADDED = [field.name for field in fields(Tallies) if field.name != "classes"]


def added(one: Any, other: Any) -> Any:
    """Return the sum as it is written, of a field."""
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(one, StudentTallies):
        return StudentTallies(added(one.odds, other.odds), one.labels + other.labels)
    return None if one is None else one + other


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_every_field_is_the_sum_of_both(classes: int) -> None:
    """In either order, and the tallies of no records change nothing."""
    one, other = tallies(1, classes), tallies(2, classes)
    for name in ADDED:
        expected = added(getattr(one, name), getattr(other, name))
        assert getattr(one + other, name) == getattr(other + one, name) == expected
    nothing = Tallies.zero(repetitions=1, classes=classes, groups=2, decoys=True, student=True)
    assert nothing + one == one == one + nothing
    assert (one.labels is None) == (classes == 2)


def test_no_records_of_each_design_have_its_fields_and_no_others() -> None:
    plain = Tallies.zero(repetitions=2, classes=2)
    assert plain.game == plain.control_game == Tally.zero(2)
    assert plain.odds == plain.control_odds == (OddsTally.zero(),)
    assert (plain.classes, plain.decoys, plain.student) == (2, None, None)
    assert (plain.labels, plain.unread, plain.models_known) == (None, (), None)
    full = Tallies.zero(repetitions=1, classes=3, groups=2, decoys=True, student=True)
    assert full.odds == full.control_odds == (OddsTally.zero(),) * 2
    assert full.decoys == OddsTally.zero()
    assert full.labels == full.control_labels == LabelCounts.zero(groups=2, classes=3)
    beside = LabelCounts.zero(groups=2, classes=3, student=True)
    assert full.student == full.control_student == StudentTallies((OddsTally.zero(),) * 2, beside)


def test_what_one_part_did_not_count_the_sum_does_not_have() -> None:
    whole = tallies(1, 3)
    bare = replace(
        tallies(2, 3), decoys=None, student=None, control_student=None, labels=None,
        control_labels=None, unread=(), control_unread=(),
    )  # fmt: skip
    for found in (whole + bare, bare + whole):
        assert (found.decoys, found.student, found.control_student) == (None, None, None)
        assert (found.labels, found.control_labels) == (None, None)
        assert (found.unread, found.control_unread) == (whole.unread, whole.control_unread)


def test_unread_labels_are_counted_with_the_others_once_asked_for() -> None:
    found = tallies(3)
    assert found.unread_records == 60
    read = found.with_unread()
    assert read.odds == added(found.odds, found.unread)
    assert read.control_odds == added(found.control_odds, found.control_unread)
    assert (read.unread, read.control_unread, read.unread_records) == ((), (), 0)
    assert (read.game, read.student) == (found.game, found.student)


@pytest.mark.parametrize("classes", [2, 3])
def test_arms_are_compared_by_all_that_was_counted(classes: int) -> None:
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
        assert less.with_mean_of_models() is less
    known = found.with_mean_of_models()
    assert known.models_known == models_known(one.labels, other.labels)
    assert replace(known, models_known=None) == found
