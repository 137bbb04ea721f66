"""Labels read from an audited model's file, beside what its manifest declares."""

import math
from unittest.mock import patch

import polars as pl
import pytest

from privcore.exceptions import TerminalError, TransientError
from privcore.lower_bounds.verdicts import ReasonCode
from tests.support.audits import audited, recorded
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
from workers.audit.file_labels import _declared_response
from workers.audit.verify import Finding, read_stored, verify
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy, PrivatisedBy
from workers.lake.model_sandbox import ModelRefusedError
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MultiStage
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import Status

NUMERIC = FEATURES[:2]
RESPONSE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
SECRET = BINARY.model_copy(update={"state": "secret"})
ANSWERED = declared(1.0, mechanism=RESPONSE)
ONE = {"iterations": 40, "depth": 6, "leaf_estimation_iterations": 1}
SECRET_OF_THREE = THREE.model_copy(update={"state": "secret"})
OF_THREE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 3}}


def lake_of(
    folder,
    *,
    epsilon=math.inf,
    mechanism=RESPONSE,
    parameters=ONE,
    label=SECRET,
    unit="flight",
    features=NUMERIC,
):
    """Return a lake whose models read labels through randomized response at `epsilon`."""
    chances = (0.7, 0.3) if len(label.classes) == 2 else (0.5, 0.3, 0.2)
    lake = Lake(str(folder))
    applied = None if math.isinf(epsilon) else MultiStage(epsilon=epsilon)
    privacy = declared(1.0, mechanism=mechanism, unit=unit)
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(2_800, seed=seed, label=label, chances=chances)
        put_labels(lake, day, rows, row_group_size=512)
        recipe = Recipe("good", "flights", label, features, applied, privacy, parameters)
        train(lake, TrainingJob(recipe, day, seed=1))
    return lake


def read(lake, plan=PLAN):
    record = recorded(lake, plan)
    return read_stored(record, lake, InProcess(), b"")


OF_CLASSES = pytest.mark.parametrize(
    ("label", "mechanism", "most"),
    [(SECRET, RESPONSE, 2.0), pytest.param(SECRET_OF_THREE, OF_THREE, 2.5, marks=pytest.mark.slow)],
    ids=["two", "three"],
)


@OF_CLASSES
def test_unchanged_labels_refute_a_declared_randomized_response(tmp_path, label, mechanism, most):
    lake = lake_of(tmp_path, mechanism=mechanism, label=label)
    found = read(lake)
    assert (found.are_the_tables, found.trees) == (True, 40)
    assert found.code is ReasonCode.MECHANISM_NOT_APPLIED
    assert found.response.same == found.response.read > 0
    assert found.response.classes == len(label.classes)
    assert found.sentence.endswith(
        "the file holds them unchanged. So randomized response at the declared 1 was not applied. "
        "This refutes the declared mechanism, not epsilon-DP as such."
    )
    if most > 2.0:  # of another number of classes, the labels are not what was randomized
        for day in (EVE, DAY):
            edit_manifest(lake, "good", day, privacy=declared(1.0, mechanism=RESPONSE))
        assert read(lake).code is None


@OF_CLASSES
def test_randomized_labels_have_an_interval(tmp_path, label, mechanism, most):
    found = read(lake_of(tmp_path, epsilon=1.0, mechanism=mechanism, label=label))
    assert (found.why, found.are_the_tables, found.code) == ("", False, None)
    assert found.response.epsilon_low <= 1.0 <= found.response.epsilon_high < most
    assert "They are of changed labels: randomized response at" in found.sentence


