"""Options that commands share."""

import datetime as dt
import os
import pathlib
from typing import Annotated

import typer

AUDIT, LOOK, OPERATE, LEARN = "Audit", "Look at results", "Set up and operate", "Understand"
"""The help page's groups of commands."""

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


def parse_moment(text: str | dt.datetime) -> dt.datetime:
    """Return a moment written in ISO 8601, in UTC where it names no zone; a day is its start."""
    if isinstance(text, dt.datetime):  # typer parses defaults too
        return text
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no moment: write it as YYYY-MM-DD or YYYY-MM-DDTHH:MM, in UTC."
        ) from None
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


AsOfOption = Annotated[
    dt.datetime | None,
    typer.Option(
        "--as-of",
        parser=parse_moment,
        metavar="MOMENT",
        help="Read what was known then (UTC); now by default.",
    ),
]
ByLogOption = Annotated[
    bool,
    typer.Option(
        "--by-log",
        help="With --as-of: ask the tables' commit logs instead of the rows' own times.",
    ),
]
DayOption = Annotated[
    dt.date | None,
    typer.Option(
        parser=parse_day, metavar="DATE", help="Audited day; yesterday in the settings' time zone."
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="Only this model; repeat it for more. All configured otherwise."),
]

RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        # Settings let the environment win over the file, and so does the option over both.
        callback=lambda address: _override("PRIVAUDIT_RAY__ADDRESS", address),
        metavar="auto|ray://HOST:PORT|local",
        help="Where the work is carried, instead of the settings' ray.address.",
    ),
]


def _override(variable: str, value: str | None) -> str | None:
    if value is not None:
        os.environ[variable] = value
    return value


def as_parameter(config: pathlib.Path | None) -> str | None:
    """Return the settings file as flows take it."""
    return str(config.absolute()) if config else None
