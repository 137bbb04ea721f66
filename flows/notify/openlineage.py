"""OpenLineage events: each audit is a run of a job, and its answer is the run's test facet.

https://openlineage.io/docs/spec/object-model
"""

import asyncio
import dataclasses
import datetime as dt
import json
import math
import pathlib
import time
import urllib.parse
import uuid
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import polars as pl

from flows.next_steps.card import Conclusion
from flows.next_steps.statement_card import statement_card
from flows.notify.prefect_context import run_log
from flows.notify.public import PublicNight
from flows.notify.webhook import answered
from flows.settings import Settings
from flows.settings.openlineage_settings import OpenLineageSettings
from privcore.lower_bounds import Verdict
from privcore.rounding import down, guarantee
from workers.lake.places import local_path
from workers.plain_text import plain_text
from workers.publication.erased import Published
from workers.versions import CODE_VERSION
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.serving_decision import Gate, answer_of, with_standings_of_days
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import with_windows

PRODUCER = f"urn:privaudit:{CODE_VERSION}"
_SPECIFICATION = "https://openlineage.io/spec"
_STATUS = {Gate.PASS: "pass", Gate.FAIL: "fail", Gate.INCONCLUSIVE: "skip"}
_MOST = 300.0
"""Seconds that the events of one run may take together: a server may answer each one slowly."""
_FIGURES = ("epsilon_lower", "epsilon_ceiling", "epsilon_declared", "delta_declared", "records")
_CONCLUDED = {
    Conclusion.NOT_REFUTED: Gate.PASS,
    Conclusion.REFUTED: Gate.FAIL,
    Conclusion.NO_PROMISE: Gate.FAIL,
}


class _UndeliveredError(Exception):
    """A server did not accept an event; the text completes "did not accept it (...)"."""


@dataclass(frozen=True, slots=True)
class AuditRun:
    """An audit as OpenLineage knows it.

    Attributes:
        identity: of the audit, or of its public statement.
        model: audited model.
        secret: what the attack inferred.
        day: the audited day.
        answer: whether the declaration passes: as `privaudit gate` decides.
        reason: verdict in a sentence.
        expected: what is declared; None where nothing is.
        actual: what the audit proves; None where it has no figures, or may not say them.
        figures: that consumers may plot.
        inputs: tables that were read: namespace and name of each.
        failed: whether the audit ended with an error.
    """

    identity: str
    model: str
    secret: str
    day: dt.date
    answer: Gate
    reason: str
    expected: str | None
    actual: str | None
    figures: Mapping[str, Any]
    inputs: tuple[tuple[str, str], ...] = ()
    failed: bool = False


def send_records(rows: Sequence[AuditRow], settings: Settings) -> None:
    """Send events of these records, if the settings name a server."""
    if settings.openlineage is None or not rows:
        return
    warehouse = Warehouse(settings.warehouse)
    named = pl.col("audit_id").is_in([row.audit_id for row in rows])
    audits = with_windows(warehouse, warehouse.collect(warehouse.scan("audits").filter(named)))
    audits = with_standings_of_days(warehouse, audits)
    refuted = _of_refuted_days(warehouse, audits)
    runs = [
        dataclasses.replace(_of_record(row, settings), answer=Gate.FAIL)
        if row["audit_id"] in refuted
        else _of_record(row, settings)
        for row in audits.sort("model").iter_rows(named=True)
    ]
    _send(runs, settings, settings.openlineage)


def _of_refuted_days(warehouse: Warehouse, audits: pl.DataFrame) -> set[str]:
    """Return the audits of days whose record that counts refutes: a later audit passes no day."""
    key = ("model", "day", "secret")
    models = audits["model"].unique()
    current = warehouse.current(every_secret=True, models=models, columns=(*key, "verdict"))
    days = current.filter(pl.col("verdict") == Verdict.VIOLATED)
    return set(audits.join(days, on=key, how="semi")["audit_id"])


def send_statements(nights: Sequence[PublicNight], settings: Settings) -> None:
    """Send events of public results alone, if the settings name a server."""
    if settings.openlineage is not None:
        runs = [_of_statement(night) for night in nights]
        _send(runs, settings, settings.openlineage)


def events_of(
    run: AuditRun, namespace: str, zone: dt.tzinfo, now: dt.datetime
) -> Iterator[dict[str, Any]]:
    """Yield the two events that OpenLineage asks for each run: its start and its end.

    Both are sent after the audit. A repeated audit is the same run.
    """
    facets: dict[str, Any] = {"nominalTime": _nominal_time(run.day, zone)}
    event = {
        "eventTime": now.isoformat(),
        "producer": PRODUCER,
        "schemaURL": f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": _run_id(run.identity), "facets": facets},
        "job": {
            "namespace": namespace,
            "name": f"audit.{run.model}.{run.secret}",
            "facets": {
                "jobType": _facet(
                    "2-0-4/JobTypeJobFacet",
                    processingType="BATCH",
                    integration="PRIVAUDIT",
                    jobType="AUDIT",
                )
            },
        },
        "inputs": [{"namespace": space, "name": name} for space, name in run.inputs],
        "outputs": [],
    }
    yield event | {"eventType": "START"}
    facets = facets | {"test": _facet("1-0-1/TestRunFacet", tests=[_test(run)])}
    if run.failed:
        facets["errorMessage"] = _facet(
            "1-0-1/ErrorMessageRunFacet", message=run.reason, programmingLanguage="PYTHON"
        )
    yield event | {
        "eventType": "FAIL" if run.failed else "COMPLETE",
        "run": {"runId": _run_id(run.identity), "facets": facets},
    }


