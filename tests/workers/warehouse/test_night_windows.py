"""Nights that one window takes together, compared with a walk by hand."""

import datetime as dt
import pathlib
import random
from typing import Any

import numpy as np
import polars as pl
import pytest

from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Night,
    false_discovery_qvalues,
    standing_epsilons,
    window_epsilon_lower,
)
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, failed, put_rows, with_wealth
from tests.support.warehouse import night as night_of
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.nights_together import with_windows
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

START = dt.date(2026, 4, 1)


def levels(number: int, epsilon: float | np.ndarray = WINDOW_EPSILONS) -> np.ndarray:
    """Wealth of night `number`, another for each strategy: shape (4, epsilons)."""
    rise = 1.3 + 0.1 * (number % 4) + 0.05 * np.arange(4)[:, None]
    return rise - (0.4 + 0.02 * (number % 3)) * epsilon


def night(number: int, *, model: str = "ads", hour: int = 0, **changes: Any) -> AuditRecord:
    """Night `number` after `START`; changes are of its wealth's row, levels of its wealth."""
    names = {"significance", "claim_evalue", "reason", "exploratory", "trust"} & changes.keys()
    of_audit = {name: changes.pop(name) for name in names}
    version = {"method_version": changes.pop("method_version", "1")}
    record = evaluated(model, START + dt.timedelta(days=number), hour=hour, **of_audit)
    declared = changes.get("epsilon_declared", 0.5)
    claimed = None if declared is None else tuple(levels(number, declared)[:, 0].tolist())
    audit = record.audit.model_copy(update=version | {"epsilon_declared": declared})
    wealth = {"window_log_wealth": tuple(levels(number).ravel().tolist())}
    return with_wealth(
        record.model_copy(update={"audit": audit}),
        **wealth | {"claimed_log_wealth": claimed} | changes,
    )


def window(numbers: range | list[int], **changes: Any) -> float:
    nights = [Night(levels(number), 0.0) for number in numbers]
    return window_epsilon_lower(nights, days=numbers, **changes)


def standing(numbers: range | list[int], **changes: Any) -> float:
    nights = [Night(levels(number), 0.0) for number in numbers]
    return float(standing_epsilons(nights, **({"significance": 0.0125} | changes))[-1])


def found(warehouse: Warehouse, number: int, *, model: str = "ads") -> dict[str, Any]:
    windows = epsilon_windows(warehouse, warehouse.current())
    day = START + dt.timedelta(days=number)
    return windows.row(by_predicate=(pl.col("day") == day) & (pl.col("model") == model), named=True)


@pytest.mark.slow
def test_windows_hold_the_nights_of_their_days_and_no_other(warehouse):
    """Nights 0..39 without 30 and 31, backfilled in any order: 28 days up to 36 hold 26 nights."""
    played = [number for number in range(40) if number not in {30, 31}]
    backfilled = random.Random(1).sample(played, len(played))  # noqa: S311
    put_rows(warehouse, [night(number, hour=hour) for hour, number in enumerate(backfilled)])
    for number in (0, 5, 6, 7, 27, 28, 36, 39):
        row = found(warehouse, number)
        four = [one for one in played if number - 28 < one <= number]
        assert row["epsilon_lower_28_days"] == window(four)
        assert row["epsilon_standing"] == standing([one for one in played if one <= number])
    assert found(warehouse, 39)["epsilon_lower_28_days"] > found(warehouse, 0)["epsilon_standing"]


def test_the_ceiling_of_a_window_is_that_of_the_same_nights(warehouse):
    """The largest strategy, 2 above it."""

    def largest(number: int) -> np.ndarray:
        return levels(number).max(axis=0, keepdims=True) + 2.0

    played = range(3, 40)
    put_rows(
        warehouse,
        [night(one, ceiling_log_wealth=tuple(largest(one)[0].tolist())) for one in played],
    )
    for number in (10, 31, 39):
        whole = range(max(3, number - 27), number + 1)
        row = found(warehouse, number)
        expected = window_epsilon_lower([Night(largest(one), 0.0) for one in whole], days=whole)
        assert row["epsilon_ceiling_28_days"] == expected
        assert expected > row["epsilon_lower_28_days"] > 0.0


