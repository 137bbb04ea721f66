"""Every command works in folders of any name, and imports nothing that lies in them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.support.lake import DAY, clone_model, write_settings

pytestmark = pytest.mark.usefixtures("in_process")

ODD = [("zoë #1", True), ('a "quoted" 100% über', False), ("a?b*c", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "by_uri"), ODD)
def test_a_project_lake_warehouse_and_report_of_any_name(
    name, by_uri, template, tmp_path, monkeypatch, privaudit
):
    project = tmp_path / name
    project.mkdir()
    shutil.copytree(template.uri, project / f"lake {name}")
    settings = write_settings(project, ["good"])
    text = settings.read_text(encoding="utf-8")
    for place in ("lake", "warehouse", "report"):
        where = project / f"{place} {name}"
        said = where.as_uri() if by_uri else where.name
        text = text.replace(f'{place} = "{place}"', f"{place} = {json.dumps(said)}")
    settings.write_text(text, encoding="utf-8")
    monkeypatch.chdir(project)

    def out(*arguments):
        answer = privaudit(*arguments)
        assert answer.code == 0, answer.err
        return answer.out

    ((audit),) = json.loads(out("run", "--model", "good", "--day", "2026-03-02", "--json"))
    assert audit["status"] == "evaluated"
    assert json.loads(out("show", "--json"))[0]["audit_id"] == audit["audit_id"]
    assert json.loads(out("sql", "select count(*) as n from audits", "--json")) == [{"n": 1}]
    (verified,) = json.loads(out("verify", audit["audit_id"], "--json"))
    assert verified["finding"] == "reproduced"
    (verified,) = json.loads(out("verify", "--stored", "--json"))
    assert verified["finding"] == "intact"
    out("report")
    assert (project / f"report {name}" / "models" / "good.html").is_file()
    files = json.loads(out("export", "--output", f"out {name}", "--json"))
    assert all(pathlib.Path(file).is_file() for file in files)
    out("compact")
    # Nothing was written anywhere else.
    assert sorted(path.name for path in project.iterdir()) == sorted(
        ["privaudit.toml", *(f"{place} {name}" for place in ("lake", "warehouse", "report", "out"))]
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


THEIRS = "raise SystemExit('this is somebody else\\'s')\n"


@pytest.mark.slow
def test_modules_of_the_working_folder_are_left_alone(lake, tmp_path):
    """The folder that privaudit is called in is a team's own: nothing of it is imported."""
    clone_model(lake, "other")
    write_settings(tmp_path, ["good", "other"])
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
