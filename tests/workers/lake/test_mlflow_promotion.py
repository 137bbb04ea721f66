"""Only a version that holds the audited bytes is promoted: its tags first, then its alias."""

import contextlib
import hashlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from privcore.exceptions import TerminalError, TransientError
from tests.support.mlflow_stub import Registry, mlflow_stub
from workers import patience
from workers.exceptions import NotEvaluableError
from workers.lake.mlflow_registry import Version, check_version, promote

SHA256 = hashlib.sha256(b"a model").hexdigest()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    for name in ("REGISTRY_URI", "TRACKING_TOKEN", "TRACKING_USERNAME", "TRACKING_PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    monkeypatch.setattr(patience, "time", SimpleNamespace(sleep=lambda _: None))
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
        registry.register("ads", "today", "flavors:\n  xgboost:\n    data: model.ubj\n", b"a model")
        yield registry


def test_tags_are_written_before_the_alias_moves(registry: Registry) -> None:
    check_version(Version("ads", "1"), SHA256)
    promote(Version("ads", "1", "production"), {"privaudit.gate": "pass"})
    named = {"name": "ads", "version": "1"}
    assert registry.written == [
        ("model-versions/set-tag", named | {"key": "privaudit.gate", "value": "pass"}),
        ("registered-models/alias", named | {"alias": "production"}),
    ]
    assert set(registry.told) == {"Bearer secret"}


def test_another_file_and_a_missing_version_are_refused(registry: Registry) -> None:
    with pytest.raises(TerminalError, match="holds another model file"):
        check_version(Version("ads", "1"), "0" * 64)
    with pytest.raises(TerminalError, match="has no version 2 of ads"):
        check_version(Version("ads", "2"), SHA256)
    with pytest.raises(TerminalError, match="does not take model-versions/set-tag"):
        promote(Version("ads", "2", "production"), {"privaudit.gate": "pass"})
    assert registry.written == []


def test_a_busy_registry_is_asked_again_and_one_that_refuses_is_not(registry: Registry) -> None:
    registry.fails = [503]
    promote(Version("ads", "1"), {"privaudit.gate": "pass"})
    assert len(registry.written) == 1
    registry.fails = [403]
    with pytest.raises(NotEvaluableError, match="refuses access"):
        promote(Version("ads", "1"), {"privaudit.gate": "pass"})
    registry.fails = [503] * 50
    with pytest.raises(TransientError):
        promote(Version("ads", "1", "production"), {})
    assert len(registry.written) == 1


@pytest.mark.parametrize(("code", "taken"), [("null", True), ("code", False)])
def test_a_version_that_mlflow_serves_with_code_is_not_promoted(
    monkeypatch: pytest.MonkeyPatch, code: str, *, taken: bool
) -> None:
    """Its folder comes before MLflow's own modules, and may hold another `xgboost`."""
    serves = f"  python_function:\n    loader_module: mlflow.xgboost\n    code: {code}\n"
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        flavors = f"flavors:\n  xgboost:\n    data: model.ubj\n{serves}"
        registry.register("ads", "today", flavors, b"a model")
        refused = pytest.raises(TerminalError, match="with code of its own")
        with contextlib.nullcontext() if taken else refused:
            check_version(Version("ads", "1"), hashlib.sha256(b"a model").hexdigest())
