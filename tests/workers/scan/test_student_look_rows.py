"""Rows that a student is taught with: which a look reads, and which part is asked about them."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.lake import DAY, NO_JOIN_NEEDED, PLAN
from tests.support.score_tables import put_folder, score_rows, tables
from tests.workers.scan.test_student_look import CONTEXT, learner, recorded
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.scan import before_the_pass
from workers.scan.fitted import FittedStudent, StudentSample, fitted
from workers.scan.partial_results import Game, LabelPass
from workers.sources.scores.supplied import SuppliedScores, find_scores

Place = tuple[str, int, int]


@pytest.fixture
def look(tmp_path: pathlib.Path) -> Callable[..., tuple[list[Place], int]]:
    """Return which batches of which row groups of which files are read, in order, and rows kept.

    Each row group has `of_each` rows; of the first that is read, some are `lacking`.
    """

    def look(
        files: int, groups: int, *, of_each: int, lacking: int = 0, in_first: int | None = None
    ) -> tuple[list[Place], int]:
        read: list[Place] = []

        def of_batch(_: Game, batch: Batch, __: StudentSample) -> StudentSample:
            file, group, start = batch.place
            read.append((pathlib.Path(file).stem, group, start))
            rows = batch.table.num_rows - (lacking if len(read) == 1 else 0)
            streams = np.arange(rows, dtype=np.uint64) + np.uint64(len(read) * (1 << 20))
            nothing, whole = np.zeros((rows, 0)), np.zeros(rows, dtype=np.int64)
            words = np.zeros((rows, 0), dtype=np.object_)
            return StudentSample(
                (), streams, whole, nothing, words, nothing, nothing, whole, seen=rows
            )

        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder = place / f"day={DAY}"
        folder.mkdir(parents=True)
        whole = score_rows(np.random.default_rng(0), groups * of_each).drop("day")
        for number in range(files):
            few = in_first is not None and number == 0
            rows = whole.head(in_first * of_each) if few and in_first else whole
            rows.write_parquet(folder / f"{number:02}.parquet", row_group_size=of_each)
        asked, other = (
            find_scores("ads", DAY, SuppliedScores(tables(place, context=[name])))
            for name in ("p_yesterday", "gone")
        )
        root, partition = asked.find_partition(joining=NO_JOIN_NEEDED)
        shared = LabelPass(root, partition, (Game(asked, PLAN), Game(other, PLAN)))
        found = before_the_pass.sampled(shared, of_batch, executor=InProcess())
        assert found is not None
        assert found[1].seen == 0
        return read, found[0].streams.size

    return look


def test_32_files_and_64_row_groups_are_looked_at_and_all_where_these_give_too_few(
    look: Callable[..., tuple[list[Place], int]],
) -> None:
    """1,000 rows are enough; the first and the last of the files and groups are among them."""
    files = [f"{file:02}" for file in np.linspace(0, 39, 32).round().astype(int)]
    some = {(file, group, 0) for file in files for group in (0, 3)}
    read, kept = look(40, 4, of_each=16)
    assert (set(read), len(read), kept) == (some, 64, 1_024)
    read, kept = look(40, 4, of_each=15)
    assert set(read[:64]) == some
    assert read[64:] != sorted(read[64:])
    assert set(read[64:]) == {(f"{file:02}", group, 0) for file in range(40) for group in range(4)}
    assert kept == 15 * 160


@pytest.mark.parametrize(
    ("files", "groups", "rows", "read"),
    [
        (1, 70, {"of_each": 15}, 64 + 70),
        (25, 3, {"of_each": 20}, 50),
        (25, 3, {"of_each": 20, "lacking": 1}, 50 + 75),
        (32, 2, {"of_each": 1}, 64),
        (33, 1, {"of_each": 1}, 32 + 33),
        (2, 40, {"of_each": 1, "in_first": 1}, 1 + 32 + 1 + 40),
    ],
)
def test_all_is_read_where_something_was_passed_over_and_999_rows_were_found(
    look: Callable[..., tuple[list[Place], int]],
    files: int,
    groups: int,
    rows: dict[str, int],
    read: int,
) -> None:
    assert len(look(files, groups, **rows)[0]) == read


def test_a_file_is_read_no_further_once_it_gave_its_part_of_40_000_rows(
    look: Callable[..., tuple[list[Place], int]],
) -> None:
    read, kept = look(4, 6, of_each=5_000)
    assert [file for file, *_ in read] == ["00", "00", "01", "01", "02", "02", "03", "03"]
    assert sorted(read) != read
    assert kept == 20_000
    assert len(look(4, 6, of_each=4_999)[0]) == 12
    assert len(look(1, 20, of_each=5_000)[0]) == 8
    batches, _ = look(2, 1, of_each=60_000)
    assert [start for *_, start in batches] == [0, 1 << 14] * 2


def test_each_game_that_asks_has_its_own_student(tmp_path: pathlib.Path) -> None:
    place = put_folder(tmp_path / "table", learner(3_000))
    contexts = ([], CONTEXT, CONTEXT[:1])
    sources = [
        find_scores("ads", DAY, SuppliedScores(tables(place, context=names))) for names in contexts
    ]
    root, partition = sources[1].find_partition(joining=NO_JOIN_NEEDED)
    games = tuple(Game(source, PLAN) for source in sources)
    found = before_the_pass.with_students(
        LabelPass(root, partition, games), executor=InProcess()
    ).games
    assert found[0] == games[0]
    for game, names in zip(found[1:], contexts[1:], strict=True):
        assert isinstance(game.student, FittedStudent)
        assert [feature.name for feature in game.student.features] == list(names)
    empty = LabelPass(root, dataclasses.replace(partition, files=()), games)
    assert before_the_pass.with_students(empty, executor=InProcess()) == empty


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
    monkeypatch.setattr("workers.scan.fitted.MOST_RECORDS", 50)
    parts: list[StudentSample] = []

    def with_all(game: Game, batch: Batch, _: StudentSample) -> StudentSample:
        return before_the_pass._of_batch(game, batch, StudentSample.none())

    def with_some(game: Game, batch: Batch, before: StudentSample) -> StudentSample:
        parts.append(before_the_pass._of_batch(game, batch, before))
        return parts[-1]

    expected, found = (
        before_the_pass.sampled(asked, of_batch, executor=InProcess())
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

    def teach(sample: StudentSample) -> FittedStudent | None:
        taught.update(zip(sample.numbers[:, 0].astype(int).tolist(), sample.folds, strict=True))
        return fitted(sample)

    said = FittedStudent.probabilities

    def ask(self: FittedStudent, batch: Batch, rows: Any, folds: Any) -> Any:
        some = batch.table["name"].to_numpy()[rows].tolist()
        asked.update(zip(some, folds, strict=True))
        return said(self, batch, rows, folds)

    monkeypatch.setattr(before_the_pass, "fitted", teach)
    monkeypatch.setattr(before_the_pass, "_BATCH_ROWS", 500)
    monkeypatch.setattr(FittedStudent, "probabilities", ask)
    plan = PLAN.model_copy(update={"privacy_unit": unit})
    row = recorded(tmp_path / "table", frame, plan=plan, context=("name", "age")).audit
    held = names[split == "holdout"].tolist()
    assert (row.student_records, sorted(taught)) == (len(held), sorted(held))
    assert taught == {name: asked[name] for name in held}
    assert len(asked) == 1_200
    assert set(asked.values()) == set(range(5))
    apart = sum(taught[name] != taught[name ^ 1] for name in held)
    assert apart == 0 if unit else apart > len(held) / 2
