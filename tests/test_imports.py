"""Modules that an import or a quick command must not load, because each call would wait for them.

docs/evidence/performance.md has what the imports take.
"""

import ast
import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from tests.test_architecture import ROOT

MATHEMATICS = {"dp_accounting", "numba", "scipy"}
SERVICE = {
    "altair", "catboost", "deltalake", "duckdb", "httpx", "jinja2", "polars", "prefect", "pyarrow",
    "pydantic", "ray", "vl_convert", "yaml",
}  # fmt: skip
ROOMS = ("attacks", "guarantees", "lower_bounds", "mechanisms", "upper_bounds")
PROVING = """
import workers.audit.proving
from privcore.lower_bounds import audit_probabilities
from privcore.guarantees import mechanism_from_manifest
"""
HELP = """
import privaudit
sys.argv = ["privaudit", "--help"]
try:
    privaudit.main()
except SystemExit:
    pass
"""


def loaded(statement: str) -> set[str]:
    """Return the modules that a new process has loaded after the statement."""
    probe = f"import sys\n{statement}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("statement", "needless"),
    [
        (f"from privcore import {', '.join(ROOMS)}", MATHEMATICS | {"numpy"}),
        # What scans and proves: each of a night's processes imports it.
        (PROVING, {"dp_accounting", "scipy.optimize", "scipy.stats"}),
        (HELP, MATHEMATICS | SERVICE | {"numpy"}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement, needless):
    seen = loaded(statement)
    assert len(seen) > 20
    assert seen & needless == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_package_lists_is_there(room):
    package = importlib.import_module(f"privcore.{room}")
    assert len(package.__all__) > 5
    # A function that has its module's name is the function, whichever was imported first.
    for module in (ROOT / "privcore" / room).glob("[a-z]*.py"):
        importlib.import_module(f"privcore.{room}.{module.stem}")
    modules = {name for name in package.__all__ if isinstance(getattr(package, name), ModuleType)}
    assert modules == set()


def test_what_is_lazy_is_listed_alike_for_people_and_for_python():
    stubs = sorted((ROOT / "privcore").rglob("__init__.pyi"))
    assert ROOT / "privcore" / "__init__.pyi" in stubs
    for stub in stubs:
        body = ast.parse(stub.read_text(encoding="utf-8")).body
        imported = {
            alias.name for each in body if isinstance(each, ast.ImportFrom) for alias in each.names
        }
        (listed,) = (each.value for each in body if isinstance(each, ast.Assign))
        assert imported == set(ast.literal_eval(listed))
