"""The strangers' round of 2026-11-27: what broke of the fifty attacks that were written down."""

import datetime as dt
import json
import pathlib

import pytest

from flows.commands.stored import stored_audit
from privcore.exceptions import TerminalError
from tests.support.lake import write_settings
from tests.support.warehouse import evaluated, put_rows
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.versions import METHOD_VERSION
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 1)
CODES = "\x1b[2J\u202e\nforged"


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder with settings and no lake, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        {"table": "s3://bucket/t?scheme=http&endpoint_override=127.0.0.1:9"},
        {"table": "/etc/mine.parquet"},
        {"table": "t", "database": "bank", "query": "select pg_sleep($1)", "record": "id"},
        {"table": "/rows", "earlier": [{"table": "s3://other", "column": "e"}], "record": "id"},
        {"table": "t", "catalog": "theirs"},
    ],
)
def test_a_record_sends_no_login_where_no_settings_say(
    place: pathlib.Path, source: dict[str, str]
) -> None:
    """A row that was forged had storage's keys sign requests to a host of its writer's choice."""
    tables = ScoreTables.model_validate({"label": "y", "target": "p", "proxy": "q", **source})
    given = SuppliedScores(tables).to_json()
    forged = evaluated("good", DAY, source=given, method_version=METHOD_VERSION)
    put_rows(Warehouse(str(place / "warehouse")), [forged])
    refusal = "which no model of the settings names"
    with pytest.raises(TerminalError, match=refusal), stored_audit(forged.audit.audit_id, None):
        pass


@pytest.mark.parametrize("folder", ["/etc", "s3://b/x?endpoint_override=h", "mlflow-artifacts:/x"])
def test_a_record_names_no_model_file_elsewhere(place: pathlib.Path, folder: str) -> None:
    file = {"day": str(DAY), "folder": folder, "name": "m.cbm", "format": "catboost"}
    source = json.dumps({"labels": {}, "privacy": None, "target": file})
    forged = evaluated("good", DAY, source=source, method_version=METHOD_VERSION)
    put_rows(Warehouse(str(place / "warehouse")), [forged])
    refusal = "that it read the folder"
    with pytest.raises(TerminalError, match=refusal), stored_audit(forged.audit.audit_id, None):
        pass
