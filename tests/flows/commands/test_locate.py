"""`privaudit locate` and `read-labels`, as they are typed."""

import dataclasses
import json
import pathlib
import re
from unittest.mock import patch

import polars as pl
import pytest

from flows.commands.verify import not_the_days
from flows.report.site import write_report
from privcore.lower_bounds.applied_response import applied_response
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    declared,
    label_rows,
    model_path,
    put_labels,
    put_model,
    write_settings,
)
from tests.support.warehouse import commit_night
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse


@pytest.fixture
def audit_id(tmp_path, monkeypatch, privaudit):
    """Return the id of an audit of a model that learned next to nothing."""
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(1_200, seed=seed), row_group_size=1_024)
        put_model(lake, day)
    write_settings(tmp_path, ["good"], more="minimum_slice_records = 200\n")
    monkeypatch.chdir(tmp_path)
    found = privaudit("run", "--model", "good", "--day", str(DAY), "--json")
    return json.loads(found.out)[0]["audit_id"]


@pytest.mark.slow
def test_groups_are_listed_and_what_they_come_to_is_said(audit_id, privaudit):
    shown = privaudit("locate", audit_id[:10])
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].split() == ["group", "training", "holdout", "proved", "q"]
    assert "city is BER" in shown.out
    assert "That does not show that there is none." in shown.out
    assert "were not tested" in shown.out
    listed = privaudit("locate", audit_id, "--json")
    (city,) = (one for one in json.loads(listed.out) if one["segment"] == "city is BER")
    assert city["records"] + city["control_records"] > 300
    assert (city["named"], city["epsilon_lower"]) == (False, 0.0)
    assert "A leak is proved in none of" in listed.err


@pytest.mark.slow
@pytest.mark.usefixtures("audit_id")
def test_where_no_group_is_large_enough_it_says_so(privaudit, tmp_path):
    write_settings(tmp_path, ["good"], more="minimum_slice_records = 1000\n")
    again = privaudit("run", "--model", "good", "--day", str(DAY), "--json")
    shown = privaudit("locate", json.loads(again.out)[0]["audit_id"])
    assert shown.code == 0
    assert shown.out.startswith("No group was tested.")
    assert "plan.minimum_slice_records" in shown.out


def test_an_audit_that_is_not_there_is_one_sentence(tmp_path, monkeypatch, privaudit):
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    answer = privaudit("locate", "0f3c2a91")
    assert answer.code == 3
    assert answer.err.count("\n") <= 2


@pytest.mark.slow
def test_an_audit_that_is_not_the_days_says_so(tmp_path):
    """`explain` and `verify` of the kinder one read like the night's verdict."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    first = commit_night(warehouse, "violated")
    kinder = commit_night(warehouse, "not_refuted", labels_digest="x" * 64)
    asked = commit_night(warehouse, "not_refuted", day=EVE, exploratory=True)
    assert not_the_days(warehouse, first) == ""
    counts = f"Of ads on {DAY} another audit counts, and not this one: {first[:8]}."
    assert not_the_days(warehouse, kinder) == counts
    assert not_the_days(warehouse, asked).endswith("this one is exploratory.")
    warehouse.withdraw(first, "Damaged labels.")
    assert not_the_days(warehouse, first) == "This audit was withdrawn: Damaged labels."
    assert not_the_days(warehouse, kinder) == ""


@pytest.mark.slow
def test_labels_are_read_from_the_file_beside_the_answers(tmp_path, monkeypatch, privaudit):
    lake, coins = Lake(str(tmp_path / "lake")), {"epsilon": 1.0, "classes": 2}
    response = {"name": "randomized_response", "parameters": coins}
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(400, seed=seed, chances=(0.8, 0.2))
        # No two rows are alike, so that the sums determine every label.
        put_labels(
            lake, day, rows.with_columns(delay=pl.col("delay").rank("ordinal").cast(pl.Float64))
        )
        put_model(
            lake,
            day,
            label=BINARY.model_copy(update={"state": "secret"}),
            features=FEATURES[:2],
            privacy=declared(1.0, mechanism=response),
            parameters={"iterations": 100, "depth": 6, "leaf_estimation_iterations": 1},
        )
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    found = privaudit("run", "--model", "good", "--day", str(DAY), "--json")
    (row,) = json.loads(found.out)
    audit_id = row["audit_id"]
    code = "mechanism_not_applied"
    assert (found.code, row["verdict_together"], row["reason_code"]) == (1, "violated", code)
    both = "nothing proved with the answers. With the file: the table's labels unchanged, "
    assert both in found.err
    looked_up = privaudit("gate", "--sha256", str(model_path(lake, "good") / "model.cbm"))
    assert looked_up.code == 1
    assert f"is violated ({code})" in looked_up.out
    page = write_report(Warehouse(str(tmp_path / "warehouse")), tmp_path / "report")
    assert "good&#39;s file holds the table&#39;s labels unchanged, " in page.read_text("utf-8")
    own = (page.parent / "models" / "good.html").read_text("utf-8")
    assert "<dt>with the answers</dt><dd>nothing is proved</dd>" in own
    assert re.search(r"the table&#39;s labels unchanged, (\d+) of \1 labels read", own)
    shown = privaudit("read-labels", audit_id[:10])
    assert shown.code == 1, shown.err
    first, second = shown.out.splitlines()
    assert first == "With the model's answers: nothing is proved."
    assert second.startswith("With the model's file: violated: mechanism_not_applied. The file ")
    listed = privaudit("read-labels", audit_id, "--json", "--labels", "read.parquet")
    assert listed.code == 1
    content = json.loads(listed.out)
    assert (content["code"], content["refuted"]) == ("mechanism_not_applied", 1.0)
    assert content["response"]["same"] == content["response"]["read"]
    both = ("--true", "true", "--released", "released", "--epsilon", "1", "--record", "row")
    checked = privaudit("check-labels", "read.parquet", *both)
    assert checked.code == 1, checked.err
    assert checked.out.startswith("violated: this_night.")
    taken = privaudit("read-labels", audit_id, "--labels", "read.parquet")
    assert "read.parquet is there already" in taken.err

    def some(*given, **more):
        return dataclasses.replace(applied_response(*given, **more), read=1)

    with patch("workers.audit.file_labels.applied_response", some):
        open_ones = privaudit("read-labels", audit_id, "--labels", "some.parquet")
    assert open_ones.out.splitlines()[0] == first
    assert "the file does not determine every label" in open_ones.err
    assert not pathlib.Path("some.parquet").exists()