def test_a_night_reads_the_file_beside_the_answers(tmp_path):
    lake = lake_of(tmp_path / "kept", epsilon=1.0)
    kept = audited(lake)
    assert (kept.file_unread, kept.reason_code) != (None, "mechanism_not_applied")
    assert kept.verdict != "violated"
    assert kept.file_records == kept.records
    assert kept.file_epsilon_low <= 1.0 <= kept.file_epsilon_high
    lake = lake_of(tmp_path / "dropped")
    dropped = recorded(lake)
    row = dropped.audit
    assert (row.verdict, row.reason_code, row.detail) == ("violated", "mechanism_not_applied", None)
    assert (row.file_epsilon_high, row.file_unread) == (None, None)
    assert "was not applied. This refutes the declared mechanism, not epsilon-DP" in row.reason
    assert "With the model's answers: " in row.reason
    assert verify(seal(dropped), lake, InProcess()).finding is Finding.REPRODUCED


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelRefusedError("cannot be read: CatBoost crashed"), "it cannot be read: CatBoost"),
        (NotEvaluableError(Reason.LABELS_CHANGED, "Gone."), "the reading failed: Gone"),
        (MemoryError("row 7"), "the reading failed: it ended with MemoryError"),
    ],
)
def test_a_file_that_cannot_be_read_costs_no_audit(tmp_path, error, said, caplog):
    lake = small_lake(tmp_path, privacy=declared(1.0, mechanism=RESPONSE), features=NUMERIC)
    with patch("workers.audit.file_labels.read_leaves", side_effect=error):
        row = audited(lake)
    assert row.status is Status.EVALUATED
    assert row.verdict != "violated"
    assert (row.file_unread or "").startswith(said)
    assert "row 7" not in row.model_dump_json()
    assert ("row 7" in caplog.text) == isinstance(error, MemoryError)
    with (
        patch("workers.audit.file_labels.read_leaves", side_effect=TransientError("Later.")),
        pytest.raises(TransientError),
    ):
        audited(lake)


def test_only_so_many_values_are_read_and_only_for_a_declared_response(tmp_path):
    lake = small_lake(tmp_path, privacy=declared(1.0, mechanism=RESPONSE), features=NUMERIC)
    with patch("workers.audit.file_labels._MOST_VALUES", 100):
        assert "are more than 100 values" in (audited(lake).file_unread or "")
    edit_manifest(lake, "good", DAY, privacy=declared(0.5))
    row = audited(lake)
    assert (row.file_unread, row.file_records, row.file_labels_read) == (None, None, None)


def test_of_persons_changed_labels_say_nothing_and_unchanged_ones_all(tmp_path):
    """One coin for all rows of a person would read as many coins that fell alike."""
    persons = PLAN.model_copy(update={"privacy_unit": "city"})
    changed = read(lake_of(tmp_path / "changed", epsilon=3.0), persons)
    assert (changed.response, changed.code) == (None, None)
    assert "a person's labels may share one coin" in changed.sentence
    unchanged = read(lake_of(tmp_path / "unchanged"), persons)
    assert unchanged.code is ReasonCode.MECHANISM_NOT_APPLIED


@pytest.mark.slow
def test_too_few_changes_refute_it_and_more_do_not(tmp_path):
    less = read(lake_of(tmp_path / "less", epsilon=3.0))
    assert less.refuted == 1.0
    assert less.code is None  # responses that a model has denoised since look like that, too
    assert less.sentence.endswith(
        "That is less than randomized response at the declared 1 changes: a weaker one was "
        "applied, or its responses were processed further."
    )
    assert read(lake_of(tmp_path / "more", epsilon=0.3)).code is None


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy": declared(1.0)},
        {"label": BINARY.model_dump() | {"state": {"privatised_by": RESPONSE}}},
    ],
)
def test_nothing_is_refuted_where_no_coins_of_the_tables_labels_are_declared(tmp_path, changes):
    lake = lake_of(tmp_path)
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, **changes)
    found = read(lake)
    assert found.are_the_tables
    assert found.code is None


def test_a_model_whose_categories_were_ordered_by_labels_is_not_evaluated(tmp_path):
    found = read(small_lake(tmp_path))
    assert found.response is None
    assert "hold whole sums" in found.why
    assert found.sentence.endswith("That does not show that it gives none away.")


def test_of_categories_that_are_columns_unchanged_labels_refute_it(tmp_path):
    found = read(lake_of(tmp_path, features=FEATURES, parameters=ONE | {"one_hot_max_size": 3}))
    assert found.code is ReasonCode.MECHANISM_NOT_APPLIED
    assert found.trees == 40


@pytest.mark.slow
def test_unchanged_labels_accuse_only_where_the_table_holds_the_secret_ones(tmp_path):
    """A team whose table holds its responses, and which has not said so, applied the mechanism."""
    lake = lake_of(tmp_path, label=BINARY)
    found = read(lake)
    assert (found.are_the_tables, found.refuted, found.holds, found.code) == (True, 1.0, None, None)
    assert found.sentence.endswith(
        "So randomized response at the declared 1 was not applied, or it had made the table's "
        "labels before: say in its manifest's label.state whether it had."
    )
    row = audited(lake)
    assert row.verdict != "violated"
    assert "or it had made the table's labels before: say in its manifest's" in row.reason


