"""Lots decide which rows of a large day play: by the target, in both arms, and repeatably."""

import dataclasses
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from privcore.lower_bounds import Secret
from tests.simulate import assert_rate_at_most
from tests.support.audits import run_audits
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    MEMORISE,
    NO_JOIN_NEEDED,
    PLAN,
    Shuffled,
    copied,
    declared,
    figures,
    label_path,
    label_rows,
    model_path,
    put_labels,
    put_model,
    small_lake,
)
from tests.support.score_tables import tables
from workers.audit.request import Request
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.labels.parquet import read_row_group
from workers.lake.layout import Lake
from workers.lake.manifest import Feature
from workers.plan import TrainingSampling
from workers.scan import before_the_pass, partial_results, work_unit
from workers.scan.before_the_pass import with_row_draws
from workers.scan.partial_results import Game, LabelPass, RowDraw, may_be_large
from workers.scan.work_unit import players
from workers.sources.checkpoints.checkpoint_source import find_checkpoints
from workers.sources.scores.supplied import ScoreSource, SuppliedScores
from workers.warehouse.record_digest import seal

ROWS = 1_600
TRAINING, HOLDOUT = 600, 200


@pytest.fixture
def counted_days(monkeypatch):
    """Have rows counted of days of few bytes, too."""
    monkeypatch.setattr(before_the_pass, "_LEAST_BYTES", 0)


@pytest.fixture
def few(monkeypatch, counted_days):  # noqa: ARG001
    """Make 600 training rows and 200 holdout rows many."""
    for name, rows in (("MOST_TRAINING", TRAINING), ("MOST_HOLDOUT", HOLDOUT)):
        monkeypatch.setattr(partial_results, name, rows)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draws") / "lake"
    return small_lake(folder, rows=ROWS, privacy=declared(), row_group_size=300)


@pytest.fixture
def lake(template, tmp_path):
    return copied(template, tmp_path)


def audit(lake):
    (record,) = run_audits(lake, DAY, [Request("good", PLAN)], executor=InProcess())
    return record.audit


def drawn(lake, monkeypatch):
    """Return the row groups and rows that play when the lake's model is audited."""
    found: set[tuple[int, int]] = set()

    def spied(game, batch):
        playing = players(game, batch)
        _, group, start = batch.place
        for arm in (playing.training, playing.holdout):
            found.update((group, start + row) for row in arm.tolist())
        return playing

    with monkeypatch.context() as patched:
        patched.setattr(work_unit, "players", spied)
        audit(lake)
    return found


@pytest.mark.usefixtures("few")
def test_lots_choose_about_as_many_of_each_arm(lake):
    rows = pl.read_parquet(label_path(lake, "flights"))
    training, holdout = (rows.filter(split=arm).height for arm in ("train", "holdout"))
    row = audit(lake)
    for played, asked, there in (
        (row.records, TRAINING, training),
        (row.control_records, HOLDOUT, holdout),
    ):
        assert abs(played - asked) < 5 * np.sqrt(asked * (1 - asked / there))  # binomial
    assert f"of the {training:,} training rows" in row.reason


@pytest.mark.usefixtures("counted_days")
def test_a_day_of_fewer_rows_plays_whole(lake):
    row = audit(lake)
    assert (row.records or 0) + (row.control_records or 0) == ROWS
    assert "Lots" not in row.reason


def counted(template, *, size=16 << 20, **asked):
    """Return whether rows are counted of a model whose day has files of so many bytes."""
    checkpoints = find_checkpoints(template, "good", DAY, plan=PLAN)
    root, partition = checkpoints.find_partition(joining=NO_JOIN_NEEDED)
    large = dataclasses.replace(partition, files=(partition.files[0]._replace(size=size),))
    source: Any = asked.pop("source", checkpoints)
    calls = []

    class Counting(InProcess):
        def fold(self, function, *_, **__):
            calls.append(function)

    game = Game(source, PLAN.model_copy(update=asked))
    with_row_draws(LabelPass(root, large, {0: game}), executor=Counting())
    return bool(calls)


@pytest.mark.parametrize(
    ("asked", "is_counted"),
    [
        ({}, True),
        ({"size": (16 << 20) - 1}, False),
        ({"slices": ("city",)}, False),
        ({"privacy_unit": "hour"}, False),
        ({"sampling": TrainingSampling(label={"0": 0.5})}, False),
        ({"secret": Secret.MEMBERSHIP}, False),
        # A score table's rows cost little.
        (
            {"source": ScoreSource("ads", DAY, SuppliedScores(tables("s")), cast("Any", None))},
            False,
        ),
    ],
)
def test_files_are_counted_from_16_mib_on_and_what_asks_about_few_rows_plays_whole(
    template, asked, is_counted
):
    assert counted(template, **asked) is is_counted


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_no_label_changes_which_rows_play_but_another_target_does(lake, monkeypatch):
    """Who trained otherwise on drawn rows alone has another target, and other lots.

    Who lays rows elsewhere, or writes another feature of one of them, has other lots, too.
    """
    first = drawn(lake, monkeypatch)
    rows = pl.read_parquet(label_path(lake, "flights"))
    put_labels(lake, DAY, rows.with_columns(late=1 - pl.col("late")), row_group_size=300)
    assert drawn(lake, monkeypatch) == first
    moved = rows.with_columns(hour=pl.when(pl.row_index() == 7).then(25).otherwise("hour"))
    put_labels(lake, DAY, moved, row_group_size=300)
    assert 300 < len(first & drawn(lake, monkeypatch)) < 500
    put_labels(lake, DAY, rows, row_group_size=300)
    content = (model_path(lake, "good", EVE) / "model.cbm").read_bytes()
    put_model(lake, DAY, parameters={"iterations": 6, "depth": 2}, privacy=declared())
    assert content != (model_path(lake, "good", DAY) / "model.cbm").read_bytes()
    other = drawn(lake, monkeypatch)
    # Of two independent draws of a half the overlap is a quarter of all rows: 400, 17 by chance.
    assert 300 < len(first & other) < 500


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_an_audit_by_lots_is_repeated_in_any_order_and_when_all_rows_are_scored(lake, monkeypatch):
    asked = [Request("good", PLAN)]
    (expected,) = run_audits(lake, DAY, asked, executor=InProcess())
    shuffled = run_audits(lake, DAY, asked, executor=Shuffled(3), work_unit_bytes=1)
    assert [figures(record) for record in shuffled] == [figures(expected)]
    monkeypatch.setattr(work_unit, "_asked", lambda _game, _batch, scores, *_: scores)
    assert verify(seal(expected), lake, InProcess()).finding is Finding.REPRODUCED


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_delta_is_held_against_all_training_rows(lake):
    """1 over the rows that played would let a delta pass that promises no row anything."""
    row = audit(lake)
    training = pl.read_parquet(label_path(lake, "flights")).filter(split="train").height
    between = (1.0 / row.records + 1.0 / training) / 2.0
    put_model(lake, DAY, privacy=declared(delta=between))
    assert audit(lake).reason_code == "declaration_empty"


