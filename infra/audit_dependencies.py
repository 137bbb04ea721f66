"""Looks every locked package up in a database of known vulnerabilities.

pip-audit says "no known vulnerabilities" also where its service knows none of the packages, as
behind a mirror. So each service is first asked for a package that is known to be vulnerable: one
that does not say so does not count. Where none is left, the check says by name that it was skipped.

Exit code: 0 nothing found, or skipped; 1 a vulnerability that accepted_vulnerabilities.toml does
not accept.
"""

import datetime as dt
import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).parent
LOCKS = (HERE.parent / "requirements.lock", HERE / "requirements.lock", HERE / "build.lock")
ACCEPTED = HERE / "accepted_vulnerabilities.toml"
SERVICES = ("pypi", "osv")
CANARY = "urllib3==1.26.4"
"""CVE-2021-33503, CVE-2023-43804 and more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One known vulnerability of one locked package."""

    package: str
    version: str
    names: frozenset[str]
    fixed_in: str


def ask(service: str, requirements: list[pathlib.Path]) -> list[dict[str, Any]]:
    """Return what pip-audit says of each requirement; nothing where the service does not answer."""
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", service]
    command += ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command += [part for path in requirements for part in ("--requirement", str(path))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
    try:
        packages: list[dict[str, Any]] = json.loads(ran.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        return []
    return packages


def findings(packages: list[dict[str, Any]]) -> list[Finding]:
    """Return the vulnerabilities in what pip-audit said."""
    return [
        Finding(
            package["name"],
            package["version"],
            frozenset({vulnerability["id"], *vulnerability.get("aliases", [])}),
            ", ".join(vulnerability.get("fix_versions", [])) or "no version",
        )
        for package in packages
        for vulnerability in package.get("vulns", [])
    ]


def answers(service: str) -> bool:
    """Return whether the service knows that the canary is vulnerable."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "canary.txt"
        path.write_text(f"{CANARY}\n", encoding="utf-8")
        return bool(findings(ask(service, [path])))


def accepted(text: str, today: dt.date) -> dict[str, str]:
    """Return the reasons of the vulnerabilities that are accepted today, by name."""
    entries = tomllib.loads(text).get("accepted", [])
    return {entry["name"]: entry["reason"] for entry in entries if today <= entry["until"]}


def main() -> int:
    """Look, and say what was found."""
    service = next((service for service in SERVICES if answers(service)), None)
    if service is None:
        sys.stdout.write(
            "SKIPPED: dependency audit. No vulnerability service answers from here "
            f"({', '.join(SERVICES)}): run `make audit` where one does.\n"
        )
        return 0
    packages = ask(service, [path for path in LOCKS if path.exists()])
    reasons = accepted(ACCEPTED.read_text(encoding="utf-8"), dt.datetime.now(dt.UTC).date())
    refused = 0
    for found in findings(packages):
        reason = next((reasons[name] for name in found.names if name in reasons), None)
        refused += reason is None
        sys.stdout.write(
            f"{found.package} {found.version}: {', '.join(sorted(found.names))}, mended in "
            f"{found.fixed_in}. {f'Accepted: {reason}' if reason else 'NOT ACCEPTED'}\n"
        )
    unknown = ", ".join(package["name"] for package in packages if "skip_reason" in package)
    sys.stdout.write(
        f"{len(packages)} packages asked of {service}, {refused} findings not accepted; "
        f"unknown to it: {unknown or 'none'}.\n"
    )
    # A service that knew the canary but says nothing of the lock did not do its work.
    return 1 if refused or not packages else 0


if __name__ == "__main__":
    sys.exit(main())
