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
    copied,
    declared,
    edit_manifest,
    label_rows,
    put_labels,
    replace_model,
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


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """Return a lake whose models read the labels as they are."""
    return lake_of(tmp_path_factory.mktemp("unchanged"))


@pytest.fixture(scope="module")
def responses(tmp_path_factory):
    """Return a lake whose models read randomized responses at the declared 1."""
    return lake_of(tmp_path_factory.mktemp("responses"), epsilon=1.0)


def edit_both(lake, **changes):
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, **changes)


def read(lake, plan=PLAN):
    record = recorded(lake, plan)
    return read_stored(record, lake, InProcess(), b"")


PERSONS = PLAN.model_copy(update={"privacy_unit": "city"})
MADE = BINARY.model_dump() | {"state": {"privatised_by": RESPONSE}}


def check_unchanged(found, classes):
    assert (found.are_the_tables, found.trees) == (True, 40)
    assert found.code is ReasonCode.MECHANISM_NOT_APPLIED
    assert found.response.same == found.response.read > 0
    assert found.response.classes == classes
    assert found.sentence.endswith(
        "the file holds them unchanged. So randomized response at the declared 1 was not applied. "
        "This refutes the declared mechanism, not epsilon-DP as such."
    )


def check_randomized(found, most):
    assert (found.why, found.are_the_tables, found.code) == ("", False, None)
    assert found.response.epsilon_low <= 1.0 <= found.response.epsilon_high < most
    assert "They are of changed labels: randomized response at" in found.sentence


def test_unchanged_labels_refute_a_declared_randomized_response(unchanged, responses):
    check_unchanged(read(unchanged), 2)
    check_randomized(read(responses), 2.0)


@pytest.mark.slow
def test_unchanged_labels_of_three_classes_refute_it_too(tmp_path):
    given = {"mechanism": OF_THREE, "label": SECRET_OF_THREE}
    lake = lake_of(tmp_path / "unchanged", **given)
    check_unchanged(read(lake), 3)
    check_randomized(read(lake_of(tmp_path / "responses", epsilon=1.0, **given)), 2.5)
    # Of another number of classes, the labels are not what was randomized.
    edit_both(lake, privacy=declared(1.0, mechanism=RESPONSE))
    assert read(lake).code is None


def test_a_night_reads_the_file_beside_the_answers(unchanged, responses):
    kept = audited(responses)
    assert (kept.file_unread, kept.reason_code) != (None, "mechanism_not_applied")
    assert kept.verdict != "violated"
    assert kept.file_records == kept.records
    assert kept.file_epsilon_low <= 1.0 <= kept.file_epsilon_high
    dropped = recorded(unchanged)
    row = dropped.audit
    assert (row.verdict, row.reason_code, row.detail) == ("violated", "mechanism_not_applied", None)
    assert (row.file_epsilon_high, row.file_unread) == (None, None)
    assert "was not applied. This refutes the declared mechanism, not epsilon-DP" in row.reason
    assert "With the model's answers: " in row.reason
    assert verify(seal(dropped), unchanged, InProcess()).finding is Finding.REPRODUCED


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelRefusedError("cannot be read: CatBoost crashed"), "it cannot be read: CatBoost"),
        (NotEvaluableError(Reason.LABELS_CHANGED, "Gone."), "the reading failed: Gone"),
        (MemoryError("row 7"), "the reading failed: it ended with MemoryError"),
    ],
)
def test_a_file_that_cannot_be_read_costs_no_audit(responses, error, said, caplog):
    with patch("workers.audit.file_labels.read_leaves", side_effect=error):
        row = audited(responses)
    assert row.status is Status.EVALUATED
    assert row.verdict != "violated"
    assert (row.file_unread or "").startswith(said)
    assert "row 7" not in row.model_dump_json()
    assert ("row 7" in caplog.text) == isinstance(error, MemoryError)


def test_storage_that_is_away_is_tried_again_and_only_so_many_values_are_read(responses, tmp_path):
    """And only for a declared response."""
    away = patch("workers.audit.file_labels.read_leaves", side_effect=TransientError("Later."))
    with away, pytest.raises(TransientError):
        audited(responses)
    with patch("workers.audit.file_labels._MOST_VALUES", 100):
        assert "are more than 100 values" in (audited(responses).file_unread or "")
    lake = copied(responses, tmp_path)
    edit_manifest(lake, "good", DAY, privacy=declared(0.5))
    row = audited(lake)
    assert (row.file_unread, row.file_records, row.file_labels_read) == (None, None, None)


