import csv
import io
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listed(tmp_path: pathlib.Path, *components: dict[str, object]) -> list[list[str]]:
    file = tmp_path / "sbom.json"
    file.write_text(json.dumps({"components": components}))
    done = subprocess.run(
        [sys.executable, ROOT / "infra" / "list_licences.py", file],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return list(csv.reader(io.StringIO(done.stdout)))


def test_each_package_has_its_licence_in_whichever_form_it_is_declared(tmp_path):
    classifier = "License :: OSI Approved :: BSD License"
    assert listed(
        tmp_path,
        {"name": "Zeta", "version": "1", "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        {"name": "both", "version": "2", "licenses": [
            {"license": {"name": classifier}}, {"license": {"id": "BSD-3-Clause"}}]},
        {"name": "none", "version": "3"},
    ) == [
        ["package", "version", "licence"],
        ["both", "2", "BSD License; BSD-3-Clause"],
        ["none", "3", "not declared"],
        ["Zeta", "1", "MIT OR Apache-2.0"],
    ]  # fmt: skip
