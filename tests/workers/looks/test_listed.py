"""Every look of the list: however rows are divided and added, and beside whom, the same bits."""

import functools
import operator
import pathlib
import pickle
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lake import DAY, NO_JOIN_NEEDED, PLAN
from tests.support.score_tables import EMPTY_LAKE, predictions, put_folder, tables
from tests.support.two_models import REQUESTS, lake_of_two
from workers.audit.request import Request
from workers.audit.run import find_inputs
from workers.labels.shards import Piece
from workers.looks.listed import LOOKS, added, check_looks, remarks_of_looks
from workers.looks.look import Findings, Look
from workers.looks.training_rows import TrainingRows
from workers.plan import TrainingSampling
from workers.scan.partial_results import LabelPass, PartialResult
from workers.scan.work_unit import scan_work_unit
from workers.sources.scores.supplied import SuppliedScores


def shared_pass(lake, *requests):
    """Return the pass of models that share their labels."""
    inputs = [find_inputs(lake, DAY, request) for request in requests]
    games = {number: found.game for number, found in enumerate(inputs)}
    also = tuple(name for game in games.values() for name in game.plan_columns)
    root, partition = inputs[0].source.find_partition(joining=NO_JOIN_NEEDED, also=also)
    return LabelPass(root, partition, games)


def row_groups(shared):
    """Return each row group of the day."""
    root = pathlib.Path(shared.lake.uri)
    counted = [
        (file.name, pq.read_metadata(root / shared.partition.path(file.name)).num_row_groups)
        for file in shared.partition.files
    ]
    return [Piece(file, index, index + 1) for file, groups in counted for index in range(groups)]


def scanned(shared, unit):
    """Return what a work unit comes to, by game."""
    return scan_work_unit(shared, unit)[1].parts


@pytest.fixture(scope="module")
def passes(tmp_path_factory):
    """Return passes of two models' labels, and of a table whose sampled rows a hash divides.

    A look that sees something in neither needs a third.
    """
    folder = tmp_path_factory.mktemp("looks")
    weighted = predictions(2_000).with_columns(weight=1.0 + pl.col("record") % 2)
    columns = {"label": "late", "target": "new", "proxy": "old", "record": "record"}
    place = put_folder(folder / "scores", weighted.with_columns(day=pl.lit(DAY)).drop("split"))
    scores = tables(place, **columns, holdout="bucket(record, 5) = 0")
    plan = PLAN.model_copy(update={"sampling": TrainingSampling(weight="weight")})
    supplied = Request("ads", plan, external_inputs=SuppliedScores(scores, None))
    return [shared_pass(lake_of_two(folder), *REQUESTS), shared_pass(EMPTY_LAKE, supplied)]


Parts = list[tuple[LabelPass, list[dict[int, PartialResult]]]]


@pytest.fixture(scope="module")
def parts(passes):
    """Return what each row group comes to."""
    return [(one, [scanned(one, (group,)) for group in row_groups(one)]) for one in passes]


def test_each_look_is_played(parts):
    played = (one for _, found in parts for games in found for one in games.values())
    seen = {look for one in played for look in one.looks}
    assert seen == set(LOOKS)
    assert len(LOOKS) == len(set(LOOKS)) > 5


@given(data=st.data())
def test_any_division_of_the_rows_and_any_order_gives_the_same_bits(parts, data):
    for shared, found in parts:
        for number, game in shared.games.items():
            listed = [games[number].looks for games in found]
            whole = functools.reduce(added, listed)
            order = data.draw(st.permutations(range(len(listed))))
            left = [*(listed[place] for place in order), PartialResult.zero(game).looks]
            while len(left) > 1:  # neighbours are added, by chance one of them a sum already
                place = data.draw(st.integers(0, len(left) - 2))
                left[place : place + 2] = [added(left[place], left[place + 1])]
            assert left[0] == whole


def test_nothing_is_neutral_and_no_sum_changes_what_was_added(parts):
    for _, found in parts:
        for one in found[0].values():
            before = pickle.dumps(one.looks)
            assert added(one.looks, {}) == one.looks == added({}, one.looks)
            added(one.looks, one.looks)
            assert pickle.dumps(one.looks) == before


def test_work_units_and_company_are_nothing_to_a_look(parts):
    """All row groups in one work unit, and each game by itself, as in a pass of its own."""
    for shared, found in parts:
        unit = tuple(row_groups(shared))
        for number in shared.games:
            whole = scanned(shared.of([number]), unit)[number]
            one_by_one = functools.reduce(operator.add, (games[number] for games in found))
            assert whole.looks == one_by_one.looks


def findings(looks):
    nobody: Any = None
    return Findings(nobody, nobody, looks, 0)


class Loud(Look):
    """A look that says which one it is."""

    __slots__ = ()

    @classmethod
    def see(cls, seen):
        """Nothing."""

    def check(self, _):
        """Refuse."""
        raise ZeroDivisionError(type(self).__name__)

    def remarks(self, _):
        """Say its name."""
        return [type(self).__name__]


FLAGS = {"First": {}, "Early": {"before_counting": True}, "Late": {"after_files": True}}
First, Early, Late = (type(name, (Loud,), flags) for name, flags in FLAGS.items())


def test_looks_refuse_and_remark_in_the_order_of_the_list(monkeypatch):
    monkeypatch.setattr("workers.looks.listed.LOOKS", (Late, First, Early, TrainingRows))
    saw = findings({look: look() for look in (Early, First, Late)})
    assert [*map(str, remarks_of_looks(saw))] == ["First", "Early"]
    assert [*map(str, remarks_of_looks(saw, after_files=True))] == ["Late"]
    for early, name in ((True, "Early"), (False, "Late")):
        with pytest.raises(ZeroDivisionError, match=name):
            check_looks(saw, before_counting=early)
    check_looks(findings({}))