@pytest.mark.slow
def test_a_superseded_night_counts_as_it_was_recomputed(warehouse):
    put_rows(warehouse, [night(number) for number in range(4)])
    loud = tuple((levels(1) + 5.0).ravel().tolist())
    warehouse.commit([night(1, hour=1, reason="Loud.", window_log_wealth=loud)])
    assert found(warehouse, 3)["epsilon_lower_28_days"] > window(range(4))
    warehouse.commit([night(1, hour=2, reason="As before.")])
    assert found(warehouse, 3)["epsilon_lower_28_days"] == window(range(4))
    assert found(warehouse, 3)["epsilon_standing"] == standing(range(4))
    warehouse.commit([failed("ads", START + dt.timedelta(days=1), hour=3)])
    assert found(warehouse, 3)["epsilon_lower_28_days"] == window(range(4))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    rest_slow(
        [
            {"family": "pure"},
            {"delta": 1e-5},
            {"classes": 3},
            {"neighbors": "add_remove"},
            {"labels_recur": True},
            {"method_version": "of last year"},
            {"trust": "independent"},
        ],
        always=2,
    ),
    ids=lambda change: next(iter(change)),
)
def test_nights_under_another_claim_are_in_no_window_and_begin_a_standing(warehouse, change):
    put_rows(
        warehouse, [night(number, **(change if number in {2, 3} else {})) for number in range(6)]
    )
    recurring = {"recurring": True} if "labels_recur" in change else {}
    assert found(warehouse, 3)["epsilon_lower_28_days"] == window([2, 3], **recurring)
    assert found(warehouse, 3)["epsilon_standing"] == standing([2, 3], **recurring)
    assert found(warehouse, 3)["nights_together"] <= 2 + 2 * ("trust" not in change)
    assert found(warehouse, 5)["epsilon_lower_28_days"] == window([0, 1, 4, 5])
    assert found(warehouse, 5)["epsilon_standing"] == standing([4, 5])


@pytest.mark.slow
def test_nights_of_one_holdout_are_averaged(warehouse):
    """Nights 0 to 9 draw a new holdout each; from night 10 on it is night 9's."""
    nights = [night(n, holdout_sketch=bytes([min(n, 9)]).hex()) for n in range(20)]
    put_rows(warehouse, nights)
    for number in (5, 9):
        assert found(warehouse, number)["epsilon_lower_28_days"] == window(range(number + 1))
    for number in (10, 16, 19):
        row = found(warehouse, number)
        every = range(number + 1)
        assert row["epsilon_lower_28_days"] == window(every, recurring=True) < window(every)
        proved = max(standing(range(10)), standing(every, recurring=True))
        assert row["epsilon_standing"] == proved < standing(every)
        assert row["nights_averaged"] is True
    assert found(warehouse, 9)["epsilon_standing"] == standing(range(10))
    assert found(warehouse, 9)["nights_averaged"] is False


def test_a_changed_epsilon_begins_no_standing_and_no_window(warehouse):
    changes = {"epsilon_declared": 9.0}
    put_rows(warehouse, [night(number, **(changes if number else {})) for number in range(6)])
    assert found(warehouse, 5)["epsilon_lower_28_days"] == window(range(6))
    assert found(warehouse, 5)["epsilon_standing"] == standing(range(6))


def test_where_delta_has_a_price_the_standing_is_short_and_has_wealth_of_its_own(warehouse):
    """Claimed anew on night 3: nights 3 to 30 are 28, night 31 the next.

    The window's wealth and price are not the standing's.
    """
    price, numbers = 1e-4, range(33)
    put_rows(
        warehouse,
        [
            night(
                number,
                delta=1e-5,
                classes=3 if number >= 3 else 2,
                window_price=2.0 * price,
                standing_price=price,
                standing_log_wealth=tuple((levels(number) + 0.25).ravel().tolist()),
            )
            for number in numbers
        ],
    )
    paying = [Night(levels(number), 2.0 * price) for number in range(3, 10)]
    assert found(warehouse, 9)["epsilon_lower_28_days"] == window_epsilon_lower(paying) > 0.0
    assert WINDOW_NIGHTS == 28
    for number, together in ((2, range(3)), (30, range(3, 31)), (32, range(31, 33))):
        nights = [Night(levels(one) + 0.25, price) for one in together]
        expected = float(standing_epsilons(nights, significance=0.0125)[-1])
        assert found(warehouse, number)["epsilon_standing"] == expected


