"""Whether the same learner without a mechanism is refuted, held against what another declares."""

import datetime as dt
from typing import Any

import numpy as np
import pytest

from privcore.lower_bounds import WINDOW_EPSILONS
from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed, put_rows, with_wealth
from workers.warehouse.night_windows import against_claim, drill_nights, drill_refuted_after
from workers.warehouse.nights_together import with_windows
from workers.warehouse.schema import AuditRecord

STORED = {
    "standing_price": 0.0,
    "labels_recur": False,
    "holdout_sketch": None,
    "method_version": "1",
}
STRATEGIES = 4


def drilled(ahead: int, wealth: float = 0.8, **changes: Any) -> dict[str, Any]:
    """Return a night whose strategies say `wealth` of 0.5, and 1 less of each 1 more."""
    return {
        **STORED,
        "day": DAY + dt.timedelta(days=ahead),
        "family": "pure_dp",
        "delta": 0.0,
        "neighbors": "replace",
        "log_wealth": np.tile(wealth + 0.5 - WINDOW_EPSILONS, (STRATEGIES, 1)),
        "epsilon_lower": 0.0,
        **changes,
    }


def claim(**changes: Any) -> dict[str, Any]:
    return {
        "day": DAY + dt.timedelta(days=99),
        "epsilon_declared": 0.5,
        "delta": 0.0,
        "family": "pure_dp",
        "neighbors": "replace",
    } | changes


def after(
    nights: list[dict[str, Any]], night: dict[str, Any] | None = None, **changes: Any
) -> int | None:
    given = {"since": DAY, "significance": 0.01} | changes
    return drill_refuted_after(night or claim(), nights, **given)


def test_a_drill_is_refuted_by_its_nights_together_by_one_alone_or_never():
    together = after([drilled(number) for number in range(14)])
    assert together is not None
    assert 5 < together < 10
    alone = [drilled(number, 0.0, epsilon_lower=0.6 * (number == 2)) for number in range(5)]
    assert after(alone) == 3
    assert after([drilled(number, 0.0, epsilon_lower=0.49) for number in range(5)]) == 0
    assert after([drilled(number, 0.0, epsilon_lower=0.5) for number in range(5)]) == 1
    assert after([]) is None


def test_only_nights_up_to_this_one_since_the_models_first_count():
    nights = [drilled(number, 50.0 * (number == 4)) for number in range(9)]
    assert after(nights) == 5
    assert after(nights, claim(day=DAY + dt.timedelta(days=4))) == 5
    assert after(nights, claim(day=DAY + dt.timedelta(days=3))) == 0
    assert after(nights, since=DAY + dt.timedelta(days=4)) == 1
    assert after(nights, since=DAY + dt.timedelta(days=5)) == 0
    assert after(nights, since=DAY + dt.timedelta(days=9)) is None


@pytest.mark.parametrize(
    ("own", "other", "says"),
    [
        ({}, {}, True),
        # Of a smaller delta, e-values that allow a larger one say something, too.
        ({"family": "approx_dp", "delta": 1e-5}, {}, True),
        ({}, {"family": "approx_dp", "delta": 1e-5}, False),
        ({"family": "approx_dp", "delta": 1e-5}, {"family": "approx_dp", "delta": 1e-5}, True),
        ({"family": "approx_dp", "delta": 1e-6}, {"family": "approx_dp", "delta": 1e-5}, False),
        ({"family": "gaussian", "delta": 1e-5}, {}, False),
        ({"delta": 1e-5}, {"family": "gaussian", "delta": 1e-5}, False),
        ({"family": "gaussian", "delta": 1e-5}, {"family": "gaussian", "delta": 1e-5}, True),
        ({}, {"epsilon_declared": None}, False),
        ({}, {"epsilon_declared": float(WINDOW_EPSILONS[-1])}, True),
        ({}, {"epsilon_declared": float(WINDOW_EPSILONS[-1]) + 0.1}, False),
    ],
)
def test_evidence_says_something_of_claims_that_are_no_weaker(own, other, says):
    assert (against_claim(drilled(0, **own), claim(**other)) is not None) is says
    assert (after([drilled(0, 90.0, **own)], claim(**other)) == 1) is says


