"""Lots decide which rows of a large day play: by the target, in both arms, and repeatably."""

import dataclasses
import pathlib
import shutil
from types import SimpleNamespace
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
    MEMORISE,
    NO_JOIN_NEEDED,
    PLAN,
    Shuffled,
    declared,
    figures,
    label_path,
    label_rows,
    model_path,
    put_labels,
    put_model,
    small_lake,
)
from workers.audit.request import Request
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.labels.parquet import ContentDigest
from workers.lake.layout import Lake
from workers.plan import Plan, TrainingSampling
from workers.scan import before_the_pass, partial_results, work_unit
from workers.scan.before_the_pass import with_row_draws
from workers.scan.partial_results import Game, LabelPass, RowDraw
from workers.scan.players import players
from workers.sources.checkpoints.checkpoint_source import find_checkpoints
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRow

ROWS = 1_600
TRAINING, HOLDOUT = 600, 200


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make 600 training rows and 200 holdout rows many."""
    monkeypatch.setattr(partial_results, "MOST_TRAINING", TRAINING)
    monkeypatch.setattr(partial_results, "MOST_HOLDOUT", HOLDOUT)
    monkeypatch.setattr(before_the_pass, "_LEAST_BYTES", 0)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("draws") / "lake"
    return small_lake(folder, rows=ROWS, privacy=declared(), row_group_size=300)


@pytest.fixture
def lake(template: Lake, tmp_path: pathlib.Path) -> Lake:
    shutil.copytree(template.uri, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def audit(lake: Lake, plan: Plan = PLAN, **more: Any) -> AuditRow:
    more = {"executor": InProcess()} | more
    (record,) = run_audits(lake, DAY, [Request("good", plan)], **more)
    return record.audit


def drawn(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """Return the row groups and rows that play when the lake's model is audited."""
    found: set[tuple[int, int]] = set()

    def spied(game: Any, batch: Any) -> Any:
        playing = players(game, batch)
        _, group, start = batch.place
        for arm in (playing.training, playing.holdout):
            found.update((group, start + row) for row in arm.tolist())
        return playing

    with monkeypatch.context() as patched:
        patched.setattr(work_unit, "players", spied)
        audit(lake)
    return found


def relabel(lake: Lake) -> None:
    rows = pl.read_parquet(label_path(lake, "flights"))
    put_labels(lake, DAY, rows.with_columns(late=1 - pl.col("late")), row_group_size=300)


@pytest.mark.usefixtures("few")
def test_lots_choose_about_as_many_of_each_arm(lake: Lake) -> None:
    rows = pl.read_parquet(label_path(lake, "flights"))
    training, holdout = (rows.filter(split=arm).height for arm in ("train", "holdout"))
    row = audit(lake)
    assert (row.training_rows, row.holdout_rows) == (training, holdout)
    for played, asked, there in (
        (row.records, TRAINING, training),
        (row.control_records, HOLDOUT, holdout),
    ):
        assert played is not None
        assert abs(played - asked) < 5 * np.sqrt(asked * (1 - asked / there))  # binomial
    assert f"of the {training:,} training rows" in row.reason


def test_a_day_of_fewer_rows_plays_whole(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_the_pass, "_LEAST_BYTES", 0)
    row = audit(lake)
    assert (row.training_rows, row.holdout_rows) == (None, None)
    assert (row.records or 0) + (row.control_records or 0) == ROWS
    assert "Lots" not in row.reason


def counted(template: Lake, *, size: int = 16 << 20, decoys: Any = None, **asked: Any) -> bool:
    """Return whether rows are counted of a model whose day has files of so many bytes."""
    checkpoints = find_checkpoints(template, "good", DAY, plan=PLAN)
    root, partition = checkpoints.find_partition(joining=NO_JOIN_NEEDED)
    large = dataclasses.replace(partition, files=(partition.files[0]._replace(size=size),))
    manifest = checkpoints.target.manifest.model_copy(update={"decoys": decoys})
    target = dataclasses.replace(checkpoints.target, manifest=manifest)
    source: Any = asked.pop("source", dataclasses.replace(checkpoints, target=target))
    game, calls = Game(source, PLAN.model_copy(update=asked)), list[Any]()
    executor: Any = SimpleNamespace(fold=lambda function, *_, **__: calls.append(function))
    with_row_draws(LabelPass(root, large, (game,)), executor=executor)
    return bool(calls)


def test_files_are_counted_from_16_mib_on(template: Lake) -> None:
    assert counted(template)
    assert not counted(template, size=(16 << 20) - 1)


