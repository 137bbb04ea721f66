"""infra/kubernetes: valid by Kubernetes' own schemas, and restricted in every pod."""

import functools
import json
import pathlib
import shutil
import subprocess
from typing import Any

import kubernetes_validate
import pytest
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.support.kubernetes import (
    BASE,
    documents,
    job,
    kustomization,
    pod_faults,
    pods,
    rayjob,
    resources,
    secret_faults,
    selects,
)

VERSION = "1.34"
INFRA = BASE.parents[1]
# It reads all of Kubernetes' definitions for each resource.
kubernetes_validate.utils.schema_contents = functools.cache(
    kubernetes_validate.utils.schema_contents
)


def check(resource):
    kubernetes_validate.validate(resource, VERSION, strict=True)


def as_pod(template):
    metadata = template["metadata"] | {"name": "checked"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def without_prefects_oddity(template):
    """prefect-kubernetes wants two fields of a Job in its pod; Kubernetes drops them."""
    spec = template["spec"]
    kept = {name: spec[name] for name in spec if name not in {"parallelism", "completions"}}
    return template | {"spec": kept}


@pytest.mark.parametrize(
    "resource", resources(), ids=lambda found: f"{found['kind']}-{found['metadata']['name']}"
)
def test_every_resource_is_valid(resource):
    check(resource)


@pytest.mark.parametrize("name", pods())
def test_every_pod_is_valid_and_restricted(name):
    pod = pods()[name]
    check(as_pod(without_prefects_oddity(pod)))
    assert list(pod_faults(pod)) == []


def test_the_job_of_a_flow_run_is_valid():
    made = job()
    made["spec"]["template"] = without_prefects_oddity(made["spec"]["template"])
    check(made)
    assert made["spec"]["activeDeadlineSeconds"] > rayjob()["spec"]["activeDeadlineSeconds"]


def test_ray_offers_as_many_cpus_as_its_pods_have():
    groups = rayjob()["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert groups
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert group["rayStartParams"]["num-cpus"] == container["resources"]["limits"]["cpu"]


def test_rays_version_is_the_locked_one():
    locked = (INFRA / "requirements.lock").read_text("utf-8")
    assert f"\nray=={rayjob()['spec']['rayClusterSpec']['rayVersion']} " in locked


@pytest.mark.parametrize(
    ("fault", "path", "value"),
    [
        ("may run as root", ("spec", "securityContext", "runAsNonRoot"), False),
        ("no seccomp", ("spec", "securityContext", "seccompProfile"), {}),
        ("uses hostNetwork", ("spec", "hostNetwork"), True),
        ("from its node", ("spec", "volumes"), [{"name": "x", "hostPath": {"path": "/"}}]),
        ("fill its node", ("spec", "volumes"), [{"name": "x", "emptyDir": {}}]),
        ("gain privileges", ("c", "securityContext", "allowPrivilegeEscalation"), True),
        ("keeps capabilities", ("c", "securityContext", "capabilities"), {"drop": []}),
        ("write to its image", ("c", "securityContext", "readOnlyRootFilesystem"), False),
        ("other resources", ("c", "resources", "requests", "cpu"), "100m"),
        ("no limit", ("c", "resources"), {}),
        ("latest", ("c", "image"), "privaudit:latest"),
        ("holds the secret", ("c", "env"), [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]),
    ],
)
def test_a_planted_fault_of_a_pod_is_found(fault, path, value):
    pod = json.loads(json.dumps(pods()["worker"]))  # YAML shares requests and limits
    place = pod["spec"]["containers"][0] if path[0] == "c" else pod
    for name in path[1 if path[0] == "c" else 0 : -1]:
        place = place[name]
    place[path[-1]] = value
    assert any(fault in found for found in pod_faults(pod))


def policies():
    return [found for found in resources() if found["kind"] == "NetworkPolicy"]


def test_nothing_is_allowed_that_no_policy_allows():
    (deny,) = (found for found in policies() if found["metadata"]["name"] == "default-deny")
    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("worker", {"default-deny", "names", "prefect", "kubernetes-api"}),
        ("launcher", {"default-deny", "names", "prefect", "kubernetes-api"}),
        ("submitter", {"default-deny", "names", "submitter"}),
        ("ray head", {"default-deny", "names", "prefect", "ray", "storage"}),
        ("ray shards", {"default-deny", "names", "prefect", "ray", "storage"}),
    ],
)
def test_each_pod_is_under_the_policies_that_it_needs(name, expected):
    labels = pods()[name]["metadata"]["labels"]
    assert {p["metadata"]["name"] for p in policies() if selects(p, labels)} == expected


def test_no_way_leads_to_the_nodes_metadata_service():
    blocks = [
        way["ipBlock"]
        for policy in policies()
        for rule in policy["spec"].get("egress", [])
        for way in rule.get("to", [])
        if "ipBlock" in way
    ]
    assert len(blocks) == 2
    assert all("169.254.0.0/16" in block["except"] for block in blocks)


