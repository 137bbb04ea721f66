import datetime as dt
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest
from pip_audit._cli import _parser

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def audit(monkeypatch):
    path = ROOT / "infra" / "audit_dependencies.py"
    spec = importlib.util.spec_from_file_location("audit_dependencies", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def package(name, *vulnerabilities, **more):
    return {"name": name, "version": "1.0", "vulns": list(vulnerabilities)} | more


WEAK = {"id": "PYSEC-1", "aliases": ["CVE-2099-1"], "fix_versions": ["2.0"]}


def services(canary, lock):
    """Return a stand-in for `ask`: what the services say of the canary and of the locks."""

    def ask(service, requirements):
        return (canary if requirements[0].name == "canary.txt" else lock).get(service, [])

    return ask


KNOWN = {"pypi": [package("urllib3", WEAK)]}


@pytest.mark.parametrize(
    ("canary", "lock", "code", "said"),
    [
        # A mirror that knows nothing is not taken for a clean bill.
        (
            {"pypi": [package("urllib3", skip_reason="not found")], "osv": []},
            {"pypi": [package("numpy")]},
            0,
            "SKIPPED: dependency audit.",
        ),
        # The first service that answers is asked.
        (
            {"osv": [package("urllib3", WEAK)]},
            {"osv": [package("numpy"), package("x")]},
            0,
            "2 packages asked of osv, 0 findings not accepted",
        ),
        (
            KNOWN,
            {"pypi": [package("numpy", WEAK)]},
            1,
            "numpy 1.0: CVE-2099-1, PYSEC-1, mended in 2.0. NOT ACCEPTED",
        ),
        # A service that falls silent after the canary fails.
        (KNOWN, {}, 1, ""),
    ],
)
def test_an_audit_passes_only_where_a_service_knows_and_finds_nothing(
    audit, monkeypatch, capsys, canary, lock, code, said
):
    monkeypatch.setattr(audit, "ask", services(canary, lock))
    assert audit.main() == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("until", "code"), [("2999-01-01", 0), ("2020-01-01", 1)])
def test_an_accepted_finding_passes_until_its_day(audit, monkeypatch, tmp_path, until, code):
    path = tmp_path / "accepted.toml"
    path.write_text(f'[[accepted]]\nname = "CVE-2099-1"\nreason = "Unused."\nuntil = {until}\n')
    monkeypatch.setattr(audit, "ACCEPTED", path)
    monkeypatch.setattr(audit, "ask", services(KNOWN, {"pypi": [package("numpy", WEAK)]}))
    assert audit.main() == code


def test_what_is_accepted_has_a_reason_and_a_day(audit):
    accepted = audit.accepted(audit.ACCEPTED.read_text("utf-8"), dt.date.min)
    assert all(len(reason) > 20 for reason in accepted.values())


def test_pip_audit_understands_the_command(audit, monkeypatch):
    """Its own parser takes the command; only the process is a stand-in."""
    seen = []

    def run(command, **_):
        seen.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps({"dependencies": []}), "")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", run)
        audit.ask("pypi", list(audit.LOCKS))
    parsed = _parser().parse_args(seen[0][3:])
    names = [pathlib.Path(source.name).name for source in parsed.requirements]
    assert names == [path.name for path in audit.LOCKS]
    assert all(path.exists() for path in audit.LOCKS)
