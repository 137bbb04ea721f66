"""What an arm of a batch comes to is what `privcore` says of its rows, written out."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privcore.attacks import (
    LabelFit,
    OddsTally,
    ScoredRecords,
    ScoreTally,
    Tally,
    draw_counterfactuals,
    label_counts,
    label_fit,
    odds_cells,
    odds_tally,
    replay,
    score_distribution,
    score_named,
    slice_tallies,
    unread_odds,
)
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, PLAN
from workers.scan import played_arms
from workers.scan.partial_results import Game
from workers.scan.played_arms import (
    ScoredBatch,
    persons_of,
    play_arm,
    scored_batch,
    unread_odds_of,
)

ROWS = np.array([11, 3, 4, 8, 0])
GROUPS = np.arange(12) % 2


def scored(classes: int, *, student: Any = None, earlier: bool = False, **plan: Any) -> ScoredBatch:
    """Return a batch of 12 rows of the second of three days."""
    random = np.random.default_rng(classes)
    target, proxy = (random.dirichlet(np.ones(classes), 12) for _ in range(2))
    records = ScoredRecords(
        target,
        proxy,
        random.integers(0, classes, 12),
        key=7,
        indices=np.arange(12) + 40,
        group=1,
    )
    source: Any = SimpleNamespace(days=(DAY, DAY, DAY), proxy_is_earlier=earlier)
    batch: Any = SimpleNamespace(place=("part", 2, 40))
    return ScoredBatch(Game(source, PLAN.model_copy(update=plan), student), batch, records)


@pytest.mark.parametrize(
    ("classes", "taught", "control"),
    [(2, False, False), (3, True, True), (2, True, False)],
)
def test_an_arm_is_its_game_its_odds_its_slices_and_what_a_student_says(
    monkeypatch: pytest.MonkeyPatch, classes: int, taught: bool, control: bool
) -> None:
    second = np.array([5, 6, 7, 8, 9])
    beside = SimpleNamespace(cells=second, tallies=lambda day, days: ("student", day, days))
    monkeypatch.setattr(played_arms, "against_student", lambda *_, **__: beside if taught else None)
    whole = scored(classes)
    some = whole.records.of(ROWS)
    groupings = [(("a", "b"), GROUPS), (tuple(map(str, range(1000))), GROUPS)]
    found = play_arm(
        whole, ROWS, [*groupings, (tuple(map(str, range(1001))), GROUPS)], control=control
    )

    target, proxy, labels = some.target, some.proxy, some.labels
    score = score_named(PLAN.score, power=PLAN.power)
    dealt = draw_counterfactuals(target, proxy, labels, score=score, key=7, indices=ROWS + 40)
    cells = odds_cells(target, proxy, labels)
    assert found.tally == replay(dealt, repetitions=PLAN.repetitions)
    assert found.scores == score_distribution(dealt)
    assert found.odds == OddsTally.of_cells(cells)
    assert found.proxy_fit == label_fit(proxy, labels)
    assert found.student == (("student", 1, 3) if taught else None)
    counted = label_counts(proxy, labels, group=1, groups=3)
    assert found.labels == (counted if classes == 3 else None)
    assert found.slices == (
        *(
            slice_tallies(
                dealt, [cells, second] if taught else [cells], groups[ROWS],
                values=values, control=control, repetitions=PLAN.repetitions,
            )
            for values, groups in groupings
        ),
        None,
    )  # fmt: skip


def test_of_an_earlier_proxy_and_of_pairs_there_is_less_to_ask() -> None:
    found = play_arm(scored(2, earlier=True, secret=Secret.MEMBERSHIP), ROWS, [], control=False)
    some = scored(2).records.of(ROWS)
    assert found.odds == odds_tally(some.target, some.proxy, some.labels)
    assert (found.tally, found.scores) == (Tally.zero(4), ScoreTally.zero())
    assert (found.proxy_fit, found.slices) == (LabelFit(), ())


def test_unreadable_labels_are_counted() -> None:
    records = scored(2).records
    assert unread_odds_of(records) == unread_odds(records.target, records.proxy)


def test_rows_keep_their_place_in_the_row_group() -> None:
    chances = np.full((3, 2), 0.5)
    source: Any = SimpleNamespace(model="ads", probabilities=lambda *_: (chances, chances))
    shared: Any = SimpleNamespace(partition=SimpleNamespace(day=DAY, group=lambda _: 2))
    batch: Any = SimpleNamespace(place=("part", 2, 40))
    labels, scores = np.zeros(3, dtype=np.int64), played_arms.SharedScores.unmetered()
    records = scored_batch(shared, Game(source, PLAN), batch, scores, labels).records
    assert records.indices is not None
    assert (records.indices.tolist(), records.group) == ([40, 41, 42], 2)


def test_a_student_is_asked_about_each_row_of_a_person() -> None:
    asked: list[int] = []

    def answer(_: Any, rows: NDArray[np.int64], folds: NDArray[np.int64]) -> NDArray[np.float64]:
        assert rows.shape == folds.shape
        asked.extend(rows.tolist())
        return np.full((rows.size, 2, 2), 0.5)

    people = np.array([f"person {row % 3}" for row in range(12)])
    taught = scored(2, student=SimpleNamespace(probabilities=answer))
    found = persons_of(taught, people, ROWS, 9)
    assert asked == ROWS.tolist()
    assert found.doubted.student.shape == found.moved.student.shape == (3, 2, 2)
    alone = persons_of(scored(2), people, ROWS, 9)
    assert alone.moved.student.shape == (3, 0, 2)
    # Where something is published, the student decides nothing.
    answers = SimpleNamespace(probabilities=answer)
    for public, same in ((None, False), (0.1, True)):
        beside = persons_of(scored(2, student=answers, epsilon_public=public), people, ROWS, 9)
        assert np.array_equal(beside.moved.worth, alone.moved.worth) is same
