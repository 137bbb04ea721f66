"""Logins, figures and reports on users go to no host that the settings do not name."""

import contextlib
import os
import subprocess
import sys
import types

import httpx
import prefect
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.commands import checks
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import evaluated, put_rows
from workers import isolation
from workers.warehouse.store import Warehouse


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
@pytest.mark.parametrize("said", ["", "intern.example"])
def test_what_is_sent_to_this_machine_passes_no_proxy(monkeypatch, name, said):
    """Alerts with figures went to a company's proxy, not encrypted."""
    monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", said)
    monkeypatch.setenv("no_proxy", "")
    isolation.keep_private()
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            chosen = client._transport_for_url(httpx.URL(f"http://{host}:9/hook"))
            assert chosen is client._transport
        elsewhere = client._transport_for_url(httpx.URL("http://hooks.example/"))
        assert elsewhere is not client._transport


@pytest.mark.parametrize("password", [None, "audit:hunter2"])
def test_check_tells_that_a_server_of_prefect_asks_for_no_password(monkeypatch, password):
    """Any web page could start flows by a person's browser: its pages answer all origins."""
    found = types.SimpleNamespace(
        api_healthcheck=lambda: None,
        read_deployment_by_name=lambda _: types.SimpleNamespace(work_pool_name=None),
    )
    monkeypatch.setattr(checks, "_may_name_a_server", lambda: True)
    monkeypatch.setattr(prefect, "get_client", lambda **_: contextlib.nullcontext(found))
    address = {PREFECT_API_URL: "http://127.0.0.1:4200/api", PREFECT_API_AUTH_STRING: password}
    with temporary_settings(address):
        assert ("asks for no password" in checks._prefect()) == (password is None)


CALL = """
import socket, sys, time
tried = []
def note(place):
    if not str(place).startswith(("127.", "::1", "localhost", "/")):
        tried.append(place)
        raise OSError("There is no network.")
def connecting(self, address, *more):
    note(address if self.family == socket.AF_UNIX else address[0])
    return connect(self, address, *more)
def resolving(host, *more, **how):
    note(host)
    return resolve(host, *more, **how)
connect, resolve = socket.socket.connect, socket.getaddrinfo
socket.socket.connect, socket.getaddrinfo = connecting, resolving
from flows.cli import main
import flows.run.nightly  # defines flows, as every command that audits does
from prefect._internal.analytics.enabled import is_telemetry_enabled
try:
    main()
except SystemExit as end:
    print("ENDED", end.code)
time.sleep(1.0)  # for who would send from a thread
print("TRIED", tried, is_telemetry_enabled())
"""


@pytest.mark.slow
def test_nothing_is_sent_by_the_libraries_that_could(tmp_path):
    """Prefect brings amplitude-analytics along, and would send from a terminal of no CI."""
    write_settings(tmp_path, ["good"])
    put_rows(Warehouse(str(tmp_path / "warehouse")), [evaluated("good", DAY)])
    told = {"CI", "DO_NOT_TRACK", "GITHUB_ACTIONS", "PREFECT_SERVER_ANALYTICS_ENABLED"}
    environment = {name: value for name, value in os.environ.items() if name not in told}
    done = subprocess.run(
        [sys.executable, "-c", CALL, "show"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == ["ENDED 0", "TRIED [] False"], done.stderr
