"""Places at which the files of Iceberg tables may lie."""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from privcore.exceptions import TerminalError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.places import bucket_of, within

_LOGINS = {"token", "credential"}
"""Properties of a REST catalogue that the environment alone may give."""


def check_installed() -> None:
    """Refuse to read Iceberg tables without their library.

    Raises:
        TerminalError: it is not installed.
    """
    if importlib.util.find_spec("pyiceberg") is None:
        raise TerminalError(
            "To read Iceberg tables, install privaudit with its extra: privaudit[iceberg]."
        )


def properties_of(catalog: str) -> dict[str, Any]:
    """Return what operators' settings of pyiceberg say of a catalogue.

    Raises:
        TerminalError: pyiceberg is not installed, or a file holds a catalogue's login.
    """
    check_installed()
    from pyiceberg.utils.config import Config  # noqa: PLC0415  # an extra

    found = dict(Config().get_catalog_config(catalog) or {})
    for name in _LOGINS & set(found):
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__{name.upper()}"
        # pyiceberg takes the environment's name in any case.
        if variable not in {given.upper() for given in os.environ}:
            raise TerminalError(
                f"A file .pyiceberg.yaml holds the {name} of the catalogue {catalog}: take it out, "
                f"and set {variable} in the environment."
            )
    return found


def warehouse_of(properties: Mapping[str, Any]) -> str | None:
    """Return the folder or address of a catalogue's tables; None where it is none, but a name."""
    given = properties.get("warehouse")
    return given if isinstance(given, str) and ("://" in given or given[:1] == "/") else None


def place_of(address: str, warehouse: str | None) -> tuple[str, str]:
    """Return the root below which a table's folder or file is read, and where it lies there.

    The catalogue and its tables' writers choose where a table lies. They may choose a bucket of an
    object store, whose host is its vendor's, or a place below the catalogue's warehouse. They may
    not choose a host, a port, a region, or a folder of this machine.

    Raises:
        NotEvaluableError: the address is none of these.
    """
    allowed = [place for place in (warehouse, bucket_of(address)) if place is not None]
    found = within(address, allowed)
    if found is None:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The Iceberg table has files at {address[:200]!r}, which is no bucket of an object "
            "store and not below the catalogue's warehouse: set the catalogue's warehouse in "
            "pyiceberg's settings if that place is yours.",
        )
    return found
