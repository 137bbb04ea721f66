"""Lists the licence of each package in a CycloneDX SBOM, as CSV: package, version, licence.

The licence is what the package's own metadata declare. One that declares none in a form that can be
read is listed as "not declared": look at its files.
"""

import csv
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

NOT_DECLARED = "not declared"


def rows(sbom: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield package, version and licence, in the order of names."""
    for each in sorted(sbom["components"], key=lambda component: component["name"].lower()):
        named = {_name(licence) for licence in each.get("licenses", [])}
        yield each["name"], each.get("version", ""), "; ".join(sorted(named)) or NOT_DECLARED


def _name(licence: dict[str, Any]) -> str:
    """Return an SPDX expression, an SPDX identifier, or the words of a classifier."""
    if "expression" in licence:
        return str(licence["expression"])
    one = licence["license"]
    return str(one.get("id") or one["name"].rpartition(" :: ")[2])


def main() -> None:
    """Read the SBOM that is named, and write the list to standard output."""
    sbom = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    table = csv.writer(sys.stdout)
    table.writerow(("package", "version", "licence"))
    table.writerows(rows(sbom))


if __name__ == "__main__":
    main()
