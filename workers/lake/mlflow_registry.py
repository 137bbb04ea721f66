"""Models that an MLflow registry names, by its REST interface: an alias for each day.

Only native files are read (XGBoost, LightGBM, CatBoost, ONNX), which `MLmodel` names; what MLflow
itself would unpickle is refused by name. The server is that of MLFLOW_REGISTRY_URI or
MLFLOW_TRACKING_URI; it is told MLFLOW_TRACKING_TOKEN, or the name and password of
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

Whoever may register a model chooses where its files are said to lie. They are read through the
server, or below the registry's own artifact root in an object store, or below places that the
settings allow; elsewhere nothing is opened, and no login is told.
https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

import asyncio
import json
import os
import re
import urllib.parse
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.day_paths import registry_address
from workers.lake.layout import Lake
from workers.lake.mlmodel import UnreadableMLmodelError, read_flavors
from workers.lake.places import bucket_of, placed, within
from workers.lake.retries import patiently

PROXIED = "mlflow-artifacts:"
_FLAVORS = ("xgboost", "lightgbm", "catboost", "onnx")
_ENDINGS = {
    "xgboost": (".ubj", ".json", ".xgb"),
    "lightgbm": (".lgb", ".txt"),
    "catboost": (".cb", ".cbm"),
    "onnx": (".onnx",),
}
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECONDS, _SECONDS_IN_ALL = 60.0, 900.0
"""How long the server may be silent, and how long one answer may take."""
_MAY_GO_AWAY = {408, 425, 429, 500, 502, 503, 504}
_API = "/api/2.0/mlflow"


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A version of a registered model.

    Attributes:
        version: its number.
        run: id of the run that logged it; None where the registry knows none.
        folder: path or URI of its artifacts.
        name: of the model's file among them.
        format: of that file.
    """

    version: str
    run: str | None
    folder: str
    name: str
    format: str


def find_registered(address: str, allowed: Iterable[str] = ()) -> RegisteredModel | None:
    """Return the model version that has an alias; None where there is none, or none that is ready.

    Args:
        address: models:/NAME@ALIAS.
        allowed: paths and URIs below which artifacts may lie, besides the registry's own root.

    Raises:
        NotEvaluableError: the registry cannot be asked, or the version holds no native file, or
            its files lie elsewhere.
        TerminalError: no server is named in the environment.
        TransientError: the registry kept failing.
    """
    name, alias = registry_address(address)
    answer = _asked("registered-models/alias", name=name, alias=alias)
    if answer is None:
        return None
    found = answer.get("model_version", {})
    if found.get("status", "READY") != "READY":
        return None
    version = str(found.get("version"))
    place = _asked("model-versions/get-download-uri", name=name, version=version) or {}
    who = f"Version {version} of {name} in the MLflow registry"
    folder = _folder(str(place.get("artifact_uri") or found.get("source") or ""), allowed, who)
    file, form = _native(_mlmodel(folder, who), who)
    return RegisteredModel(version, found.get("run_id") or None, folder, file, form)


def read_artifact(folder: str, name: str, *, at_most: int) -> bytes:
    """Return a file of a model version, from where its artifacts lie.

    Raises:
        FileNotFoundError: there is none.
        NotEvaluableError: it is too large, or cannot be read.
        TransientError: the server or the storage kept failing.
    """
    if not folder.startswith(PROXIED):
        return Lake(folder).read(name, at_most=at_most)
    parts = urllib.parse.urlsplit(folder)
    server = urllib.parse.urlsplit(_server())
    if parts.netloc and parts.netloc != server.netloc:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The model's files lie on the MLflow server {parts.hostname}, which is not the one of "
            "MLFLOW_TRACKING_URI: nothing is told to another server.",
        )
    if ".." in parts.path.split("/"):
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The MLflow registry names {folder[:200]!r}, which leads out of its artifacts: "
            "register the model again.",
        )
    path = urllib.parse.quote(f"{parts.path.strip('/')}/{name}")
    content = _get(f"/api/2.0/mlflow-artifacts/artifacts/{path}", at_most=at_most)
    if content is None:
        raise FileNotFoundError(name)
    return content


def _folder(address: str, allowed: Iterable[str], who: str) -> str:
    """Return the address at which a version's artifacts are read.

    Region, scheme and endpoint are those of the place that operators allow, never of the registry.
    """
    if address.startswith(PROXIED):
        return address
    found = within(address, allowed) or within(address, _own_root())
    if found is None:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"{who} has its files at {address[:200]!r}, which is below no place that the settings "
            "allow: if that place is yours, add it to artifacts of [models.checkpoints], or let "
            "the MLflow server serve the artifacts.",
        )
    return placed(*found)


