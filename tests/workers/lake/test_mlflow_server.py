"""A real `mlflow server`, in an environment of its own: it cannot be locked with ours."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pyarrow import fs

from tests.support.object_store import empty_bucket, object_store
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.mlflow_registry import find_registered, read_artifact

pytestmark = pytest.mark.slow

VERSION = "3.17.2"
UV = str(pathlib.Path(sys.executable).parent / "uv")
TOOL = (UV, "tool", "run", "--no-python-downloads", "--python", sys.executable, "--from",
        f"mlflow=={VERSION}", "mlflow")  # fmt: skip
NATIVE = (
    "flavors:\n  python_function: {loader_module: mlflow.xgboost}\n  xgboost: {data: model.ubj}\n"
)
PICKLED = "flavors:\n  python_function: {}\n  sklearn: {pickled_model: model.pkl}\n"
ALIAS = "2026-03-02"


@pytest.fixture(scope="module")
def tool():
    """Install mlflow where it is not yet; without a package index there is nothing to test."""
    found = subprocess.run([*TOOL, "--version"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"mlflow {VERSION} cannot be installed here: {found.stderr[-200:]}")
    assert VERSION in found.stdout
    return TOOL


@pytest.fixture
def bucket():
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        yield f"{bucket}/mlflow"


@contextlib.contextmanager
def serving(
    tool: tuple[str, ...], folder: pathlib.Path, artifacts: list[str]
) -> Iterator[httpx.Client]:
    """Serve a registry on SQLite; yield a client of its REST interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*tool, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{folder}/registry.db", *artifacts]  # fmt: skip
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=address, timeout=30.0) as client:
            _wait(client, process, folder)
            yield client
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=60)


def _wait(client: httpx.Client, process: subprocess.Popen[bytes], folder: pathlib.Path) -> None:
    end = time.monotonic() + 180.0
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError):
            if client.get("/health").status_code == 200:
                return
        assert process.poll() is None, (folder / "server.log").read_text()
        time.sleep(0.5)
    raise AssertionError((folder / "server.log").read_text())


def asked(client: httpx.Client, method: str, **given: Any) -> dict[str, Any]:
    answer = client.post(f"/api/2.0/mlflow/{method}", json=given)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def register(client: httpx.Client, name: str, mlmodel: str, content: bytes) -> str:
    """Log a model and register it, all by REST; return its run's id."""
    run = asked(client, "runs/create", experiment_id="0", start_time=0)["run"]["info"]
    folder = f"{run['artifact_uri']}/model"
    for file, body in (("MLmodel", mlmodel.encode()), ("model.ubj", content)):
        if folder.startswith("mlflow-artifacts:/"):
            path = folder.removeprefix("mlflow-artifacts:/")
            client.put(
                f"/api/2.0/mlflow-artifacts/artifacts/{path}/{file}", content=body
            ).raise_for_status()
        else:
            files, place = fs.FileSystem.from_uri(folder)
            files.create_dir(place, recursive=True)
            with files.open_output_stream(f"{place}/{file}") as stream:
                stream.write(body)
    asked(client, "registered-models/create", name=name)
    version = asked(
        client, "model-versions/create", name=name, source=folder, run_id=run["run_id"]
    )["model_version"]["version"]
    asked(client, "registered-models/alias", name=name, alias=ALIAS, version=version)
    return str(run["run_id"])


@pytest.mark.parametrize("kind", ["proxied", "local", "s3"])
def test_a_real_registry_leads_to_a_native_file_wherever_its_artifacts_lie(
    tool, tmp_path, monkeypatch, request, kind
):
    artifacts = {
        "proxied": ["--artifacts-destination", str(tmp_path / "artifacts")],
        "local": [
            "--no-serve-artifacts",
            "--default-artifact-root",
            f"file://{tmp_path}/artifacts",
        ],
    }
    given = artifacts.get(kind) or [
        "--no-serve-artifacts",
        "--default-artifact-root",
        request.getfixturevalue("bucket"),
    ]
    with serving(tool, tmp_path, given) as client:
        monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", str(client.base_url))
        run = register(client, "ads", NATIVE, b"the model")
        register(client, "other", PICKLED, b"no model")
        if kind == "local":
            with pytest.raises(NotEvaluableError) as refused:
                find_registered(f"models:/ads@{ALIAS}")
            assert refused.value.reason is Reason.PATH_OUTSIDE
        allowed = (str(tmp_path / "artifacts"),) if kind == "local" else ()
        found = find_registered(f"models:/ads@{ALIAS}", allowed)
        assert (found.version, found.run, found.format) == ("1", run, "xgboost")
        assert found.folder.startswith({"proxied": "mlflow-art", "local": "/", "s3": "s3"}[kind])
        assert read_artifact(found.folder, found.name, at_most=100) == b"the model"
        with pytest.raises(FileNotFoundError):
            read_artifact(found.folder, "none.ubj", at_most=100)
        for nobody in ("models:/ads@2026-03-03", "models:/nobody@2026-03-02"):
            assert find_registered(nobody) is None
        with pytest.raises(NotEvaluableError, match="flavors python_function, sklearn"):
            find_registered(f"models:/other@{ALIAS}", allowed)
        for stranger in ("s3://other/m", f"{found.folder}?endpoint_override=127.0.0.1:9", "/etc"):
            name = f"stranger-{len(stranger)}"
            asked(client, "registered-models/create", name=name)
            given = {"name": name, "source": stranger}
            made = client.post("/api/2.0/mlflow/model-versions/create", json=given)
            if made.status_code == 200:  # else the server itself refuses
                version = made.json()["model_version"]["version"]
                asked(client, "registered-models/alias", name=name, alias=ALIAS, version=version)
                with pytest.raises(NotEvaluableError, match=r"below no place|another server"):
                    find_registered(f"models:/{name}@{ALIAS}", allowed)
