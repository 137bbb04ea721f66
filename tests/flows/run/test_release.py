"""The flow `release-audit`: one committed row, one page, and bad input in one sentence."""

import pathlib
import sys

import pytest

from flows.run.release import release_audit
from flows.run.start import start
from privcore.exceptions import InvalidInputError
from tests.support.lake import write_settings
from tests.workers.release.test_release_attack import frame
from workers.warehouse.release_row import ReleaseRow
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")

SYSTEM = """
import polars as pl
import numpy as np
from privcore.mechanisms import KLaplace, ProtectedTable
from workers.release.table import as_table

calls = []

def api():
    table = as_table(pl.read_csv("staff.csv"))
    return ProtectedTable(table.cells, table.columns, KLaplace(), np.random.default_rng(0))

def flaky():
    calls.append(1)
    if len(calls) < 3:
        raise ConnectionError("restarting")
    return api()
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder with settings, a table and a system that answers about it."""
    write_settings(tmp_path, ["good"])
    frame().write_csv(tmp_path / "staff.csv")
    (tmp_path / "flow_system.py").write_text(SYSTEM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "flow_system", raising=False)
    return tmp_path


def committed(folder: pathlib.Path) -> list[dict[str, object]]:
    return Warehouse(str(folder / "warehouse")).scan("release_audits").collect().to_dicts()


def test_a_table_is_attacked_committed_once_and_published(folder: pathlib.Path) -> None:
    given = {"definition": "idp", "settings": str(folder / "privaudit.toml")}
    row: ReleaseRow = start(release_audit, table=str(folder / "staff.csv"), **given)
    again: ReleaseRow = start(release_audit, table=str(folder / "staff.csv"), **given)
    assert row.verdict == "reconstructed"
    (only,) = committed(folder)
    assert only["audit_id"] == row.audit_id == again.audit_id
    page = (folder / "report" / "releases.html").read_text(encoding="utf-8")
    assert "staff.csv: reconstructed" in page
    assert "releases.html" in (folder / "report" / "index.html").read_text(encoding="utf-8")


def test_a_live_system_is_attacked_beside_it(folder: pathlib.Path) -> None:
    given = {"definition": "idp", "settings": str(folder / "privaudit.toml")}
    alone = start(release_audit, table=None, interface="flow_system:api", **given)
    beside = start(release_audit, table="staff.csv", interface="flow_system:api", **given)
    assert (alone.verdict, alone.records_asked_again) == ("reconstructed", 60)
    assert (beside.verdict, beside.records_asked_again) == ("reconstructed", None)
    assert [row["interface"] for row in committed(folder)] == ["flow_system:api"] * 2
    page = (folder / "report" / "releases.html").read_text(encoding="utf-8")
    assert page.count("Answered by <code>flow_system:api</code>") == 2
    assert page.count("by asking about 60 records again") == 3  # twice in words, once in the list


def test_a_system_that_comes_back_is_tried_again(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.run.release._ask.retry_delay_seconds", 0)
    row = start(
        release_audit,
        table=None,
        interface="flow_system:flaky",
        definition="idp",
        settings=str(folder / "privaudit.toml"),
    )
    assert row.verdict == "reconstructed"
    assert len(sys.modules["flow_system"].calls) == 3


def test_bad_input_is_one_sentence_and_no_record(folder: pathlib.Path) -> None:
    given = {"definition": "idp", "settings": str(folder / "privaudit.toml")}
    for more, words in (
        ({"table": None}, "table is None"),
        ({"table": None, "interface": "a:b", "targets": ({"age": "3"},)}, "table is None"),
        ({"table": "none.csv"}, "cannot be read"),
        ({"table": None, "interface": "no_system:api"}, "cannot be imported"),
        ({"table": "staff.csv", "k": 2}, "only group_idp has a group size"),
    ):
        with pytest.raises((InvalidInputError, ValueError), match=words):
            start(release_audit, **given | more)
    assert committed(folder) == []