def test_only_rays_pods_may_hold_storage_credentials_and_none_of_them_a_kubernetes_token():
    for name, pod in pods().items():
        held = {
            source["secretRef"]["name"]
            for container in pod["spec"]["containers"]
            for source in container.get("envFrom", [])
            if "secretRef" in source
        }
        is_ray = name.startswith("ray ")
        assert ("privaudit-audit" in held) == is_ray
        assert pod["spec"]["automountServiceAccountToken"] is (name in {"worker", "launcher"})
        account = pod["spec"].get("serviceAccountName")
        assert (account == "privaudit-audit") == is_ray


def test_roles_grant_what_is_listed_and_no_secrets():
    roles = {f["metadata"]["name"]: f["rules"] for f in resources() if f["kind"] == "Role"}
    granted = {
        name: {
            (resource, verb)
            for rule in rules
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for name, rules in roles.items()
    }
    assert granted["privaudit-launcher"] == {("rayjobs", "create"), ("rayjobs", "get")}
    assert {resource for resource, _ in granted["privaudit-worker"]} == {
        "jobs", "pods", "pods/log", "events",
    }  # fmt: skip
    assert not {"*", "secrets"} & {part for pairs in granted.values() for p in pairs for part in p}


def test_what_is_mounted_or_named_exists():
    base = kustomization()
    made = {generator["name"] for generator in base["configMapGenerator"]}
    for generator in base["configMapGenerator"]:
        for file in generator.get("files", []):
            assert (BASE / file).is_file()
    accounts = {f["metadata"]["name"] for f in resources() if f["kind"] == "ServiceAccount"}
    for pod in pods().values():
        spec = pod["spec"]
        volumes = {volume["name"] for volume in spec["volumes"]}
        assert spec.get("serviceAccountName", "privaudit-worker") in accounts
        for volume in spec["volumes"]:
            assert volume.get("configMap", {}).get("name", "privaudit-launch") in made
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for source in container.get("envFrom", []):
                assert source.get("configMapRef", {}).get("name", "privaudit-environment") in made
                assert source.get("secretRef", {"optional": True})["optional"] is True
    assert base["images"][0]["name"] == "privaudit"


def test_no_file_of_infra_holds_a_secret():
    for resource in [*resources(), rayjob(), job()]:
        assert resource["kind"] != "Secret"
    assert list(secret_faults([{"name": "API_KEY", "value": "x"}]))
    for path in INFRA.rglob("*"):
        if path.is_file() and path.suffix not in {".lock", ".pyc"}:
            text = path.read_text("utf-8")
            assert "AKIA" not in text, path
            assert "PRIVATE KEY" not in text, path


def test_yaml_is_well_formed():
    config = YamlLintConfig(file=str(INFRA / ".yamllint"))
    files = sorted(INFRA.rglob("*.yaml"))
    assert len(files) >= 6
    found = {str(p): [str(f) for f in linter.run(p.read_text("utf-8"), config)] for p in files}
    assert {path: problems for path, problems in found.items() if problems} == {}
    assert list(linter.run("a: 1\na: 2\n", config))


def built(folder: str, home: pathlib.Path) -> list[dict[str, Any]]:
    """Return what kustomize makes of a folder."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(INFRA / "kubernetes" / folder)],
        capture_output=True, text=True, check=True,
        env={"HOME": str(home), "PATH": "/usr/bin:/usr/local/bin"},
    )  # fmt: skip
    return documents(done.stdout)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_with_cilium_every_way_out_names_its_host_and_port(tmp_path):
    policies = [one for one in built("cilium", tmp_path) if one["kind"].endswith("NetworkPolicy")]
    ways = [rule for policy in policies for rule in policy["spec"].get("egress", [])]
    assert "ipBlock" not in str(ways)
    assert {name for policy in policies if (name := policy["metadata"]["name"])} == {
        "default-deny", "kubernetes-api", "names", "prefect", "ray", "storage", "submitter",
    }  # fmt: skip
    (storage,) = (rule for rule in ways if "toFQDNs" in rule)
    assert storage["toPorts"] == [{"ports": [{"port": "443", "protocol": "TCP"}]}]
    (asked,) = (rule["toPorts"][0]["rules"]["dns"] for rule in ways if "rules" in str(rule))
    assert [name for name in asked if "cluster.local" not in str(name)] == storage["toFQDNs"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", ["base", "aws"])
def test_kustomize_builds_what_is_valid(folder, tmp_path):
    documents = built(folder, tmp_path)
    assert len(documents) == len(resources()) + 3
    for document in documents:
        check(document)
        assert document["metadata"].get("namespace", "privaudit") == "privaudit"
    (deployment,) = (found for found in documents if found["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/privaudit:0.1.0"
