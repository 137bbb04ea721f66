"""The service as it is deployed: a real server, a work pool, a worker, deploy/prefect.yaml.

server -- schedules and runs -- worker -- process per flow run -- lake, warehouse, report
"""

import datetime as dt
import json
import re
from typing import Any

import polars as pl
import pytest

from tests.support.lake import MEMORISE, declared, label_rows, put_labels, put_model, write_settings
from tests.support.postgresql import postgresql
from tests.support.service import running, until
from workers.lake.layout import Lake

pytestmark = pytest.mark.slow

YESTERDAY = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
DAYS = [YESTERDAY - dt.timedelta(days=back) for back in range(5, -1, -1)]
KEPT, BROKEN = "ads-ctr", "mail-open"
BACKFILL = {"first": str(DAYS[0]), "last": str(DAYS[-1])}
STANDING = f"Violated at the last record: {BROKEN}."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with eight days of two models: one keeps what it declares, one does not."""
    folder = tmp_path_factory.mktemp("site")
    lake = Lake(str(folder / "lake"))
    # The day before the first is its proxy; the day after the last is there should midnight pass.
    around = [DAYS[0] - dt.timedelta(days=1), *DAYS, DAYS[-1] + dt.timedelta(days=1)]
    for seed, day in enumerate(around):
        put_labels(lake, day, label_rows(800, seed=seed), row_group_size=128)
        put_model(lake, day, model=KEPT, privacy=declared(2.0))
        put_model(lake, day, model=BROKEN, privacy=declared(0.01), parameters=MEMORISE)
    write_settings(folder, [KEPT, BROKEN])
    return folder


@pytest.fixture(scope="module")
def service(site, tmp_path_factory):
    """Run it on PostgreSQL, as in production; the flows' own tests have servers on SQLite."""
    with (
        postgresql("prefect") as database,
        running(
            site, tmp_path_factory.mktemp("prefect"), database.uri(driver="asyncpg")
        ) as started,
    ):
        yield started


@pytest.fixture(scope="module")
def cut(service):
    """Return a backfill whose worker was lost: Prefect notices that in 90 seconds."""
    identity = service.start("backfill/on-demand", **BACKFILL)
    until(lambda: service.audits().height >= 4, 200)
    service.kill_worker()
    assert service.run(identity)["state"]["type"] == "RUNNING"
    service.start_worker()
    return identity


def test_audits_on_demand_complete_with_an_event_and_their_records(service):
    given = {"day": str(YESTERDAY)}
    identity = service.start("audit-model/on-demand", model=BROKEN, **given)
    other = service.start("audit-model/on-demand", model=KEPT, plan={"repetitions": 3}, **given)
    state = service.ended(identity)["state"]
    assert (state["name"], state["type"]) == ("Violated", "FAILED")
    assert state["message"] == f"The declaration of {BROKEN} is refuted. 1 violated. {STANDING}"
    assert service.ended(other)["state"]["type"] == "COMPLETED"
    audits = service.audits().filter(day=YESTERDAY).sort("model")
    assert audits["model"].to_list() == [KEPT, BROKEN]
    assert audits["verdict"][1] == "violated"
    assert [json.loads(plan)["repetitions"] for plan in audits["plan"]] == [3, 4]
    assert (service.site / "report" / "index.html").exists()

    def event() -> Any:
        told = service.post(
            "/events/filter", filter={"event": {"name": ["privaudit.violated"]}, "occurred": {}}
        )
        return told["events"]

    (violated,) = until(event, 60)
    assert violated["payload"]["model"] == BROKEN
    assert violated["payload"]["audit_id"] == audits["audit_id"][1]
    assert violated["payload"]["figures"]["epsilon_declared"] == 0.01


def test_the_form_offers_every_field_of_the_plan(service):
    schema = service.deployment("audit-model/on-demand")["parameter_openapi_schema"]
    assert set(schema["properties"]) == {"model", "day", "plan", "settings"}
    offered = schema["definitions"]["PlanOverrides"]["properties"]
    assert {"fractions", "repetitions", "slices", "privacy_unit"} <= set(offered)


@pytest.mark.usefixtures("cut")
def test_the_schedule_fires_and_audits_the_day_before(service):
    deployment = service.deployment("nightly-audit/production")
    (schedule,) = deployment["schedules"]
    assert schedule["schedule"]["cron"] == "30 1 * * *"
    assert schedule["schedule"]["timezone"] == "Europe/Amsterdam"
    every_minute = {"cron": "* * * * *", "timezone": "Europe/Amsterdam"}
    path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
    service.patch(path, schedule=every_minute, active=True)

    def finished() -> Any:
        return service.post(
            "/flow_runs/filter",
            flow_runs={"deployment_id": {"any_": [deployment["id"]]},
                       "state": {"type": {"any_": ["COMPLETED", "FAILED"]}}},
        )  # fmt: skip

    try:
        run = until(finished, 300)[0]
    finally:
        service.patch(path, active=False)
    assert run["auto_scheduled"]
    # What stood violated the day before is nothing new.
    assert run["state"]["type"] == "COMPLETED"
    message = run["state"]["message"]  # how much a kept declaration's night sees is not looked at
    assert re.fullmatch(rf"1 violated, 1 (inconclusive|not_refuted)\. {STANDING}", message)


@pytest.mark.usefixtures("cut")
def test_a_day_without_audits_is_overdue_and_fails_its_flow(service):
    long_ago = str(DAYS[0] - dt.timedelta(days=30))
    run = service.ended(service.start("overdue/production", day=long_ago))
    assert run["state"]["type"] == "FAILED"
    assert f"No audit of {KEPT}, {BROKEN} for {long_ago}" in run["state"]["message"]


def test_a_backfill_whose_worker_is_killed_is_run_again_with_one_record_each(service, cut):
    run = service.ended(cut, seconds=500)
    assert run["state"]["name"] == "Violated", run["state"]
    assert run["run_count"] == 2
    usual = service.audits().filter(pl.col("plan").str.contains('"repetitions":4,', literal=True))
    assert usual.select("model", "day").is_unique().all()
    assert usual.group_by("model").len().sort("model").rows() == [(KEPT, 6), (BROKEN, 6)]

    before = service.audits().sort("audit_id")
    again = service.ended(service.start("backfill/on-demand", **BACKFILL))
    assert again["state"]["type"] == "COMPLETED"
    assert again["state"]["message"].startswith("0 audits to do. 12 of 12")
    assert service.audits().sort("audit_id").equals(before)
