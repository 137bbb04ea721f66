"""What runs that were killed held keeps no later run waiting."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.lake import write_settings

SCRIPT = """
import sys
import prefect
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from flows.run.auditing import LIMIT, begin
from flows.settings import load_settings

with prefect.get_client(sync_client=True) as client:
    client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=LIMIT, limit=4))
    client.increment_concurrency_slots([LIMIT], 4, "concurrency")  # by four that were killed
    assert client.read_global_concurrency_limit_by_name(LIMIT).active_slots == 4
    begin(load_settings(sys.argv[1]))
    assert client.read_global_concurrency_limit_by_name(LIMIT).active_slots == 0
with concurrency(LIMIT, timeout_seconds=60.0):
    print("a slot is free")
"""


@pytest.mark.slow
def test_runs_that_were_killed_keep_nobody_waiting(tmp_path: pathlib.Path) -> None:
    write_settings(tmp_path, ["good"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "privaudit.toml")],
        env=kept | {"PREFECT_HOME": str(tmp_path / "prefect")},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "a slot is free\n"), done.stderr
