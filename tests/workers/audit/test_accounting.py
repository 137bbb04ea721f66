"""A declaration: held against its own mechanism's parameters, and what it promises."""

import dataclasses
import math
from typing import Any

import pytest
from pydantic import ValidationError

from privcore.guarantees import DpSgd
from privcore.lower_bounds.game_evidence import FractionBound, GameEvidence
from privcore.upper_bounds import Promised, success_bound
from tests.support.lake import declared, manifest_for
from workers.audit.accounting import SECRET_BITS, accounted_epsilon, promise_rows
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import Privacy, guarantee_of
from workers.plan import Plan
from workers.sources.scores.score_tables import DeclaredPrivacy


def manifest(*, epsilon=2.0, delta=0.0, neighbors="replace", name=None, **parameters):
    mechanism = None if name is None else {"name": name, "parameters": parameters}
    told = {"delta": delta, "neighbors": neighbors, "mechanism": mechanism}
    return manifest_for(privacy=declared(epsilon, **told))


def accounted(declared):
    return accounted_epsilon(guarantee_of(declared.privacy), where="The manifest")


LITTLE, INVALID = Reason.DECLARED_TOO_LITTLE, Reason.MANIFEST_INVALID
KEPT = {"name": "randomized_response", "keep_probability": 0.75, "classes": 2}
SGD = {
    "epsilon": 50.0, "delta": 1e-5, "name": "dp_sgd", "noise_multiplier": 1.0,
    "sampling_rate": 0.01, "steps": 100,
}  # fmt: skip


@pytest.mark.paper("observational", "Definition 1")
@pytest.mark.parametrize("neighbors", ["replace", "simulate"])
def test_what_the_parameters_account_for_is_returned(neighbors):
    """A mechanism for replacing bears a guarantee for simulating, too."""
    found = accounted(manifest(epsilon=2.5, neighbors=neighbors, **KEPT))
    assert found == pytest.approx(1.0986122886681098)
    assert accounted(manifest()) is None


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        (KEPT | {"epsilon": 1.0}, LITTLE, "declares epsilon 1 at delta 0.*accounts for 1.09861"),
        ({"name": "randomized_response", "classes": 2}, INVALID, "cannot be read.*missing param"),
        ({"name": "wishful_thinking"}, INVALID, "wishful_thinking.*known ones"),
        (SGD, INVALID, "a guarantee for replacing.*set the mechanism's parameter neighbors"),
        (SGD | {"neighbors": "simulate"}, INVALID, "for simulating.*for adding or removing"),
    ],
)
def test_a_declaration_that_its_mechanism_does_not_bear_is_refused(changes, reason, words):
    with pytest.raises(NotEvaluableError, match=words) as caught:
        accounted(manifest(**changes))
    assert caught.value.reason is reason


def test_dp_sgd_is_accounted_under_the_declared_relation():
    added = accounted(manifest(neighbors="add_remove", **SGD))
    response = manifest(**SGD)
    response.privacy.mechanism.parameters["neighbors"] = "replace"
    assert accounted(response) > added > 0.0


def test_only_labels_are_simulated():
    privacy = manifest(neighbors="simulate").privacy.model_dump()
    for definition in ("dp", "idp", "group_idp", "bdp"):
        with pytest.raises(ValidationError, match=f"definition is {definition}, write label_dp"):
            Privacy.model_validate(privacy | {"definition": definition})
    declared = DeclaredPrivacy(neighbors="simulate", epsilon=1.0)
    assert declared.as_privacy().neighbors == "simulate"
    with pytest.raises(ValidationError, match="simulate is for labels: definition is dp"):
        DeclaredPrivacy(neighbors="simulate", definition="dp", epsilon=1.0)


IDENTITY: dict[str, Any] = {
    "audit_id": "a",
    "method_version": "1",
    "code_version": "0",
    "target_sha256": None,
    "proxy_sha256": None,
    "labels_digest": None,
}


