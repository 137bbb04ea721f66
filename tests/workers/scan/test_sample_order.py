"""A sample before the pass: the same whoever reads it, of the proxy alone, of all of the day."""

import dataclasses
import pathlib

import numpy as np
import polars as pl
import pytest

from tests.support.lake import DAY, NO_JOIN_NEEDED
from tests.workers.sources.scores.test_number_scores import numbers, watched
from tests.workers.sources.scores.test_supplied import PLAN, put_folder, tables
from workers.executors import InProcess
from workers.labels.shards import Piece
from workers.scan.partial_results import Game, LabelPass
from workers.scan.sample_order import Sample, sample_order
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores, find_scores


def label_pass(given: ScoreTables, *more: ScoreTables) -> LabelPass:
    """Return a pass over the table of the first, of as many games."""
    sources = [find_scores("watch", DAY, SuppliedScores(one)) for one in (given, *more)]
    root, partition = sources[0].find_partition(joining=NO_JOIN_NEEDED)
    return LabelPass(root, partition, tuple(Game(source, PLAN) for source in sources))


def borders(found: LabelPass, game: int = 0) -> np.ndarray:
    return np.array(found.games[game].source.borders)  # type: ignore[attr-defined]


def test_borders_are_the_quantiles_of_the_days_predictions(tmp_path: pathlib.Path) -> None:
    """Two days in one file, the other a million times as long."""
    frame = watched()
    other = frame.with_columns(day=pl.lit(DAY.replace(day=1)), said_before=pl.lit(1e9))
    (tmp_path / "table").mkdir()
    pl.concat([other, frame]).write_parquet(tmp_path / "table" / "part.parquet", row_group_size=900)
    found = sample_order(label_pass(numbers(tmp_path / "table", day="day")), executor=InProcess())
    ranks = np.searchsorted(np.sort(frame["said_before"].to_numpy()), borders(found)) / len(frame)
    assert np.abs(ranks - np.arange(1, 448) / 448).max() < 0.03


def test_each_game_has_its_own_and_none_where_there_are_probabilities(
    tmp_path: pathlib.Path,
) -> None:
    frame = watched().with_columns(
        p_today=pl.lit(0.4),
        p_yesterday=pl.lit(0.5),
        clicked=pl.lit(1),
        hours=pl.col("minutes") / 60,
    )
    place = put_folder(tmp_path / "table", frame)
    whole = label_pass(numbers(place), tables(place), numbers(place, proxy="hours"))
    found = sample_order(whole, executor=InProcess())
    assert found.games[1] == whole.games[1]
    assert not np.array_equal(borders(found), borders(found, 2))
    alone = label_pass(tables(place))
    assert sample_order(alone, executor=InProcess()) is alone


def test_neither_labels_nor_the_order_of_the_pieces_change_it(tmp_path: pathlib.Path) -> None:
    frame = watched()
    shuffled = frame.with_columns(minutes=pl.lit(0.0), said_today=pl.lit(1.0))
    passes = [
        label_pass(numbers(put_folder(tmp_path / str(number), one)))
        for number, one in enumerate((frame, shuffled))
    ]
    (unit,) = passes[0].partition.work_units
    pieces = tuple(Piece(unit[0].file, group, group + 1) for group in (3, 1, 0, 2))
    cut = dataclasses.replace(passes[0].partition, work_units=tuple((one,) for one in pieces))
    passes.append(dataclasses.replace(passes[0], partition=cut))
    found = [borders(sample_order(one, executor=InProcess())) for one in passes]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_of_many_row_groups_some_are_read_from_the_first_to_the_last(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted by prediction, in 40 row groups of 100 rows: of five, every third row is read."""
    frame = watched().sort("said_before")
    (tmp_path / "table" / f"day={DAY}").mkdir(parents=True)
    path = tmp_path / "table" / f"day={DAY}" / "part.parquet"
    frame.drop("day").write_parquet(path, row_group_size=100)
    monkeypatch.setattr("workers.scan.sample_order._ROW_GROUPS", 5)
    monkeypatch.setattr("workers.scan.sample_order._ROWS", 40)
    whole, samples = label_pass(numbers(tmp_path / "table")), []
    monkeypatch.setattr(
        type(whole.games[0].source), "knowing", lambda _, some: samples.append(some)
    )
    sample_order(whole, executor=InProcess())
    (sample,) = samples
    assert sample.size == 5 * 34
    assert np.all(np.diff(sample) >= 0)
    assert sample[0] == frame["said_before"][0]
    assert sample[-1] == frame["said_before"][3_999]


def test_what_cannot_be_read_is_left_out_and_said_by_whoever_scans_it(
    tmp_path: pathlib.Path,
) -> None:
    frame = watched().with_columns(said_before=pl.lit("many"))
    found = sample_order(label_pass(numbers(put_folder(tmp_path, frame))), executor=InProcess())
    assert borders(found).tolist() == [0.0] * 447


def test_samples_add_in_any_order() -> None:
    parts = [Sample((np.array(some),)) for some in ([3.0, 4.0], [1.0, 9.0], [], [2.0])]
    total = parts[0] + parts[1] + (parts[2] + parts[3])
    other = parts[3] + (parts[1] + (parts[2] + parts[0]))
    assert total.values[0].tolist() == other.values[0].tolist() == [1.0, 2.0, 3.0, 4.0, 9.0]
