"""Models that an MLflow registry names, by its REST interface: an alias for each day.

The server is that of MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI. Requests carry
MLFLOW_TRACKING_TOKEN, or the name and password of MLFLOW_TRACKING_USERNAME and
MLFLOW_TRACKING_PASSWORD.

Only native files are read (XGBoost, LightGBM, CatBoost, ONNX), which `MLmodel` names; what MLflow
itself would unpickle is refused by name. A user who may register a model writes MLmodel, in YAML,
which a contained child reads as text, and chooses where its files are said to lie. They are read
through the server, or below the registry's own artifact root in an object store, or below places
that the settings allow; nothing else is opened, and no login is sent.
https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

import datetime as dt
import functools
import hashlib
import os
import pathlib
import re
import ssl
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from privcore.exceptions import TerminalError
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.formats import ENDINGS, NAMES
from workers.lake.layout import Lake, patiently
from workers.lake.places import bucket_of, placed, registry_address, within

_NULL = {"", "~", "null", "Null", "NULL"}


class Flavor(NamedTuple):
    """One flavor: its model file, by which module MLflow loads it, and a folder of code beside it.

    None where it names none. That folder comes first where Python looks for modules.
    """

    data: str | None = None
    loader: str | None = None
    code: str | None = None


def parse(content: bytes) -> dict[str, Flavor]:
    """Return what each flavor names; runs in the contained child."""
    import yaml  # noqa: PLC0415  # for a registry's models alone

    # BaseLoader makes text, lists and dictionaries, and calls nothing.
    document = yaml.BaseLoader(content).get_single_data()
    flavors, found = document.get("flavors") if isinstance(document, dict) else None, {}
    if not isinstance(flavors, dict):
        raise TypeError("it lists no flavors")
    for name, flavor in flavors.items():
        said = flavor if isinstance(flavor, dict) else {}
        words = (said.get(key) for key in ("data", "loader_module", "code"))
        # Without its types, YAML's null is a word.
        named = (word if isinstance(word, str) and word not in _NULL else None for word in words)
        found[str(name)] = Flavor(*named)
    return found


_contained = Contained(
    f"{__name__}:{parse.__name__}",
    seconds=limits.MLMODEL_SECONDS,
    memory=limits.MLMODEL_MEMORY_BYTES,
    fork=True,
)


_SECONDS = 60.0
"""Time that the server may be silent."""
_MAY_GO_AWAY = {408, 425, 429, 500, 502, 503, 504}
_API = "/api/2.0/mlflow"


class _Experiment(BaseModel):
    artifact_location: str = ""


class _ModelVersion(BaseModel, coerce_numbers_to_str=True):
    version: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,100}$")] | None = None
    source: str = ""
    status: str = "READY"
    creation_timestamp: dt.datetime | None = None


class _Answer(BaseModel):
    """What is read of the registry's answers; what else they say is passed over."""

    model_version: _ModelVersion | None = None
    artifact_uri: str = ""
    experiment: _Experiment = _Experiment()


def asked(method: str, content: dict[str, str] | None = None, **question: str) -> _Answer | None:
    """Return the registry's answer; None where it has no such thing.

    It is told `content`, where there is some: the same if it is told twice, as it is tried again.

    Raises:
        NotEvaluableError: the server cannot be asked, or its answer is none of MLflow's.
        TerminalError: the environment names no server.
        TransientError: the server kept failing.
    """
    asks = f"?{urllib.parse.urlencode(question)}" if question else ""
    given = _exchanged(f"{_API}/{method}{asks}", limits.MANIFEST_BYTES, content)
    if given is None:
        return None
    try:
        return _Answer.model_validate_json(given)
    except ValidationError:
        why = "answers with something else than MLflow's REST interface does"
        raise _unreadable(why) from None


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


def _exchanged(path: str, at_most: int, content: dict[str, str] | None = None) -> bytes | None:
    """Return what the server gives, or answers to `content`; None where it has no such thing."""
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

    def action() -> tuple[int, bytes]:
        asked = httpx.stream(
            method, f"{server}{path}", json=content, headers=headers, auth=login,
            timeout=_SECONDS, verify=_trusted(),
        )  # fmt: skip
        try:
            with asked as answer:
                if answer.status_code in _MAY_GO_AWAY:
                    raise ConnectionError(f"HTTP status {answer.status_code}")
                return answer.status_code, _body(answer.iter_raw(), at_most)
        except httpx.HTTPError as error:
            raise ConnectionError(type(error).__name__) from None

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


