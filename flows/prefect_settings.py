"""Prefect's settings: the files that may hold them, and the one that Prefect refuses."""

import contextlib
import io
import os
import pathlib
import re
import tomllib
from typing import Any

from privcore.exceptions import TerminalError

_FIELD = re.compile(r'field "(\w+)"')


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
        TerminalError: Prefect refuses one, which is named with its place, or cannot read a file.
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
        raise TerminalError(_refusal(error)) from None


def _refusal(error: ValueError) -> str:
    faults: list[dict[str, Any]] = getattr(error, "errors", list)()
    said = faults[0]["msg"] if faults else str(error)
    field = _FIELD.search(str(error))
    word = str(faults[0]["loc"][-1]) if faults else field.group(1) if field else ""
    name, place = _where(word.removeprefix("PREFECT_"), faults[0]["input"] if faults else None)
    return f"Prefect refuses the setting {name} of {place}: {said}. Correct it there, or remove it."


def _where(word: str, value: Any) -> tuple[str, str]:
    """Return the whole name of a setting and where it is set, in Prefect's order of places."""
    for name, text in os.environ.items():
        same = value is None or str(value).lower() == text.lower()
        if name.startswith("PREFECT_") and name.endswith(word.upper()) and same:
            return name, "the environment"
    assigned = re.compile(
        rf"^\s*(?:export\s+)?(\w*{re.escape(word)})\s*=", re.IGNORECASE | re.MULTILINE
    )
    for file in files():
        found = assigned.search(file.read_text()) if file.is_file() else None
        if found is not None:
            return found.group(1), str(file)
    return word, "its environment or files"
