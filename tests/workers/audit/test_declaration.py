"""The epsilon that a bound is compared with: a declaration for the same unit, or the policy."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import Secret
from privcore.mechanisms import RandomizedResponse
from tests.simulate import assert_rate_at_most
from tests.support.audits import audited, recorded
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    declared,
    edit_manifest,
    label_rows,
    manifest_for,
    put_labels,
    put_model,
    small_lake,
    without_files,
)
from tests.support.persons import audit_table, persons, units_of
from tests.support.tiers import tiered
from tests.support.verdicts import nothing_wrong
from workers.audit.declaration import (
    claim_of,
    covers,
    held_against,
    label_column_warning,
    names_holder,
    other_unit,
    says_nothing_of,
)
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy, parse_manifest
from workers.plan import Plan
from workers.scan.partial_results import Game, PartialResult
from workers.warehouse.record_digest import seal

POLICY = Plan(repetitions=4, policy_epsilon=0.25)


def night(privacy):
    return without_files(privacy=privacy)


def owner_of(**changes):
    """Return an owner's declaration of 3."""
    return Privacy.model_validate(declared(3.0, **changes))


WHOLE = PartialResult.zero(Game(without_files(), PLAN))


def rows_of(*rows):
    """Return a result whose units have so many training rows, and many more held out."""
    return dataclasses.replace(WHOLE, units=(units_of(rows), units_of((90, 91), "holdout")))


def test_policy_is_for_those_who_declare_nothing():
    owner = owner_of()
    assert held_against(night(owner), POLICY, WHOLE) is owner
    assert held_against(night(None), Plan(), WHOLE) is None
    house = held_against(night(None), POLICY, WHOLE)
    assert (house.epsilon, house.delta, house.declared_by) == (0.25, POLICY.delta, "policy")
    for relaxed in ("idp", "group_idp", "bdp"):
        assert held_against(night(owner_of(definition=relaxed)), POLICY, WHOLE) is None


