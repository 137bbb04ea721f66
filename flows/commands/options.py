"""Options that commands share."""

import datetime as dt
import inspect
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

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
AuditId = Annotated[str, typer.Argument(help="The audit's id, or how it begins.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def parse_day(text: str | dt.date) -> dt.date:
    """Return a day written as YYYY-MM-DD; the parser of every option that is a day."""
    if isinstance(text, dt.date):  # typer parses defaults too
        return text
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date: write it as YYYY-MM-DD.") from None


_Function = TypeVar("_Function", bound=Callable[..., None])
_BLOCK = re.compile(r"\n\n(\w[\w ]*):((?:\n    .*)+)")
_LINE = re.compile(r"\n    (\w+)(?: \((.+?)\))?: (.*(?:\n {5}.*)*)")


def command(
    app: typer.Typer, *, panel: str | None = None, name: str | None = None
) -> Callable[[_Function], _Function]:
    """Return what makes a function a command, whose help is the docstring.

    Parameters before `*` are arguments, the others options. What they mean stands in blocks of the
    docstring, each the title of a panel of the help page, or `Options`. A line of a block is
    `name: text`, `name (METAVAR): text` or, of an option with another name, `name (--name): text`.
    A parameter that no block names is annotated with its option.
    """

    def add(function: _Function) -> _Function:
        text = inspect.getdoc(function) or ""
        said = {
            name: (None if title == "Options" else title, shown, " ".join(words.split()))
            for title, block in _BLOCK.findall(text)
            for name, shown, words in _LINE.findall(block)
        }
        parameters = [
            _with_option(each, *said[each.name]) if each.name in said else each
            for each in inspect.signature(function).parameters.values()
        ]
        vars(function)["__signature__"] = inspect.Signature(parameters)
        app.command(name, help=_BLOCK.sub("", text), rich_help_panel=panel)(function)
        return function

    return add


def _with_option(
    each: inspect.Parameter, panel: str | None, shown: str, text: str
) -> inspect.Parameter:
    """Return a parameter with an option of typer as its default; `Annotated` adds bounds to it."""
    kind, bounds = each.annotation, {}
    if get_origin(kind) is Annotated:
        kind, bounds = get_args(kind)
    more: dict[str, Any] = {"help": text, "rich_help_panel": panel, **bounds}
    if dt.date in (kind, *get_args(kind)):
        more |= {"parser": parse_day, "metavar": "DATE"}
    option = f"--{each.name.replace('_', '-')}"
    if shown.startswith("--"):
        option = shown
    elif shown:
        more["metavar"] = shown
    default = ... if each.default is each.empty else each.default
    if each.kind is each.KEYWORD_ONLY:
        given = typer.Option(default, option, **more)
    else:
        given = typer.Argument(default, **more)
    return each.replace(annotation=kind, default=given)


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


_FLAGS = {"day": "--day-column", "time_zone": "--time-zone", "holdout": "--split or --holdout"}


def refuse_missing(missing: Mapping[str, str]) -> None:
    """Raise where a table does not say a key of its settings; `missing` has a sentence of each."""
    if missing:
        flags = ", ".join(_FLAGS.get(key, f"--{key}") for key in missing)
        sentences = "; ".join(missing.values()).rstrip(".")
        raise typer.BadParameter(f"The table does not say everything: give {flags} ({sentences}).")


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
    dt.date | None,
    typer.Option(
        parser=parse_day,
        metavar="DATE",
        help="Audited day; by default yesterday, in the settings' time zone.",
    ),
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