def game(correct, records=1_000):
    """Return a game whose attack is right on so many of 100 surest guesses, and half of all."""
    bounds = tuple(
        FractionBound(family, fraction, guesses, right, 0.0)
        for family in ("approx_dp", "pure_dp")
        for fraction, guesses, right in ((0.1, 100, correct), (1.0, records, records / 2))
    )
    others = dict.fromkeys((field.name for field in dataclasses.fields(GameEvidence)), 0.0)
    return GameEvidence(**others | {"records": records, "bounds": bounds})


def rows(privacy, *, accounted=None, correct=60.0, **plan):
    return promise_rows(
        Privacy.model_validate(privacy) if privacy else None,
        IDENTITY,
        epsilon_accounted=accounted,
        game=game(correct),
        plan=Plan(**plan),
    )


def values(found, quantity, guarantee="declared"):
    return [r.value for r in found if (r.quantity, r.guarantee) == (quantity, guarantee)]


RESPONSE = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
TRAINING = {
    "name": "dp_sgd",
    "parameters": {"noise_multiplier": 1.0, "sampling_rate": 0.01, "steps": 500},
}


def test_every_promise_of_the_issue_is_there_once():
    found = rows(declared(1.0, mechanism=RESPONSE), accounted=1.0)
    counts = {"success_bound": 3, "leaked_bits": 5, "correct_guesses": 2, "membership_accuracy": 1}
    for guarantee in ("declared", "accounted"):
        assert {name: len(values(found, name, guarantee)) for name in counts} == counts
    keys = {(r.guarantee, r.quantity, r.parameter) for r in found}
    assert len(keys) == len(found)
    assert all(row.audit_id == "a" and math.isfinite(row.value) for row in found)
    assert rows(None) == ()


def test_the_figures_are_those_of_the_theorems():
    found = rows(declared(1.0))
    assert values(found, "success_bound")[-1] == pytest.approx(float(success_bound(0.5, epsilon=1)))
    (accuracy,) = values(found, "membership_accuracy")
    assert accuracy == pytest.approx(1.0 / (1.0 + math.exp(-1.0)))
    assert values(found, "leaked_bits") == pytest.approx(
        Promised(1.0).leaked_bits(SECRET_BITS).tolist()
    )
    # 1/(1 + 1/e) = 0.731 of 100 fair bits, plus 1.645 deviations of 4.43.
    assert values(found, "correct_guesses")[0] == 80.0


@pytest.mark.parametrize("correct", [80.0, 80.1])
def test_the_attacks_success_stands_beside_its_limit(correct):
    surest, everything = (
        row for row in rows(declared(1.0), correct=correct) if row.quantity == "correct_guesses"
    )
    assert (surest.parameter, surest.guesses, surest.achieved) == (0.1, 100, correct)
    assert (surest.value, everything.guesses) == (80.0, 1_000)


def test_significance_shift_and_relation_move_the_limits():
    plain, added = rows(declared(1.0)), rows(declared(1.0, neighbors="add_remove"))
    for plan in ({"significance": 0.001}, {"shift": 0.05}):
        wider = values(rows(declared(1.0), **plan), "correct_guesses")
        assert wider > values(plain, "correct_guesses")
    for quantity in ("success_bound", "correct_guesses", "membership_accuracy"):
        assert values(added, quantity) > values(plain, quantity)


@pytest.mark.slow
def test_the_accounted_guarantee_uses_its_curve_and_its_relation():
    epsilon = DpSgd(1.0, 0.01, 500).epsilon(1e-5)
    privacy = declared(5.0, delta=1e-5, neighbors="add_remove", definition="dp", mechanism=TRAINING)
    found = rows(privacy, accounted=epsilon)
    accounted = values(found, "leaked_bits", "accounted")
    assert accounted[-1] < 0.5 * values(found, "leaked_bits")[-1]
    sources = {r.source for r in found if (r.guarantee, r.quantity) == ("accounted", "leaked_bits")}
    assert any("Renyi" in source for source in sources)
    (accuracy,) = values(found, "membership_accuracy", "accounted")
    assert 1.0 / (1.0 + math.exp(-epsilon)) < accuracy < 1.0 / (1.0 + math.exp(-2.5 * epsilon))
