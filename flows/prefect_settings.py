"""Prefect's settings: the files that may hold them, and the one that Prefect refuses."""

import contextlib
import io
import os
import pathlib
import tomllib
from typing import Any

from privcore.exceptions import TerminalError


def files() -> dict[pathlib.Path, bytes]:
    """Return the files that Prefect reads, each with the words by which it names a server."""
    home = pathlib.Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    return {
        pathlib.Path(".env"): b"PREFECT_API_URL",
        pathlib.Path("prefect.toml"): b"",
        pathlib.Path("pyproject.toml"): b"[tool.prefect",
        pathlib.Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")): b"API_URL",
    }


def check_settings() -> None:
    """Have Prefect read its settings before a flow is imported, which would raise its own words.

    Raises:
        TerminalError: Prefect refuses one, which is named, or cannot read a file.
    """
    for file in files():
        if file.suffix == ".toml" and file.is_file():
            try:
                tomllib.loads(file.read_text())
            except ValueError as unreadable:
                raise TerminalError(
                    f"Prefect cannot read {file} ({unreadable}): correct that file."
                ) from None
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            from prefect.settings import get_current_settings  # noqa: PLC0415  # takes a second

            get_current_settings()
    except ValueError as error:  # pydantic's
        faults: list[dict[str, Any]] = getattr(error, "errors", list)()
        name = ".".join(map(str, faults[0]["loc"])) if faults else ""
        said = f"{name}: {faults[0]['msg']}" if faults else str(error)
        raise TerminalError(
            f"Prefect refuses a setting of its own ({said}): correct it in the environment "
            f"(PREFECT_...), or in {', '.join(map(str, files()))}."
        ) from None
