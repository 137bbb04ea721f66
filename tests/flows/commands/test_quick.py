"""Modules that a command loads: those that only read skip Ray and Prefect, which take seconds."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.support.lake import DAY, PLAN, write_settings
from tests.support.warehouse import evaluated
from tests.workers.audit.test_label_check import honest
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.warehouse.nights_together import commit_nights
from workers.warehouse.store import Warehouse

HEAVY = ("ray._raylet", "prefect", "scipy.stats", "altair", "httpx._client", "numba", "pandas",
         "catboost", "torch", "sklearn")  # fmt: skip
CALL = f"""
import sys
from flows.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print("LOADED", code, *[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
ASKED_OF_LABELS = ("--true", "y", "--released", "z", "--epsilon", "1", "--record", "id")
ASKED = {
    "show": (["show"], set()),  # what nights say together is stored
    "sql": (["sql", "select count(*) from audits"], set()),
    "explain": (["explain", "--epsilon", "1"], {"numba"}),
    "verify": (["verify", "--stored"], {"scipy.stats", "numba", "pandas"}),
    "check": (["check"], {"scipy.stats", "numba", "pandas"}),
    "check-labels": (
        ["check-labels", "day.parquet", *ASKED_OF_LABELS],
        {"scipy.stats", "numba", "pandas"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_a_look_loads_neither_ray_nor_prefect(
    lake,  # noqa: ARG001  # there is one
    tmp_path,
    asked,
):
    write_settings(tmp_path, ["good"])
    commit_nights(Warehouse(str(tmp_path / "warehouse")), [evaluated("good", DAY)])
    honest(np.random.default_rng(1), 3_000).write_parquet(tmp_path / "day.parquet")
    arguments, allowed = ASKED[asked]
    assert loaded_by(arguments, tmp_path) <= allowed


def loaded_by(arguments, folder):
    """Return what of the heavy is loaded when a command has ended well."""
    done = subprocess.run(
        [sys.executable, "-c", CALL, *arguments],
        cwd=folder, capture_output=True, text=True, check=True, timeout=300,
        # A server that another test of this session started has none of our deployments.
        env={name: value for name, value in os.environ.items() if not name.startswith("PREFECT")},
    )  # fmt: skip
    said = done.stderr.splitlines()[-1].split()
    assert said[:2] == ["LOADED", "0"], done.stdout + done.stderr
    return set(said[2:])


@pytest.mark.slow
def test_a_small_audit_is_verified_without_ray_and_prefect(lake, tmp_path):
    write_settings(tmp_path, ["good"])
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    key = warehouse.digest_key()
    record = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess(), digest_key=key)
    warehouse.commit([record])
    heavy = loaded_by(["verify", record.audit.audit_id], tmp_path)
    assert heavy & {"ray._raylet", "prefect", "altair"} == set()
