"""The walk from PostgreSQL to dbt in deploy/bank: its table, its settings, its night's commands."""

import ast
import datetime as dt
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from flows.settings import load_settings
from tests.support.postgresql import postgresql
from workers.sources.scores.supplied import SuppliedScores, find_scores

BANK = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "bank"


def test_the_page_shows_these_settings():
    page = (BANK.parents[1] / "docs" / "how-to" / "warehouse-sql.md").read_text()
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() in (BANK / "privaudit.toml").read_text()


@pytest.mark.slow
def test_the_nights_steps_are_commands_that_there_are():
    tree = ast.parse((BANK / "credit_night.py").read_text())
    (night,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "NIGHT"  # type: ignore[attr-defined]
    ]
    assert list(night) == ["score", "audit", "export", "test"]
    for command in (night["audit"], night["export"]):
        asked = shlex.split(command.partition("||")[0].replace("{{ macros.ds_add(ds, -1) }}", "D"))
        helped = subprocess.run(
            [pathlib.Path(sys.executable).with_name(asked[0]), asked[1], "--help"],
            capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "200"},
        ).stdout  # fmt: skip
        assert all(word in helped for word in asked[2:] if word.startswith("--"))


@pytest.mark.slow
def test_the_table_is_what_the_settings_ask_for(tmp_path, monkeypatch):
    shutil.copy(BANK / "privaudit.toml", tmp_path)
    (model,) = load_settings(tmp_path / "privaudit.toml").models
    assert model.scores is not None
    with postgresql("risk") as server:
        monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", server.uri())
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        subprocess.run([sys.executable, BANK / "train.py"], check=True)
        find_scores(model.name, dt.date(2026, 3, 2), SuppliedScores(model.scores))