def _own_root() -> tuple[str, ...]:
    """Return the registry's artifact root, if it is in a bucket.

    The server itself has placed the first experiment there; users place others.
    """
    try:
        answer = _asked("experiments/get", experiment_id="0") or {}
    except NotEvaluableError:  # this login may not look
        return ()
    experiment = answer.get("experiment")
    place = experiment.get("artifact_location") if isinstance(experiment, dict) else None
    root = str(place or "").rpartition("/")[0]
    return () if bucket_of(root) is None or set("?#") & set(root) else (root,)


def _mlmodel(folder: str, who: str) -> dict[str, str | None]:
    """Return the flavors that the file MLmodel lists, and each one's file."""
    try:
        return read_flavors(read_artifact(folder, "MLmodel", at_most=limits.MANIFEST_BYTES))
    except FileNotFoundError:
        why = "there is none"
    except UnreadableMLmodelError as error:
        why = error.why
    raise NotEvaluableError(
        Reason.CHECKPOINT_INVALID,
        f"{who} has no file MLmodel that can be read ({why}): log it with mlflow.xgboost, "
        "mlflow.lightgbm, mlflow.catboost or mlflow.onnx.",
    )


def _native(flavors: dict[str, str | None], who: str) -> tuple[str, str]:
    """Return the model's own file, and its format."""
    for form in _FLAVORS:
        data = flavors.get(form)
        if data is not None and _PLAIN.fullmatch(data) and data.endswith(_ENDINGS[form]):
            return data, form
    named = ", ".join(sorted(flavor[:40] for flavor in flavors))
    raise NotEvaluableError(
        Reason.CHECKPOINT_INVALID,
        f"{who} has the flavors {named}, and no file of a framework's own format: what is pickled "
        "may hold code and is never read; log the model with mlflow.xgboost, mlflow.lightgbm, "
        "mlflow.catboost or mlflow.onnx, or give its probabilities as a table ([models.scores]).",
    )


def _asked(method: str, **question: str) -> dict[str, Any] | None:
    """Return the registry's answer; None where it has no such thing."""
    content = _get(f"{_API}/{method}?{urllib.parse.urlencode(question)}")
    if content is None:
        return None
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _unreadable("answers with something else than MLflow's REST interface does")
    return answer


def _server() -> str:
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


def _get(path: str, *, at_most: int = limits.MANIFEST_BYTES) -> bytes | None:
    """Return what the server gives, patiently; None where it has no such thing.

    A timeout of httpx bounds each read and not all of them, so that a server which sends a byte of
    its headers now and then would never be given up: this loop has a clock of its own.
    """
    import httpx  # noqa: PLC0415  # for a registry's models alone

    server = _server()
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    name = os.environ.get("MLFLOW_TRACKING_USERNAME")
    # What is packed would be unpacked before its size is known.
    headers = {"Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    login = httpx.BasicAuth(name, password) if name and not token else None

    async def ask() -> tuple[int, bytes]:
        async with (
            asyncio.timeout(_SECONDS_IN_ALL),
            httpx.AsyncClient(headers=headers, auth=login, timeout=_SECONDS) as client,
            client.stream("GET", f"{server}{path}") as answer,
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

    status, content = patiently(action, "the MLflow server")
    if status == HTTPStatus.NOT_FOUND or (
        status == HTTPStatus.BAD_REQUEST and b"INVALID_PARAMETER_VALUE" in content
    ):
        return None  # an alias that is not there is an invalid value
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise _unreadable(
            "refuses access: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD"
        )
    if status != HTTPStatus.OK:
        raise _unreadable(f"answers with the status {status}: see that it is an MLflow server")
    if len(content) > at_most:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"The MLflow server gives a file larger than the {at_most:,} bytes that are read.",
        )
    return content


async def _body(parts: AsyncIterable[bytes], at_most: int) -> bytes:
    """Return an answer's bytes, at least one more than `at_most` where there are too many."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > at_most:
            break
    return bytes(content)


def _unreadable(why: str) -> NotEvaluableError:
    host = urllib.parse.urlsplit(_server()).hostname
    return NotEvaluableError(Reason.PATH_UNREADABLE, f"The MLflow server {host} {why}.")
