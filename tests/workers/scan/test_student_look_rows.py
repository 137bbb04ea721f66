"""Rows that a student is taught with: which a look reads, and which part is asked about them."""

import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.lake import DAY, NO_JOIN_NEEDED, PLAN
from tests.workers.scan.test_student_look import CONTEXT, learner, recorded
from tests.workers.sources.scores.test_supplied import tables
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.scan import student_look
from workers.scan.fitted_student import FittedStudent, StudentSample, fitted
from workers.scan.partial_results import Game, LabelPass
from workers.sources.scores.supplied import SuppliedScores, find_scores


def places_read(
    folder: pathlib.Path, files: int, groups: int, *, of_each: int, lacking: int = 0
) -> list[tuple[int, int]]:
    """Return which row groups of which files a look reads, in order, if each has so many rows.

    The first lacks some of them.
    """
    (folder / f"day={DAY}").mkdir(parents=True)
    for place in range(files):
        path = folder / f"day={DAY}" / f"{place:02}.parquet"
        learner(groups, seed=place).drop("day").write_parquet(path, row_group_size=1)
    source = find_scores("ads", DAY, SuppliedScores(tables(folder, context=CONTEXT)))
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    read: list[tuple[int, int]] = []

    def of_batch(_: Game, batch: Batch, __: StudentSample) -> StudentSample:
        read.append((int(pathlib.PurePath(batch.path).stem), batch.place[1]))
        rows = of_each - (lacking if len(read) == 1 else 0)
        streams = np.arange(rows, dtype=np.uint64) + np.uint64(len(read) * of_each)
        nothing, whole = np.zeros((rows, 0)), np.zeros(rows, dtype=np.int64)
        words = np.zeros((rows, 0), dtype=np.object_)
        return StudentSample((), streams, whole, nothing, words, nothing, nothing, whole, seen=rows)

    asked = LabelPass(root, partition, (Game(source, PLAN),))
    student_look.sampled(asked, of_batch, executor=InProcess())
    return read


@pytest.mark.slow
def test_32_files_and_64_row_groups_are_looked_at_and_all_where_these_give_too_few(
    tmp_path: pathlib.Path,
) -> None:
    """1,000 rows are enough; the first and the last of the files and groups are among them."""
    files = np.linspace(0, 39, 32).round().astype(int).tolist()
    some = {(file, group) for file in files for group in (0, 3)}
    read = places_read(tmp_path / "enough", 40, 4, of_each=16)
    assert (set(read), len(read)) == (some, 64)  # 1,024 rows
    read = places_read(tmp_path / "few", 40, 4, of_each=15)
    assert set(read[:64]) == some
    assert read[64:] != sorted(read[64:])
    assert set(read[64:]) == {(file, group) for file in range(40) for group in range(4)}
    assert len(places_read(tmp_path / "all", 1, 70, of_each=15)) == 64 + 70
    assert len(places_read(tmp_path / "1000", 25, 3, of_each=20)) == 50
    assert len(places_read(tmp_path / "999", 25, 3, of_each=20, lacking=1)) == 50 + 75


def test_a_file_is_read_no_further_once_it_gave_its_part_of_40_000_rows(
    tmp_path: pathlib.Path,
) -> None:
    read = places_read(tmp_path / "table", 4, 6, of_each=5_000)
    assert [file for file, _ in read] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(read) != read
    assert len(places_read(tmp_path / "one more", 4, 6, of_each=4_999)) == 12
    assert len(places_read(tmp_path / "one file", 1, 20, of_each=5_000)) == 8  # it keeps 20,000


@pytest.mark.slow
def test_rows_that_a_full_sample_would_not_keep_are_not_scored(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file of 40 row groups is read whole: of some 750 holdout rows 50 are kept."""
    (tmp_path / f"day={DAY}").mkdir(parents=True)
    path = tmp_path / f"day={DAY}" / "whole.parquet"
    learner(3_000).drop("day").write_parquet(path, row_group_size=75)
    source = find_scores("ads", DAY, SuppliedScores(tables(tmp_path, context=CONTEXT)))
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    asked = LabelPass(root, partition, (Game(source, PLAN),))
    monkeypatch.setattr("workers.scan.fitted_student.MOST_RECORDS", 50)
    parts: list[StudentSample] = []

    def with_all(game: Game, batch: Batch, _: StudentSample) -> StudentSample:
        return student_look._of_batch(game, batch, StudentSample.none())

    def with_some(game: Game, batch: Batch, before: StudentSample) -> StudentSample:
        parts.append(student_look._of_batch(game, batch, before))
        return parts[-1]

    expected, found = (
        student_look.sampled(asked, of_batch, executor=InProcess())
        for of_batch in (with_all, with_some)
    )
    assert found is not None
    assert expected is not None
    for name in StudentSample.__slots__:
        assert np.array_equal(getattr(found[0], name), getattr(expected[0], name))
    assert found[0].streams.size == 50
    assert 50 < sum(part.streams.size for part in parts) < 50 * 5


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, "person"])
def test_a_holdout_row_is_asked_of_the_part_that_never_saw_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, unit: str | None
) -> None:
    """That of its own fold, which is its person's, however the look and the scan cut their batches.

    Asked of another part the student would know the holdout and not training.
    """
    names = np.random.default_rng(8).permutation(1_200)
    split = np.where(names // 2 % 4 == 0, "holdout", "train")
    frame = learner(1_200).with_columns(
        name=names, person=pl.Series([f"p{name // 2}" for name in names]), split=split
    )
    taught: dict[int, int] = {}
    asked: dict[int, int] = {}

    def teach(sample: StudentSample, *, numbers: bool) -> FittedStudent | None:
        taught.update(zip(sample.numbers[:, 0].astype(int).tolist(), sample.folds, strict=True))
        return fitted(sample, numbers=numbers)

    said = FittedStudent.probabilities

    def ask(self: FittedStudent, batch: Batch, rows: Any, folds: Any) -> Any:
        some = batch.table["name"].to_numpy()[rows].tolist()
        asked.update(zip(some, folds, strict=True))
        return said(self, batch, rows, folds)

    monkeypatch.setattr(student_look, "fitted", teach)
    monkeypatch.setattr(student_look, "_BATCH_ROWS", 500)
    monkeypatch.setattr(FittedStudent, "probabilities", ask)
    plan = PLAN.model_copy(update={"privacy_unit": unit})
    row = recorded(tmp_path / "table", frame, plan=plan, context=("name", "age")).audit
    held = names[split == "holdout"].tolist()
    assert (row.student_records, sorted(taught)) == (len(held), sorted(held))
    assert {name: taught[name] for name in held if name in asked} == {
        name: asked[name] for name in held if name in asked
    }
    assert len(asked) == 1_200 if unit is None else 600 <= len(asked) < 1_200
    assert set(asked.values()) == set(range(5))
    apart = sum(taught[name] != taught[name ^ 1] for name in held)
    assert apart == 0 if unit else apart > len(held) / 2
