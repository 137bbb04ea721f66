"""Every change of a declaration is told, and nothing else is."""

from typing import Any

import pytest

from tests.support.lake import DAY, EVE
from workers.warehouse.declaration_changes import declaration_change

NIGHT: dict[str, Any] = {
    "day": "2026-04-01",
    "epsilon_declared": 3.6,
    "delta_declared": 1e-06,
    "neighbors": "replace",
    "mechanism": "gaussian",
}
SAME = "3.6 (delta 1e-06) for replacing"


@pytest.mark.parametrize(
    ("change", "now"),
    [
        ({"epsilon_declared": 3.600000001}, "3.600000001 (delta 1e-06) for replacing"),
        ({"delta_declared": 0.0}, "3.6 for replacing"),
        ({"neighbors": "add_remove"}, "3.6 (delta 1e-06) for adding or removing"),
        ({"neighbors": "simulate"}, "3.6 (delta 1e-06) for simulating"),
        ({"epsilon_declared": None, "delta_declared": None, "mechanism": None}, "nothing"),
    ],
    ids=lambda change: next(iter(change)) if isinstance(change, dict) else None,
)
def test_each_part_of_a_declaration_that_changes_is_told(change: dict[str, Any], now: str) -> None:
    after = NIGHT | change | {"day": "2026-04-02"}
    told = declaration_change(NIGHT, after)
    assert told == f"Declared was {SAME} until 2026-04-01, and is {now} on 2026-04-02."
    back = declaration_change(after, NIGHT | {"day": "2026-04-03"})
    assert back == f"Declared was {now} until 2026-04-02, and is {SAME} on 2026-04-03."


def test_another_mechanism_is_named() -> None:
    told = declaration_change(NIGHT, NIGHT | {"mechanism": None, "day": "2026-04-02"})
    assert told == (
        f"Declared was {SAME} by gaussian until 2026-04-01, and is {SAME} by no named mechanism on "
        "2026-04-02."
    )


def test_another_dataset_is_told() -> None:
    """The model may never have seen its labels, and then remembers none of them."""
    night = NIGHT | {"dataset": "a"}
    after = night | {"dataset": "b", "day": "2026-04-02"}
    assert declaration_change(night, after) == (
        "Audited were labels of a until 2026-04-01, and are those of b on 2026-04-02: see that "
        "training saw these."
    )
    lax = after | {"epsilon_declared": 9.0}
    assert str(declaration_change(night, lax)).startswith("Declared was")
    assert "see that training saw these" in str(declaration_change(night, lax))
    assert declaration_change(night | {"dataset": None}, after) is None


def test_what_stays_is_not_told() -> None:
    assert declaration_change(None, NIGHT) is None
    assert declaration_change(NIGHT, NIGHT | {"day": "2026-04-02"}) is None
    none = NIGHT | {"epsilon_declared": None}
    assert declaration_change(none, none | {"neighbors": "add_remove"}) is None


def test_another_label_column_is_told() -> None:
    """An owner may name a column of noise in the same classes; its training never saw it."""
    night = NIGHT | {"label_column": "late"}
    after = night | {"label_column": "noise", "day": "2026-04-02"}
    said = declaration_change(night, after)
    assert said is not None
    assert said.endswith("see that training used it as its label.")
    assert "'late' until 2026-04-01, and is 'noise' on 2026-04-02" in said
    assert declaration_change(NIGHT, after) is None


def test_a_class_that_comes_or_goes_is_told() -> None:
    """Windows hold nights of as many classes: one that no row has began them anew, unsaid."""
    declared = ("epsilon_declared", "delta_declared", "neighbors", "mechanism")
    night = dict.fromkeys(declared) | {"day": EVE, "classes": 2}
    told = declaration_change(night, night | {"day": DAY, "classes": 3})
    assert told is not None
    assert told.startswith("The label had 2 classes until 2026-03-01, and has 3 on 2026-03-02")
