"""Runs a command as a KubeRay RayJob, and ends as it ended.

Prefect's worker starts this in a Job of its own for every flow run (../base-job-template.json); the
command is then `prefect flow-run execute`, and the whole flow runs on the head of a Ray cluster of
its own. The RayJob belongs to this pod: who deletes the pod (Prefect does when a run is cancelled)
deletes the cluster.
"""

import json
import os
import pathlib
import shlex
import ssl
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import yaml

TEMPLATE = pathlib.Path(__file__).with_name("rayjob.yaml")
ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
PASSED_ON = "PREFECT__"
POLL_SECONDS = 10.0
PATIENCE = 30
"""Polls in a row that the API may leave unanswered: five minutes."""


def rayjob(template: dict[str, Any], command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Return the RayJob that runs `command` for this pod."""
    job: dict[str, Any] = json.loads(json.dumps(template))
    job["metadata"]["name"] = env["POD_NAME"][:47].rstrip("-.")  # KubeRay appends to it
    job["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": env["POD_NAME"], "uid": env["POD_UID"]}
    ]
    spec = job["spec"]
    spec["entrypoint"] = shlex.join(command)
    cluster = spec["rayClusterSpec"]
    head = cluster["headGroupSpec"]["template"]
    workers = [group["template"] for group in cluster["workerGroupSpecs"]]
    for pod in (spec["submitterPodTemplate"], head, *workers):
        for container in pod["spec"]["containers"]:
            container["image"] = env["IMAGE"]
    # Which flow run it is; credentials come from the Secret that the template names.
    head["spec"]["containers"][0]["env"] += [
        {"name": name, "value": value}
        for name, value in sorted(env.items())
        if name.startswith(PASSED_ON)
    ]
    return job


def outcome(status: dict[str, Any]) -> int | None:
    """Return the exit code that a RayJob's status stands for; None while it goes on."""
    if status.get("jobDeploymentStatus") == "Failed":
        return 1
    if status.get("jobDeploymentStatus") == "Complete":
        return 0 if status.get("jobStatus") == "SUCCEEDED" else 1
    return None


def say(sentence: str) -> None:
    """Write a line to the pod's log."""
    sys.stderr.write(f"{sentence}\n")


class Kubernetes:
    """The few calls that are needed, as the pod's service account."""

    def __init__(self, address: str, namespace: str, context: ssl.SSLContext | None) -> None:
        self.path = f"{address}/apis/ray.io/v1/namespaces/{namespace}/rayjobs"
        self.context = context

    def call(self, name: str = "", body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read a RayJob by name, or make the one in `body`."""
        request = urllib.request.Request(  # noqa: S310  # the address is the cluster's own
            f"{self.path}/{name}".rstrip("/"),
            data=None if body is None else json.dumps(body).encode(),
            # Read anew each time: Kubernetes replaces the token every hour.
            headers={
                "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30, context=self.context) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found


def launch(kubernetes: Kubernetes, job: dict[str, Any]) -> int:
    """Make the RayJob, wait for its end, and return its exit code."""
    name = job["metadata"]["name"]
    try:
        kubernetes.call(body=job)
    except urllib.error.HTTPError as error:
        if error.code != 409:  # this pod's container was started again: wait for the first one's
            say(f"The RayJob {name} was refused: {error.read().decode()}")
            return 1
    unanswered = 0
    while unanswered < PATIENCE:
        try:
            status = kubernetes.call(name).get("status", {})
        except urllib.error.HTTPError as error:
            if error.code == 404:
                say(f"Somebody deleted the RayJob {name}.")
                return 1
            unanswered += 1
        except OSError:
            unanswered += 1
        else:
            unanswered = 0
            code = outcome(status)
            if code is not None:
                say(f"The RayJob {name} ended: {status.get('jobStatus')} {status.get('message')}")
                return code
        time.sleep(POLL_SECONDS)
    say(f"Kubernetes' API left {PATIENCE} questions unanswered.")
    return 1


def main() -> int:
    """Launch what the arguments say."""
    env = dict(os.environ)
    job = rayjob(yaml.safe_load(TEMPLATE.read_text()), sys.argv[1:], env)
    address = f"https://{env['KUBERNETES_SERVICE_HOST']}:{env['KUBERNETES_SERVICE_PORT']}"
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    return launch(Kubernetes(address, env["NAMESPACE"], context), job)


if __name__ == "__main__":
    sys.exit(main())
