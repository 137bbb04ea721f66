"""A work unit: what the rows of a batch come to in each game, alone and beside others."""

import dataclasses
import datetime as dt
import pathlib
from typing import Any, cast

import numpy as np
import polars as pl
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
)
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, EVE, NO_JOIN_NEEDED, PLAN, label_rows, put_labels, small_lake
from workers.labels.columns import Batch
from workers.labels.shards import Partition, Piece, Shard, list_shards
from workers.lake.checkpoints import read_checkpoint
from workers.lake.layout import Lake, labels_folder
from workers.scan.fitted import FittedStudent, Taught
from workers.scan.partial_results import Game, LabelPass
from workers.scan.players import row_folds
from workers.scan.work_unit import (
    ScoredBatch,
    persons_of,
    play_arm,
    scan_work_unit,
    scored_batch,
)
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.label_places import LakeLabels
from workers.sources.source import SharedScores


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose two row groups, and two days, hold the same rows."""
    lake = small_lake(tmp_path_factory.mktemp("scoring") / "lake")
    half = label_rows(300, seed=5)
    for day in (EVE, DAY):
        put_labels(lake, day, half.vstack(half), row_group_size=300)
    return lake


def played(lake: Lake, shard: Shard, **plan: Any) -> Tally:
    target, proxy = (read_checkpoint(lake, "good", day) for day in (DAY, EVE))
    source = CheckpointSource(LakeLabels(lake, "flights", (DAY,)), target, proxy)
    game = Game(source, PLAN.model_copy(update=plan))
    unit = (Piece(shard.file, shard.row_group, shard.row_group + 1),)
    partition = Partition(
        shard.dataset, shard.day, labels_folder(shard.dataset, shard.day), (), (unit,)
    )
    _, scores = scan_work_unit(LabelPass(lake, partition, (game,)), unit)
    return scores.parts[0].tallies.game


@pytest.fixture
def shard(lake: Lake) -> Shard:
    return list_shards(lake, "flights", DAY)[0]


def test_a_shard_is_played_the_same_way_every_time(lake: Lake, shard: Shard) -> None:
    assert played(lake, shard) == played(lake, shard)


@pytest.mark.parametrize("seed", [1, 2, 2**40])
def test_the_audits_seed_decides_the_game_itself(lake: Lake, shard: Shard, seed: int) -> None:
    assert played(lake, shard, seed=seed) != played(lake, shard, seed=0)


def test_every_repetition_is_another_game(lake: Lake, shard: Shard) -> None:
    tally = played(lake, shard)
    assert len(np.unique(tally.correct, axis=0)) == tally.repetitions > 1


@pytest.mark.parametrize("other", [{"row_group": 1}, {"day": EVE}], ids=["row-group", "day"])
def test_the_same_rows_in_another_shard_have_a_stream_of_their_own(
    lake: Lake, shard: Shard, other: dict[str, int | dt.date]
) -> None:
    twin = dataclasses.replace(shard, **other)
    assert played(lake, twin).records == played(lake, shard).records
    assert played(lake, twin) != played(lake, shard)


def test_the_same_rows_in_another_file_have_a_stream_of_their_own(lake: Lake, shard: Shard) -> None:
    first = pathlib.Path(lake.uri) / "labels" / "flights" / f"day={DAY}" / shard.file
    second = first.with_name("part-00001.parquet")
    second.write_bytes(first.read_bytes())
    twin = dataclasses.replace(shard, file=second.name)
    assert played(lake, twin) != played(lake, shard)
    second.unlink()


ROWS = np.array([11, 3, 4, 8, 0])
GROUPS = np.arange(12) % 2
BATCH = Batch(pl.DataFrame({"age": np.arange(12.0)}).to_arrow(), "somewhere", ("part", 2, 40))
EXPECTED = {
    classes: np.random.default_rng(3).dirichlet(np.ones(classes), (12, 2)) for classes in (2, 3)
}
ASKED: list[tuple[list[int], list[int]]] = []


class Says(FittedStudent):
    """Says what is expected of each row, and notes which rows and folds it was asked about."""

    def probabilities(self, batch: Batch, rows: Any, folds: Any) -> NDArray[np.float64]:
        assert batch is BATCH
        ASKED.append((rows.tolist(), folds.tolist()))
        classes: Any = self.student
        return EXPECTED[classes][rows]


def scored(lake: Lake, classes: int, *, taught: bool = False, **plan: Any) -> ScoredBatch:
    """Return a batch of 12 rows of the second of three days."""
    random, nobody = np.random.default_rng(classes), cast("Any", None)
    target, proxy = (random.dirichlet(np.ones(classes), 12) for _ in range(2))
    records = ScoredRecords(
        target,
        proxy,
        random.integers(0, classes, 12),
        key=7,
        indices=np.arange(12) + 40,
        group=1,
    )
    models = (read_checkpoint(lake, "good", day) for day in (DAY, EVE))
    source = CheckpointSource(LakeLabels(lake, "flights", (DAY,) * 3), *models, declared=True)
    student = Says(cast("Any", classes), nobody, (), (), Taught(5, None)) if taught else None
    return ScoredBatch(Game(source, PLAN.model_copy(update=plan), student), BATCH, records)


@pytest.mark.parametrize(
    ("classes", "taught", "control"),
    [(2, False, False), (3, True, True), (2, True, False)],
)
def test_an_arm_is_its_game_its_odds_its_slices_and_what_a_student_says(
    lake: Lake, classes: int, taught: bool, control: bool
) -> None:
    whole = scored(lake, classes, taught=taught)
    some = whole.records.of(ROWS)
    groupings = [(("a", "b"), GROUPS), (tuple(map(str, range(1000))), GROUPS)]
    ASKED.clear()
    found = play_arm(
        whole, ROWS, [*groupings, (tuple(map(str, range(1001))), GROUPS)], control=control
    )
    folds = row_folds(whole.game, BATCH, ROWS).tolist()
    assert ([(ROWS.tolist(), folds)] if taught else []) == ASKED

    target, proxy, labels = some.target, some.proxy, some.labels
    score = score_named(PLAN.score, power=PLAN.power)
    dealt = draw_counterfactuals(target, proxy, labels, score=score, key=7, indices=ROWS + 40)
    cells = odds_cells(target, proxy, labels)
    assert found.tally == replay(dealt, repetitions=PLAN.repetitions)
    assert found.scores == score_distribution(dealt)
    assert found.odds == OddsTally.of_cells(cells)
    assert found.proxy_fit == label_fit(proxy, labels)
    counted = label_counts(proxy, labels, group=1, groups=3)
    assert found.labels == (counted if classes == 3 else None)
    references = [cells]
    if taught:
        of_target, of_proxy = EXPECTED[classes][ROWS].swapaxes(0, 1)
        references.append(odds_cells(target, of_target, labels))
        nothing = OddsTally.zero()
        assert found.student is not None
        assert found.student.odds == (nothing, odds_tally(target, of_target, labels), nothing)
        beside = label_counts(proxy, labels, student=of_proxy, group=1, groups=3)
        assert found.student.labels == beside
    else:
        assert found.student is None
    assert found.slices == (
        *(
            slice_tallies(
                dealt, references, groups[ROWS],
                values=values, control=control, repetitions=PLAN.repetitions,
            )
            for values, groups in groupings
        ),
        None,
    )  # fmt: skip


def test_of_an_earlier_proxy_and_of_pairs_there_is_less_to_ask(lake: Lake) -> None:
    pairs = scored(lake, 2, secret=Secret.MEMBERSHIP)
    earlier = dataclasses.replace(pairs.game.source, declared=False)
    game = dataclasses.replace(pairs.game, source=earlier)
    found = play_arm(dataclasses.replace(pairs, game=game), ROWS, [], control=False)
    some = pairs.records.of(ROWS)
    assert found.odds == odds_tally(some.target, some.proxy, some.labels)
    assert (found.tally, found.scores) == (Tally.zero(4), ScoreTally.zero())
    assert (found.proxy_fit, found.slices) == (LabelFit(), ())


def test_rows_keep_their_place_in_the_row_group(lake: Lake) -> None:
    models = (read_checkpoint(lake, "good", day) for day in (DAY, EVE))
    source = CheckpointSource(LakeLabels(lake, "flights", (EVE, DAY)), *models)
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    file = partition.files[-1].name
    batch = Batch(label_rows(3, seed=0).to_arrow(), partition.path(file), (file, 0, 40))
    labels, game = np.zeros(3, dtype=np.int64), Game(source, PLAN)
    shared, scores = LabelPass(root, partition, (game,)), SharedScores.unmetered()
    records = scored_batch(shared, game, batch, scores, labels).records
    assert records.indices is not None
    assert (records.indices.tolist(), records.group) == ([40, 41, 42], 1)


def test_a_student_is_asked_about_each_row_of_a_person(lake: Lake) -> None:
    people = np.array([f"person {row % 3}" for row in range(12)])
    ASKED.clear()
    found = persons_of(scored(lake, 2, taught=True), people, ROWS, 9)
    ((rows, folds),) = ASKED
    assert (rows, len(folds)) == (ROWS.tolist(), ROWS.size)
    assert found.doubted.student.shape == found.moved.student.shape == (3, 2, 2)
    alone = persons_of(scored(lake, 2), people, ROWS, 9)
    assert alone.moved.student.shape == (3, 0, 2)
    # Where something is published, the student decides nothing.
    for public, same in ((None, False), (0.1, True)):
        beside = persons_of(scored(lake, 2, taught=True, epsilon_public=public), people, ROWS, 9)
        assert np.array_equal(beside.moved.worth, alone.moved.worth) is same
