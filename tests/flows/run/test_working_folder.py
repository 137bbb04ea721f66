"""The folder that privaudit is called in is a team's own: nothing of it is imported."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.lake import DAY

THEIRS = "raise SystemExit('this is somebody else\\'s')\n"


@pytest.mark.slow
@pytest.mark.usefixtures("twins")
def test_modules_of_the_working_folder_are_left_alone(tmp_path):
    for package in ("privcore", "workers", "flows", "prefect", "ray"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(THEIRS)
    (tmp_path / "json.py").write_text(THEIRS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    privaudit = pathlib.Path(sys.executable).parent / "privaudit"
    done = subprocess.run(
        [privaudit, "night", "--day", str(DAY), "--json"], cwd=tmp_path,
        env=kept | {"PREFECT_HOME": str(tmp_path / "home")},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    audited = [row["status"] for row in json.loads(done.stdout)]
    assert audited == ["evaluated"] * 2
    assert list((tmp_path / "report" / "models").rglob("*.html"))
