"""infra/Dockerfile: what linters find, and what they do not look for."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from flows.settings import load_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"
DOCKERFILE = INFRA / "Dockerfile"
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


def test_the_example_settings_are_valid(monkeypatch):
    monkeypatch.setenv("PRIVAUDIT_RAY__ADDRESS", "auto")
    settings = load_settings(INFRA / "kubernetes" / "base" / "privaudit.toml")
    assert settings.lake.startswith("s3://")
    assert settings.warehouse.startswith("s3://")
    assert settings.ray.address == "auto"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["prefect", "worker", "start"], ["--pool", "--type", "--with-healthcheck"]),
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