def _body(parts: Iterable[bytes], at_most: int) -> bytes:
    """Return an answer's bytes, at least one more than `at_most` where there are too many."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > at_most:
            break
    return bytes(content)


def _unreadable(why: str) -> NotEvaluableError:
    host = urllib.parse.urlsplit(server_address()).hostname
    return NotEvaluableError(Reason.PATH_UNREADABLE, f"The MLflow server {host} {why}.")


PROXIED = "mlflow-artifacts:"
_LOGGED = {
    "xgboost": 'log it with mlflow.xgboost and model_format="ubj"',
    "lightgbm": "log model.booster_, and not the LGBMClassifier, with mlflow.lightgbm",
    "catboost": "log the CatBoostClassifier with mlflow.catboost",
    "onnx": "log it with mlflow.onnx as one file",
}
"""How a model is logged in its framework's own format."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHOWN = 10
"""Flavors that a sentence names."""


@dataclass(frozen=True, slots=True)
class RegisteredFile:
    """A model's file in a folder, and what a registry says of it, where one does.

    `code` is whether MLflow runs modules of the version's own before it loads the file;
    `registered_at` when the server says that it was made, None where it does not.
    """

    folder: str
    name: str
    format: str | None = None
    version: str | None = None
    run: str | None = None
    registered_at: dt.datetime | None = None
    code: bool = False


def find_registered(address: str, allowed: Iterable[str] = ()) -> RegisteredFile | None:
    """Return the model version that has an alias; None where there is none, or none that is ready.

    Args:
        address: models:/NAME@ALIAS.
        allowed: paths and URIs below which artifacts may lie, besides the registry's own root.

    Raises:
        NotEvaluableError: the registry cannot be asked, or the version holds no native file, or
            its files lie in another place.
    """
    name, alias = registry_address(address)
    answer = asked("registered-models/alias", name=name, alias=alias)
    if answer is None or answer.model_version is None or answer.model_version.status != "READY":
        return None
    return _located(name, answer.model_version, allowed)


def _located(name: str, found: _ModelVersion, allowed: Iterable[str]) -> RegisteredFile:
    """Return where a version's own file lies, by what the registry says of the version."""
    place = asked("model-versions/get-download-uri", name=name, version=found.version) or _Answer()
    who = f"Version {found.version} of {name} in the MLflow registry"
    folder = _folder(place.artifact_uri or found.source, allowed, who)
    flavors = _mlmodel(folder, who)
    return RegisteredFile(
        folder,
        *_native(flavors, who),
        version=found.version,
        run=found.run_id or None,
        registered_at=found.creation_timestamp,
        code=any(flavor.code is not None for flavor in flavors.values()),
    )


def read_artifact(folder: str, name: str, *, at_most: int) -> bytes:
    """Return a file of a model version, from where its artifacts lie.

    Raises:
        FileNotFoundError: there is none.
        NotEvaluableError: it is too large, or cannot be read.
    """
    if not folder.startswith(PROXIED):
        return Lake(folder).read(name, at_most=at_most)
    server = urllib.parse.urlsplit(server_address())
    try:
        parts = urllib.parse.urlsplit(folder)
    except ValueError:
        raise _outside(f"{folder[:200]!r}, which is no address") from None
    if parts.netloc and parts.netloc != server.netloc:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The model's files lie on the MLflow server {parts.hostname}, which is not the one of "
            "MLFLOW_TRACKING_URI: nothing is told to another server.",
        )
    if ".." in parts.path.split("/"):
        raise _outside(f"{folder[:200]!r}, which leads out of its artifacts")
    path = urllib.parse.quote(f"{parts.path.strip('/')}/{name}")
    content = _exchanged(f"/api/2.0/mlflow-artifacts/artifacts/{path}", at_most)
    if content is None:
        raise FileNotFoundError(name)
    return content


def _outside(what: str) -> NotEvaluableError:
    sentence = f"The MLflow registry names {what}: register the model again."
    return NotEvaluableError(Reason.PATH_OUTSIDE, sentence)


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
        answer = asked("experiments/get", experiment_id="0") or _Answer()
    except NotEvaluableError:  # this login may not look
        return ()
    root = answer.experiment.artifact_location.rpartition("/")[0]
    return () if bucket_of(root) is None or set("?#") & set(root) else (root,)


