"""Labels read from an audited model's file, beside what its manifest declares."""

import math
import pathlib
from typing import Any

import pytest

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import ReasonCode
from tests.support.audits import recorded
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    PLAN,
    THREE,
    declared,
    edit_manifest,
    label_rows,
    put_labels,
    replace_model,
    small_lake,
)
from workers.audit.file_labels import FileLabels, read_stored
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn
from workers.plan import Plan
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MultiStage

NUMERIC = FEATURES[:2]
RESPONSE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
ONE = {"iterations": 40, "depth": 6, "leaf_estimation_iterations": 1}


def lake_of(
    folder: pathlib.Path,
    *,
    epsilon: float = math.inf,
    mechanism: dict[str, Any] | None = RESPONSE,
    parameters: dict[str, Any] = ONE,
) -> Lake:
    """Return a lake whose models read labels through randomized response at `epsilon`."""
    lake = Lake(str(folder))
    applied = None if math.isinf(epsilon) else MultiStage(epsilon=epsilon)
    privacy = declared(1.0, mechanism=mechanism)
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(2_800, seed=seed, chances=(0.7, 0.3)), row_group_size=512)
        recipe = Recipe("good", "flights", BINARY, NUMERIC, applied, privacy, parameters)
        train(lake, TrainingJob(recipe, day, seed=1))
    return lake


def read(lake: Lake, plan: Plan = PLAN) -> FileLabels:
    record = recorded(lake, plan)
    return read_stored(record, lake, InProcess(), b"")


def test_unchanged_labels_refute_a_declared_randomized_response(tmp_path: pathlib.Path) -> None:
    found = read(lake_of(tmp_path))
    assert found.are_the_tables
    assert found.code is ReasonCode.MECHANISM_NOT_APPLIED
    assert found.response is not None
    assert found.response.same == found.response.read > 0
    assert found.sentence.endswith(
        "the file holds them unchanged. So randomized response at the declared 1 was not applied. "
        "This refutes the declared mechanism, not epsilon-DP as such."
    )


def test_of_persons_changed_labels_say_nothing_and_unchanged_ones_all(
    tmp_path: pathlib.Path,
) -> None:
    """One coin for all rows of a person would read as many coins that fell alike."""
    persons = PLAN.model_copy(update={"privacy_unit": "city"})
    changed = read(lake_of(tmp_path / "changed", epsilon=3.0), persons)
    assert (changed.response, changed.code) == (None, None)
    assert "a person's labels may share one coin" in changed.sentence
    unchanged = read(lake_of(tmp_path / "unchanged"), persons)
    assert unchanged.code is ReasonCode.MECHANISM_NOT_APPLIED


def test_randomized_labels_have_an_interval(tmp_path: pathlib.Path) -> None:
    found = read(lake_of(tmp_path, epsilon=1.0))
    assert (found.why, found.are_the_tables, found.code) == ("", False, None)
    assert found.response is not None
    assert found.response.epsilon_low <= 1.0 <= found.response.epsilon_high < 2.0
    assert "They are of changed labels: randomized response at" in found.sentence


@pytest.mark.slow
def test_too_few_changes_refute_it_and_more_do_not(tmp_path: pathlib.Path) -> None:
    assert read(lake_of(tmp_path / "less", epsilon=3.0)).refuted == 1.0
    assert read(lake_of(tmp_path / "more", epsilon=0.3)).code is None


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy": declared(1.0)},
        {"label": BINARY.model_dump() | {"state": {"privatised_by": RESPONSE}}},
    ],
)
def test_nothing_is_refuted_where_no_coins_of_the_tables_labels_are_declared(
    tmp_path: pathlib.Path, changes: dict[str, Any]
) -> None:
    lake = lake_of(tmp_path)
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, **changes)
    found = read(lake)
    assert found.are_the_tables
    assert found.code is None


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (BINARY, "it has categorical features"),
        (THREE, "the label has more than two classes"),
    ],
)
def test_models_that_are_not_evaluated_say_why(
    tmp_path: pathlib.Path, label: LabelColumn, said: str
) -> None:
    found = read(small_lake(tmp_path, label=label))
    assert (found.response, found.trees) == (None, 0)
    assert said in found.why
    assert found.sentence.endswith("That does not show that it gives none away.")


@pytest.mark.slow
def test_another_table_and_other_leaves_are_not_evaluated(tmp_path: pathlib.Path) -> None:
    lake = lake_of(tmp_path)
    put_labels(lake, DAY, label_rows(2_800, seed=9), row_group_size=512)
    assert read(lake).why == "its first tree's sums are not whole"
    steps = lake_of(tmp_path / "steps", parameters=ONE | {"leaf_estimation_iterations": 5})
    assert read(steps).why.startswith("it was not trained for one binary label")


@pytest.mark.slow
def test_a_file_that_has_changed_since_is_refused(tmp_path: pathlib.Path) -> None:
    lake = lake_of(tmp_path)
    record = recorded(lake)
    other = lake_of(tmp_path / "other", parameters=ONE | {"iterations": 20})
    replace_model(lake, "good", DAY, other.read("models/good/day=2026-03-02/model.cbm"))
    with pytest.raises(TerminalError, match="has changed since the audit"):
        read_stored(record, lake, InProcess(), b"")
