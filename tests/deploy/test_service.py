"""The service as it is deployed: a real server, a work pool, a worker, deploy/prefect.yaml.

server -- schedules and runs -- worker -- process per flow run -- lake, warehouse, report
"""

import contextlib
import datetime as dt
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import polars as pl
import pytest

from tests.support.lake import MEMORISE, declared, label_rows, put_labels, put_model, write_settings
from tests.support.postgresql import children, free_port, postgresql
from workers.lake.layout import Lake
from workers.patience import Patience
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.executable).parent
YESTERDAY = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
DAYS = [YESTERDAY - dt.timedelta(days=back) for back in range(13, -1, -1)]
KEPT, BROKEN = "ads-ctr", "mail-open"


@dataclass
class Service:
    """A running service, and the site that it audits."""

    site: pathlib.Path
    api: str
    environment: dict[str, str]
    worker: subprocess.Popen[bytes]

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [BIN / words[0], *words[1:]], cwd=ROOT, env=self.environment,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def get(self, path: str) -> Any:
        return self._ask("GET", path).json()

    def post(self, path: str, **content: Any) -> Any:
        answer = self._ask("POST", path, content)
        return answer.json() if answer.content else None

    def patch(self, path: str, **content: Any) -> None:
        self._ask("PATCH", path, content)

    def _ask(self, method: str, path: str, content: Any = None) -> httpx.Response:
        """Ask the server, again while its SQLite is locked: it says 503 and has done nothing."""

        def ask() -> httpx.Response:
            answer = httpx.request(method, f"{self.api}{path}", json=content, timeout=30)
            return answer.raise_for_status()

        def locked(error: Exception) -> bool:
            return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 503

        return Patience(attempts=6, first=0.5, longest=8.0).retry(ask, locked)

    def deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/deployments/name/{name}")
        return found

    def start(self, name: str, **parameters: Any) -> str:
        deployment = self.deployment(name)
        run = self.post(
            f"/deployments/{deployment['id']}/create_flow_run",
            parameters=parameters, state={"type": "SCHEDULED"},
        )  # fmt: skip
        return str(run["id"])

    def run(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/flow_runs/{identity}")
        return found

    def ended(self, identity: str, *, seconds: float = 300) -> dict[str, Any]:
        def final() -> dict[str, Any] | None:
            run = self.run(identity)
            return run if run["state"]["type"] in {"COMPLETED", "FAILED", "CANCELLED"} else None

        return until(final, seconds)

    def artifacts(self, identity: str) -> dict[str, Any]:
        found = self.post(
            "/artifacts/filter",
            artifacts={"flow_run_id": {"any_": [identity]}}, limit=200,
        )  # fmt: skip
        return {f"{one['type']} {one['key'] or one['description']}": one["data"] for one in found}

    def audits(self) -> pl.DataFrame:
        return Warehouse(str(self.site / "warehouse")).scan("audits").collect()

    def start_worker(self) -> None:
        # A worker started from a script ignores signals unless it is given the default handlers.
        self.worker = subprocess.Popen(
            [BIN / "prefect", "worker", "start", "--pool", "privaudit"],
            cwd=self.site, env=self.environment, start_new_session=True,
            stdout=(self.site / "worker.log").open("ab"), stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )  # fmt: skip

    def kill_worker(self) -> None:
        """Kill the worker and the flow runs that it started, as a lost machine would."""
        for process in [*children(self.worker.pid), self.worker.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.worker.wait()


def until(found: Callable[[], Any], seconds: float) -> Any:
    """Return what `found` returns as soon as it is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(2)
    raise AssertionError(f"Nothing came within {seconds} seconds.")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with 16 days of two models: one keeps what it declares, one does not."""
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


@contextlib.contextmanager
def running(site: pathlib.Path, home: pathlib.Path, database: str | None) -> Iterator[Service]:
    """Run a server and a worker with everything of deploy/ on it."""
    port = free_port()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "PRIVAUDIT"))}
    environment = kept | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PRIVAUDIT_HOME": str(ROOT),
        "PRIVAUDIT_CONFIG": str(site / "privaudit.toml"),
        "PRIVAUDIT_WORK_POOL": "privaudit",
        "PRIVAUDIT_TIME_ZONE": "Europe/Amsterdam",
    }
    if database is not None:
        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
    log = (site / "server.log").open("ab")
    server = subprocess.Popen(
        [BIN / "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    service = Service(site, environment["PREFECT_API_URL"], environment, server)

    def healthy() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{service.api}/health").is_success
        return False

    try:
        until(healthy, 180)
        service.command("prefect", "work-pool", "create", "--type", "process", "privaudit")
        service.command(
            "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deploy/prefect.yaml"
        )
        service.command("privaudit", "automations", "deploy/automations.yaml")
        service.start_worker()
        yield service
        service.kill_worker()
    finally:
        for process in [*children(server.pid), server.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="module")
def service(site: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(site, tmp_path_factory.mktemp("prefect"), None) as started:
        yield started


def test_an_audit_on_demand_completes_with_artifacts_an_event_and_its_record(
    service: Service,
) -> None:
    identity = service.start("audit-model/on-demand", model=BROKEN, day=str(YESTERDAY))
    run = service.ended(identity)
    assert (run["state"]["type"], run["state"]["message"]) == ("COMPLETED", "1 violated.")
    artifacts = service.artifacts(identity)
    assert f"| {YESTERDAY} | mail-open |" in artifacts["markdown audit-model"]
    (bar,) = (data for name, data in artifacts.items() if name.startswith("progress "))
    assert bar == 100.0
    audits = service.audits().filter(pl.col("day") == YESTERDAY)
    assert audits.select("model", "verdict").rows() == [(BROKEN, "violated")]
    assert (service.site / "report" / "index.html").exists()

    def event() -> Any:
        told = service.post(
            "/events/filter",
            filter={"event": {"name": ["privaudit.claim.violated"]}, "occurred": {}},
        )
        return told["events"]

    (violated,) = until(event, 60)
    assert violated["payload"]["model"] == BROKEN
    assert violated["payload"]["audit_id"] == audits["audit_id"][0]
    assert violated["payload"]["figures"]["epsilon_declared"] == 0.01

    def units() -> list[Any]:
        logs = service.post("/logs/filter", logs={"flow_run_id": {"any_": [identity]}})
        return [log for log in logs if log["message"].startswith("event=work_unit_done ")]

    (unit,) = until(units, 60)
    assert f'models=["{BROKEN}"]' in unit["message"]
    assert unit["task_run_id"] is not None


def test_the_form_offers_every_field_of_the_plan(service: Service) -> None:
    schema = service.deployment("audit-model/on-demand")["parameter_openapi_schema"]
    assert set(schema["properties"]) == {"model", "day", "plan", "settings"}
    offered = schema["definitions"]["PlanOverrides"]["properties"]
    assert {"fractions", "repetitions", "score", "slices", "privacy_unit"} <= set(offered)


def test_plan_fields_given_on_demand_make_another_audit(service: Service) -> None:
    identity = service.start(
        "audit-model/on-demand", model=KEPT, day=str(YESTERDAY), plan={"repetitions": 3}
    )
    assert service.ended(identity)["state"]["type"] == "COMPLETED"
    audits = service.audits().filter((pl.col("model") == KEPT) & (pl.col("day") == YESTERDAY))
    assert audits["repetitions"].to_list() == [3]


def test_a_backfill_whose_worker_is_killed_is_run_again_with_one_record_each(
    service: Service,
) -> None:
    given = {"first": str(DAYS[0]), "last": str(DAYS[-1])}
    identity = service.start("backfill/on-demand", **given)
    until(lambda: service.audits().height >= 4, 200)
    service.kill_worker()
    assert service.run(identity)["state"]["type"] == "RUNNING"
    service.start_worker()
    run = service.ended(identity, seconds=500)
    assert run["state"]["type"] == "COMPLETED"
    assert run["run_count"] == 2
    usual = service.audits().filter(pl.col("repetitions") == 4)
    assert usual.height == len(DAYS) * 2
    assert usual.select("model", "day").is_unique().all()
    assert usual.group_by("model").len().sort("model").rows() == [(KEPT, 14), (BROKEN, 14)]

    before = service.audits().sort("audit_id")
    again = service.ended(service.start("backfill/on-demand", **given))
    assert again["state"]["type"] == "COMPLETED"
    assert again["state"]["message"] == "0 audits to do. 28 of 28 audits were committed before."
    assert service.audits().sort("audit_id").equals(before)


def test_the_schedule_fires_and_audits_the_day_before(service: Service) -> None:
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
    assert run["state"]["message"] == "1 violated, 1 consistent."
    started = dt.datetime.fromisoformat(run["expected_start_time"]).astimezone(dt.UTC).date()
    audited = f"Audits of {started - dt.timedelta(days=1)}"
    assert audited in service.artifacts(run["id"])["markdown nightly-audit"]


def test_a_day_without_audits_is_overdue_and_fails_its_flow(service: Service) -> None:
    long_ago = str(DAYS[0] - dt.timedelta(days=30))
    run = service.ended(service.start("overdue/production", day=long_ago))
    assert run["state"]["type"] == "FAILED"
    assert f"No audit of {KEPT}, {BROKEN} for {long_ago}" in run["state"]["message"]


def test_the_same_deployment_works_on_postgresql(
    site: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        postgresql("prefect") as server,
        running(site, tmp_path_factory.mktemp("prefect"), server.uri(driver="asyncpg")) as service,
    ):
        given = {"first": str(DAYS[0]), "last": str(DAYS[1])}
        run = service.ended(service.start("backfill/on-demand", **given, force=True))
        assert run["state"]["type"] == "COMPLETED"
        assert "2 violated, 2 consistent." in run["state"]["message"]
        assert "markdown backfill" in service.artifacts(run["id"])
