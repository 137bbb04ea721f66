import os
import pathlib
import sys
from typing import Any

import pytest

from privcore.exceptions import TerminalError, TransientError
from tests.workers.test_isolation import CLOSED
from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables import table_child
from workers.sources.tables.table_child import answering, ask, place_of, properties_of, warehouse_of

DELTA, ICEBERG = (f"workers.sources.tables.{name}" for name in ("delta_log", "iceberg_metadata"))
NEEDED = {"AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS"}
CATALOGUES = {"PGPASSWORD"}
OTHERS = {
    "PRIVAUDIT_DATABASE_SCORES", "PRIVAUDIT_WEBHOOK__SECRET", "PRIVAUDIT_PUBLICATION__KEY",
    "MLFLOW_TRACKING_TOKEN", "PREFECT_API_KEY", "RAY_AUTH_TOKEN", "PYICEBERG_CATALOG__X__TOKEN",
    "DATABASE_URL", "GITHUB_TOKEN", "HTTP_PROXY_PASSWORD",
}  # fmt: skip


_REFUSALS = {
    "refuse": NotEvaluableError(Reason.TABLE_UNSUPPORTED, "No such table."),
    "away": TransientError("Storage is away."),
    "terminal": TerminalError("Nothing is installed."),
}


def behave(how: str) -> Any:
    """Do what a table makes its reader do; runs in the contained process."""
    if how in _REFUSALS:
        raise _REFUSALS[how]
    if how == "exit":
        sys.exit(0)
    if how == "die":
        os.abort()
    if how == "grow":
        return len(bytearray(64 << 30))
    if how == "wait":
        while True:
            pass
    if how == "environment":
        return [
            sorted(os.environ),
            *(_read(f"/proc/{process}/environ") for process in ("self", os.getppid())),
        ]
    if how.startswith("/"):
        return _read(how)
    return os.environ.get(how)


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except PermissionError:
        return "closed"


answer = answering(behave)


@pytest.fixture(autouse=True)
def small(limit, monkeypatch):
    limit("TABLE_SECONDS", 2)
    monkeypatch.setitem(table_child._VARIABLES, __name__, table_child._VARIABLES[DELTA])
    table_child._contained.cache_clear()
    yield
    table_child._contained.cache_clear()


def asked(how: str, places: Any = None) -> Any:
    return ask(__name__, "The table t", "behave", places=places, how=how)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("refuse", NotEvaluableError, r"^No such table\.$"),
        ("away", TransientError, r"^Storage is away\.$"),
        ("terminal", TerminalError, r"^Nothing is installed\.$"),
        ("exit", NotEvaluableError, "raised SystemExit"),
        ("die", NotEvaluableError, "SIGABRT"),
        ("grow", NotEvaluableError, "took over 4 GiB of memory"),
        ("wait", NotEvaluableError, "took over 2 seconds"),
    ],
)
def test_however_a_reader_ends_its_caller_gets_a_sentence(how, kind, words):
    with pytest.raises(kind, match=words):
        asked(how)


def test_a_reader_has_this_processes_environment_as_it_is_now(monkeypatch):
    for value in ("first", "second"):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", value)
        assert asked("AWS_SECRET_ACCESS_KEY") == value
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert asked("AWS_SECRET_ACCESS_KEY") is None


@pytest.mark.parametrize(("module", "given"), [(DELTA, NEEDED), (ICEBERG, NEEDED | CATALOGUES)])
def test_a_reader_is_given_the_variables_that_it_needs_and_no_others(monkeypatch, module, given):
    monkeypatch.setitem(table_child._VARIABLES, __name__, table_child._VARIABLES[module])
    planted = NEEDED | CATALOGUES | OTHERS
    for name in planted | {"https_proxy"}:
        monkeypatch.setenv(name, f"planted-{name}")
    variables, own, parents = asked("environment")
    assert planted & set(variables) == given
    assert "https_proxy" in variables
    assert "planted" not in own + parents


@CLOSED
def test_a_reader_reads_its_table_and_logins_and_no_other_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    properties = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/ware%20house",
        "auth": {"google": {"credentials_path": str(tmp_path / "google.json")}},
        "token": "//other/secret", "s3.region": "eu", "other": f"https://host{tmp_path}/labels",
    }  # fmt: skip
    given = {
        "catalog.db", "catalog.db-wal", "ware house/t/metadata", "google.json", "token",
        "home/.aws/credentials", "home/.config/gcloud/application_default_credentials.json",
    }  # fmt: skip
    others = {"labels", "other.db", "ware", "home/.ssh/id", "home/.config/other"}
    for name in given | others:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("said")
    read = {name for name in given | others if asked(f"{tmp_path}/{name}", properties) == "said"}
    assert read == given
    assert asked(f"{tmp_path}/labels", str(tmp_path / "ware house")) == "closed"


@pytest.mark.parametrize(
    ("address", "warehouse", "found"),
    [
        ("s3://b/w/t", None, ("s3://b", "w/t")),
        ("s3a://b/w/t", None, ("s3://b", "w/t")),
        ("s3://b/w/t", "s3://b/w?region=eu-west-1", ("s3://b/w?region=eu-west-1", "t")),
        ("gs://b/t", None, ("gs://b", "t")),
        (
            "abfss://c@a.dfs.core.windows.net/t", None,
            ("abfs://c@a.dfs.core.windows.net", "t"),
        ),
        ("hdfs://name:8020/w/t", "hdfs://name:8020/w", ("hdfs://name:8020/w", "t")),
        ("file:///w/t", "/w", ("/w", "t")),
        ("/w/t", "file:///w", ("/w", "t")),
    ],
)  # fmt: skip
def test_a_bucket_or_a_place_below_the_warehouse_is_read(address, warehouse, found):
    assert place_of(address, warehouse) == found


@pytest.mark.parametrize("warehouse", [None, "/w", "hdfs://name:8020/w", "s3://b/w"])
def test_a_host_of_the_tables_choice_is_refused(warehouse):
    for address in ("hdfs://other:8020/w/t", "hdfs://name:8020/wx", "/wx/t", "s3://b:80/w/t"):
        with pytest.raises(NotEvaluableError, match="not below the catalogue's warehouse"):
            place_of(address, warehouse)


def test_a_catalogue_is_described_by_the_environment_as_it_is(monkeypatch):
    assert properties_of("nobody") == {}
    for place, known in (("s3://b/w", "s3://b/w"), ("/w", "/w"), ("prod", None)):
        monkeypatch.setenv("PYICEBERG_CATALOG__NOBODY__WAREHOUSE", place)
        assert warehouse_of(properties_of("nobody")) == known
