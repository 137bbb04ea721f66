import dataclasses
import datetime as dt
import pathlib
from typing import Any

import numpy as np
import pytest

from privcore.attacks import Tally
from tests.support.lake import DAY, EVE, PLAN, label_rows, put_labels, small_lake
from workers.labels.shards import Partition, Piece, Shard, list_shards
from workers.lake.checkpoints import read_checkpoint
from workers.lake.layout import Lake, labels_folder
from workers.scan.partial_results import Game, LabelPass
from workers.scan.work_unit import scan_work_unit
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.label_places import LakeLabels


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