@pytest.mark.parametrize("epsilon", [1.1e6, 1e300, float("inf"), float("nan"), 0.0])
def test_policy_has_the_range_of_a_declaration(epsilon):
    assert Plan(policy_epsilon=1e6).policy_epsilon == 1e6
    with pytest.raises(ValidationError, match="policy_epsilon"):
        Plan(policy_epsilon=epsilon)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Return a lake whose model learns labels by heart and declares nothing."""
    lake = small_lake(tmp_path_factory.mktemp("policy") / "lake")
    frame = label_rows(4_000, seed=3).with_columns(
        delay=np.random.default_rng(4).normal(size=4_000)
    )
    put_labels(lake, DAY, frame)
    heart = {"iterations": 150, "depth": 10, "learning_rate": 0.7, "l2_leaf_reg": 0.01}
    put_model(lake, DAY, parameters=heart)
    return lake


@pytest.mark.slow
def test_a_leak_beyond_policy_is_a_violation_and_says_whose_limit_it_was(lake):
    without = audited(lake, Plan(repetitions=4))
    assert without.verdict == "undeclared"
    record = recorded(lake, POLICY)
    row = record.audit
    assert row.epsilon_lower == without.epsilon_lower > 0.25
    assert row.verdict == "violated"
    assert "more than the 0.25 (delta 1e-5) declared by policy" in row.reason
    assert (row.epsilon_declared, row.delta_declared) == (0.25, POLICY.delta)
    assert (row.declared_by, row.declared_at) == ("policy", None)
    assert record.wealth[0].epsilon_declared == 0.25
    assert verify(seal(record), lake, InProcess()).finding is Finding.REPRODUCED
    row = audited(lake, POLICY, policy_epsilon=12.0)
    assert nothing_wrong(row)
    assert "12 (delta 1e-5) declared by policy" in row.reason


@pytest.mark.parametrize(
    ("declared_unit", "column", "one"),
    [
        # Rows are audited: any word names the row or a holder of rows.
        ("record", None, True),
        ("flight", None, True),
        ("person", None, True),
        # The word names the column.
        ("customer", "customer_id", True),
        ("Customers", "customerId", True),
        ("user-id", "USER_KEY", True),
        ("\uff43ustomer", "customer_id", True),  # a letter of another width
        ("flight", "flight", True),
        ("household", "household_id", True),
        ("Haushalt", "haushalt_nr", True),
        ("id", "id", True),
        ("id", "id_no", True),
        ("home", "home_id_address", False),
        ("bus", "bu", False),  # too short for a plural
        ("rows", "row", True),
        ("id card", "id", False),
        # Both are words for a person.
        ("person", "customer_id", True),
        ("user", "patient", True),
        # A row is no person, a person no household, and an unknown word nothing known.
        ("record", "customer_id", False),
        ("flight", "passenger_id", False),
        ("person", "household_id", False),
        ("household", "person", False),
        ("person", "uid", False),
        ("user session", "user", False),
        ("顧客", "契約", False),  # words without a letter of ours
        ("%", "&", False),
    ],
)
def test_a_declaration_covers_the_audited_unit_or_it_does_not(declared_unit, column, one):
    assert covers(declared_unit, column) is one
    owner = owner_of(unit=declared_unit)
    assert (held_against(night(owner), Plan(privacy_unit=column), WHOLE) is owner) is one
    # A bound for single rows is held against either, whatever the plan's unit.
    assert held_against(night(owner), Plan(privacy_unit=column), rows_of(1, 1)) is owner


def test_words_for_holders_of_rows_are_known():
    assert all(map(names_holder, ("person", "User", "customer_id", "households", "DeviceId")))
    assert not any(map(names_holder, ("record", "row", "flight", "click", "user event")))


def test_single_rows_are_judged_where_units_are_rows_and_policy_replaces_no_other_unit():
    owner = owner_of()
    by_person = Plan(privacy_unit="person")
    for rows in ((1, 2), (2, 2), ()):
        assert held_against(night(owner), by_person, rows_of(*rows)) is None
    assert held_against(night(owner), by_person, rows_of(1, 1)) is owner
    assert held_against(night(owner), Plan(), WHOLE) is owner
    policy = POLICY.model_copy(update={"privacy_unit": "person"})
    assert held_against(night(owner_of(unit="record")), policy, WHOLE) is None
    assert held_against(night(None), policy, WHOLE).unit == "person"


@pytest.mark.parametrize(
    ("changes", "family"),
    [
        ({}, PureDP()),
        ({"delta": 1e-6}, ApproxDP()),
        ({"delta": 1e-6, "mechanism": {"name": "gaussian", "parameters": {}}}, Gaussian()),
        ({"mechanism": {"name": "gaussian", "parameters": {}}}, PureDP()),
        ({"delta": 1e-6, "mechanism": {"name": "laplace", "parameters": {}}}, ApproxDP()),
    ],
)
def test_the_family_that_fits_a_declaration_is_tested(changes, family):
    plan = Plan(significance=0.1, shift=0.02, delta=1e-4, secret=Secret.MEMBERSHIP)
    owner = owner_of(neighbors="add_remove", **changes)
    claim = claim_of(owner, plan)
    assert (claim.family, claim.delta) == (family, owner.delta)
    assert (claim.epsilon, claim.neighbors) == (3.0, Relation.ADD_REMOVE)
    assert (claim.significance, claim.shift) == (plan.night_significance, 0.02)
    assert claim.secret is Secret.MEMBERSHIP
    none = claim_of(None, plan)
    assert (none.family, none.delta, none.epsilon) == (ApproxDP(), 1e-4, None)
    assert none.neighbors is Relation.REPLACE


def test_another_unit_is_named_with_what_it_would_cost():
    by_person = Plan(privacy_unit="person")
    owner = owner_of()
    said = other_unit(night(owner), by_person, rows_of(1, 7))
    assert "(here k is at most 7, which gives 21). Declare" in said
    assert "a larger delta" not in said
    assert "k times its epsilon. Declare" in other_unit(night(owner), by_person, WHOLE)
    for other, told in (
        (owner_of(delta=1e-6), "its epsilon, and a larger delta (here"),
        (owner_of(unit="household"), "These units may differ"),
    ):
        assert told in other_unit(night(other), by_person, rows_of(7))
    for one, plan in ((owner, Plan()), (None, by_person), (owner_of(unit="user"), by_person)):
        assert other_unit(night(one), plan, rows_of(1, 7)) == ""


def test_policy_limits_labels_alone_and_says_nothing_of_itself():
    owner = owner_of()
    given = {"policy_epsilon": 0.25}
    said = says_nothing_of(night(owner), owner, Plan(**given), 100)
    assert "larger than the 0.25 that policy allows" in said[1]
    other = Plan(**given, secret=Secret.MEMBERSHIP)
    for of, claim, plan in (
        (owner, owner, other),
        (owner, None, Plan(**given)),
        (None, owner, Plan(**given)),
    ):
        assert says_nothing_of(night(of), claim, plan, 100) is None
    assert held_against(night(None), other, WHOLE) is None
    large = owner_of(delta=0.05)
    said = says_nothing_of(night(large), large, Plan(), 100)
    assert "its delta of 0.05 is not below 1 over the 100 training" in said[1]
    assert says_nothing_of(night(large), large, Plan(delta_limit=1.0), 100) is None


PERSON = Plan(repetitions=4, privacy_unit="person")
EIGHT_ALIKE = {"rows": 8, "spread": 6.0, "epsilon": 1.0}


@pytest.mark.parametrize("audits", tiered([1, 20], always=1, slow=1))
def test_a_bound_for_persons_is_held_against_no_claim_for_a_row(tmp_path, audits):
    """Eight responses at 1 about labels that agree lose up to 8 a person: N = 20, seed 310."""
    accused, above = 0, 0
    for number in range(audits):
        random = np.random.default_rng([310, number])
        frame = persons(random, people=800, **EIGHT_ALIKE)
        row = audit_table(tmp_path / str(number), frame, epsilon=1.0, plan=PERSON)
        assert (row.verdict, row.epsilon_declared) == ("undeclared", None)
        above += row.epsilon_lower > 1.0
        if number == 0:
            assert "the declared 1 is for one 'record'" in row.reason
            assert "here k is at most 8, which gives 8" in row.reason
            assert row.reason.count("plan.privacy_unit") == 2
        claim = audit_table(
            tmp_path / str(number), frame, epsilon=8.0, unit="customer", plan=PERSON
        )
        assert claim.epsilon_declared == 8.0
        accused += claim.verdict == "violated"
    assert above >= audits // 2  # each would have been accused falsely
    assert_rate_at_most(accused, audits, 0.05)


def test_where_each_person_has_one_row_a_claim_for_a_row_is_one_for_a_person(tmp_path):
    """A claim for a person that is false is found."""
    frame = persons(np.random.default_rng(313), people=4_000, rows=1, epsilon=3.0)
    twice = pl.concat([frame, frame.filter(split="train").head(1)])  # one person has two rows
    several = persons(np.random.default_rng(311), people=800, **EIGHT_ALIKE)
    for name, table, unit, expected in (
        ("one", frame, "record", ("violated", 1.0)),
        ("several", several, "user", ("violated", 1.0)),
        ("two", twice, "record", ("undeclared", None)),
    ):
        row = audit_table(tmp_path / name, table, epsilon=1.0, unit=unit, plan=PERSON)
        assert (row.verdict, row.epsilon_declared) == expected, row.reason
    assert "here k is at most 2, which gives 2" in row.reason


def test_a_claim_for_a_person_is_one_for_each_row_and_the_sentence_says_what_that_assumes(tmp_path):
    frame = persons(np.random.default_rng(312), people=4_000, rows=1, epsilon=3.0, by="row")
    false = audit_table(tmp_path / "false", frame, epsilon=1.0, unit="person")
    assert false.verdict == "violated"
    assert "which implies the same for each of its rows" in false.reason
    assert "labels of one 'person' are independent given the features" in false.reason
    true = audit_table(tmp_path / "true", frame, epsilon=4.0, unit="person")
    # On the holdout, this world's target answers as its proxy.
    assert true.reason_code == "answers_doubtful"
    assert "rows_of_a_holder" in (true.remarks or ())
    plain = audit_table(tmp_path / "plain", frame, epsilon=4.0, unit="record")
    assert "together may lose more" not in plain.reason


def test_no_owner_declares_in_the_name_of_the_house():
    """Such a declaration was left out of what all models together promise for one label."""
    for word in ("policy", "--max-epsilon"):
        text = manifest_for(privacy=declared(declared_by=word)).model_dump_json()
        with pytest.raises(NotEvaluableError, match="write who declares"):
            parse_manifest(text.encode(), where="here")


@pytest.mark.parametrize(
    ("mechanism", "holds", "named"),
    [
        ("pure", None, "a mechanism that randomizes labels"),  # no name says where noise was drawn
        (None, None, "a mechanism that randomizes labels"),
        ("randomized_response", None, "randomized_response"),
        ("dp_sgd", None, ""),
        ("gaussian", None, ""),
        (None, "secret", ""),
    ],
)
def test_a_violation_asks_which_labels_the_column_holds(mechanism, holds, named):
    said = label_column_warning(mechanism, holds, said="there")
    assert (f"from after {named}: from after it" in said) if named else said == ""


RESPONSE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}


@pytest.mark.slow
def test_responses_that_training_learns_by_heart_accuse_nobody(tmp_path):
    """The secret label is told by `delay`; training saw randomized responses to it alone."""
    lake = Lake(str(tmp_path / "lake"))
    heart = {"iterations": 150, "depth": 10, "learning_rate": 0.7, "l2_leaf_reg": 0.01}
    for seed, (day, parameters) in enumerate(((EVE, {"iterations": 20, "depth": 2}), (DAY, heart))):
        random, frame = np.random.default_rng(seed), label_rows(4000, seed=seed)
        secret = (frame["delay"].to_numpy() > 0.0).astype(np.int64)
        keep = RandomizedResponse(1.0, 2).keep_probability
        column = np.where(random.random(secret.size) < keep, secret, 1 - secret)
        put_labels(lake, day, frame.with_columns(late=pl.Series(column)), row_group_size=4096)
        put_model(lake, day, privacy=declared(1.0, mechanism=RESPONSE), parameters=parameters)

    def audit(state, **plan):
        label = {"column": "late", "classes": [0, 1], "state": state}
        edit_manifest(lake, "good", DAY, label=label)
        changed = PLAN.model_copy(update=plan)
        return recorded(lake, changed)

    unsaid, said = audit(None).audit, audit("secret").audit
    assert (unsaid.verdict, unsaid.label_column_holds) == ("violated", None)
    assert (
        "Look first whether 'late' holds the labels from before or from after randomized_response: "
        "from after it, this is no violation. Say which in its manifest's label.state, and audit "
        "again. With the file itself: "
    ) in unsaid.reason
    assert unsaid.reason.endswith(
        "was not applied, or it had made the table's labels before: say in its manifest's "
        "label.state whether it had."
    )
    assert (said.verdict, said.label_column_holds) == ("violated", "secret")
    assert "Look first" not in said.reason
    record = audit({"privatised_by": RESPONSE}, policy_epsilon=1.0)
    row = record.audit
    assert (row.verdict, row.reason_code) == ("undeclared", "labels_privatised"), row.reason
    assert row.epsilon_lower > 1.0  # of the responses, far beyond what is declared of the labels
    assert (row.epsilon_declared, row.label_column_holds) == (None, "privatised")
    assert row.reason.startswith(
        "The labels were privatised by randomized_response before training saw them, so nothing "
        "that training does can break what that guarantees. Of the privatised labels themselves"
    )
    assert record.wealth[0].epsilon_declared is None  # so that no standing holds it against any
    assert verify(seal(record), lake, InProcess()).finding is Finding.REPRODUCED
    over = audit({"privatised_by": RESPONSE}, policy_epsilon=0.1).audit
    assert over.reason_code == "over_policy"
    for state in ({"privatised_by": {"name": "dp_sgd", "parameters": {}}}, "public"):
        refused = audit(state).audit
        assert (refused.detail, "label.state" in refused.reason) == ("manifest_invalid", True)
