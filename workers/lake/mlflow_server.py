"""The MLflow server that the environment names, by its REST interface.

The server is that of MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI. Requests carry
MLFLOW_TRACKING_TOKEN, or the name and password of MLFLOW_TRACKING_USERNAME and
MLFLOW_TRACKING_PASSWORD.
https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

import asyncio
import functools
import json
import os
import ssl
import urllib.parse
from collections.abc import AsyncIterable
from http import HTTPStatus
from typing import Any

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.retries import patiently

_SECONDS, _SECONDS_IN_ALL = 60.0, 900.0
"""Time that the server may be silent, and time that one answer may take."""
_MAY_GO_AWAY = {408, 425, 429, 500, 502, 503, 504}
_API = "/api/2.0/mlflow"


def asked(method: str, **question: str) -> dict[str, Any] | None:
    """Return the registry's answer; None where it has no such thing.

    Raises:
        NotEvaluableError: the server cannot be asked, or its answer is none of MLflow's.
        TerminalError: the environment names no server.
        TransientError: the server kept failing.
    """
    return _as_answer(get(f"{_API}/{method}?{urllib.parse.urlencode(question)}"))


def told(method: str, **content: str) -> dict[str, Any] | None:
    """Tell the registry something, and return its answer; None where it has no such thing.

    What is told must be the same if it is told twice, because it is tried again.

    Raises:
        NotEvaluableError: the server cannot be asked, or its answer is none of MLflow's.
        TerminalError: the environment names no server.
        TransientError: the server kept failing.
    """
    return _as_answer(_exchanged(f"{_API}/{method}", limits.MANIFEST_BYTES, content))


def get(path: str, *, at_most: int = limits.MANIFEST_BYTES) -> bytes | None:
    """Return what the server gives, patiently; None where it has no such thing.

    Raises:
        NotEvaluableError: the server cannot be asked, or gives too much.
        TerminalError: the environment names no server.
        TransientError: the server kept failing.
    """
    return _exchanged(path, at_most, None)


def _as_answer(content: bytes | None) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        answer = json.loads(content)
        json.dumps(answer, ensure_ascii=False).encode()  # half characters are no text
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise _unreadable("answers with something else than MLflow's REST interface does")
    return answer


def server_address() -> str:
    """Return the server's address.

    Raises:
        TerminalError: the environment names none, or names it with a password.
    """
    server = os.environ.get("MLFLOW_REGISTRY_URI") or os.environ.get("MLFLOW_TRACKING_URI") or ""
    parts = urllib.parse.urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise TerminalError(
            "No MLflow server is named: set MLFLOW_TRACKING_URI to its http:// or https:// address."
        )
    if "@" in parts.netloc:
        raise TerminalError(
            "MLFLOW_TRACKING_URI holds a name or a password: give them as MLFLOW_TRACKING_USERNAME "
            "and MLFLOW_TRACKING_PASSWORD."
        )
    return server.rstrip("/")


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates to trust: to read them takes longer than a request."""
    import httpx  # noqa: PLC0415  # for a registry's models alone

    return httpx.create_ssl_context()


def _exchanged(path: str, at_most: int, content: dict[str, str] | None) -> bytes | None:
    """Return what the server gives, or answers to `content`; None where it has no such thing.

    A timeout of httpx bounds each read and not all of them, so that a server which sends a byte of
    its headers now and then would never be given up: this loop has a clock of its own.
    """
    import httpx  # noqa: PLC0415  # for a registry's models alone

    server = server_address()
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    name = os.environ.get("MLFLOW_TRACKING_USERNAME")
    # What is packed would be unpacked before its size is known.
    headers = {"Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    login = httpx.BasicAuth(name, password) if name and not token else None

    method = "GET" if content is None else "POST"

    async def ask() -> tuple[int, bytes]:
        async with (
            asyncio.timeout(_SECONDS_IN_ALL),
            httpx.AsyncClient(
                headers=headers, auth=login, timeout=_SECONDS, verify=_trusted()
            ) as client,
            client.stream(method, f"{server}{path}", json=content) as answer,
        ):
            if answer.status_code in _MAY_GO_AWAY:
                raise ConnectionError(f"HTTP status {answer.status_code}")
            return answer.status_code, await _body(answer.aiter_raw(), at_most)

    def action() -> tuple[int, bytes]:
        try:
            return asyncio.run(ask())
        except httpx.HTTPError as error:
            raise ConnectionError(type(error).__name__) from None
        except TimeoutError:  # seven tries of it would take hours
            raise TransientError(
                f"The MLflow server did not answer in full within {_SECONDS_IN_ALL:.0f} seconds: "
                "see what slows it down, then try again."
            ) from None

    status, given = patiently(action, "the MLflow server")
    if status == HTTPStatus.NOT_FOUND or (
        status == HTTPStatus.BAD_REQUEST and b"INVALID_PARAMETER_VALUE" in given
    ):
        return None  # an alias that is not there is an invalid value
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise _unreadable(
            "refuses access: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD"
        )
    if status != HTTPStatus.OK:
        raise _unreadable(f"answers with the status {status}: see that it is an MLflow server")
    if len(given) > at_most:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"The MLflow server gives a file larger than the {at_most:,} bytes that are read.",
        )
    return given


async def _body(parts: AsyncIterable[bytes], at_most: int) -> bytes:
    """Return an answer's bytes, at least one more than `at_most` where there are too many."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > at_most:
            break
    return bytes(content)


def _unreadable(why: str) -> NotEvaluableError:
    host = urllib.parse.urlsplit(server_address()).hostname
    return NotEvaluableError(Reason.PATH_UNREADABLE, f"The MLflow server {host} {why}.")
