"""Slices share the significance: all of their bounds together are wrong as seldom as one."""

import pathlib

import numpy as np
import polars as pl
import pytest

from privcore.attacks import generator
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, Grid, read_evidence
from tests.support.audits import audited, recorded
from tests.support.lake import (
    DAY,
    EVE,
    MEMORISE,
    NO_JOIN_NEEDED,
    declared,
    label_path,
    label_rows,
    put_labels,
    put_model,
    small_lake,
)
from workers.audit.declaration import claim_of
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.scan.label_pass import scan_labels
from workers.scan.partial_results import Game, LabelPass
from workers.sources.checkpoints.checkpoint_source import find_checkpoints

PLAN = Plan(repetitions=4, slices=("city",), minimum_slice_records=50)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder: pathlib.Path = tmp_path_factory.mktemp("lake")
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(3000, seed=seed), row_group_size=1024)
        parameters = MEMORISE if day == DAY else {"iterations": 20, "depth": 1}
        put_model(lake, day, privacy=declared(0.3), parameters=parameters)
    return lake


@pytest.mark.slow
def test_three_slices_have_a_third_of_the_significance_each(lake):
    record = recorded(lake, PLAN)
    found = {row.value: row.epsilon_lower for row in record.slices}
    assert sorted(found) == ["AMS", "BER", "CDG"]

    source = find_checkpoints(lake, "good", DAY, plan=PLAN)
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    scan = scan_labels(LabelPass(root, partition, {0: Game(source, PLAN)}), executor=InProcess())
    (tallies,) = scan.of_one_game()[1].slices
    claim = claim_of(source.privacy, PLAN)
    assert claim == Claim(family=PureDP(), delta=0.0, significance=0.04, epsilon=0.3)
    expected, whole = (
        {
            value: read_evidence(
                tallies.tallies(value, classes=2),
                claim=Claim(PureDP(), 0.0, significance=0.04 / number, epsilon=0.3),
                choice=Grid(PLAN.fractions),
                paper_delta=PLAN.delta,
                random=generator(PLAN.seed, "good", str(DAY), "slice", "city", value),
            ).epsilon_lower
            for value in tallies.values
        }
        for number in (3, 1)
    )
    assert found == expected
    assert all(found[value] < whole[value] - 0.02 for value in found)
    assert np.mean(list(found.values())) > 0.3


@pytest.mark.slow
def test_a_slice_is_called_by_a_name(tmp_path):
    """A word of 1 MB came into the record, and with it onto each page that shows it."""
    lake = small_lake(tmp_path, days=(EVE, DAY))
    path = label_path(lake, "flights", DAY)
    pl.read_parquet(path).with_columns(g=pl.lit("w" * 1_000_000)).write_parquet(path)
    plan = Plan(repetitions=4, slices=("g",))
    found = audited(lake, plan)
    assert (found.status, found.detail) == ("not_evaluable", "feature_invalid")
    assert "a value of over 256 characters" in found.reason
