"""Nothing that an owner declares begins a standing anew; what operators decide does."""

from typing import Any

import pytest

from privcore.attacks import same_holdout
from privcore.lower_bounds import STANDING_NIGHTS, WINDOW_NIGHTS
from workers.warehouse.standings import recurs_from, standings


def night(wealth: float | None, *, price: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A night whose four strategies say the same of its declaration; None: nothing declared."""
    return {
        "epsilon_declared": None if wealth is None else 0.2,
        "standing_price": price,
        "claimed_log_wealth": None if wealth is None else [wealth] * 4,
        "labels_recur": False,
        "holdout_sketch": None,
        "method_version": "1",
    } | changes


def read(nights: list[dict[str, Any]]) -> list[str | None]:
    return list(standings(nights, significance=0.01, wanted=range(len(nights))).values())


CONSTANT = [night(0.8)] * 14
BEGUN = read(CONSTANT).index("violated")


def test_a_constant_declaration_stands_violated_once_its_nights_suffice() -> None:
    assert 5 < BEGUN < 10
    assert read(CONSTANT) == ["consistent"] * BEGUN + ["violated"] * (14 - BEGUN)


def test_a_night_without_a_declaration_multiplies_by_one() -> None:
    """Every fourth is dropped: as many declared nights suffice, and the verdict outlives these."""
    nights = [night(None) if number % 4 == 3 else night(0.8) for number in range(14)]
    found = read(nights)
    assert found[3] is None
    assert found.index("violated") == BEGUN + BEGUN // 3
    assert set(found[BEGUN + BEGUN // 3 :]) == {"violated"}


@pytest.mark.parametrize(
    "change",
    [
        {"family": "gaussian"},
        {"delta": 1e-6},
        {"classes": 3},
        {"neighbors": "add_remove"},
        {"epsilon_declared": 0.200000001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_part_of_a_claim_that_changes_begins_a_standing(change: dict[str, Any]) -> None:
    nights = [night(0.8, **(change if number % 2 else {})) for number in range(14)]
    assert read(nights) == read(CONSTANT)


def test_declaring_much_every_second_night_costs_the_evidence_a_constant_factor() -> None:
    """Log(16/5): 1.2 against a gain of 0.8 a night, whatever the other nights lose."""
    false, honest = night(0.8, epsilon_declared=1.9), night(-30.0, epsilon_declared=50.0)
    for nights in ([false, honest] * 14, [honest, false] * 14):
        assert BEGUN < read(nights).index("violated") // 2 <= BEGUN + 8


def test_nights_with_a_price_of_delta_have_a_standing_of_their_own() -> None:
    """Alternating, each kind goes on where it was: neither is begun anew."""
    paid, free = night(1.5, price=1e-6), night(1.5)
    alone = read([paid] * 12).index("violated")
    mixed = read([paid, free] * 12)
    assert mixed.index("violated") == min(2 * alone, 2 * read([free] * 12).index("violated") + 1)
    quiet = read([paid, night(-9.0)] * 12)
    assert quiet.index("violated") == 2 * alone


def test_a_standing_ends_after_its_nights() -> None:
    loud, quiet = night(50.0), night(0.0)
    found = read([loud, *[quiet] * STANDING_NIGHTS])
    assert found == ["violated"] * STANDING_NIGHTS + ["consistent"]
    paid = read([night(50.0, price=1e-6), *[night(0.0, price=1e-6)] * WINDOW_NIGHTS])
    assert paid == ["violated"] * WINDOW_NIGHTS + ["consistent"]


def test_a_withdrawn_declaration_does_not_end_a_standing_before_its_time() -> None:
    found = read([night(50.0), *[night(None)] * STANDING_NIGHTS])
    assert found == ["violated"] * STANDING_NIGHTS + [None]


@pytest.mark.parametrize("change", [{"method_version": "2"}, {"labels_recur": True}])
def test_what_operators_decide_begins_a_standing(change: dict[str, Any]) -> None:
    assert read([night(50.0), night(0.0), night(0.0, **change)]) == [
        "violated",
        "violated",
        "consistent",
    ]


def sketch(*words: int) -> str:
    """Return a sketch of as many bytes."""
    return bytes(words).hex()


def test_nights_of_one_holdout_are_no_new_chances() -> None:
    """Nights that suffice with new holdouts do not with one; before its first return they stand."""
    one = sketch(200, 201)
    assert read([night(0.8, holdout_sketch=sketch(n, n)) for n in range(14)]) == read(CONSTANT)
    assert read([night(0.8, holdout_sketch=one)] * 14) == ["consistent"] * 14
    later = [night(0.8, holdout_sketch=sketch(min(n, BEGUN))) for n in range(14)]
    assert read(later) == read(CONSTANT)
    loud = [night(50.0, holdout_sketch=one), night(0.0, holdout_sketch=one)]
    assert read(loud) == ["violated", "violated"]


def test_a_holdout_comes_again_where_half_of_a_sketch_is_an_earlier_nights() -> None:
    """Byte by byte: the same bytes in other places are those of another holdout."""
    sketches = [sketch(1, 2, 3, 4), sketch(2, 1, 4, 3), None, sketch(1, 9, 9, 9)]
    sketches += [sketch(1, 9, 3, 8), sketch(7, 7, 7, 7), sketch(1, 2, 3, 4)]
    assert same_holdout(sketches).tolist() == [-1, -1, -1, -1, 3, -1, 4]
    assert recurs_from(sketches).tolist() == [False] * 4 + [True] * 3
    assert recurs_from(sketches[:4]).tolist() == [False] * 4
    assert recurs_from(sketches[:4], recurring=True).tolist() == [True] * 4
    assert recurs_from([None, None]).tolist() == [False, False]
    assert recurs_from([sketches[0]] * 2).tolist() == [False, True], "the very first night's"


def test_a_model_without_declarations_does_not_stand_at_all() -> None:
    assert read([night(None)] * 3) == [None] * 3
    assert read([]) == []
