"""The service as it is deployed: a real server, a work pool, workers, deploy/prefect.yaml."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import polars as pl

from tests.support.postgresql import children, free_port
from workers.patience import Patience
from workers.warehouse.store import Warehouse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.executable).parent


@dataclass
class Service:
    """A running service, the site that it audits, and its workers, the oldest first."""

    site: pathlib.Path
    api: str
    environment: dict[str, str]
    warehouse: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

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
        """Ask the server, again while its database is locked (503) or starts again (500)."""

        def ask() -> httpx.Response:
            answer = httpx.request(method, f"{self.api}{path}", json=content, timeout=30)
            return answer.raise_for_status()

        def away(error: Exception) -> bool:
            return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in {
                500,
                503,
            }

        return Patience(attempts=6, first=0.5, longest=8.0).retry(ask, away)

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

    def audits(self) -> pl.DataFrame:
        return Warehouse(self.warehouse).scan("audits").collect()

    def start_worker(self) -> None:
        """Start one more worker of the pool."""
        # A worker started from a script ignores signals unless it is given the default handlers.
        self.workers.append(
            subprocess.Popen(
                [BIN / "prefect", "worker", "start", "--pool", "privaudit"],
                cwd=self.site, env=self.environment, start_new_session=True,
                stdout=(self.site / "worker.log").open("ab"), stderr=subprocess.STDOUT,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )
        )  # fmt: skip

    def kill_worker(self) -> None:
        """Kill the worker and the flow runs that it started, as a lost machine would."""
        kill_with_children(self.workers.pop())


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    for one in [*children(process.pid), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    process.wait()


def until(found: Callable[[], Any], seconds: float) -> Any:
    """Return what `found` returns as soon as it is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"Nothing came within {seconds} seconds.")


@contextlib.contextmanager
def running(site: pathlib.Path, home: pathlib.Path, database: str) -> Iterator[Service]:
    """Run a server and a worker with everything of deploy/ on it.

    Args:
        site: folder of `privaudit.toml` and the logs of server and workers.
        home: Prefect's folder.
        database: of the server.
    """
    port = free_port()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "PRIVAUDIT"))}
    environment = kept | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        # Else the worker asks every ten seconds, and schedules are looked at each minute.
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "5",
        "PRIVAUDIT_HOME": str(ROOT),
        "PRIVAUDIT_CONFIG": str(site / "privaudit.toml"),
        "PRIVAUDIT_WORK_POOL": "privaudit",
        "PRIVAUDIT_TIME_ZONE": "Europe/Amsterdam",
    }
    log = (site / "server.log").open("ab")
    server = subprocess.Popen(
        [BIN / "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    place = str(site / "warehouse")
    service = Service(site, environment["PREFECT_API_URL"], environment, place)

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
        service.command("prefect", "automation", "create", "--from-file", "deploy/automations.yaml")
        service.start_worker()
        yield service
    finally:
        for process in (*service.workers, server):
            kill_with_children(process)
