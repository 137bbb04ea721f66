"""Nothing from the lake, the warehouse or the settings is ever run."""

import datetime as dt
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

import workers.audit.run
from tests.support.audits import run_audits
from tests.support.in_a_child import ends
from tests.support.lake import DAY, PLAN
from workers.audit.request import Request
from workers.executors import InProcess, OneChild, PanicError
from workers.lake.layout import Lake

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("privcore", "workers", "flows")


RUNS_CODE = re.compile(
    r"noqa:.*S(102|30[1-7]|506|60[245]|614|701)|import_module\(|load_model\((?!.*format=\"cbm\")"
    r"|allow_pickle|\.deserialize\(|code\.interact|run_path|jinja2\.Template"
)
"""What ruff finds (eval, shells, pickles, YAML), if it is excused; and what it does not find."""


def test_no_package_runs_what_it_reads():
    for line in ("eval(x)  # noqa: S307", "load(path, allow_pickle=True)", "one.load_model(path)"):
        assert RUNS_CODE.search(line)
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if RUNS_CODE.search(path.read_text("utf-8"))
    }
    assert found == {
        # A study of our own by its name; an auditor that the user names, as for `python -m`.
        "flows/commands/study.py",
        "flows/study/exam.py",
        # XGBoost has JSON and UBJSON, and no format that could hold code.
        "workers/lake/formats/xgboost.py",
    }


def test_a_reader_that_ends_the_process_ends_one_models_audit(lake, monkeypatch):
    """A library that is made to call sys.exit(0) would end the night as if all were well."""
    find = workers.audit.run.find_inputs

    def ending(lake: Lake, day: dt.date, request: Request) -> Any:
        if request.model == "bad":
            sys.exit(0)
        return find(lake, day, request)

    monkeypatch.setattr(workers.audit.run, "find_inputs", ending)
    requests = [Request("bad", PLAN), Request("good", PLAN)]
    bad, good = run_audits(lake, DAY, requests, executor=InProcess())
    assert (bad.audit.model, bad.audit.status) == ("bad", "error")
    assert "SystemExit" in bad.audit.reason
    assert good.audit.status == "evaluated"


def test_work_that_ends_its_process_is_an_error_of_that_work():
    with OneChild() as executor, pytest.raises(PanicError, match="SystemExit"):
        list(executor.map(ends, 0, [1]))


STARTS = """
import multiprocessing
import sys

import workers

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print, args=("ran",))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def test_no_process_of_a_command_runs_modules_of_the_working_folder(tmp_path):
    """Before, a spawned child ran `multiprocessing.py` of the folder in which a command started."""
    script, folder = tmp_path / "command" / "starts.py", tmp_path / "shared"
    script.parent.mkdir()
    folder.mkdir()
    script.write_text(STARTS)
    for name in ("json", "multiprocessing", "pickle", "polars", "socket"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONSAFEPATH"}
    ended = subprocess.run([sys.executable, script], cwd=folder, env=environment, check=False)
    assert ended.returncode == 0
    assert not (tmp_path / "ran").exists()