def test_a_night_is_judged_at_its_own_significance(warehouse):
    put_rows(warehouse, [night(number, significance=0.2) for number in range(4)])
    row = found(warehouse, 3)
    assert row["epsilon_lower_28_days"] == window(range(4), significance=0.2)
    assert row["epsilon_lower_28_days"] > window(range(4))
    assert row["epsilon_standing"] == standing(range(4), significance=0.05)


@pytest.mark.slow
def test_a_standing_holds_each_night_against_its_own_declaration(warehouse):
    for model, declared in (("less", 1.0), ("more", 9.0), ("none", None)):
        put_rows(
            warehouse,
            [night(number, model=model, epsilon_declared=declared) for number in range(12)],
        )
    rows = {model: found(warehouse, 11, model=model) for model in ("less", "more", "none")}
    told = {name: (row["refuted_together"], row["nights_together"]) for name, row in rows.items()}
    assert told == {"less": (True, 12), "more": (False, 12), "none": (False, 0)}


def test_each_model_and_each_secret_has_windows_of_its_own(warehouse):
    others = [night(number, hour=1, reason="Of whole records.") for number in (0, 1)]
    audits = [each.audit.model_copy(update={"secret": "membership"}) for each in others]
    told = [
        each.model_copy(update={"audit": audit}) for each, audit in zip(others, audits, strict=True)
    ]
    models = [night(number, model=model) for number in range(4) for model in ("ads", "loans")]
    put_rows(warehouse, [*models, *told])
    every = epsilon_windows(warehouse, warehouse.current(every_secret=True)).sort("audit_id")
    proved = dict(every.select("audit_id", "epsilon_lower_28_days").iter_rows())
    assert [proved[each.audit_id] for each in audits] == [window([0]), window([0, 1])]
    assert every.height == 10
    for model in ("ads", "loans"):
        assert found(warehouse, 3, model=model)["epsilon_lower_28_days"] == window(range(4))


@pytest.mark.slow
def test_what_is_asked_for_does_not_change_the_answer(warehouse):
    """Windows reach back beyond the start of a standing, on night 27, to their first day.

    The nights between two that lie far apart, in no window of the two, were missed: a KeyError.
    """
    last = STANDING_NIGHTS + 39
    classes = {number: 2 if number < 27 else 3 for number in range(last + 1)}
    put_rows(warehouse, [night(number, classes=many) for number, many in classes.items()])
    current = warehouse.current()
    everything = epsilon_windows(warehouse, current)
    assert everything.height == last + 1
    for chosen in ([3], [28], [0, 29], [5, 6], [0, last]):
        days = [START + dt.timedelta(days=number) for number in chosen]
        some = current.filter(pl.col("day").is_in(days))
        asked = epsilon_windows(warehouse, some)
        assert asked.equals(everything.filter(pl.col("day").is_in(days)))
    assert epsilon_windows(warehouse, current.clear()).height == 0
    proved = everything["epsilon_standing"].to_list()
    for number in (26 + STANDING_NIGHTS, 27 + STANDING_NIGHTS, last):  # it begins anew after these
        begun = 27 + (STANDING_NIGHTS if number > 26 + STANDING_NIGHTS else 0)
        assert proved[number] == standing(range(begun, number + 1))


def test_qvalues_are_those_of_the_models_of_one_night(warehouse):
    evalues: dict[int, list[float | None]] = {0: [100.0, 2.0, None], 1: [3.0, 50.0, 50.0]}
    put_rows(
        warehouse,
        [
            night(number, model=model, claim_evalue=evalue)
            for number, values in evalues.items()
            for model, evalue in zip(("ads", "loans", "visits"), values, strict=True)
        ],
    )
    put_rows(warehouse, [night(1, model="zoo", claim_evalue=1e9, exploratory=True)])
    joined = with_windows(warehouse, warehouse.current()).sort("day", "model")
    first, second = (
        false_discovery_qvalues(np.array(values)) for values in ([100.0, 2.0], [3.0, 50.0, 50.0])
    )
    assert joined["claim_qvalue"].to_list() == [*first, None, *second, None]
    assert joined["epsilon_lower_28_days"].is_null().to_list() == [False] * 6 + [True]