def _mlmodel(folder: str, who: str) -> dict[str, Flavor]:
    try:
        flavors = _contained(read_artifact(folder, "MLmodel", at_most=limits.MANIFEST_BYTES))
        return {name: Flavor(*named) for name, named in flavors.items()}
    except FileNotFoundError:
        why = "there is none"
    except ContainedError as error:
        why = "it is no YAML with flavors" if error.kind == "raised" else f"reading it {error.why}"
    raise NotEvaluableError(
        Reason.CHECKPOINT_INVALID,
        f"{who} has no file MLmodel that can be read ({why}): log it with mlflow.xgboost, "
        "mlflow.lightgbm, mlflow.catboost or mlflow.onnx.",
    )


def _native(flavors: dict[str, Flavor], who: str) -> tuple[str, str]:
    """Return the model's own file, and its format; by which MLflow serves it, where it does."""
    served = flavors.get("python_function", Flavor())
    held: tuple[str, str] | None = None
    for form in _LOGGED:
        data = flavors.get(form, Flavor()).data
        if data is None:
            continue
        if not (_PLAIN.fullmatch(data) and ENDINGS.get(pathlib.PurePath(data).suffix) == form):
            held = held or (form, data[:100])
            continue
        if served.loader in {None, f"mlflow.{form}"} and served.data in {None, data}:
            return data, form
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"{who} holds {data[:100]} of {form}, and MLflow serves {str(served.data)[:100]} by "
            f"{str(served.loader)[:100]}, which may answer otherwise: log one model, with "
            f"mlflow.{form}.",
        )
    if held is not None:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"{who} holds {held[1]!r}, which is no file in {NAMES[held[0]]}'s own format: what is "
            f"pickled may hold code and is never read; {_LOGGED[held[0]]}, or give its "
            "probabilities as a table ([models.scores]).",
        )
    named = ", ".join(sorted(flavor[:40] for flavor in flavors)[:_SHOWN])
    named += f" and {len(flavors) - _SHOWN:,} more" if len(flavors) > _SHOWN else ""
    raise NotEvaluableError(
        Reason.CHECKPOINT_INVALID,
        f"{who} has the flavors {named}, and no file of a framework's own format: what is pickled "
        "may hold code and is never read; log the model with mlflow.xgboost, mlflow.lightgbm, "
        "mlflow.catboost or mlflow.onnx, or give its probabilities as a table ([models.scores]).",
    )


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a registered model, and the alias that is to name it."""

    name: str
    number: str
    alias: str | None = None


def check_version(version: Version, sha256: str) -> None:
    """Refuse a version whose model file is another one than was audited.

    Raises:
        TerminalError: there is no such version, its file is another one, MLflow serves it with
            code of its own, or the environment names no server.
    """
    answer = asked("model-versions/get", name=version.name, version=version.number)
    if answer is None or answer.model_version is None:
        raise TerminalError(
            f"The MLflow registry has no version {version.number} of {version.name}: give the "
            "version that the training run registered."
        )
    found = _located(version.name, answer.model_version, ())
    if found.code:
        raise TerminalError(
            f"MLflow serves version {version.number} of {version.name} with code of its own, which "
            "may answer otherwise than its file: log the model without code_paths."
        )
    content = read_artifact(found.folder, found.name, at_most=limits.CHECKPOINT_BYTES)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise TerminalError(
            f"Version {version.number} of {version.name} holds another model file than the target: "
            "give the version that holds the file which is audited."
        )


def promote(version: Version, tags: Mapping[str, str]) -> None:
    """Write tags of a version, and then move its alias.

    Raises:
        TerminalError: the version is gone, or the environment names no server.
    """
    named = {"name": version.name, "version": version.number}
    calls = [("model-versions/set-tag", named | {"key": key, "value": value})
             for key, value in tags.items()]  # fmt: skip
    if version.alias is not None:
        calls.append(("registered-models/alias", named | {"alias": version.alias}))
    for method, content in calls:
        if asked(method, content) is None:
            raise TerminalError(
                f"The MLflow registry does not take {method} for version {version.number} of "
                f"{version.name}: see that the version is there and the alias is a valid name."
            )
