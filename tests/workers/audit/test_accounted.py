"""A declaration is held against its own mechanism's parameters before anything is played."""

import pytest
from pydantic import ValidationError

from tests.support.lake import declared, manifest_for
from workers.audit.accounting import accounted_epsilon
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import Manifest, Privacy, guarantee_of
from workers.sources.scores.score_tables import DeclaredPrivacy


def manifest(*, epsilon=2.0, delta=0.0, neighbors="replace", name=None, **parameters) -> Manifest:
    mechanism = None if name is None else {"name": name, "parameters": parameters}
    told = {"delta": delta, "neighbors": neighbors, "mechanism": mechanism}
    return manifest_for(privacy=declared(epsilon, **told))


def accounted(declared: Manifest) -> float | None:
    return accounted_epsilon(guarantee_of(declared.privacy), where="The manifest")


def test_what_the_parameters_account_for_is_returned():
    found = accounted(
        manifest(epsilon=2.5, name="randomized_response", keep_probability=0.75, classes=2)
    )
    assert found == pytest.approx(1.0986122886681098)
    assert accounted(manifest()) is None


SGD = {
    "epsilon": 50.0, "delta": 1e-5, "name": "dp_sgd", "noise_multiplier": 1.0,
    "sampling_rate": 0.01, "steps": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        (
            {"epsilon": 1.0, "name": "randomized_response", "keep_probability": 0.75, "classes": 2},
            Reason.DECLARED_TOO_LITTLE,
            ("declares epsilon 1 at delta 0", "accounts for 1.09861"),
        ),
        (
            {"name": "randomized_response", "classes": 2},
            Reason.MANIFEST_INVALID,
            ("cannot be read", "missing parameter"),
        ),
        ({"name": "wishful_thinking"}, Reason.MANIFEST_INVALID, ("wishful_thinking", "known ones")),
        (
            SGD,
            Reason.MANIFEST_INVALID,
            ("declares a guarantee for replacing", "set the mechanism's parameter neighbors"),
        ),
        (
            SGD | {"neighbors": "simulate"},
            Reason.MANIFEST_INVALID,
            ("declares a guarantee for simulating", "accounted for adding or removing"),
        ),
    ],
)
def test_a_declaration_that_its_mechanism_does_not_bear_is_refused(changes, reason, words):
    with pytest.raises(NotEvaluableError) as caught:
        accounted(manifest(**changes))
    assert caught.value.reason is reason
    for word in words:
        assert word in str(caught.value)


def test_dp_sgd_is_accounted_under_the_declared_relation():
    added = accounted(manifest(neighbors="add_remove", **SGD))
    response = manifest(**SGD)
    assert response.privacy is not None
    response.privacy.mechanism.parameters["neighbors"] = "replace"
    assert accounted(response) > added > 0.0


@pytest.mark.paper("observational", "Definition 1")
def test_a_mechanism_for_replacing_bears_a_guarantee_for_simulating():
    found = accounted(
        manifest(neighbors="simulate", name="randomized_response", keep_probability=0.75, classes=2)
    )
    assert found == pytest.approx(1.0986122886681098)


@pytest.mark.parametrize("definition", ["dp", "idp", "group_idp", "bdp"])
def test_only_labels_are_simulated(definition):
    privacy = manifest(neighbors="simulate").privacy.model_dump()
    with pytest.raises(ValidationError, match=f"definition is {definition}, write label_dp"):
        Privacy.model_validate(privacy | {"definition": definition})


def test_settings_declare_a_guarantee_for_simulating_labels():
    declared = DeclaredPrivacy(neighbors="simulate", epsilon=1.0)
    assert declared.as_privacy().neighbors == "simulate"
    with pytest.raises(ValidationError, match="simulate is for labels: definition is dp"):
        DeclaredPrivacy(neighbors="simulate", definition="dp", epsilon=1.0)
