"""A change of the settings that a verdict depends on is said, and nothing else is."""

import json
from typing import Any

import pytest

from workers.plan import Plan
from workers.warehouse.settings_changes import settings_change

TABLES = {"table": "t", "version": 3, "target": "new", "earlier": [{"table": "e", "version": 1}]}


def night(day: int, *, plan: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    tables = TABLES | changes.pop("tables", {})
    return {
        "day": f"2026-04-0{day}",
        "plan": json.dumps(Plan().model_dump(mode="json") | (plan or {})),
        "source": json.dumps({"tables": tables, "privacy": {"epsilon": day}}),
        "decoy_commitment": None,
        "output_correction": None,
        "exploratory": None,
        "notify": '["anna@example.org", "#ads"]',
        "deadline": "09:00:00 UTC",
    } | changes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tables": {"target": "tame"}}, 'scores.target was "new" and is "tame"'),
        ({"tables": {"split": "other"}}, 'scores.split was nothing and is "other"'),
        ({"plan": {"significance": 1e-9}}, "plan.significance was 0.05 and is 1e-09"),
        ({"plan": {"days": 3}}, "plan.days was 1 and is 3"),
        ({"plan": {"seed": 7}}, "plan.seed was 0 and is 7"),
        ({"decoy_commitment": "0" * 64}, "decoys was false and is true"),
        (
            {"output_correction": '{"name": "noise_correction", "epsilon": 0.01, "floor": 0.0}'},
            "output_correction.epsilon was nothing and is 0.01",
        ),
        ({"notify": '["#ads"]'}, 'notify."anna@example.org" was true and is nothing'),
        ({"notify": '["#ads", "anna@example.org", "b"]'}, 'notify."b" was nothing and is true'),
        ({"deadline": "23:59:00 UTC"}, 'deadline was "09:00:00 UTC" and is "23:59:00 UTC"'),
        ({"tables": {"earlier": []}}, 'scores.earlier.0.table was "e" and is nothing'),
    ],
)
def test_a_change_is_said(change: dict[str, Any], said: str) -> None:
    told = settings_change(night(1), night(2, **change))
    assert told is not None
    assert told.startswith("The settings of the audit changed after 2026-04-01: ")
    assert said in told


def test_what_stays_or_decides_no_verdict_is_not_said() -> None:
    assert settings_change(None, night(1)) is None
    assert settings_change(night(1), night(2, tables={"version": 4})) is None
    assert settings_change(night(1), night(2, plan={"slices": ["city"]})) is None
    assert settings_change(night(1), night(2, plan={"delta": 0.1}, exploratory=True)) is None
    assert settings_change(night(1), night(2, notify='["#ads", "anna@example.org"]')) is None
    unasked = night(1, notify=None, deadline=None)
    assert settings_change(unasked, night(2)) is None
    assert settings_change(night(1), unasked) is None


def test_many_and_long_changes_stay_one_short_sentence() -> None:
    tables = {f"column{number}": "x" * 10_000 for number in range(20)}
    told = settings_change(night(1), night(2, tables=tables))
    assert told is not None
    assert told.endswith("; so did 15 others.")
    told = settings_change(night(1), night(2, notify=json.dumps(["x" * 10_000])))
    assert told is not None
    assert len(told) < 800
