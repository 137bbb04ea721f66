"""Options that commands share."""

import datetime as dt
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.plain_text import plain_text

if TYPE_CHECKING:
    from flows.settings import Settings
    from workers.warehouse.store import Warehouse

_BARE = re.compile(r"[A-Za-z0-9_-]+").fullmatch
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
        raise typer.BadParameter(f"{text!r} is not a date: write it as YYYY-MM-DD.") from None


def day_option(text: str, *names: str) -> Any:
    """Return an option that is a day."""
    return typer.Option(*names, parser=parse_day, metavar="DATE", help=text)


def feature_columns(features: Iterable[str]) -> dict[str, str]:
    """Return the column of each feature that the model calls otherwise, from NAME=COLUMN."""
    columns = {}
    for feature in features:
        name, _, column = feature.partition("=")
        if not (name and column):
            raise typer.BadParameter(
                f"--feature is {feature!r}: write the model's name for it, =, and its column."
            )
        columns[name] = column
    return columns


def toml_of(value: Any) -> str:
    """Return a value as TOML on one line; None, which TOML has not, as an empty text."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_of, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{plain_text(escaped)}"'
    if isinstance(value, Mapping):
        keys = [key if _BARE(str(key)) else toml_of(str(key)) for key in value]
        pairs = zip(keys, map(toml_of, value.values()), strict=True)
        return f"{{ {', '.join(f'{key} = {one}' for key, one in pairs)} }}"
    return '""' if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def parse_moment(text: str | dt.datetime) -> dt.datetime:
    """Return a moment written in ISO 8601, in UTC where it names no zone; a day is its start."""
    if isinstance(text, dt.datetime):  # typer parses defaults too
        return text
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time: write it as YYYY-MM-DD or YYYY-MM-DDTHH:MM, in UTC."
        ) from None


AsOfOption = Annotated[
    dt.datetime | None,
    typer.Option(
        "--as-of",
        parser=parse_moment,
        metavar="TIME",
        help="Read the warehouse as it was at this time (UTC); now by default.",
    ),
]
DayOption = Annotated[
    dt.date | None, day_option("Audited day; by default yesterday, in the settings' time zone.")
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="Audit only this model (repeatable); by default all models of the settings."
    ),
]

RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="auto|ray://HOST:PORT|local",
        help="Ray that does the work, instead of the settings' ray.address.",
    ),
]


def as_parameter(config: pathlib.Path | None) -> str | None:
    """Return the settings file as flows take it."""
    return str(config.absolute()) if config else None


def open_warehouse(
    config: pathlib.Path | None, as_of: dt.datetime | None = None
) -> "tuple[Settings, Warehouse]":
    """Return the settings, and their warehouse as it is or was.

    Raises:
        TerminalError: the settings cannot be read, or there is no warehouse.
    """
    from flows.settings import load_settings
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse, as_of=as_of)
    warehouse.check_exists()
    return settings, warehouse
