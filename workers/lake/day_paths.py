"""Paths of files that an owner writes for each day: a template of {model} and {day}.

An MLflow registry's models:/NAME@{day} is such a template, too: of an address for each day.
"""

import datetime as dt
import re
import string
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

_FIELDS = {"model", "day"}
_FIRST = dt.date(2013, 1, 1)
_DAYS = 800
"""Days that follow one another and have paths of their own; more than two years."""
REGISTRY = "models:/"
_ADDRESS = re.compile(r"models:/(?P<name>[^/@]+)@(?P<alias>[A-Za-z0-9_-]+)")
_BUCKET = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+(/.*)?")


def check_day_path(template: str) -> str:
    """Return a template that names each day's file by {day} or {day:%Y/%m/%d}, and maybe {model}.

    Raises:
        ValueError: it has no {day}, gives several days the same path, or holds something else in
            braces.
    """
    path, query = _without_query(template)
    try:
        parts = list(string.Formatter().parse(path))
    except ValueError:
        raise ValueError(
            f"{template!r} has a brace without its pair: write {{day}} or {{day:%Y/%m/%d}}"
        ) from None
    for _, name, form, conversion in parts:
        if name is not None and (
            name not in _FIELDS or conversion or "{" in (form or "") or (name == "model" and form)
        ):
            raise ValueError(
                f"{template!r} has the placeholder {{{name}}}, which does not exist: write "
                "{model}, {day} or {day:%Y/%m/%d}"
            )
    if not any(name == "day" for _, name, _, _ in parts):
        raise ValueError(f"{template!r} names no day: write {{day}} or {{day:%Y/%m/%d}} into it")
    if "{" in query:
        raise ValueError(f"{template!r} has a brace behind its question mark: write it before")
    if _is_remote(template) and not _BUCKET.fullmatch(split_day_path(template, "model", _FIRST)[0]):
        raise ValueError(f"{template!r} has no bucket before its first brace: name it")
    days = [_FIRST + dt.timedelta(days=step) for step in range(_DAYS)]
    if len({day_path(template, "model", day) for day in days}) < _DAYS:
        raise ValueError(
            f"{template!r} gives the same path for several days: include year, month and day, "
            f"for example {{day}}"
        )
    return template


DayPath = Annotated[str, AfterValidator(check_day_path)]
"""A checked template, as a field of the settings."""


def day_path(template: str, model: str, day: dt.date) -> str:
    """Return the path of a day's file."""
    return template.format(model=model, day=day)


def split_day_path(template: str, model: str, day: dt.date) -> tuple[str, str]:
    """Return the folder that all days have in common, and where in it a day's file lies.

    An object store's query, like ?region=, is the folder's.
    """
    path, query = _without_query(template)
    folder = "".join(_before_fields(path)).rpartition("/")[0]
    whole = day_path(path, model, day)
    name = whole.removeprefix(folder).removeprefix("/")
    return (folder or ("/" if whole.startswith("/") else ".")) + query, name


def _without_query(template: str) -> tuple[str, str]:
    if not _is_remote(template):
        return template, ""  # in a path of this machine, every character stands for itself
    path, mark, query = template.partition("?")
    return path, mark + query


def _is_remote(template: str) -> bool:
    return "://" in template and not template.lower().startswith("file://")


def _before_fields(template: str) -> Iterator[str]:
    """Yield the text before the first field, spelled as it is meant."""
    for text, name, _, _ in string.Formatter().parse(template):
        yield text
        if name is not None:
            return


def registry_address(address: str) -> tuple[str, str]:
    """Return name and alias of models:/NAME@ALIAS.

    Raises:
        ValueError: it is none.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(
            f"{address!r} names no model of a registry: write models:/NAME@{{day}}, with an alias "
            "of letters, digits, _ and - for each day"
        )
    return found["name"], found["alias"]
