"""The two walks of docs/how-to/walks.md, typed from nothing in an empty folder."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.http_server import serving
from tests.support.rest_catalog import handler_of
from tests.test_architecture import ROOT
from tests.test_readme import commands

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "how-to" / "walks.md").read_text(encoding="utf-8")
HOSPITAL, ADS = (list(commands(part)) for part in PAGE.split("\n## ")[1:])


def typed(folder, lines):
    """Type commands in one shell in a folder that has the scripts; return what they print."""
    shutil.copytree(ROOT / "deploy" / "walks", folder / "deploy" / "walks")
    left_out = ("PREFECT", "PRIVAUDIT", "PYICEBERG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {"PATH": path, "HOME": str(folder / "home"), "COLUMNS": "100"}
    (folder / "home").mkdir()
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder, env=kept | given, capture_output=True, text=True, check=False, timeout=590,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr  # 1: a violation
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def results(printed, model):
    """Return bound and verdict of each row that is printed of a model."""
    found = re.findall(rf"^{model} +(\w+) +\S+ +([\d.]+) ", printed, flags=re.MULTILINE)
    return [(float(bound), verdict) for verdict, bound in found]


def test_a_hospital_types_its_walk(tmp_path):
    assert len(HOSPITAL) == 4
    first, second = results(typed(tmp_path, HOSPITAL), "readmission")
    assert first[1] == "undeclared"
    assert second[1] == "violated"
    (shown,) = results(PAGE, "readmission")
    assert second == (pytest.approx(shown[0], abs=0.1), shown[1])


def test_an_ads_team_types_its_walk_with_a_hundredth_of_the_rows(tmp_path):
    handler, asked = handler_of(tmp_path / "catalogue", "trial-token")
    with serving(handler) as address:
        lines = [line.replace("http://127.0.0.1:8181", address) for line in ADS]
        script = lines.index("python deploy/walks/ads_scores.py")
        lines[script] += " 100000"
        printed = typed(tmp_path, lines)
    (first, second) = results(printed, "ads")
    assert first == second
    assert first[0] > 0.5
    assert first[1] == "violated"
    assert "trial-token" not in printed
    assert any(path.endswith("/tables/scores") for path, _ in asked)
