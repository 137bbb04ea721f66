"""The manifests of infra/kubernetes as data, and what every one of them must keep."""

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import yaml
from prefect.utilities.templating import apply_values

BASE = pathlib.Path(__file__).resolve().parents[2] / "infra" / "kubernetes" / "base"
_SECRET = re.compile(r"password|secret|token|api_?key|auth_string|credential", re.IGNORECASE)


def documents(text: str) -> list[Any]:
    """Return what YAML holds, anew for each caller: libyaml takes a tenth of Python's time."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def kustomization() -> dict[str, Any]:
    """Return the base's kustomization.yaml."""
    (found,) = documents((BASE / "kustomization.yaml").read_text("utf-8"))
    return dict(found)


def resources() -> list[dict[str, Any]]:
    """Return the resources that kustomization.yaml lists."""
    return [
        document
        for name in kustomization()["resources"]
        for document in documents((BASE / name).read_text("utf-8"))
    ]


def rayjob() -> dict[str, Any]:
    """Return the template of the RayJob."""
    (found,) = documents((BASE / "launch" / "rayjob.yaml").read_text("utf-8"))
    return dict(found)


def work_pool() -> dict[str, Any]:
    """Return the base job template of Prefect's work pool."""
    found: dict[str, Any] = json.loads((BASE / "base-job-template.json").read_text("utf-8"))
    return found


def job() -> dict[str, Any]:
    """Return the Job that the work pool's template gives for a flow run."""
    template = work_pool()
    properties = template["variables"]["properties"]
    values = {name: found.get("default", {}) for name, found in properties.items()}
    values["command"] = ["prefect", "flow-run", "execute"]

    filled: dict[str, Any] = apply_values(template["job_configuration"]["job_manifest"], values)
    return filled


def pods() -> dict[str, dict[str, Any]]:
    """Return every pod template, by a name for it."""
    spec = rayjob()["spec"]
    cluster = spec["rayClusterSpec"]
    (deployment,) = (found for found in resources() if found["kind"] == "Deployment")
    return {
        "worker": deployment["spec"]["template"],
        "launcher": job()["spec"]["template"],
        "submitter": spec["submitterPodTemplate"],
        "ray head": cluster["headGroupSpec"]["template"],
        **{f"ray {group['groupName']}": group["template"] for group in cluster["workerGroupSpecs"]},
    }


def pod_faults(pod: dict[str, Any]) -> Iterator[str]:
    """Yield what a pod does that Pod Security's level restricted, or this project, forbids."""
    spec = pod["spec"]
    context = spec.get("securityContext", {})
    if not context.get("runAsNonRoot") or not context.get("runAsUser", 0):
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"uses {field}"
    if "automountServiceAccountToken" not in spec:
        yield "does not say whether it gets a Kubernetes token"
    for volume in spec.get("volumes", []):
        if not {"emptyDir", "configMap", "secret", "projected"} & set(volume):
            yield f"mounts {volume['name']} from its node"
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"may fill its node through {volume['name']}"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        yield from (f"{container['name']} {fault}" for fault in container_faults(container))


def container_faults(container: dict[str, Any]) -> Iterator[str]:
    """Yield what a container does that is forbidden."""
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield "may gain privileges"
    if context.get("capabilities", {}).get("drop") != ["ALL"] or "add" in context["capabilities"]:
        yield "keeps capabilities"
    if context.get("readOnlyRootFilesystem") is not True:
        yield "may write to its image"
    if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
        yield "runs as root"
    asked = container.get("resources", {})
    if asked.get("requests") != asked.get("limits"):
        yield "requests other resources than its limits"
    if not {"cpu", "memory", "ephemeral-storage"} <= set(asked.get("limits", {})):
        yield "has no limit on cpu, memory or storage"
    if container["image"].endswith(":latest"):
        yield "takes whatever image is latest"
    yield from secret_faults(container.get("env", []))


def secret_faults(variables: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the variables that hold a secret instead of pointing at one."""
    for variable in variables:
        if _SECRET.search(variable["name"]) and "value" in variable:
            yield f"holds the secret {variable['name']}"


def selects(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a NetworkPolicy selects a pod with these labels."""
    selector = policy["spec"]["podSelector"]
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", [])
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        expression["operator"] == "In" and labels.get(expression["key"]) in expression["values"]
        for expression in expressions
    )
