"""Nothing from the lake, the warehouse or the settings is ever run."""

import ast
import datetime as dt
import os
import pathlib
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

RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.execv", "os.execvp",
    "importlib.import_module", "runpy.run_path", "runpy.run_module", "code.interact",
    "yaml.load", "yaml.unsafe_load", "yaml.full_load", "pandas.read_pickle", "pd.read_pickle",
    "torch.load", "joblib.load", "pl.DataFrame.deserialize",
    "pl.LazyFrame.deserialize", "jinja2.Template",
}  # fmt: skip


def faults(source: str) -> list[str]:
    """Return every call of what runs or unpacks code, by name; test_architecture has imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in RUNS_CODE else []
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            found += ["shell=True"] if options.get("shell") == "True" else []
            found += ["allow_pickle"] if options.get("allow_pickle", "False") != "False" else []
            found += ["autoescape=False"] if options.get("autoescape") == "False" else []
            if name.endswith("load_model") and options.get("format") != "'cbm'":
                found.append("load_model without format='cbm'")
    return found


@pytest.mark.slow
def test_no_package_runs_what_it_reads():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 50
    found = {
        str(path.relative_to(ROOT)): faulty
        for path in files
        if (faulty := faults(path.read_text("utf-8")))
    }
    assert found == {
        # A study of our own by its name; an auditor that the user names, as for `python -m`.
        "flows/commands/study.py": ["importlib.import_module"],
        "flows/study/exam.py": ["importlib.import_module"],
        # XGBoost has JSON and UBJSON, and no format that could hold code.
        "workers/lake/formats/xgboost.py": ["load_model without format='cbm'"],
    }


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return eval(x)",
        "import yaml\nyaml.load(text)",
        "import os\nos.system(name)",
        "subprocess.run(name, shell=True)",
        "np.load(path, allow_pickle=True)",
        "model.load_model(path)",
        "model.load_model(blob=content, format='json')",
        "jinja2.Environment(autoescape=False)",
    ],
)
def test_the_search_finds_what_it_looks_for(source):
    assert faults(source)


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