@pytest.mark.parametrize(
    ("own", "other", "epsilon"),
    [
        ("replace", "replace", 0.5),
        ("add_remove", "add_remove", 0.5),
        ("replace", "add_remove", 1.0),
        ("add_remove", "replace", 0.25),
    ],
)
def test_a_claim_under_another_relation_is_held_against_its_own(own, other, epsilon):
    for lower, alone in ((epsilon - 1e-6, False), (epsilon, True)):
        night = drilled(0, neighbors=own, epsilon_lower=lower)
        found = against_claim(night, claim(neighbors=other))
        assert found is not None
        assert (found["epsilon_declared"], found["alone"]) == (epsilon, alone)
        place = int(np.argmin(np.abs(WINDOW_EPSILONS - epsilon)))
        assert WINDOW_EPSILONS[place] == pytest.approx(epsilon)
        np.testing.assert_array_equal(found["claimed_log_wealth"], night["log_wealth"][:, place])


def test_a_claim_between_two_points_is_held_against_the_larger():
    """At the larger point the e-values are smaller: it is never refuted too soon."""
    step = WINDOW_EPSILONS[9] - WINDOW_EPSILONS[8]
    night = drilled(0)
    for epsilon, place in (
        (WINDOW_EPSILONS[8], 8),
        (WINDOW_EPSILONS[8] + 0.1 * step, 9),
        (WINDOW_EPSILONS[9] - 0.1 * step, 9),
    ):
        found = against_claim(night, claim(epsilon_declared=float(epsilon)))
        assert found is not None
        np.testing.assert_array_equal(found["claimed_log_wealth"], night["log_wealth"][:, place])


def test_a_drill_whose_holdout_comes_again_is_averaged_as_a_models_nights_are():
    """Its nights were multiplied, and a learner that forgets would have read as seen."""
    same = [drilled(number, holdout_sketch="c8c9") for number in range(14)]
    new = [drilled(number, holdout_sketch=f"{number:02x}{number:02x}") for number in range(14)]
    assert after(same) == after([drilled(n, labels_recur=True) for n in range(14)]) == 0
    assert after(new) == after([drilled(number) for number in range(14)])
    methods = [drilled(number, method_version=str(number % 2)) for number in range(14)]
    assert after(methods) == 0


def audit(model: str, ahead: int, wealth: float, **changes: Any) -> AuditRecord:
    record = evaluated(model, DAY + dt.timedelta(days=ahead), **changes)
    levels = tuple(np.tile(wealth + 0.5 - WINDOW_EPSILONS, STRATEGIES).tolist())
    return with_wealth(record, window_log_wealth=levels, claimed_log_wealth=(0.0,) * STRATEGIES)


def test_drills_are_read_of_counted_nights_of_labels_alone(warehouse):
    put_rows(
        warehouse,
        [
            audit("twin", 1, 0.3, epsilon_lower=0.4),
            audit("twin", 0, 0.2),
            audit("twin", 2, 0.1, exploratory=True),
            failed("twin", DAY + dt.timedelta(days=3)),
            audit("twin", 4, 0.1, secret="membership"),  # noqa: S106  # no password
            audit("another", 0, 0.1),
        ],
    )
    assert drill_nights(warehouse, []) == {}
    found = drill_nights(warehouse, ["twin", "twin", "unknown"])
    assert found["unknown"] == []
    assert [one["day"] for one in found["twin"]] == [DAY, DAY + dt.timedelta(days=1)]
    first, second = found["twin"]
    assert (first["epsilon_lower"], second["epsilon_lower"]) == (0.25, 0.4)
    assert first["log_wealth"].shape == (STRATEGIES, WINDOW_EPSILONS.size)
    assert (second["log_wealth"] - first["log_wealth"])[1, 3] == pytest.approx(0.1)
    assert STORED.keys() <= first.keys()


@pytest.mark.parametrize(
    ("wealth", "verdict", "code"),
    [(0.0, "inconclusive", "learner_forgets"), (9.0, "not_refuted", None)],
)
def test_a_models_verdict_waits_for_its_drill(warehouse, wealth, verdict, code):
    put_rows(
        warehouse,
        [audit("private", 0, 0.0, drill="twin"), audit("twin", 0, wealth), audit("lone", 0, 0.0)],
    )
    rows = with_windows(warehouse, warehouse.current()).sort("model")
    columns = ("model", "verdict_together", "reason_code_together", "drill_refuted_after")
    told = {row[0]: row[1:] for row in rows.select(columns).iter_rows()}
    assert told["private"] == (verdict, code, int(wealth > 0.0))
    assert told["lone"] == told["twin"] == ("not_refuted", None, None)