@pytest.mark.parametrize(
    "asked",
    [
        {"slices": ("city",)},
        {"privacy_unit": "hour"},
        {"sampling": TrainingSampling(label={"0": 0.5})},
        {"secret": Secret.MEMBERSHIP},
        {"decoys": "some"},
        {"source": SimpleNamespace(decoys=None)},
    ],
)
def test_what_asks_about_few_rows_plays_whole(template: Lake, asked: dict[str, Any]) -> None:
    """So does a score table: its rows cost little."""
    assert not counted(template, **asked)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_no_label_changes_which_rows_play_but_another_target_does(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who trained otherwise on drawn rows alone has another target, and other lots.

    Who lays rows elsewhere, or writes another feature of one of them, has other lots, too.
    """
    first = drawn(lake, monkeypatch)
    relabel(lake)
    assert drawn(lake, monkeypatch) == first
    rows = pl.read_parquet(label_path(lake, "flights"))
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
def test_the_record_is_the_same_in_any_order_and_when_all_rows_are_scored(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (expected,) = run_audits(lake, DAY, [Request("good", PLAN)], executor=InProcess())
    shuffled = run_audits(
        lake, DAY, [Request("good", PLAN)], executor=Shuffled(3), work_unit_bytes=1
    )
    monkeypatch.setattr(work_unit, "_asked", lambda _game, _batch, scores, *_: scores)
    whole = run_audits(lake, DAY, [Request("good", PLAN)], executor=InProcess())
    assert [figures(record) for record in (*shuffled, *whole)] == [figures(expected)] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_an_audit_by_lots_can_be_repeated(lake: Lake) -> None:
    (record,) = run_audits(lake, DAY, [Request("good", PLAN)], executor=InProcess())
    assert verify(seal(record), lake, InProcess()).finding is Finding.REPRODUCED


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_delta_is_held_against_all_training_rows(lake: Lake) -> None:
    """1 over the rows that played would let a delta pass that promises no row anything."""
    row = audit(lake)
    assert row.records is not None
    assert row.training_rows is not None
    between = (1.0 / row.records + 1.0 / row.training_rows) / 2.0
    put_model(lake, DAY, privacy=declared(delta=between))
    assert audit(lake).reason_code == "declaration_empty"


@pytest.mark.usefixtures("few")
def test_a_file_that_cannot_be_read_is_the_scans_to_tell(lake: Lake) -> None:
    path = label_path(lake, "flights")
    pq.write_table(
        label_rows(300, seed=9).drop("split").to_arrow(), path.with_name("part-00001.parquet")
    )
    row = audit(lake)
    assert row.detail == "label_invalid"
    assert "'split'" in row.reason


def test_of_a_row_group_that_a_model_cannot_read_no_row_is_counted() -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotEvaluableError(Reason.FEATURE_INVALID, "A column is missing.")

    label = SimpleNamespace(column="late")
    source = SimpleNamespace(check_columns=refuse, context=(), label=label)
    shared: Any = SimpleNamespace(lake=None, partition=None)
    game: Any = SimpleNamespace(plan=PLAN, source=source, plan_columns=())
    group: Any = SimpleNamespace(footer=None, path="part")
    assert before_the_pass._of_group(shared, game, group, "part") == RowDraw(0, 0)


def test_a_column_that_one_model_cannot_read_moves_no_others_lots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(_: Any, *place: Any) -> SimpleNamespace:
        if "damaged" in place[-1]:
            raise NotEvaluableError(Reason.LABELS_UNREADABLE, "A page is damaged.")
        return SimpleNamespace(columns=place[-1])

    def count(_: Any, game: Any, group: Any, __: str) -> RowDraw:
        return RowDraw(len(group.columns), 1, ContentDigest.of(game.columns[0]))

    monkeypatch.setattr(before_the_pass, "read_row_group", read)
    monkeypatch.setattr(before_the_pass, "_of_group", count)
    games: Any = tuple(SimpleNamespace(columns=names) for names in (("damaged", "a"), ("a", "b")))
    shared = LabelPass(cast("Any", None), cast("Any", None), games)
    found = before_the_pass._of_row_group(shared, ("part", cast("Any", None), 0), "part")
    assert found.found == (
        RowDraw(0, 0),
        count(shared, games[1], SimpleNamespace(columns="ab"), ""),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_size_and_power_by_lots(tmp_path: pathlib.Path) -> None:
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
