"""OpenLineage events: what OpenLineage's own client makes of them, and what a server receives."""

import datetime as dt
import json
import logging
import zoneinfo
from collections.abc import Iterator
from typing import Any

import attr
import pytest
from openlineage.client import event_v2
from openlineage.client.facet_v2 import error_message_run, job_type_job, nominal_time_run, test_run
from openlineage.client.serde import Serde
from pydantic import SecretStr

from flows.notify import openlineage
from flows.notify.openlineage import (
    PRODUCER,
    AuditRun,
    events_of,
    send_records,
    send_statements,
)
from flows.notify.public import PublicNight
from flows.settings import Settings
from flows.settings.openlineage_settings import OpenLineageSettings
from tests.flows.notify.test_webhook import Receiver, started
from tests.flows.report.test_public_site import made
from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed
from workers.warehouse.schema import AuditRecord, Status
from workers.warehouse.serving_decision import Gate
from workers.warehouse.store import Warehouse

KEY = "a key of this test"
NOW = dt.datetime(2026, 3, 3, 6, tzinfo=dt.UTC)
AMSTERDAM = zoneinfo.ZoneInfo("Europe/Amsterdam")
_FACETS: dict[str, Any] = {
    "nominalTime": nominal_time_run.NominalTimeRunFacet,
    "jobType": job_type_job.JobTypeJobFacet,
    "test": test_run.TestRunFacet,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
}


def as_their_client_writes(event: dict[str, Any]) -> dict[str, Any]:
    """Build the event anew by OpenLineage's own classes, which refuse what the schema has not."""

    def facets(found: dict[str, Any]) -> dict[str, Any]:
        made_anew = {}
        for name, facet in found.items():
            given = {key: value for key, value in facet.items() if not key.startswith("_")}
            if name == "test":
                given["tests"] = [test_run.TestExecution(**test) for test in given["tests"]]
            made_anew[name] = _FACETS[name](**given, producer=PRODUCER)
        return made_anew

    run, job = event["run"], event["job"]
    built = event_v2.RunEvent(
        eventType=event_v2.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        run=event_v2.Run(runId=run["runId"], facets=facets(run["facets"])),
        job=event_v2.Job(**job | {"facets": facets(job["facets"])}),
        inputs=[event_v2.InputDataset(**one) for one in event["inputs"]],
        outputs=event["outputs"],
        producer=event["producer"],
    )
    return Serde.to_dict(built)  # type: ignore[no-any-return]


def without_nothing(event: Any) -> Any:
    """Leave out empty lists, objects and nulls, of which the two say the same."""
    if isinstance(event, dict):
        kept = {key: without_nothing(value) for key, value in event.items()}
        return {key: value for key, value in kept.items() if value not in ({}, [], None)}
    return [without_nothing(each) for each in event] if isinstance(event, list) else event


def audit_run(**changes: Any) -> AuditRun:
    given: dict[str, Any] = {
        "identity": "00ff", "model": "ads", "secret": "label", "day": DAY, "answer": Gate.FAIL,
        "reason": "It leaks.", "expected": "epsilon <= 0.5", "actual": "epsilon >= 0.9",
        "figures": {"epsilon_lower": 0.9, "epsilon_ceiling": float("inf"), "records": 7},
        "inputs": (("s3://bucket", "clicks"),),
    }  # fmt: skip
    return AuditRun(**given | changes)


@pytest.mark.parametrize("changes", [{}, {"failed": True}, {"expected": None, "actual": None}])
def test_events_are_what_openlineages_own_client_writes(changes: dict[str, Any]) -> None:
    start, end = events_of(audit_run(**changes), "privaudit", AMSTERDAM, NOW)
    for event in (start, end):
        assert without_nothing(as_their_client_writes(event)) == without_nothing(event)
    assert (start["eventType"], end["eventType"]) == (
        "START", "FAIL" if changes.get("failed") else "COMPLETE",
    )  # fmt: skip
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["run"]["facets"]["test"]["tests"][0]["params"] == {
        "epsilon_lower": 0.9,
        "records": 7,
    }
    assert end["run"]["facets"]["nominalTime"]["nominalStartTime"].startswith(f"{DAY}T00:00:00+0")


def test_what_their_schema_does_not_know_is_refused_by_the_check() -> None:
    _, end = events_of(audit_run(), "privaudit", dt.UTC, NOW)
    end["run"]["facets"]["test"]["tests"][0]["verdict"] = "violated"
    with pytest.raises(TypeError, match="verdict"):
        as_their_client_writes(end)
    assert {one.name for one in attr.fields(test_run.TestExecution)} >= {"name", "status"}