def test_a_plan_that_somebody_chose_adds_nothing_to_other_nights(warehouse):
    """Also under another claim: a standing went on with it, or began anew behind it."""
    loud = tuple((levels(2) + 5.0).ravel().tolist())
    chosen = {"exploratory": True, "window_log_wealth": loud, "family": "pure"}
    nights = [night(number, **(chosen if number in {0, 2} else {})) for number in range(5)]
    put_rows(warehouse, nights)
    assert found(warehouse, 4)["epsilon_lower_28_days"] == window([1, 3, 4])
    assert found(warehouse, 4)["epsilon_standing"] == standing([1, 3, 4])
    derived = epsilon_windows(warehouse, warehouse.current())["audit_id"].to_list()
    assert derived == [nights[one].audit.audit_id for one in (1, 3, 4)]
    joined = with_windows(warehouse, warehouse.current()).sort("day")
    assert joined["epsilon_standing"].is_null().to_list() == [True, False, True, False, False]


def nights(folder: pathlib.Path, holdouts: list[int]) -> dict[str, list[object]]:
    """Return what nights of a weak leak prove together, beside the holdouts of these numbers."""
    warehouse = Warehouse(str(folder))
    sketches = [random.Random(holdout).randbytes(32).hex() for holdout in holdouts]  # noqa: S311
    given = (with_wealth(night_of(at, 0.8), holdout_sketch=one) for at, one in enumerate(sketches))
    put_rows(warehouse, given)
    return epsilon_windows(warehouse, warehouse.current()).sort("day").to_dict(as_series=False)


def test_a_holdout_that_comes_again_is_told_once_and_takes_back_nothing(tmp_path):
    """One repeated holdout on the second night silenced the standing, and nobody was notified.

    After a standing was violated, its bound fell from 0.7 to 0.
    """
    fresh = nights(tmp_path / "fresh", list(range(14)))
    assert fresh["refuted_together"].count(True) == 8
    assert fresh["nights_remark"] == [None] * 14
    early = nights(tmp_path / "early", [0, 0, *range(2, 14)])
    assert early["refuted_together"].count(True) == 0
    told = [change for change in early["nights_remark"] if change]
    assert told == [early["nights_remark"][1]]
    assert str(told[0]).startswith("The holdout of 2026-03-03 is that of 2026-03-02: from now on")
    late = nights(tmp_path / "late", [*range(12), 3, 13])
    assert late["refuted_together"] == fresh["refuted_together"]
    assert late["epsilon_standing"][:12] == fresh["epsilon_standing"][:12]
    assert late["epsilon_standing"][12:] == [fresh["epsilon_standing"][11]] * 2
    assert "is that of 2026-03-05" in str(late["nights_remark"][12])


@pytest.mark.slow
def test_nights_that_refuted_together_stay_so_whatever_labels_come_later(warehouse):
    """Ten such nights, each audited again with labels of noise, refuted nothing together."""

    def standings() -> pl.DataFrame:
        return epsilon_windows(warehouse, warehouse.current()).sort("day")

    put_rows(warehouse, [night_of(ahead, 1.6) for ahead in range(4)])
    before = standings()[-1]
    assert before["refuted_together"].item() is True
    noise = [night_of(ahead, -0.5, hour=1, labels_digest="x" * 64) for ahead in range(4)]
    put_rows(warehouse, noise)
    after = standings()[-1]
    assert after["audit_id"].item() == noise[-1].audit.audit_id
    for column in ("refuted_together", "epsilon_standing", "verdict_together"):
        assert after[column].item() == before[column].item()
    first = warehouse.first_audits(pl.Series(["ads"]))["audit_id"][0]
    warehouse.withdraw(first, "The labels were damaged.")
    assert standings()["refuted_together"].to_list() == [False] * 4