def test_of_persons_changed_labels_say_nothing_and_unchanged_ones_all(
    unchanged, responses, tmp_path
):
    """One coin for all rows of a person would read as many coins that fell alike."""
    found = read(responses, PERSONS)
    assert (found.response, found.code) == (None, None)
    assert "a person's labels may share one coin" in found.sentence
    assert read(unchanged, PERSONS).code is ReasonCode.MECHANISM_NOT_APPLIED
    # Declared for a city, three coins that all fell alike are no sign.
    lake = copied(unchanged, tmp_path)
    edit_both(lake, privacy=ANSWERED | {"unit": "city"})
    found = read(lake, PERSONS)
    assert (found.are_the_tables, found.code) == (True, None)
    edit_both(lake, privacy=ANSWERED | {"unit": "customer"})
    assert read(lake).code is None


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


def test_nothing_is_refuted_where_no_coins_of_the_tables_labels_are_declared(
    unchanged, responses, tmp_path
):
    lake = copied(unchanged, tmp_path / "none")
    edit_both(lake, privacy=declared(1.0))
    found = read(lake)
    assert (found.are_the_tables, found.code) == (True, None)
    for of, the_tables in ((unchanged, True), (responses, False)):
        lake = copied(of, tmp_path / str(the_tables))
        edit_both(lake, label=MADE)
        found = read(lake)
        assert (found.are_the_tables, found.code) == (the_tables, None)
    assert found.sentence.endswith(
        "So training did not read the table's labels: see its manifest's label.state."
    )


def test_of_categories_that_are_columns_unchanged_labels_refute_it(template, tmp_path):
    """A model whose categories were ordered by labels is not evaluated."""
    found = read(lake_of(tmp_path, features=FEATURES, parameters=ONE | {"one_hot_max_size": 3}))
    assert (found.code, found.trees) == (ReasonCode.MECHANISM_NOT_APPLIED, 40)
    found = read(template)
    assert found.response is None
    assert "hold whole sums" in found.why
    assert found.sentence.endswith("That does not show that it gives none away.")


@pytest.mark.slow
def test_unchanged_labels_accuse_only_where_the_table_holds_the_secret_ones(unchanged, tmp_path):
    """A team whose table holds its responses, and which has not said so, applied the mechanism."""
    lake = copied(unchanged, tmp_path)
    edit_both(lake, label=BINARY.model_dump())
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
def test_a_night_names_labels_that_training_read_in_place_of_the_tables(unchanged, tmp_path):
    """Another model's answers and denoised responses look alike, so that neither is a doubt."""
    lake = copied(unchanged, tmp_path)
    late = (pl.col("delay") > 0.0).cast(pl.Int64)
    for seed, day in enumerate((EVE, DAY)):
        table = label_rows(2_800, seed=seed, chances=(0.7, 0.3))
        put_labels(lake, day, table.with_columns(late=late), row_group_size=512)
        recipe = Recipe("good", "flights", SECRET, NUMERIC, None, ANSWERED, ONE)
        train(lake, TrainingJob(recipe, day, seed=1))
        put_labels(lake, day, table, row_group_size=512)
    row = audited(lake)
    assert row.verdict != "violated"
    assert (row.file_epsilon_low, row.file_unread) == (None, None)
    assert "training read other ones, such as another model's answers" in row.reason


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
def test_another_table_other_leaves_and_a_file_that_has_changed_are_not_evaluated(
    unchanged, tmp_path
):
    lake = copied(unchanged, tmp_path / "table")
    put_labels(lake, DAY, label_rows(2_800, seed=9), row_group_size=512)
    assert read(lake).why == "its first tree's sums are not whole"
    steps = lake_of(tmp_path / "steps", parameters=ONE | {"leaf_estimation_iterations": 5})
    assert read(steps).code is ReasonCode.MECHANISM_NOT_APPLIED
    gradient = lake_of(
        tmp_path / "gradient", parameters=ONE | {"leaf_estimation_method": "Gradient"}
    )
    assert read(gradient).why.startswith("it was not trained for one binary label")
    lake = copied(unchanged, tmp_path / "file")
    record = recorded(lake)
    replace_model(lake, "good", DAY, steps.read("models/good/day=2026-03-02/model.cbm"))
    with pytest.raises(TerminalError, match="has changed since the audit"):
        read_stored(record, lake, InProcess(), b"")
