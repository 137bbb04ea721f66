"""Values of the settings that have rules of their own: times of day, zones, addresses."""

import datetime as dt
import urllib.parse
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def _time_of_day(value: object) -> object:
    # A number would be taken for seconds since midnight.
    if isinstance(value, dt.time):
        return value
    try:
        return dt.time.fromisoformat(value)  # type: ignore[arg-type]  # or TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a time of day: write it like 09:00:00") from None


def _local_time(time: dt.time) -> dt.time:
    if time.tzinfo is not None:
        raise ValueError("write the time without a zone; night.time_zone gives it")
    return time


def safe_url(url: str) -> str:
    """Return an address that alerts may go to: encrypted, or of this machine."""
    parts = urllib.parse.urlsplit(url)  # a bad address is a ValueError of its own
    if not (parts.scheme == "https" and parts.hostname) and not (
        parts.scheme == "http" and parts.hostname in _LOOPBACK
    ):
        raise ValueError("write an https:// address (http:// only for this machine)")
    return without_login(url)


def without_login(url: str) -> str:
    """Return an address that holds no name and no password."""
    if "@" in urllib.parse.unquote(urllib.parse.urlsplit(url).netloc):
        raise ValueError("write the address without a name or password")
    return url


TimeOfDay = Annotated[dt.time, BeforeValidator(_time_of_day), AfterValidator(_local_time)]
