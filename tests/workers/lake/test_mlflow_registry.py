"""Models of an MLflow registry, by a stub that answers as the real server was seen to."""

import base64
import pathlib
from collections.abc import Iterator

import pytest

from privcore.exceptions import TerminalError, TransientError
from tests.support.mlflow_stub import Registry, mlflow_stub
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import retries
from workers.lake.mlflow_registry import find_registered, read_artifact

XGBOOST = (
    "flavors:\n  python_function:\n    loader_module: mlflow.xgboost\n  xgboost:\n    data: {}\n"
)
ADDRESS = "models:/ads@2026-03-02"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    for name in ("REGISTRY_URI", "TRACKING_TOKEN", "TRACKING_USERNAME", "TRACKING_PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{registry.address}/")
        yield registry


def register(registry: Registry, **more: str) -> None:
    registry.register("ads", "2026-03-02", XGBOOST.format("model.ubj"), b"a model", **more)


def refused(address: str = ADDRESS) -> NotEvaluableError:
    with pytest.raises(NotEvaluableError) as caught:
        find_registered(address)
    return caught.value


@pytest.mark.parametrize(
    ("flavor", "data"),
    [
        ("xgboost", "model.ubj"),
        ("xgboost", "model.json"),
        ("lightgbm", "model.lgb"),
        ("catboost", "model.cb"),
        ("onnx", "model.onnx"),
    ],
)
def test_an_alias_leads_to_a_native_file(registry: Registry, flavor: str, data: str) -> None:
    flavors = f"flavors:\n  {flavor}:\n    data: {data}\n  python_function:\n    data: {data}\n"
    registry.register("ads", "2026-03-01", flavors, b"older", data=data)
    registry.register("ads", "2026-03-02", flavors, b"a model", data=data)
    found = find_registered(ADDRESS)
    assert found is not None
    assert (found.version, found.name, found.format) == ("2", data, flavor)
    assert found.run == "712e10d6133d47579963ea01a8fab301"
    assert read_artifact(found.folder, found.name, at_most=100) == b"a model"


def test_what_is_not_registered_or_not_ready_is_not_there(registry: Registry) -> None:
    assert find_registered(ADDRESS) is None  # nor is the model
    register(registry, status="PENDING_REGISTRATION")
    assert find_registered(ADDRESS) is None
    assert find_registered("models:/ads@2026-03-03") is None


def test_files_may_lie_where_this_machine_reads_them(
    registry: Registry, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "MLmodel").write_text(XGBOOST.format("model.ubj"))
    (tmp_path / "model.ubj").write_bytes(b"local")
    for place in (str(tmp_path), tmp_path.as_uri()):
        registry.versions.clear()
        register(registry, place=place)
        found = find_registered(ADDRESS)
        assert found is not None
        assert read_artifact(found.folder, found.name, at_most=100) == b"local"


@pytest.mark.parametrize(
    "flavors",
    [
        "flavors:\n  sklearn:\n    pickled_model: model.pkl\n  python_function: {}\n",
        "flavors:\n  lightgbm:\n    data: model.skops\n  sklearn: {}\n",
        "flavors:\n  xgboost:\n    data: ../model.ubj\n  sklearn: {}\n",
        "flavors:\n  xgboost:\n    data: [model.ubj]\n  sklearn: {}\n",
    ],
)
def test_what_may_hold_code_is_refused_by_name_with_the_way_out(
    registry: Registry, flavors: str
) -> None:
    registry.register("ads", "2026-03-02", flavors, b"")
    error = refused()
    assert error.reason is Reason.CHECKPOINT_INVALID
    assert "Version 1 of ads in the MLflow registry has the flavors" in error.sentence
    assert "sklearn" in error.sentence
    assert "may hold code and is never read" in error.sentence
    assert "[models.scores]" in error.sentence


@pytest.mark.parametrize(
    "text", ["", "flavors: 3", "{", "!!python/object/apply:os.abort []", "[" * 9999]
)
def test_an_mlmodel_that_cannot_be_read_is_said(registry: Registry, text: str) -> None:
    registry.register("ads", "2026-03-02", text, b"")
    assert "has no file MLmodel that can be read" in refused().sentence


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "refuses access: set MLFLOW_TRACKING_TOKEN"),
        (403, "refuses access"),
        (302, "answers with the status 302"),
        (200, "answers with something else than MLflow's REST interface"),
    ],
)
def test_a_server_that_cannot_be_asked_is_said(registry: Registry, status: int, words: str) -> None:
    register(registry)
    registry.fails = [status]
    error = refused()
    assert error.reason is Reason.PATH_UNREADABLE
    assert error.sentence.startswith(f"The MLflow server 127.0.0.1 {words}")


def test_a_server_that_is_away_for_a_moment_is_asked_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries.time, "sleep", lambda _: None)
    register(registry)
    registry.fails = [503, 429, 500]
    assert find_registered(ADDRESS) is not None
    registry.fails = [503] * 20
    with pytest.raises(TransientError, match="at the MLflow server"):
        find_registered(ADDRESS)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match="at the MLflow server"):
        find_registered(ADDRESS)


def test_a_file_that_is_gone_or_too_large_is_said(registry: Registry) -> None:
    register(registry)
    found = find_registered(ADDRESS)
    assert found is not None
    with pytest.raises(NotEvaluableError, match="larger than the 3 bytes"):
        read_artifact(found.folder, found.name, at_most=3)
    registry.files.clear()
    with pytest.raises(FileNotFoundError):
        read_artifact(found.folder, found.name, at_most=100)


def test_the_environments_credentials_go_to_this_server_alone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(registry)
    find_registered(ADDRESS)
    assert set(registry.told) == {None}
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "lovelace")
    registry.told.clear()
    find_registered(ADDRESS)
    assert set(registry.told) == {f"Basic {base64.b64encode(b'ada:lovelace').decode()}"}
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    registry.told.clear()
    find_registered(ADDRESS)
    assert set(registry.told) == {"Bearer secret"}
    registry.versions.clear()
    register(registry, place="mlflow-artifacts://elsewhere:80/0/models/m")
    registry.told.clear()
    error = refused()
    assert error.reason is Reason.PATH_OUTSIDE
    assert "nothing is told to another server" in error.sentence


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "No MLflow server is named"),
        ("sqlite:///mlflow.db", "No MLflow server is named"),
        ("https://ada:lovelace@example.com", "holds a name or a password"),
    ],
)
def test_the_environment_names_a_server_and_no_password(
    monkeypatch: pytest.MonkeyPatch, address: str, words: str
) -> None:
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(TerminalError, match=words) as caught:
        find_registered(ADDRESS)
    assert "lovelace" not in str(caught.value)
