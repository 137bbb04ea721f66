"""infra/kubernetes/base/launch/launch.py against a Kubernetes API of our own."""

import http.server
import importlib.util
import json
import sys

import pytest

from tests.support.http_server import Answering, running
from tests.support.kubernetes import BASE, pod_faults, rayjob

ENV = {
    "POD_NAME": "nightly-audit-production-7xk2p-abcde-and-a-very-long-tail-of-it",
    "POD_UID": "0b0e",
    "IMAGE": "registry.example.com/privaudit@sha256:0",
    "NAMESPACE": "privaudit",
    "PREFECT__FLOW_RUN_ID": "run-1",
    "PREFECT_API_KEY": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
COMMAND = ["prefect", "flow-run", "execute", "a b"]


@pytest.fixture
def launch(monkeypatch, tmp_path):
    path = BASE / "launch" / "launch.py"
    spec = importlib.util.spec_from_file_location("launch", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "launch", module)
    spec.loader.exec_module(module)
    (tmp_path / "token").write_text("the-token")
    monkeypatch.setattr(module, "ACCOUNT", tmp_path)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    return module


@pytest.fixture
def api():
    """Serve the answers of a list, (code, body) or a status, and keep what was asked."""

    class Handler(Answering):
        def respond(self):
            body = json.loads(self.body() or "null")
            server.asked.append((self.command, self.path, self.headers["Authorization"], body))
            code, answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            self.answer(code, json.dumps(answer).encode())

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.answers = [], []
    with running(server):
        yield server


def run(launch, api, answers):
    api.answers[:] = answers
    job = launch.rayjob(rayjob(), COMMAND, ENV)
    host, port = api.server_address
    return launch.launch(launch.Kubernetes(f"http://{host}:{port}", "privaudit", None), job)


def status(deployment, job=None):
    return 200, {"status": {"jobDeploymentStatus": deployment, "jobStatus": job}}


def test_the_rayjob_runs_the_command_for_this_pod_and_goes_with_it(launch):
    job = launch.rayjob(rayjob(), COMMAND, ENV)
    assert job["spec"]["entrypoint"] == "prefect flow-run execute 'a b'"
    assert len(job["metadata"]["name"]) <= 47
    assert job["metadata"]["name"][-1].isalnum()
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", ENV["POD_NAME"], "0b0e")


def test_every_container_takes_the_image_and_none_is_given_a_secret(launch):
    job = launch.rayjob(rayjob(), COMMAND, ENV)
    cluster = job["spec"]["rayClusterSpec"]
    pods = [job["spec"]["submitterPodTemplate"], cluster["headGroupSpec"]["template"]]
    pods += [group["template"] for group in cluster["workerGroupSpecs"]]
    for pod in pods:
        assert list(pod_faults(pod)) == []
        assert [c["image"] for c in pod["spec"]["containers"]] == [ENV["IMAGE"]]
    assert "secret" not in {part for part in json.dumps(job).split('"') if part == "secret"}
    head = pods[1]["spec"]["containers"][0]["env"]
    assert {"name": "PREFECT__FLOW_RUN_ID", "value": "run-1"} in head
    assert rayjob() == launch.rayjob.__globals__["yaml"].safe_load(launch.TEMPLATE.read_text())


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(201, {}), status("Running", "RUNNING"), status("Complete", "SUCCEEDED")], 0),
        ([(201, {}), (200, {}), status("Complete", "FAILED")], 1),
        ([(201, {}), status("Failed")], 1),
        ([(409, {}), status("Complete", "SUCCEEDED")], 0),
        ([(201, {}), (500, {}), (429, {}), status("Complete", "SUCCEEDED")], 0),
        ([(201, {}), status("Running"), (404, {})], 1),
        ([(403, {"message": "no"})], 1),
        ([(201, {}), (500, {})], 1),
    ],
    ids=["done", "flow-failed", "cluster-failed", "restarted", "hiccups", "deleted", "refused",
         "silent"],
)  # fmt: skip
def test_it_ends_as_the_rayjob_ended(launch, api, answers, code):
    assert run(launch, api, answers) == code
    method, path, authorization, body = api.asked[0]
    assert (method, path) == ("POST", "/apis/ray.io/v1/namespaces/privaudit/rayjobs")
    assert authorization == "Bearer the-token"
    assert body["kind"] == "RayJob"
    assert all(asked[1] == f"{path}/{body['metadata']['name']}" for asked in api.asked[1:])


def test_a_refusal_is_said(launch, api, capsys):
    run(launch, api, [(403, {"message": "forbidden: quota"})])
    assert "was refused" in (said := capsys.readouterr().err)
    assert "quota" in said
