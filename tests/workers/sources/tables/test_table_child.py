"""Questions about tables reach a child, and its answers come back as if it were this process."""

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.sources.tables import table_child
from workers.sources.tables.table_child import answering, ask

DELTA, ICEBERG = (f"workers.sources.tables.{name}" for name in ("delta_log", "iceberg_metadata"))
NEEDED = {"AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS"}
CATALOGUES = {"PGPASSWORD"}
OTHERS = {
    "PRIVAUDIT_DATABASE_SCORES", "PRIVAUDIT_WEBHOOK__SECRET", "PRIVAUDIT_PUBLICATION__KEY",
    "MLFLOW_TRACKING_TOKEN", "PREFECT_API_KEY", "RAY_AUTH_TOKEN", "PYICEBERG_CATALOG__X__TOKEN",
    "DATABASE_URL", "GITHUB_TOKEN", "HTTP_PROXY_PASSWORD",
}  # fmt: skip


def behave(how: str) -> Any:
    """Do what a table makes its reader do; runs in the contained process."""
    if how == "refuse":
        raise NotEvaluableError(Reason.TABLE_UNSUPPORTED, "No such table.")
    if how == "away":
        raise TransientError("Storage is away.")
    if how == "terminal":
        raise TerminalError("Nothing is installed.")
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
        return [sorted(os.environ), *map(_read, ("self", str(os.getppid())))]
    return os.environ.get(how)


def _read(process: str) -> str:
    try:
        return pathlib.Path(f"/proc/{process}/environ").read_text()
    except PermissionError:
        return "closed"


answer = answering(behave)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "TABLE_SECONDS", 2)
    monkeypatch.setitem(table_child._VARIABLES, __name__, table_child._VARIABLES[DELTA])
    table_child._contained.cache_clear()
    yield
    table_child._contained.cache_clear()


def asked(how: str) -> Any:
    return ask(__name__, "The table t", "behave", how=how)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("refuse", NotEvaluableError, r"^No such table\.$"),
        ("away", TransientError, r"^Storage is away\.$"),
        ("terminal", TerminalError, r"^Nothing is installed\.$"),
        ("exit", NotEvaluableError, "raised SystemExit"),
        ("die", NotEvaluableError, "SIGABRT"),
        ("grow", NotEvaluableError, "took over 2 GiB of memory"),
        ("wait", NotEvaluableError, "took over 2 seconds"),
    ],
)
def test_however_a_reader_ends_its_caller_gets_a_sentence(
    how: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        asked(how)


def test_a_reader_has_this_processes_environment_as_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value in ("first", "second"):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", value)
        assert asked("AWS_SECRET_ACCESS_KEY") == value
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert asked("AWS_SECRET_ACCESS_KEY") is None


@pytest.mark.parametrize(("module", "given"), [(DELTA, NEEDED), (ICEBERG, NEEDED | CATALOGUES)])
def test_a_reader_is_given_the_variables_that_it_needs_and_no_others(
    monkeypatch: pytest.MonkeyPatch, module: str, given: set[str]
) -> None:
    monkeypatch.setitem(table_child._VARIABLES, __name__, table_child._VARIABLES[module])
    planted = NEEDED | CATALOGUES | OTHERS
    for name in planted | {"https_proxy"}:
        monkeypatch.setenv(name, f"planted-{name}")
    variables, own, parents = asked("environment")
    assert planted & set(variables) == given
    assert "https_proxy" in variables
    assert "planted" not in own + parents