@pytest.fixture
def receiver() -> Iterator[Any]:
    with started(Receiver) as start:
        yield start


def served(settings: Settings, url: str) -> Settings:
    server = OpenLineageSettings(url=url, api_key=SecretStr(KEY))
    return settings.model_copy(update={"openlineage": server})


def received(server: Receiver) -> list[dict[str, Any]]:
    for headers, _ in server.taken:
        assert headers["Authorization"] == f"Bearer {KEY}"
    return [json.loads(body) for _, body in server.taken]


def sent(settings: Settings, *records: AuditRecord) -> None:
    warehouse = Warehouse(settings.warehouse)
    for record in records:
        warehouse.commit(record)
    send_records([record.audit for record in records], settings)


@pytest.mark.slow
def test_a_server_receives_start_and_end_of_each_audit(settings: Settings, receiver: Any) -> None:
    server = receiver(201)
    seeing = {"epsilon_ceiling": 4.0, "epsilon_detectable": 0.9, "dataset": "clicks"}
    source = {
        "tables": {
            "table": "s3://bucket/labels?region=eu",
            "target": {"table": "n.scored", "catalog": "c"},
            "proxy": "p", "earlier": [{"table": "/srv/old"}],
        },
        "privacy": None,
    }  # fmt: skip
    error = evaluated("d", DAY, status=Status.ERROR, verdict="not_evaluable", reason="A bug.")
    sent(
        served(settings, server.url),
        evaluated("a", DAY, **seeing),
        evaluated("b", DAY, verdict="violated", epsilon_lower=0.9, source=json.dumps(source)),
        evaluated("c", DAY, epsilon_ceiling=0.4),
        error,
        failed("e", DAY),
    )
    events = received(server)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 3 + [
        "START", "FAIL", "START", "COMPLETE",
    ]  # fmt: skip
    ends = events[1::2]
    tests = [event["run"]["facets"]["test"]["tests"][0] for event in ends]
    assert [test["status"] for test in tests] == ["pass", "fail", "skip", "skip", "skip"]
    assert tests[1]["expected"] == "epsilon <= 0.5"
    assert tests[1]["actual"] == "epsilon >= 0.90"
    assert ends[0]["job"] == events[0]["job"]
    assert ends[0]["job"]["name"] == "audit.a.label"
    assert ends[0]["inputs"] == [{"namespace": "file", "name": f"{settings.lake}/labels/clicks"}]
    assert [(one["namespace"], one["name"]) for one in ends[1]["inputs"]] == [
        ("c", "n.scored"), ("file", "/srv/old"), ("s3://bucket", "labels"),
    ]  # fmt: skip
    assert ends[3]["run"]["facets"]["errorMessage"]["message"] == "A bug."
    assert len({event["run"]["runId"] for event in ends}) == 5


@pytest.mark.slow
def test_an_audit_that_is_sent_again_is_the_same_run(settings: Settings, receiver: Any) -> None:
    server, record = receiver(200), evaluated("ads", DAY)
    for _ in range(2):
        sent(served(settings, server.url), record)
    assert len({event["run"]["runId"] for event in received(server)}) == 1


def test_of_public_statements_no_record_is_sent(settings: Settings, receiver: Any) -> None:
    server = receiver(200)
    nights = [
        PublicNight("ads", DAY, made()),
        PublicNight("ads", DAY, made(evidence_figure=0)),
        PublicNight("new", DAY, None),
    ]
    send_statements(nights, served(settings, server.url))
    ends = received(server)[1::2]
    tests = [event["run"]["facets"]["test"]["tests"][0] for event in ends]
    assert [test["status"] for test in tests] == ["fail", "pass", "skip"]
    assert not any("actual" in test or "epsilon_lower" in test["params"] for test in tests)
    assert not any(event["inputs"] for event in ends)


@pytest.mark.slow
@pytest.mark.parametrize("code", [302, 401, 503])
def test_a_server_that_refuses_is_asked_once_and_ends_no_night(
    settings: Settings, receiver: Any, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = receiver(code)
    with caplog.at_level(logging.ERROR):
        sent(served(settings, server.url), evaluated("a", DAY), evaluated("b", DAY))
    assert len(server.taken) == 1
    assert f"status {code}" in caplog.text
    assert KEY not in caplog.text


def test_without_a_server_nothing_is_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[Any] = []
    monkeypatch.setattr(openlineage, "_post", lambda *given: posted.append(given))
    sent(settings, evaluated("ads", DAY))
    send_statements([PublicNight("ads", DAY, None)], settings)
    assert not posted
