"""Places of a lake, a warehouse or a report: a path of this machine, or an object store's URI.

Paths of files that an owner writes for each day are templates of {model} and {day}. An MLflow
registry's models:/NAME@{day} is such a template, too: of an address for each day.
"""

import datetime as dt
import os
import pathlib
import re
import string
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator

from privcore.exceptions import TerminalError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PORT = re.compile(r":\d{1,5}$")
_QUERY = {"region", "scheme", "endpoint_override"}
"""Parameters that a URI may have beside the place: none of them is a credential."""
_CONTAINERS = {"abfs", "abfss"}
"""Schemes in which the part before @ names a container."""
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
"""Schemes of one store, by the one that is compared."""
_BUCKETS = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"),
    "gs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"),
    "abfs": re.compile(r"[a-z0-9-]+@[a-z0-9]+\.(dfs|blob)\.core\.windows\.net"),
}
"""Forms of a bucket's name, and of no host but the vendor's."""


def local_path(place: str) -> pathlib.Path | None:
    """Return the absolute path on this machine that `place` names; None for an object store.

    In a path every character stands for itself; a file:// URI is percent-decoded.

    Raises:
        TerminalError: a file:// URI of another machine, or a path that no file can have.
    """
    scheme = _SCHEME.match(place)
    if scheme is None:
        path = place
    elif scheme[0].lower() == "file://":
        host, _, rest = place[scheme.end() :].partition("/")
        if host not in {"", "localhost"}:
            raise TerminalError(
                f"{place!r} names the machine {host!r}: write file:/// and the whole path."
            )
        path = f"/{urllib.parse.unquote(rest, errors='surrogateescape')}"
    else:
        return None
    if "\0" in path:
        raise TerminalError(f"{place!r} is not a path: remove the NUL character.")
    return pathlib.Path(path).absolute()


def check_uri(uri: str) -> str:
    """Return an object store's URI; one that could hold a credential is refused, and not repeated.

    Raises:
        TerminalError: it has a user, a password, parameters, a fragment, or a query
            of other names than region, scheme and endpoint_override. Credentials come from the
            environment's usual chain alone.
    """
    parts = urllib.parse.urlsplit(uri)
    host = urllib.parse.unquote(parts.netloc)
    if parts.scheme.lower() in _CONTAINERS:
        host = host.replace("@", "", 1)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    if (
        "@" in host
        or host.count(":") > (_PORT.search(host) is not None)
        or ";" in urllib.parse.unquote(parts.path)
        or "#" in uri
        or any(name.lower() not in _QUERY for name, _ in query)
        or any(set("@?#;") & set(urllib.parse.unquote(value)) for _, value in query)
    ):
        raise TerminalError(
            f"A {parts.scheme}:// URI of the settings holds a credential, or something that could "
            "be one (a name before @, ;, #, or a query of other names than "
            f"{', '.join(sorted(_QUERY))}): take it out and give credentials in the environment, "
            "where the cloud's own tools look for them."
        )
    return uri


def bucket_of(address: str) -> str | None:
    """Return the bucket of an address that an outsider names; None where it could name a host.

    A bucket's host is its vendor's, so that no login goes to a host of their choice.
    """
    scheme, bucket, _ = _parts(address)
    known = _BUCKETS.get(scheme)
    return f"{scheme}://{bucket}" if known is not None and known.fullmatch(bucket) else None


def within(address: str, allowed: Iterable[str]) -> tuple[str, str] | None:
    """Return which allowed place an address lies below, and where there; None below none of them.

    Args:
        address: as an outsider names it: a registry, a catalogue, a table's writer.
        allowed: paths and URIs of operators. Region, scheme and endpoint are theirs alone, because
            an address with a query is below none.

    Raises:
        TerminalError: an allowed place names another machine, or is no path.
    """
    for place in allowed:
        root = local_path(place)
        name = _name_within(address, place) if root is None else _path_within(address, root)
        if name is not None:
            return place if root is None else str(root), name
    return None


def placed(root: str, name: str) -> str:
    """Return the address of what lies below a place; a query stays at the end."""
    if local_path(root) is not None:
        return str(pathlib.Path(root) / name)
    place, mark, query = root.partition("?")
    return f"{place.rstrip('/')}/{name}".rstrip("/") + mark + query


def _path_within(address: str, root: pathlib.Path) -> str | None:
    """Return where a path of this machine lies below another; links are followed."""
    try:
        path = local_path(address)
    except TerminalError:
        return None
    if path is None or ".." in path.parts:
        return None
    real = pathlib.Path(os.path.realpath(path))
    if not path.is_relative_to(root) or not real.is_relative_to(os.path.realpath(root)):
        return None
    return str(path.relative_to(root))


def _name_within(address: str, place: str) -> str | None:
    """Return where an object store's address lies below another."""
    scheme, bucket, path = _parts(address)
    names, above = path.strip("/").split("/"), _parts(place.partition("?")[0])
    prefix = [name for name in above[2].split("/") if name]
    if (scheme, bucket) != above[:2] or names[: len(prefix)] != prefix:
        return None
    if {".", ".."} & set(names) or set("?#") & set(address):
        return None
    return "/".join(names[len(prefix) :])


def _parts(address: str) -> tuple[str, str, str]:
    """Return an address's scheme, the rest up to the path, and the path, letter by letter."""
    scheme, mark, rest = address.partition("://")
    bucket, _, path = rest.partition("/")
    return (_SAME.get(scheme.lower(), scheme.lower()), bucket, path) if mark else ("", "", address)


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
