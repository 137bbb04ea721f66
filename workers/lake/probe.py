"""Test that a folder or bucket can be written to, made before the work is done."""

import os
import urllib.parse
import uuid

from privcore.exceptions import TerminalError
from workers.lake.layout import open_filesystem
from workers.lake.places import local_path

_SECONDS = 10.0


def try_writing(what: str, place: str) -> None:
    """Write, read and delete a small file at a path or URI; a folder of this machine is made.

    Raises:
        TerminalError: it is a file, or it cannot be written, read or deleted in.
    """
    name = f"_privaudit_check_{uuid.uuid4().hex}"
    try:
        local = local_path(place)
        if local is not None:
            if local.exists() and not local.is_dir():
                raise TerminalError(
                    f"The {what} {local} is a file: name a folder for it in the settings."
                )
            local.mkdir(parents=True, exist_ok=True)
        files = open_filesystem(place)
        with files.open_output_stream(name) as stream:
            stream.write(b"probe")
        with files.open_input_stream(name) as stream:
            same = stream.read() == b"probe"
        files.delete_file(name)
    except OSError as error:
        raise TerminalError(
            f"The {what} {place} cannot be written, read and deleted in ({_why(error)}): check the "
            "address and the rights of these credentials."
        ) from error
    if not same:
        raise TerminalError(
            f"The {what} {place} gave back other bytes than were written: check the storage."
        )


def sent_elsewhere(place: str) -> str:
    """Return a clause that says which other host a store sends its clients to; else "".

    Arrow and deltalake follow, with a session's token, also at the start of an upload, and neither
    has a setting against it. The question is unsigned: a store that redirects signed ones alone, or
    some objects, is not found.
    """
    if not place.startswith("s3://"):
        return ""
    parts = urllib.parse.urlsplit(place)
    query = dict(urllib.parse.parse_qsl(parts.query))
    named = query.get("endpoint_override") or os.environ.get(
        "AWS_ENDPOINT_URL_S3", os.environ.get("AWS_ENDPOINT_URL", "")
    )
    scheme, _, host = named.rpartition("://")
    if not host:
        return ""  # Amazon's own
    scheme = query.get("scheme") or scheme or "https"
    import httpx  # noqa: PLC0415  # for a store that is no vendor's alone

    try:  # httpx follows nothing by itself
        answer = httpx.head(f"{scheme}://{host}/{parts.netloc}{parts.path}", timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL):
        return ""  # what else asks the store says what is wrong with it
    other = "" if answer.next_request is None else answer.next_request.url.netloc.decode()
    if other in {"", host}:
        return ""
    return (
        f", but {host} sends its clients to {other[:100]}, and they follow with a session's "
        "token: name the store's own host"
    )


def _why(error: OSError) -> str:
    """Return the system's own words, or else the first words of the library's."""
    if error.errno:
        return os.strerror(error.errno)
    return " ".join(str(error).split())[:200] or type(error).__name__
