import itertools

import numpy as np
import pytest

from privcore.attacks import (
    PaperScore,
    SliceTallies,
    Tallies,
    Tally,
    draw_counterfactuals,
    label_inference,
    odds_cells,
    odds_tally,
    slice_tallies,
)

VALUES = ("a", "b", "c", "d")
RECORDS = 600
STUDENT = np.random.default_rng(8).dirichlet(np.ones(3), RECORDS)


def play(
    rows: np.ndarray,
    *,
    values: tuple[str, ...] = VALUES,
    control: bool = False,
    student: bool = False,
):
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


def test_slices_are_the_games_of_their_records_alone_and_add_up_to_the_whole() -> None:
    sliced, whole, alone = play(np.arange(RECORDS))
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
def test_slices_play_ten_games_at_most_and_so_does_their_zero(asked: int, played: int) -> None:
    assert SliceTallies.zero(asked).repetitions == played


def test_shards_that_know_other_values_are_aligned() -> None:
    rows = np.arange(RECORDS)
    low, high = play(rows)[0], play(rows, values=("b", "c", "d", "e"))[0]
    both = low + high
    assert both.values == ("a", "b", "c", "d", "e")
    assert both.tallies("a", classes=3).game == low.tallies("a", classes=3).game
    assert both.tallies("e", classes=3).odds == high.tallies("e", classes=3).odds
    shared = low.tallies("b", classes=3).game + high.tallies("b", classes=3).game
    assert both.tallies("b", classes=3).game == shared


def test_the_controls_records_are_kept_apart() -> None:
    rows = np.arange(RECORDS)
    audit, control = play(rows)[0], play(rows, control=True)[0]
    tallies = (audit + control).tallies("c", classes=3)
    assert tallies.control_game == tallies.game
    assert tallies.control_odds == tallies.odds
    assert control.tallies("c", classes=3).game.records == 0


def test_with_a_student_each_slice_has_its_odds_as_well() -> None:
    rows = np.arange(RECORDS)
    without, audit, control = (
        play(rows)[0],
        play(rows, student=True)[0],
        play(rows[:300], student=True, control=True)[0],
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


def test_any_sharding_gives_the_same_slices_with_a_student() -> None:
    cuts = (0, 170, 400, RECORDS)
    shards = [np.arange(*ends) for ends in itertools.pairwise(cuts)]
    one, two, three = (play(rows, student=True)[0] for rows in shards)
    whole = play(np.arange(RECORDS), student=True)[0]
    assert (three + one) + two == one + (two + three) == whole
    assert SliceTallies.zero(12, student=True) + whole == whole
    assert whole != play(np.arange(RECORDS))[0]


def test_within_its_values_the_odds_are_of_each_and_the_comparison_of_all() -> None:
    rows = np.arange(RECORDS)
    sliced = play(rows, student=True)[0] + play(rows[:300], student=True, control=True)[0]
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
    assert play(rows)[0].within(bare).student is None
    assert SliceTallies.zero(12).within(whole) is whole
