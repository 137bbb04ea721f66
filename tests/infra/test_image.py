"""infra/Dockerfile and infra/compose: what linters find, and what they do not look for."""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from flows.settings import load_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"
DOCKERFILE = INFRA / "Dockerfile"
COMPOSE = INFRA / "compose" / "compose.yaml"
BIN = pathlib.Path(sys.executable).parent


def instructions(text):
    """Return (stage, instruction, argument) of every instruction, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text))
    stage, found = 0, []
    for line in filter(None, joined.splitlines()):
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        found.append((stage, word, rest))
    return found


def hadolint(path):
    return subprocess.run(
        [BIN / "hadolint", str(path)], capture_output=True, text=True, check=False
    )


def test_hadolint_finds_nothing():
    ran = hadolint(DOCKERFILE)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_base_is_pinned_by_digest_and_of_the_projects_python():
    base = dict(i[1:] for i in instructions(DOCKERFILE.read_text("utf-8")))["ARG"]
    assert re.fullmatch(r"PYTHON=python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert "--python-version 3.11" in (ROOT / "Makefile").read_text("utf-8")


def test_everything_copied_is_there_and_let_through():
    allowed = [
        line[1:] for line in (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]  # fmt: skip
    copies = [
        argument.split()[:-1]
        for _, word, argument in instructions(DOCKERFILE.read_text("utf-8"))
        if word == "COPY" and "--from" not in argument
    ]
    sources = [source for copy in copies for source in copy]
    assert len(sources) == len(allowed) == 12
    assert set(sources) == set(allowed)
    assert all((ROOT / source).exists() for source in sources)
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    assert {*wheel["only-include"], *wheel.get("force-include", {})} <= set(sources)


def test_the_last_stage_is_not_root_has_a_health_check_and_no_installer():
    found = instructions(DOCKERFILE.read_text("utf-8"))
    last = [
        (word, argument) for stage, word, argument in found if stage == max(f[0] for f in found)
    ]
    words = [word for word, _ in last]
    assert dict(last)["USER"] == "10001:10001"
    assert words.index("USER") < words.index("CMD")
    assert "urlopen" in dict(last)["HEALTHCHECK"]
    runs = [argument for word, argument in last if word == "RUN"]
    assert "pip uninstall --yes --root-user-action ignore setuptools wheel pip" in runs[0]
    assert not any("apt-get" in run or "pip install" in run for run in runs)


def test_every_installation_is_from_a_lock_with_hashes():
    runs = [a for _, word, a in instructions(DOCKERFILE.read_text("utf-8")) if word == "RUN"]
    installs = [part for run in runs for part in run.split("&&") if "pip install" in part]
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--offline --no-deps" in install


def pins(path):
    return dict(
        re.findall(r"(?m)^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", path.read_text(encoding="utf-8"))
    )


def test_the_images_lock_agrees_with_the_tested_one_and_holds_no_tools():
    image, tested = pins(INFRA / "requirements.lock"), pins(ROOT / "requirements.lock")
    differing = {name for name in image.keys() & tested.keys() if image[name] != tested[name]}
    assert differing == set(), "make lock UPGRADE= locks both"
    assert pins(INFRA / "demo.lock").items() <= tested.items(), "make lock UPGRADE= locks both"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.match(r"[\w.-]+", d)[0].lower() for d in project["dependencies"]}
    assert names - image.keys() == set(), "make lock UPGRADE= locks both"
    assert not {"pytest", "moto", "mypy", "ruff", "playwright", "hatchling"} & image.keys()
    build = pins(INFRA / "build.lock")
    assert "uv" in build
    system = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    needed = dict(requirement.split("==") for requirement in system["requires"])
    assert {name: build[name] for name in needed} == needed


def test_setup_installs_nothing_that_an_index_may_have_replaced():
    """uv, which checks the hashes of all else, was itself installed without; so were builders."""
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    installs = [line for line in lines if "pip install" in line and ".venv-peers" not in line]
    assert len(installs) == 5  # the demo, and what tests need besides
    for line in installs:
        if "--editable" in line:
            assert "--no-deps --no-build-isolation" in line
        else:
            assert "--require-hashes" in line
            assert "infra/build.lock" in line or "--no-build-isolation" in line


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(COMPOSE.read_text("utf-8"))


def check_compose(path):
    return subprocess.run(
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_compose_is_valid_by_its_specifications_schema(tmp_path):
    assert check_compose(COMPOSE).returncode == 0
    planted = tmp_path / "compose.yaml"
    planted.write_text(COMPOSE.read_text("utf-8").replace("healthcheck:", "healthchek:", 1))
    assert "healthchek" in check_compose(planted).stdout


def test_every_service_is_confined_and_pinned(compose):
    for name, service in compose["services"].items():
        assert re.search(r":\d+\.\d+", service["image"]), name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert {"cpus", "memory"} == service["deploy"]["resources"]["limits"].keys(), name
        assert "healthcheck" in service or name == "worker", name  # that one has the image's
        assert service["networks"][0] == "inside", name
        if service["image"].startswith("privaudit:"):
            assert service["read_only"] is True, name
    assert compose["networks"]["inside"] == {"internal": True}


def test_only_this_machine_reaches_a_port(compose):
    ports = {name: s["ports"] for name, s in compose["services"].items() if "ports" in s}
    assert set(ports) == {"prefect-server", "s3"}
    assert all(port.startswith("127.0.0.1:") for published in ports.values() for port in published)


def test_every_secret_comes_from_the_env_file(compose):
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE.read_text("utf-8")))
    asked |= {secret["environment"] for secret in compose["secrets"].values()}
    lines = (INFRA / "compose" / "example.env").read_text("utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert asked == set(given)
    assert all("replace-me" in value for value in given.values())
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN", name):
                assert str(value).startswith("${"), name


def test_the_audit_may_write_the_warehouses_bucket_alone():
    text = (INFRA / "compose" / "example.env").read_text("utf-8")
    identities = json.loads(re.search(r"(?m)^S3_IDENTITIES=(.*)$", text)[1])["identities"]
    (audit,) = (found for found in identities if found["name"] == "audit")
    assert set(audit["actions"]) == {
        "Read:lake", "List:lake", "Read:privaudit", "List:privaudit", "Write:privaudit",
    }  # fmt: skip


@pytest.mark.parametrize("folder", ["compose", "kubernetes/base"])
def test_the_example_settings_are_valid(folder, monkeypatch):
    monkeypatch.setenv("PRIVAUDIT_RAY__ADDRESS", "auto")
    settings = load_settings(INFRA / folder / "privaudit.toml")
    assert settings.lake.startswith("s3://")
    assert settings.warehouse.startswith("s3://")
    assert settings.ray.address == "auto"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["prefect", "worker", "start"], ["--pool", "--type", "--with-healthcheck"]),
        (["prefect", "server", "start"], ["--host"]),
        (["prefect", "work-pool", "create"], ["--type", "--overwrite"]),
        (["prefect", "deploy"], ["--all", "--prefect-file"]),
        (["ray", "start"], ["--head", "--block", "--num-cpus", "--dashboard-host", "--address"]),
        (["ray", "health-check"], ["--address"]),
    ],
)
def test_the_commands_of_the_manifests_exist(command, options, tmp_path):
    text = "".join(p.read_text("utf-8") for p in [DOCKERFILE, *INFRA.rglob("*.yaml")])
    shown = subprocess.run(
        [BIN / command[0], *command[1:], "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "HOME": str(tmp_path)},
    ).stdout  # fmt: skip
    for option in options:
        assert option in shown
        assert option in text


def test_images_of_others_are_named_by_digest():
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"].values()
    others = {service["image"] for service in services if "build" not in service}
    named = {image for image in others if not image.startswith("privaudit:")}
    assert len(named) == 2
    assert all(re.fullmatch(r"[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in named), (
        named
    )
