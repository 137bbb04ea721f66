"""A real `mlflow server`, in an environment of its own: it cannot be locked with ours."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
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


@pytest.fixture(scope="module")
def bucket():
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        yield f"{bucket}/mlflow"


@pytest.fixture(scope="module")
def client(tool, bucket, tmp_path_factory):
    """Serve a registry on SQLite, whose artifacts lie in the bucket; yield a client of its REST."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*tool, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{folder}/registry.db",
               "--default-artifact-root", bucket,
               "--artifacts-destination", str(folder / "artifacts")]  # fmt: skip
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
            end = time.monotonic() + 180.0
            while not _healthy(client):
                assert process.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < end, (folder / "server.log").read_text()
                time.sleep(0.2)
            yield client
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=60)


def _healthy(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get("/health").status_code == 200
    return False


def asked(client: httpx.Client, method: str, **given: Any) -> dict[str, Any]:
    answer = client.post(f"/api/2.0/mlflow/{method}", json=given)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def register(client: httpx.Client, name: str, experiment: str, mlmodel: str) -> str:
    """Log a model and register it, all by REST; return its run's id."""
    run = asked(client, "runs/create", experiment_id=experiment, start_time=0)["run"]["info"]
    folder = f"{run['artifact_uri']}/model"
    for file, body in (("MLmodel", mlmodel.encode()), ("model.ubj", b"the model")):
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
    client, tmp_path, monkeypatch, kind
):
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(client.base_url))
    experiment = "0"  # of a user, but for the one that the server placed itself
    if kind != "s3":
        place = {"proxied": "mlflow-artifacts:/own", "local": f"file://{tmp_path}/artifacts"}[kind]
        made = asked(client, "experiments/create", name=kind, artifact_location=place)
        experiment = made["experiment_id"]
    run = register(client, f"ads-{kind}", experiment, NATIVE)
    register(client, f"other-{kind}", experiment, PICKLED)
    if kind == "local":
        with pytest.raises(NotEvaluableError) as refused:
            find_registered(f"models:/ads-{kind}@{ALIAS}")
        assert refused.value.reason is Reason.PATH_OUTSIDE
    allowed = (str(tmp_path / "artifacts"),) if kind == "local" else ()
    found = find_registered(f"models:/ads-{kind}@{ALIAS}", allowed)
    assert (found.version, found.run, found.format) == ("1", run, "xgboost")
    assert found.folder.startswith({"proxied": "mlflow-art", "local": "/", "s3": "s3"}[kind])
    assert read_artifact(found.folder, found.name, at_most=100) == b"the model"
    with pytest.raises(FileNotFoundError):
        read_artifact(found.folder, "none.ubj", at_most=100)
    for nobody in (f"models:/ads-{kind}@2026-03-03", "models:/nobody@2026-03-02"):
        assert find_registered(nobody) is None
    with pytest.raises(NotEvaluableError, match="flavors python_function, sklearn"):
        find_registered(f"models:/other-{kind}@{ALIAS}", allowed)