@pytest.mark.slow
def test_a_night_names_labels_that_training_read_in_place_of_the_tables(tmp_path):
    """Another model's answers and denoised responses look alike, so that neither is a doubt."""
    lake = lake_of(tmp_path)
    kept = audited(lake)
    rows = pl.col("delay") > 0.0
    for seed, day in enumerate((EVE, DAY)):
        table = label_rows(2_800, seed=seed, chances=(0.7, 0.3))
        answers = table.with_columns(late=rows.cast(pl.Int64))
        put_labels(lake, day, answers, row_group_size=512)
        recipe = Recipe("good", "flights", SECRET, NUMERIC, None, ANSWERED, ONE)
        train(lake, TrainingJob(recipe, day, seed=1))
        put_labels(lake, day, table, row_group_size=512)
    row = audited(lake)
    assert row.verdict != kept.verdict == "violated"
    assert (row.file_epsilon_low, row.file_unread) == (None, None)
    assert "training read other ones, such as another model's answers" in row.reason


@pytest.mark.slow
def test_one_coin_of_a_person_accuses_nobody(tmp_path):
    """Declared for a city, three coins that all fell alike are no sign."""
    persons = PLAN.model_copy(update={"privacy_unit": "city"})
    found = read(lake_of(tmp_path / "city", unit="city"), persons)
    assert (found.are_the_tables, found.code) == (True, None)
    assert read(lake_of(tmp_path / "holder", unit="customer")).code is None


PRIOR = "randomized_response_with_prior"
OF_THE_THREE = {"epsilon": 1.0, "prior_from_outside": [0.4, 0.3, 0.3]}


@pytest.mark.parametrize(
    ("name", "parameters", "classes", "expected"),
    [
        ("randomized_response", {"epsilon": 1.0, "classes": 2}, 2, 1.0),
        ("randomized_response", {"keep_probability": 0.75, "classes": 2}, 2, math.log(3.0)),
        ("randomized_response", {"epsilon": 1.0, "classes": 10}, 2, None),  # then made binary
        (PRIOR, OF_THE_THREE | {"top": 3}, 2, None),
        (PRIOR, OF_THE_THREE | {"top": 3}, 3, 1.0),
        (PRIOR, OF_THE_THREE | {"top": 2}, 3, None),  # a class is left out
        (PRIOR, {"epsilon": 1.0, "prior_from_outside": [0.6, 0.4]}, 2, 1.0),
        (PRIOR, {"epsilon": 1.0}, 2, None),  # each record has its own
        ("laplace_one_hot", {"deviation": 2.0}, 2, None),
        ("pure", {"epsilon": 1.0}, 2, None),
    ],
)
def test_the_declared_channel_is_what_the_labels_are_held_against(
    name, parameters, classes, expected
):
    mechanism = {"name": name, "parameters": parameters}
    privacy = Privacy.model_validate(declared(1.0, mechanism=mechanism))
    assert _declared_response(privacy, "secret", classes) == pytest.approx(expected)
    made = PrivatisedBy.model_validate({"privatised_by": RESPONSE})
    assert _declared_response(privacy, made, classes) is None


@pytest.mark.slow
def test_a_table_said_to_hold_what_training_read_and_does_not_is_named(tmp_path):
    lake = lake_of(tmp_path, epsilon=1.0)
    made = BINARY.model_dump() | {"state": {"privatised_by": RESPONSE}}
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, label=made)
    found = read(lake)
    assert (found.are_the_tables, found.code) == (False, None)
    assert found.sentence.endswith(
        "So training did not read the table's labels: see its manifest's label.state."
    )


@pytest.mark.slow
def test_another_table_and_other_leaves_are_not_evaluated(tmp_path):
    lake = lake_of(tmp_path)
    put_labels(lake, DAY, label_rows(2_800, seed=9), row_group_size=512)
    assert read(lake).why == "its first tree's sums are not whole"
    steps = lake_of(tmp_path / "steps", parameters=ONE | {"leaf_estimation_iterations": 5})
    assert read(steps).code is ReasonCode.MECHANISM_NOT_APPLIED
    gradient = lake_of(
        tmp_path / "gradient", parameters=ONE | {"leaf_estimation_method": "Gradient"}
    )
    assert read(gradient).why.startswith("it was not trained for one binary label")


@pytest.mark.slow
def test_a_file_that_has_changed_since_is_refused(tmp_path):
    lake = lake_of(tmp_path)
    record = recorded(lake)
    other = lake_of(tmp_path / "other", parameters=ONE | {"iterations": 20})
    replace_model(lake, "good", DAY, other.read("models/good/day=2026-03-02/model.cbm"))
    with pytest.raises(TerminalError, match="has changed since the audit"):
        read_stored(record, lake, InProcess(), b"")
