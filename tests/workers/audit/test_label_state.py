"""The state of a label column: secret labels, or the output of a mechanism."""

import pathlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from privcore.attacks import Tallies, odds_tally
from privcore.guarantees import RandomizedResponseAccount
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    declared,
    edit_manifest,
    label_rows,
    put_labels,
    put_model,
)
from workers.audit.label_state import (
    SURE,
    ProxyAccuracy,
    check_privatised,
    label_column_warning,
    proxy_accuracy,
    randomized_pvalue,
)
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import PrivatisedBy
from workers.plan import Plan
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRow

RESPONSE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
PRIVATISED = {"privatised_by": RESPONSE}
ALLOWED = PLAN.model_copy(update={"privatised_labels": True})
HEART = {"iterations": 150, "depth": 10, "learning_rate": 0.7, "l2_leaf_reg": 0.01}


def responses(
    labels: np.ndarray, random: np.random.Generator, *, epsilon: float = 1.0
) -> np.ndarray:
    """Return randomized responses to labels of two classes."""
    keep = RandomizedResponseAccount(epsilon, 2).keep_probability
    return np.where(random.random(labels.shape) < keep, labels, 1 - labels)


def noisy_lake(folder: pathlib.Path, *, privatised: bool) -> Lake:
    """Return a lake whose model learns by heart; its column holds responses, or secret labels.

    The secret label is nearly told by `delay`, so that responses are predicted as far as they can
    be, and secret labels further.
    """
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        random = np.random.default_rng(seed)
        frame = label_rows(4000, seed=seed)
        secret = (frame["delay"].to_numpy() > 0.0).astype(np.int64)
        column = responses(secret, random) if privatised else secret
        put_labels(lake, day, frame.with_columns(late=pl.Series(column)), row_group_size=4096)
        privacy = declared(1.0, mechanism=RESPONSE)
        quick = {"iterations": 20, "depth": 2}
        put_model(lake, day, privacy=privacy, parameters=quick if day == EVE else HEART)
    return lake


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return noisy_lake(tmp_path_factory.mktemp("noisy") / "lake", privatised=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return noisy_lake(tmp_path_factory.mktemp("plain") / "lake", privatised=False)


def audit(lake: Lake, state: object, **plan: object) -> AuditRow:
    for day in (EVE, DAY):
        label = {"column": "late", "classes": [0, 1], "state": state}
        edit_manifest(lake, "good", day, label=label)
    changed = PLAN.model_copy(update={"privatised_labels": True} | plan)
    return run_audit(lake, "good", DAY, plan=changed, executor=InProcess()).audit


@pytest.mark.slow
def test_responses_that_training_learns_by_heart_accuse_nobody(noisy: Lake) -> None:
    row = audit(noisy, PRIVATISED)
    assert row.reason_code == "labels_privatised", row.reason
    assert row.epsilon_lower > 1.0  # of the responses, far beyond what is declared of the labels
    assert row.epsilon_declared is None
    assert row.label_column_holds == "privatised"
    assert row.reason.startswith(
        "The labels were privatised by randomized_response before training saw them, so nothing "
        "that training does can break what that guarantees. Of the privatised labels themselves"
    )


@pytest.mark.slow
def test_a_policy_accuses_them_of_their_declaration_alone(noisy: Lake) -> None:
    row = audit(noisy, PRIVATISED, policy_epsilon=1.0)
    assert (row.verdict, row.reason_code) == ("undeclared", "labels_privatised")
    assert row.epsilon_declared is None
    assert audit(noisy, PRIVATISED, policy_epsilon=0.1).reason_code == "over_policy"


@pytest.mark.parametrize(
    ("changes", "name", "epsilon", "told"),
    [
        (
            {"privatised_labels": False},
            "randomized_response",
            1.0,
            "The settings do not allow that",
        ),
        ({}, "randomized_response", 8.0, "accounts for more than the 1 that is declared"),
        ({}, "dp_sgd", 1.0, "which changes no labels before training"),
        ({}, "randomized_response_with_prior", 1.0, "The settings do not allow that"),
        (
            {"privatised_labels": ("randomized_response",)},
            "laplace_one_hot",
            4.0,
            "set privatised_labels = ['laplace_one_hot']",
        ),
    ],
)
def test_saying_so_is_no_way_out(
    noisy: Lake, changes: dict[str, object], name: str, epsilon: float, told: str
) -> None:
    """A model that knows its labels by heart says that these were private before."""
    parameters = {
        "randomized_response": {"epsilon": epsilon, "classes": 2},
        "randomized_response_with_prior": {"epsilon": epsilon},
        "laplace_one_hot": {"deviation": epsilon},
    }.get(name, {})
    row = audit(noisy, {"privatised_by": {"name": name, "parameters": parameters}}, **changes)
    assert (row.status, row.detail) == ("not_evaluable", "label_state"), row.reason
    assert told in row.reason


def test_a_policy_is_what_the_mechanism_must_keep_where_nothing_is_declared(noisy: Lake) -> None:
    edit_manifest(noisy, "good", DAY, privacy=None)
    assert audit(noisy, PRIVATISED, policy_epsilon=1.0).reason_code == "labels_privatised"
    row = audit(noisy, PRIVATISED, policy_epsilon=0.9)
    assert row.detail == "label_state"
    assert "more than the 0.9 (delta 1e-5) that is declared" in row.reason
    edit_manifest(noisy, "good", DAY, privacy=declared(1.0, mechanism=RESPONSE))


@pytest.mark.slow
def test_where_nobody_says_the_sentence_names_the_mix_up_unless_the_data_exclude_it(
    noisy: Lake,
) -> None:
    unsaid = audit(noisy, None)
    assert unsaid.verdict == "violated"
    assert unsaid.reason.endswith(
        "Look first whether 'late' holds the labels from before or from after randomized_response: "
        "from after it, this is no violation. Say which in its manifest's label.state, and audit "
        "again."
    )
    assert unsaid.label_column_holds is None
    said = audit(noisy, "secret")
    assert (said.verdict, said.label_column_holds) == ("violated", "secret")
    assert "Look first" not in said.reason


@pytest.mark.slow
def test_a_violation_asks_as_well_where_no_mechanism_is_declared(noisy: Lake) -> None:
    edit_manifest(noisy, "good", DAY, privacy=declared(1.0))
    row = audit(noisy, None)
    assert row.verdict == "violated"
    assert "Look first whether 'late'" in row.reason
    for state in ("secret", PRIVATISED):
        assert "Look first" not in audit(noisy, state).reason
    edit_manifest(noisy, "good", DAY, privacy=None)
    by_policy = audit(noisy, None, policy_epsilon=0.1)
    assert by_policy.verdict == "violated"
    assert "Look first" in by_policy.reason
    edit_manifest(noisy, "good", DAY, privacy=declared(1.0, mechanism=RESPONSE))


@pytest.mark.parametrize("mechanism", ["pure", "composition", None])
def test_what_may_have_changed_labels_one_by_one_is_asked(mechanism: str | None) -> None:
    """Neither name says where the noise was drawn."""
    said = label_column_warning(mechanism, None, said="there")
    assert "from after a mechanism that randomizes labels: from after it" in said


def test_a_violation_is_not_asked_of_a_mechanism_of_training() -> None:
    said = "there"
    assert (
        label_column_warning("dp_sgd", None, said=said)
        == label_column_warning("gaussian", None, said=said)
        == ""
    )
    assert label_column_warning(None, "secret", said=said) == ""
    assert "from after randomized_response" in label_column_warning(
        "randomized_response", None, said=said
    )


@pytest.mark.slow
def test_a_column_of_secret_labels_is_not_taken_for_responses(plain: Lake) -> None:
    row = audit(plain, PRIVATISED)
    assert (row.status, row.detail) == ("not_evaluable", "label_state")
    assert (
        "cannot have been privatised by randomized_response, although its manifest's label.state "
        "says so" in row.reason
    )
    recurring = audit(plain, PRIVATISED, labels_recur=True)
    assert recurring.reason_code == "labels_privatised"  # yesterday's response may be today's


@pytest.mark.slow
def test_data_that_no_response_could_be_take_the_doubt_from_a_violation(plain: Lake) -> None:
    frame = label_rows(4000, seed=9)
    easy = np.random.default_rng(9).random(4000) < 0.1
    put_labels(plain, DAY, frame.with_columns(late=easy.astype(np.int64)), row_group_size=4096)
    put_labels(plain, EVE, frame.with_columns(late=easy.astype(np.int64)), row_group_size=4096)
    put_model(plain, EVE, privacy=None, parameters={"iterations": 5, "depth": 2})
    put_model(plain, DAY, privacy=declared(1.0, mechanism=RESPONSE), parameters=HEART)
    row = audit(plain, None)
    assert row.verdict == "violated", row.reason
    assert row.label_column_holds == "no_responses"
    assert "Look first" not in row.reason


def test_a_mechanism_that_is_none_is_refused(noisy: Lake) -> None:
    row = audit(noisy, {"privatised_by": {"name": "magic", "parameters": {}}})
    assert row.detail == "label_state"
    assert "magic, which changes no labels" in row.reason
    broken = {"name": "randomized_response", "parameters": {"epsilon": -1.0, "classes": 2}}
    row = audit(noisy, {"privatised_by": broken})
    assert row.detail == "manifest_invalid"
    assert "a mechanism that cannot be read" in row.reason
    unknown = audit(noisy, "public")
    assert unknown.detail == "manifest_invalid"
    assert "label.state" in unknown.reason


@pytest.mark.slow
def test_a_record_of_privatised_labels_is_reproduced(noisy: Lake) -> None:
    audit(noisy, PRIVATISED)
    record = run_audit(noisy, "good", DAY, plan=ALLOWED, executor=InProcess())
    assert verify(seal(record), noisy, InProcess()).finding is Finding.REPRODUCED
    assert record.wealth[0].epsilon_declared is None  # so that no standing holds it against any


# The test's size: of a perfect proxy, whose every wrong prediction is the noise's doing.
WORLDS = 20_000
RECORDS = 400


def test_true_responses_are_hardly_ever_taken_for_secret_labels() -> None:
    random = np.random.default_rng(20260302)
    keep = RandomizedResponseAccount(1.0, 2).keep_probability
    rights = random.binomial(RECORDS, keep, size=WORLDS)
    level = 0.01  # a level at which so many worlds can judge; SURE is a hundredth of it
    taken = sum(
        randomized_pvalue(ProxyAccuracy(RECORDS, int(right)), keep_probability=keep) < level
        for right in rights
    )
    assert binom.sf(taken - 1, WORLDS, level) > 1e-6
    assert taken > 0.3 * level * WORLDS  # and no test that never says anything
    assert SURE == 1e-4


@pytest.mark.parametrize("classes", [2, 4])
def test_accuracy_is_counted_as_a_person_would(classes: int) -> None:
    random = np.random.default_rng(classes)
    proxy = random.dirichlet(np.full(classes, 0.3), size=500)
    labels = random.integers(0, classes, 500)
    # A target that says the same of all: the class that is looked at is then decided by the proxy.
    tally = odds_tally(np.full((500, classes), 1.0 / classes), proxy, labels)
    whole = replace(Tallies.zero(repetitions=1, classes=classes), odds=(tally,))
    counted = proxy_accuracy(whole)
    if classes == 2:
        assert counted == ProxyAccuracy(500, int((proxy.argmax(axis=1) == labels).sum()))
    else:
        looked_at = (1.0 / classes - proxy).argmax(axis=1)
        likely = proxy[np.arange(500), looked_at] > 0.5
        right = int((labels == looked_at)[likely].sum())
        assert counted == ProxyAccuracy(int(likely.sum()), right)


def test_pvalues_are_those_of_the_binomial() -> None:
    for right in (0, 1, 60, 90, 100):
        found = randomized_pvalue(ProxyAccuracy(100, right), keep_probability=0.7)
        assert found == pytest.approx(binom.sf(right - 1, 100, 0.7), rel=1e-9)


def refusal(mechanism: dict[str, Any], *, classes: int, allowed: Any = True) -> str:
    """Return why a manifest's word that its labels were privatised is not taken."""
    state = PrivatisedBy.model_validate({"privatised_by": mechanism})
    source = SimpleNamespace(
        label_state=state, facts={"scores": "computed"}, model="good", day=DAY, privacy=None,
        label=SimpleNamespace(classes=tuple(range(classes))),
    )  # fmt: skip
    plan = PLAN.model_copy(update={"privatised_labels": allowed})
    with pytest.raises(NotEvaluableError) as refused:
        check_privatised(cast("Any", source), cast("Any", None), plan)
    assert refused.value.reason == "label_state"
    return refused.value.sentence


@pytest.mark.parametrize("allowed", [False, True, ("randomized_response",)])
@pytest.mark.parametrize("name", ["randomized_response_with_prior", "laplace_one_hot"])
def test_a_mechanism_that_cannot_be_tested_is_allowed_by_name_alone(
    name: str, allowed: Any
) -> None:
    """It acquitted a model that knows secret labels by heart, and no alert came."""
    given = {"name": name, "parameters": {}}
    assert f"privatised_labels = ['{name}']" in refusal(given, classes=2, allowed=allowed)


def test_responses_among_fewer_classes_than_the_label_has_are_refused() -> None:
    """The fewer there are, the more often a response may be predicted."""
    given = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
    assert "have 10 classes" in refusal(given, classes=10)


def test_a_plan_allows_mechanisms_by_name() -> None:
    assert Plan.model_validate({"privatised_labels": ["laplace_one_hot"]}).privatised_labels == (
        "laplace_one_hot",
    )
