"""Where a lake, a warehouse or a report lies: a path of this machine, or an object store's URI."""

import pathlib
import re
import urllib.parse

from privcore.exceptions import TerminalError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_QUERY = {"region", "scheme", "endpoint_override"}
"""What a URI may say beside the place: nothing of it is a credential."""
_CONTAINERS = {"abfs", "abfss"}
"""Schemes in which the part before @ names a container."""


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
        raise TerminalError(f"{place!r} is no path: take out the NUL character.")
    return pathlib.Path(path).absolute()


def check_uri(uri: str) -> str:
    """Return an object store's URI; one that could hold a credential is refused, and not repeated.

    Raises:
        TerminalError: it has a user, a password, parameters, a fragment, or a query of other names
            than region, scheme and endpoint_override. Credentials come from the environment's usual
            chain alone.
    """
    parts = urllib.parse.urlsplit(uri)
    host = _decoded(parts.netloc)
    if parts.scheme.lower() in _CONTAINERS:
        host = host.replace("@", "", 1)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    if (
        "@" in host
        or host.count(":") > _is_port(host)
        or ";" in _decoded(parts.path)
        or parts.fragment
        or "#" in uri
        or any(name.lower() not in _QUERY for name, _ in query)
        or any(set("@?#;") & set(_decoded(value)) for _, value in query)
    ):
        raise TerminalError(
            f"A {parts.scheme}:// URI of the settings holds a credential, or something that could "
            "be one (a name before @, ;, #, or a query of other names than "
            f"{', '.join(sorted(_QUERY))}): take it out and give credentials in the environment, "
            "where the cloud's own tools look for them."
        )
    return uri


def _is_port(host: str) -> bool:
    return re.search(r":\d{1,5}$", host) is not None


def _decoded(text: str) -> str:
    """Undo percent-encoding, however often it was done."""
    while (plain := urllib.parse.unquote(text)) != text:
        text = plain
    return text