@pytest.mark.usefixtures("few")
def test_a_file_that_cannot_be_read_is_the_scans_to_tell(lake):
    path = label_path(lake, "flights")
    pq.write_table(
        label_rows(300, seed=9).drop("split").to_arrow(), path.with_name("part-00001.parquet")
    )
    row = audit(lake)
    assert row.detail == "label_invalid"
    assert "'split'" in row.reason


@pytest.mark.usefixtures("few")
def test_what_one_model_cannot_read_moves_no_others_lots(lake, monkeypatch):
    """A column that is missing, or damaged in one row group, is the scan's to tell."""
    checkpoints = find_checkpoints(lake, "good", DAY, plan=PLAN)
    root, partition = checkpoints.find_partition(joining=NO_JOIN_NEEDED)

    def game(*features):
        target, proxy = (
            dataclasses.replace(
                each, manifest=each.manifest.model_copy(update={"features": features})
            )
            for each in (checkpoints.target, checkpoints.proxy)
        )
        return Game(dataclasses.replace(checkpoints, target=target, proxy=proxy), PLAN)

    def draws(*games):
        shared = LabelPass(root, partition, dict(enumerate(games)))
        played = with_row_draws(shared, executor=InProcess()).games
        return [game.draw for game in played.values()]

    def damaged(lake, path, footer, index, columns):
        if "city" in columns and index == 1:
            raise NotEvaluableError(Reason.LABELS_UNREADABLE, "A page is damaged.")
        return read_row_group(lake, path, footer, index, columns)

    numbers = game(*FEATURES[:2])
    (alone,) = draws(numbers)
    assert alone.training + alone.holdout == ROWS
    gone = game(Feature(name="gone", kind="numeric"))
    assert draws(gone, numbers) == [None, alone]
    monkeypatch.setattr(before_the_pass, "read_row_group", damaged)
    words, same = draws(game(*FEATURES), numbers)
    assert same == alone
    assert words.training + words.holdout == ROWS - 300


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_size_and_power_by_lots(tmp_path):
    """N = 30, seeds 100 to 129, at significance 0.04, judged at 1e-6; each memorising one is seen.

    The honest target never saw the labels that it is audited on: they are written anew.
    """
    accused = found = 0
    for seed in range(100, 130):
        lake = Lake(str(tmp_path / str(seed)))
        for place, day in enumerate((EVE, DAY)):
            put_labels(lake, day, label_rows(ROWS, seed=2 * seed + place))
            put_model(lake, day, privacy=declared(), parameters=MEMORISE)
        if seed < 105:
            found += audit(lake).verdict == "violated"
        put_labels(lake, DAY, label_rows(ROWS, seed=10_000 + seed))
        accused += (audit(lake).epsilon_lower or 0.0) > 0.0
    assert found == 5
    assert_rate_at_most(accused, 30, 0.04)


@pytest.mark.parametrize(
    ("training", "holdout", "large", "shares"),
    [
        (2_400_000, 1_200_000, False, (1.0, 1.0)),
        (2_400_001, 1_200_000, True, None),
        (2_400_000, 1_200_001, True, None),
        (0, 0, False, (1.0, 1.0)),
        (9_600_000, 600_000, True, (0.25, 1.0)),
        (0, 6_000_000, True, (1.0, 0.2)),
    ],
)
def test_either_arm_makes_a_day_large_of_which_as_many_play_as_are_drawn_at_most(
    training, holdout, large, shares
):
    draw = RowDraw(training, holdout)
    assert draw.large is large
    assert shares is None or draw.shares == shares


def test_it_adds_and_says_of_how_many_rows_lots_chose():
    """A holdout of 1,200,001 rows and nothing else is a large day."""
    assert [may_be_large(rows) for rows in (1_200_000, 1_200_001, 2_400_000)] == [False, True, True]
    draw = RowDraw(16_000_000, 1_000_000) + RowDraw(1, 2)
    assert draw == RowDraw(16_000_001, 1_000_002)
    said = "Lots chose 4,000,007 of the 16,000,001 training rows and 999,999 of the 1,000,002"
    assert draw.sentence(4_000_007, 999_999).startswith(said)