def _test(run: AuditRun) -> dict[str, Any]:
    test = {
        "name": "declared_privacy",
        "status": _STATUS[run.answer],
        "severity": "error",
        "type": "differential_privacy",
        "description": run.reason,
        "expected": run.expected,
        "actual": run.actual,
        "params": {name: value for name, value in run.figures.items() if _is_known(value)},
    }
    return {name: value for name, value in test.items() if value is not None}


def _is_known(value: Any) -> bool:
    """Return whether JSON has the value: it has no infinity."""
    return value is not None and (not isinstance(value, float) or math.isfinite(value))


def _nominal_time(day: dt.date, zone: dt.tzinfo) -> dict[str, Any]:
    start, end = (
        dt.datetime.combine(one, dt.time(), tzinfo=zone).isoformat()
        for one in (day, day + dt.timedelta(days=1))
    )
    return _facet("1-0-1/NominalTimeRunFacet", nominalStartTime=start, nominalEndTime=end)


def _facet(schema: str, **fields: Any) -> dict[str, Any]:
    name = schema.partition("/")[2]
    url = f"{_SPECIFICATION}/facets/{schema}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **fields}


def _run_id(identity: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:privaudit:{identity}"))


def _of_record(row: Mapping[str, Any], settings: Settings) -> AuditRun:
    bound, declared = row["epsilon_lower"], row["epsilon_declared"]
    figures = {name: row[name] for name in (*_FIGURES, "epsilon_standing")}
    return AuditRun(
        identity=row["audit_id"],
        model=row["model"],
        secret=row["secret"],
        day=row["day"],
        answer=answer_of(row),
        reason=plain_text(row["reason"]),
        expected=_declared(declared, row["delta_declared"]),
        actual=None if bound is None else f"epsilon >= {down(bound)}",
        figures={"verdict": row["verdict"], "audit_id": row["audit_id"], **figures},
        inputs=tuple(_inputs(row, settings)),
        failed=row["status"] == Status.ERROR,
    )


def _of_statement(night: PublicNight) -> AuditRun:
    made = night.statement
    figures: dict[str, Any] = {"verdict": night.word}
    answer, expected = Gate.INCONCLUSIVE, None
    if made is not None:
        answer = _CONCLUDED.get(statement_card(made).conclusion, Gate.INCONCLUSIVE)
        if isinstance(made, Published):
            expected = _declared(made.epsilon_declared, made.delta_declared)
        figures["statement_id"] = made.statement_id
    return AuditRun(
        identity=f"{night.model} {night.day} {'' if made is None else made.statement_id}",
        model=night.model,
        secret="label",  # noqa: S106  # what is tested, no password
        day=night.day,
        answer=answer,
        reason=plain_text(night.conclusion),
        expected=expected,
        actual=None,
        figures=figures,
    )


def _declared(epsilon: float | None, delta: float | None) -> str | None:
    return None if epsilon is None else f"epsilon <= {guarantee(epsilon, delta)}"


def _inputs(row: Mapping[str, Any], settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the tables that an audit read, as OpenLineage names data sets.

    https://openlineage.io/docs/spec/naming
    """
    if row["source"] is None:
        if row["dataset"] is not None:
            yield _named(f"{settings.lake}/labels/{row['dataset']}")
        return
    content = json.loads(row["source"])
    first = content.get("tables") or content["labels"]
    parts = [first, *(one for one in first.values() if isinstance(one, dict)), *_earlier(first)]
    seen = {
        (str(owner), part["table"]) if (owner := _owner(part)) else _named(part["table"])
        for part in parts
        if "table" in part
    }
    yield from sorted(seen)


def _owner(part: Mapping[str, Any]) -> str | None:
    """Return the catalogue or database that names a table; None of a table with an address."""
    return part.get("catalog") or part.get("database")


def _earlier(tables: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    return (one for one in tables.get("earlier") or () if isinstance(one, dict))


def _named(place: str) -> tuple[str, str]:
    path = local_path(place)
    if path is not None:
        return "file", str(pathlib.Path.cwd() / path)
    parts = urllib.parse.urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _send(runs: Iterable[AuditRun], settings: Settings, server: OpenLineageSettings) -> None:
    """Send the events in order; the first that is not accepted ends it, and is logged."""
    zone, now = zoneinfo.ZoneInfo(settings.night.time_zone), dt.datetime.now(dt.UTC)
    until = time.monotonic() + _MOST
    try:
        for run in runs:
            for event in events_of(run, server.namespace, zone, now):
                _post(server, event, until)
    except _UndeliveredError as error:
        run_log().error(
            "The OpenLineage server did not accept the event of an audit (%s), and the events "
            "after it were not sent: check openlineage.url and its api_key. No record depends on "
            "it.",
            error,
        )


def _post(server: OpenLineageSettings, event: Mapping[str, Any], until: float) -> None:
    if time.monotonic() > until:
        raise _UndeliveredError(f"{_MOST:.0f} seconds have passed")
    headers = {"Content-Type": "application/json", "User-Agent": "privaudit"}
    if server.api_key is not None:
        headers["Authorization"] = f"Bearer {server.api_key.get_secret_value()}"
    body = json.dumps(event, allow_nan=False, sort_keys=True).encode()
    try:
        status = asyncio.run(answered(server.url, body, headers))
    except (httpx.HTTPError, TimeoutError, OSError) as error:
        raise _UndeliveredError(type(error).__name__) from None
    if not httpx.codes.is_success(status):
        raise _UndeliveredError(f"status {status}")
