"""Every change of a declaration, of audited inputs and of the listed models is told."""

import datetime as dt
import json
from typing import Any

import polars as pl
import pytest

from tests.support.lake import PLAN
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.changes import (
    LATELY,
    Unlisted,
    declaration_change,
    input_changes,
    unlisted_models,
)
from workers.warehouse.nights_together import with_windows
from workers.warehouse.store import Warehouse

EVE, DAY = dt.date(2026, 4, 1), dt.date(2026, 4, 2)

NIGHT: dict[str, Any] = {
    "day": "2026-04-01",
    "epsilon_declared": 3.6,
    "delta_declared": 1e-06,
    "neighbors": "replace",
    "mechanism": "gaussian",
}
SAME = "3.6 (delta 1e-06) for replacing"


def changed(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return what is told of the second of two nights that differ from `NIGHT`."""
    return declaration_change(NIGHT | before, NIGHT | now | {"day": "2026-04-02"})


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
def test_each_part_of_a_declaration_that_changes_is_told(change, now):
    said = "Declared was {} until 2026-04-01, and is {} on 2026-04-02."
    assert changed({}, change) == said.format(SAME, now)
    assert changed(change, {}) == said.format(now, SAME)


@pytest.mark.parametrize(
    ("column", "was", "now"),
    [
        ("mechanism", "gaussian", None),
        ("dataset", "a", "b"),  # the model may never have seen its labels
        ("trust", "self", "independent"),
        ("label_column", "late", "noise"),  # an owner may name one of noise in the same classes
        ("classes", 2, 3),  # windows hold nights of as many classes
    ],
)
def test_what_else_changes_is_told(column, was, now, hold_sentences):
    said = changed({column: was}, {column: now})
    assert said is not None
    hold_sentences(said)
    if column != "mechanism":
        lax = changed({column: was}, {column: now, "epsilon_declared": 9.0})
        assert str(lax).startswith("Declared was")
        assert str(lax).endswith(said)


def test_what_stays_is_not_told():
    none = {"epsilon_declared": None}
    assert declaration_change(None, NIGHT) is changed({}, {}) is None
    assert changed(none, none | {"neighbors": "add_remove"}) is None


INPUTS = {
    "target_sha256": "a" * 64,
    "target_manifest_sha256": "b" * 64,
    "labels_digest": "c" * 64,
    "proxy_sha256": "d" * 64,
    "proxy_manifest_sha256": "e" * 64,
    "proxy_day": EVE,
}


def put(warehouse: Warehouse, day: dt.date, *, hour: int = 0, **changes: Any) -> str:
    record = evaluated("ads", day, hour=hour, **INPUTS | changes)
    warehouse.commit([record])
    return record.audit.audit_id


def told(warehouse: Warehouse, audit_id: str) -> str:
    audits = warehouse.scan("audits").collect()
    return input_changes(warehouse, audits).get(audit_id, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "what"),
    rest_slow(
        [
            ("target_sha256", "checkpoint of 2026-04-02"),
            ("target_manifest_sha256", "manifest of 2026-04-02"),
            ("labels_digest", "labels of 2026-04-02"),
        ],
        always=2,
    ),
)
def test_a_day_that_changes_after_its_audit_is_told(warehouse, column, what):
    first = put(warehouse, DAY)
    again = put(warehouse, DAY, hour=1, **{column: "f" * 64})
    assert told(warehouse, first) == ""
    assert told(warehouse, again) == (
        f"inputs_changed: The {what} changed after its audit: it was {INPUTS[column][:12]} in the "
        f"record {first[:8]} of 2026-04-01 00:00 UTC, and is ffffffffffff here."
    )
    shown = with_windows(warehouse, warehouse.current())
    assert shown["inputs_changed"].to_list() == [told(warehouse, again)]


def test_a_proxy_that_is_not_what_was_audited_on_its_day_is_told(warehouse):
    """Also where the replaced checkpoint was audited on its day."""
    own = {"target_sha256": "d" * 64, "target_manifest_sha256": "e" * 64, "proxy_day": None}
    put(warehouse, EVE, **own)
    assert told(warehouse, put(warehouse, DAY)) == ""
    doctored = put(warehouse, EVE, hour=1, **own | {"target_sha256": "f" * 64})
    assert "checkpoint of 2026-04-01 changed" in told(warehouse, doctored)
    assert told(warehouse, put(warehouse, DAY, hour=2, proxy_sha256="f" * 64)).startswith(
        "inputs_changed: The proxy's checkpoint, of 2026-04-01, changed after its audit: it was "
        "dddddddddddd in the record "
    )


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"source": '{"tables": {"table": "t", "version": 8}, "privacy": null}'}, True),
        ({"source": '{"tables": {"table": "u", "version": 7}, "privacy": null}'}, False),
        ({"labels_digest": "c" * 64}, False),
    ],
    ids=["folder", "later-version", "another-table", "same-rows"],
)
def test_a_score_table_that_is_rewritten_after_its_audit_is_told(warehouse, changes, is_told):
    """It has no checkpoint: its rows are all that an owner can replace."""
    table = dict.fromkeys(INPUTS) | {"proxy_day": None}
    table |= {"target_manifest_sha256": "b" * 64, "labels_digest": "c" * 64}
    table |= {"source": '{"tables": {"table": "t", "version": 7}, "privacy": null}'}
    put(warehouse, DAY, **table)
    again = put(warehouse, DAY, hour=1, **(table | {"labels_digest": "f" * 64} | changes))
    found = told(warehouse, again)
    assert ("The score table's rows of 2026-04-02 changed after its audit" in found) is is_told


@pytest.mark.slow
def test_what_reads_otherwise_is_no_change(warehouse):
    """Other columns, another method, settings in a manifest's stead."""
    put(warehouse, DAY)
    sliced = json.dumps(json.loads(PLAN.model_dump_json()) | {"slices": ["city"]})
    for hour, changes in (
        (1, {"plan": sliced, "labels_digest": "f" * 64}),
        (2, {"method_version": "0", "labels_digest": "f" * 64}),
        (3, {"source": "{}", "target_manifest_sha256": "f" * 64}),
    ):
        assert told(warehouse, put(warehouse, DAY, hour=hour, **changes)) == ""


def test_a_checkpoint_that_was_another_days_is_told(warehouse):
    """A file of two days before, under today's manifest, never saw the day: its bound is 0."""
    old = put(warehouse, dt.date(2026, 3, 31), proxy_day=None, target_sha256="9" * 64)
    put(warehouse, EVE, proxy_day=None, target_sha256="d" * 64, target_manifest_sha256="e" * 64)
    copied = put(warehouse, DAY, target_sha256="9" * 64)
    assert told(warehouse, old) == ""
    assert told(warehouse, copied) == (
        "inputs_changed: The checkpoint of 2026-04-02 is the file that was audited for 2026-03-31 "
        f"(record {old[:8]}), so it was not trained on labels of 2026-04-02: see which model is "
        "served."
    )
    other = evaluated("others", dt.date(2026, 4, 3), **INPUTS | {"target_sha256": "9" * 64})
    warehouse.commit([other])
    assert told(warehouse, other.audit.audit_id) == ""


def test_a_later_days_file_and_one_of_long_ago_are_known(warehouse):
    """The page blamed the later day, which was honest; and after 92 days no file was known."""
    one = {"proxy_day": None, "target_sha256": "9" * 64}
    later, left_out = put(warehouse, DAY, hour=1, **one), put(warehouse, EVE, hour=80, **one)
    assert told(warehouse, later) == ""
    assert f"the file that was audited for {DAY}" in told(warehouse, left_out)
    assert "which is later" in told(warehouse, left_out)
    again = put(warehouse, DAY + dt.timedelta(days=200), hour=4800, **one)
    tonight = warehouse.scan("audits").filter(pl.col("audit_id") == again).collect()
    assert f"is the file that was audited for {DAY}" in input_changes(warehouse, tonight)[again]


def test_a_secret_that_is_no_longer_asked_for_is_missed(warehouse):
    """An owner took `membership` out of the settings, and the audit that accused ended unheard."""
    put(warehouse, EVE)
    put(warehouse, EVE, hour=1, secret="membership", verdict="violated")  # noqa: S106
    put(warehouse, EVE, hour=2, secret="attribute:city", exploratory=True)  # noqa: S106
    put(warehouse, DAY, hour=3)
    assert unlisted_models(warehouse, [("ads", "label"), ("ads", "membership")], DAY) == ()
    (found,) = unlisted_models(warehouse, [("ads", "label")], DAY)
    assert found == Unlisted("ads", EVE, "membership")
    assert found.sentence() == (
        "The membership audit of ads was last made for 2026-04-01, and the settings no longer ask "
        "for it. Ask for it again, or note why it ended."
    )
    (found,) = unlisted_models(warehouse, [("ads", "membership")], DAY + LATELY)
    assert found == Unlisted("ads", DAY, "label")


def test_a_model_that_disappears_is_missed_for_a_week(warehouse):
    days = {"old": EVE, "new": DAY, "always": DAY}
    put_rows(warehouse, [evaluated(model, day) for model, day in days.items()])
    put_rows(warehouse, [evaluated("always", EVE)])
    listed = [("old", "label"), ("new", "label")]
    assert unlisted_models(warehouse, [*listed, ("always", "label")], DAY + LATELY) == ()
    for ahead, missed in ((0, 0), (1, 1), (7, 1), (8, 0)):
        found = unlisted_models(warehouse, listed, DAY + dt.timedelta(days=ahead))
        assert [one.model for one in found] == ["always"] * missed
    (found_one,) = unlisted_models(warehouse, listed, DAY + dt.timedelta(days=1))
    assert found_one.sentence() == (
        "always was last audited for 2026-04-02, and the settings no longer list it. List it "
        "again, or note why it was retired."
    )
