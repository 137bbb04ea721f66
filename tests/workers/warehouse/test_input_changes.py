"""Changed inputs: a later change of an audited input is reported, with when it was seen before."""

import datetime as dt
import json
import pathlib
from typing import Any

import polars as pl
import pytest

from tests.support.lake import DAY as MARCH
from tests.support.lake import PLAN
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, night, put_rows
from workers.warehouse.input_changes import input_changes
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import with_windows

EVE, DAY = dt.date(2026, 4, 1), dt.date(2026, 4, 2)
INPUTS = {
    "target_sha256": "a" * 64,
    "target_manifest_sha256": "b" * 64,
    "labels_digest": "c" * 64,
    "proxy_sha256": "d" * 64,
    "proxy_manifest_sha256": "e" * 64,
    "proxy_day": EVE,
    "scores": "computed",
}


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def put(warehouse: Warehouse, day: dt.date, *, hour: int = 0, **changes: Any) -> str:
    record = evaluated("ads", day, hour=hour, **INPUTS | changes)
    warehouse.commit(record)
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
def test_a_day_that_changes_after_its_audit_is_told(
    warehouse: Warehouse, column: str, what: str
) -> None:
    first = put(warehouse, DAY)
    again = put(warehouse, DAY, hour=1, **{column: "f" * 64})
    assert told(warehouse, first) == ""
    assert told(warehouse, again) == (
        f"inputs_changed: The {what} changed after its audit: it was {INPUTS[column][:12]} in the "
        f"record {first[:8]} of 2026-04-01 00:00 UTC, and is ffffffffffff here."
    )
    shown = with_windows(warehouse, warehouse.current())
    assert shown["inputs_changed"].to_list() == [told(warehouse, again)]


def test_a_proxy_that_is_not_what_was_audited_on_its_day_is_told(warehouse: Warehouse) -> None:
    put(warehouse, EVE, target_sha256="d" * 64, target_manifest_sha256="e" * 64, proxy_day=None)
    honest = put(warehouse, DAY)
    replaced = put(warehouse, DAY, hour=1, proxy_sha256="f" * 64)
    assert told(warehouse, honest) == ""
    assert told(warehouse, replaced).startswith(
        "inputs_changed: The proxy's checkpoint, of 2026-04-01, changed after its audit: it was "
        "dddddddddddd in the record "
    )


def test_auditing_the_replaced_checkpoint_on_its_day_hides_nothing(warehouse: Warehouse) -> None:
    put(warehouse, EVE, target_sha256="d" * 64, target_manifest_sha256="e" * 64)
    doctored = put(warehouse, EVE, hour=1, target_sha256="f" * 64, target_manifest_sha256="e" * 64)
    tonight = put(warehouse, DAY, proxy_sha256="f" * 64)
    assert "checkpoint of 2026-04-01 changed" in told(warehouse, doctored)
    assert "The proxy's checkpoint, of 2026-04-01, changed" in told(warehouse, tonight)


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
def test_a_score_table_that_is_rewritten_after_its_audit_is_told(
    warehouse: Warehouse, changes: dict[str, Any], is_told: bool
) -> None:
    """It has no checkpoint: its rows are all that an owner can replace."""
    table = dict.fromkeys(INPUTS) | {"proxy_day": None, "scores": "supplied"}
    table |= {"target_manifest_sha256": "b" * 64, "labels_digest": "c" * 64}
    table |= {"source": '{"tables": {"table": "t", "version": 7}, "privacy": null}'}
    put(warehouse, DAY, **table)
    again = put(warehouse, DAY, hour=1, **(table | {"labels_digest": "f" * 64} | changes))
    found = told(warehouse, again)
    assert ("The score table's rows of 2026-04-02 changed after its audit" in found) is is_told


@pytest.mark.slow
def test_what_reads_otherwise_is_no_change(warehouse: Warehouse) -> None:
    """Other columns, another method, supplied scores, settings in a manifest's stead."""
    put(warehouse, DAY)
    sliced = json.dumps(json.loads(PLAN.model_dump_json()) | {"slices": ["city"]})
    supplied = dict.fromkeys(INPUTS, "f" * 64) | {"proxy_day": EVE, "scores": "supplied"}
    for hour, changes in enumerate(
        [
            {"plan": sliced, "labels_digest": "f" * 64},
            {"method_version": "0", "labels_digest": "f" * 64},
            {"source": "{}", "target_manifest_sha256": "f" * 64},
            supplied,
        ],
        start=1,
    ):
        assert told(warehouse, put(warehouse, DAY, hour=hour, **changes)) == ""


def test_a_checkpoint_that_was_another_days_is_told(warehouse: Warehouse) -> None:
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
    warehouse.commit(other)
    assert told(warehouse, other.audit.audit_id) == ""


def test_a_day_that_was_left_out_is_not_audited_with_a_later_days_file(
    tmp_path: pathlib.Path,
) -> None:
    """The page blamed the later day, which was honest, and no alert came."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    later = night(1, hour=1, target_sha256="f" * 64)
    left_out = night(0, hour=80, target_sha256="f" * 64)
    put_rows(warehouse, [later, left_out])
    told = input_changes(warehouse, warehouse.scan("audits").collect())
    assert list(told) == [left_out.audit.audit_id]
    assert "the file that was audited for 2026-03-03" in told[left_out.audit.audit_id]
    assert "which is later" in told[left_out.audit.audit_id]


def test_a_file_that_was_audited_long_ago_is_known(
    tmp_path: pathlib.Path,
) -> None:
    """After 92 days a file could be served again as the day's own."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    again = night(200, hour=4800)
    put_rows(warehouse, [night(0), again])
    tonight = warehouse.scan("audits").collect().filter(pl.col("day") == again.audit.day)
    found = input_changes(warehouse, tonight)
    assert f"is the file that was audited for {MARCH}" in found[again.audit.audit_id]
