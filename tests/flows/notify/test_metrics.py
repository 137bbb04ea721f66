"""Prometheus' file: what it says of records and of statements, and what it leaves out."""

import datetime as dt
import pathlib
import zoneinfo

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flows.notify.metrics import HELP, latest_records, metrics_text, write_metrics
from flows.run.conclusion import write
from flows.settings import load_settings
from tests.support.lake import DAY, EVE
from tests.support.warehouse import evaluated, failed, latest
from workers.warehouse.acknowledgements import acknowledge
from workers.warehouse.store import Warehouse

UTC = zoneinfo.ZoneInfo("UTC")


def samples(text):
    """Return what Prometheus' own parser reads: name without its prefix and labels' values."""
    return {
        (one.name.removeprefix("privaudit_"), *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "privaudit.toml"
    file.write_text(
        'lake = "l"\nwarehouse = "w"\nreport = "r"\nmetrics = "seen/privaudit.prom"\n'
        '[night]\ntime_zone = "Europe/Amsterdam"\n'
        '[[models]]\nname = "ads"\n[[models]]\nname = "new"\n'
    )
    (tmp_path / "seen").mkdir()
    return load_settings(file)


REFUTED = {
    "verdict": "violated",
    "reason_code": "this_night",
    "epsilon_lower": 0.9,
    "epsilon_declared": 0.5,
}
SEEING = {"epsilon_ceiling": 3.0, "sees_from": 0.8}


@pytest.mark.slow
def test_the_latest_night_of_each_listed_model_is_written_with_the_report(settings):
    warehouse = Warehouse(settings.warehouse)
    warehouse.commit([evaluated("ads", EVE, epsilon_lower=0.1)])
    warehouse.commit([evaluated("ads", DAY, **SEEING | REFUTED)])
    warehouse.commit([evaluated("retired", DAY)])
    write(settings)
    assert settings.metrics is not None
    file = pathlib.Path(settings.metrics)
    midnight = dt.datetime(DAY.year, DAY.month, DAY.day, tzinfo=dt.UTC) + dt.timedelta(days=1)
    assert samples(file.read_text()) == {
        ("model_listed", "ads"): 1.0,
        ("model_listed", "new"): 1.0,
        ("verdict", "ads", "label", "violated", "this_night"): 1.0,
        ("epsilon_lower", "ads", "label"): 0.9,
        ("epsilon_declared", "ads", "label"): 0.5,
        ("sees_from", "ads", "label"): 0.8,
        ("sees_from_together", "ads", "label"): 0.8,
        ("audited_day_end_seconds", "ads", "label"): midnight.timestamp() - 3600.0,
    }
    assert [path.name for path in file.parent.iterdir()] == ["privaudit.prom"]


@pytest.mark.parametrize("seed", [False, True], ids=["spoilt", "by-another-seed"])
def test_a_night_that_adds_nothing_ends_no_violation(settings, seed):
    """A spoilt input, or a seed of one's own, would resolve the alert of a violated model."""
    warehouse = Warehouse(settings.warehouse)
    warehouse.commit([evaluated("ads", EVE, **REFUTED)])
    warehouse.commit([evaluated("ads", DAY, exploratory=True) if seed else failed("ads", DAY)])
    (last,) = latest_records(warehouse, ["ads"])
    assert last["day"] == DAY
    assert (last["verdict_together"], last["reason_code_together"]) == ("violated", "earlier_night")
    found = samples(metrics_text([last], UTC, []))
    assert (("epsilon_lower", "ads", "label") in found) is seed
    assert found["verdict", "ads", "label", "violated", "earlier_night"] == 1.0


@pytest.mark.slow
def test_an_acknowledgement_is_written_until_a_night_proves_more(settings):
    """Also while nights that say nothing come: they would page as if nobody knew."""
    warehouse = Warehouse(settings.warehouse)
    first = evaluated("ads", EVE, **REFUTED)
    until = first.audit.recorded_at.date() + dt.timedelta(days=5)
    warehouse.commit([first])
    (last,) = latest_records(warehouse, ["ads"])
    assert last["acknowledged_until"] is None
    day = dt.timedelta(days=1)
    now = first.audit.recorded_at + dt.timedelta(hours=9)
    acknowledge(warehouse, first.audit.audit_id, why="Known.", until=until, by="ann", now=now)
    for record in (
        evaluated("ads", DAY, **REFUTED | {"epsilon_lower": 0.8}),
        evaluated("ads", DAY + day, verdict="inconclusive", reason_code="proxy_wrong"),
        failed("ads", DAY + 2 * day),
    ):
        warehouse.commit([record])
        (last,) = latest_records(warehouse, ["ads"])
        assert (last["verdict_together"], last["acknowledged_until"]) == ("violated", until)
    end = dt.datetime.combine(until + day, dt.time(), tzinfo=dt.UTC).timestamp()
    written = samples(metrics_text([last], zoneinfo.ZoneInfo("Asia/Tokyo"), []))
    assert written["acknowledged_until_seconds", "ads", "label"] == end
    for record in (
        evaluated("ads", DAY + 3 * day, **REFUTED | {"epsilon_lower": 1.2}),
        failed("ads", DAY + 4 * day),
    ):
        warehouse.commit([record])
        (last,) = latest_records(warehouse, ["ads"])
        assert (last["verdict_together"], last["acknowledged_until"]) == ("violated", None)


def test_a_warehouse_without_records_lists_models_alone(settings):
    write_metrics(settings)
    assert settings.metrics is not None
    found = samples(pathlib.Path(settings.metrics).read_text())
    assert found == {("model_listed", "ads"): 1.0, ("model_listed", "new"): 1.0}


def test_every_metric_has_its_help():
    families = list(text_string_to_metric_families(metrics_text([latest("m")], UTC, ["m"])))
    assert {family.name.removeprefix("privaudit_") for family in families} == set(HELP)
    assert all(family.type == "gauge" and family.documentation for family in families)
