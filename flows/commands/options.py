"""Options that commands share."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

ConfigOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--config",
        envvar="PRIVAUDIT_CONFIG",
        help="Settings file; privaudit.toml in the current folder by default.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def parse_day(text: str | dt.date) -> dt.date:
    """Return a day written as YYYY-MM-DD; the parser of every option that is a day."""
    if isinstance(text, dt.date):  # typer parses defaults too
        return text
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day: write it as YYYY-MM-DD.") from None
