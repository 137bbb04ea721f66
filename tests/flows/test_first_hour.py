"""A stranger's first hour with own data: the commands of docs/tutorial/first-audit.md, typed."""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import termios
import zipfile

import lightgbm
import numpy as np
import pytest

from tests.support.own_files import write_own_files
from tests.support.score_tables import score_rows
from tests.test_architecture import ROOT

pytestmark = pytest.mark.slow
COLUMNS = 40


def commands():
    """Return the commands of the page's block that begins with `privaudit init`."""
    page = (ROOT / "docs" / "tutorial" / "first-audit.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(privaudit init\n.*?)```", page, flags=re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """Return a folder with two days of somebody's own rows and models, and nothing else."""
    folder = tmp_path_factory.mktemp("a stranger's folder")
    write_own_files(folder)
    return folder


def _check_description(wheel):
    """See that the page of an index shows no picture and no link to what is not there."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        told = archive.read(name).decode()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    near = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)")
    assert near.findall(told) == []
    assert near.findall(readme)
    assert all(words in told for words in near.findall(readme))
    assert "Description-Content-Type: text/markdown" in told


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("installed"), "service")


def installed(place, extras):
    """Return the environment of somebody who has just installed the wheel, and nothing else."""
    uv = str(pathlib.Path(sys.executable).with_name("uv"))
    # What the lock names, so that the test is of our code and not of the day's releases.
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^[a-z0-9][^\\\n]*==[^\\\n]+", lock, flags=re.MULTILINE)
    (place / "constraints.txt").write_text("\n".join(pinned), encoding="utf-8")
    python = place / "venv" / "bin" / "python"
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", place, ROOT], check=True)
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place / "venv"], check=True)
    (wheel,) = place.glob("*.whl")
    _check_description(wheel)
    subprocess.run(
        [
            uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[{extras}]",
            "--constraint", place / "constraints.txt",
        ],
        check=True, cwd=place,
    )  # fmt: skip
    # Ours, and the size of a terminal that pytest-xdist tells its workers.
    ours = ("PRIVAUDIT", "PREFECT", "RAY", "NUMBA", "PYTHON", "VIRTUAL_ENV", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    (place / "home").mkdir()
    path = f"{python.parent}:/usr/local/bin:/usr/bin:/bin"
    return kept | {"PATH": path, "HOME": str(place / "home"), "NO_COLOR": "1"}


def typed(command, folder, environment):
    """Run a command without a terminal, as bash does."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


def on_a_terminal(command, folder, environment):
    """Run a command on a terminal of 40 columns; what it shows, without its colours."""
    mine, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, COLUMNS))
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(mine, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(mine)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    return process.wait(timeout=900), text


def test_the_light_door_audits_ones_own_tables_in_few_packages(tmp_path):
    """Of its 865 MB, numba, polars, pyarrow, scipy and deltalake are 800."""
    light = installed(tmp_path, "tables,lightgbm")
    listed = typed("ls -d venv/lib/*/site-packages/*.dist-info", tmp_path, light).stdout.split()
    packages = {pathlib.Path(one).name.partition("-")[0].lower() for one in listed}
    assert len(packages) <= 40
    assert packages.isdisjoint({"ray", "prefect", "catboost", "duckdb", "sqlalchemy", "altair"})
    assert int(typed("du -sm venv", tmp_path, light).stdout.split()[0]) <= 900
    rows = score_rows(np.random.default_rng(0), 4_000, leak=3.0)
    rows.write_parquet(tmp_path / "rows.parquet")
    rows.with_columns(released="clicked").write_csv(tmp_path / "rows.csv")
    rows.write_delta(tmp_path / "delta")
    for number, table in enumerate(("rows.parquet", "rows.csv", "delta")):
        columns = "--target p_today --proxy p_yesterday --split split --day-column day"
        asked = f"privaudit attach {table} --name m{number} --label clicked {columns} --epsilon 1"
        done = typed(asked, tmp_path, light)
        assert (done.returncode, "violated" in done.stdout) == (1, True), done
    label, odds = rows["clicked"].to_numpy(), rows["p_yesterday"].to_numpy()[:, np.newaxis]
    for name, first in (("target.txt", 0), ("proxy.txt", 2_000)):
        part = slice(first, first + 2_000)
        data = lightgbm.Dataset(odds[part], label[part], feature_name=["p_yesterday"])
        quiet = {"objective": "binary", "verbosity": -1, "num_threads": 1}
        lightgbm.train(quiet, data, 5).save_model(tmp_path / name)
    asked = "privaudit gate --target target.txt --proxy proxy.txt --table rows.parquet"
    done = typed(f"{asked} --label clicked --split split --max-epsilon 8", tmp_path, light)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done
    asked = "privaudit check-labels rows.csv --true clicked --released released --record row"
    done = typed(f"{asked} --epsilon 1", tmp_path, light)
    assert (done.returncode, "violated" in done.stdout) == (1, True), done


def test_the_hour(hour, environment):
    where = "python -c 'import privaudit, sys; print(privaudit.__file__, sys.prefix)'"
    assert str(ROOT) not in typed(where, hour, environment).stdout
    said = commands()
    assert len(said) <= 10
    for command in said:
        done = typed(command, hour, environment)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        assert all(line.strip() for line in done.stdout.splitlines()), command
    (audit,) = json.loads(typed("privaudit show --json", hour, environment).stdout)
    assert (audit["verdict"], audit["epsilon_declared"]) == ("not_refuted", 2.0)
    short = typed("privaudit show", hour, environment).stdout.split()
    assert audit["audit_id"][:8] in short
    intact = typed(f"privaudit verify {audit['audit_id'][:8]} --stored", hour, environment)
    assert (intact.returncode, "intact" in intact.stdout) == (0, True)

    code, shown = on_a_terminal("privaudit show", hour, environment)
    assert code == 0
    lines = [line for line in shown.splitlines() if "2026-03-02" in line]
    assert [line.split()[:3] for line in lines] == [["ads-ctr", "not_refuted", "2026-03-02"]]
    assert all(len(line) <= COLUMNS for line in lines)
