"""Libraries that could report on their users come along: none of them is given the chance."""

import os
import subprocess
import sys

import pytest

from tests.support.lake import DAY, write_settings
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse

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
