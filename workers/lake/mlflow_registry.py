"""Models that an MLflow registry names, by its REST interface: an alias for each day.

Only native files are read (XGBoost, LightGBM, CatBoost, ONNX), which `MLmodel` names; what MLflow
itself would unpickle is refused by name.

A user who may register a model chooses where its files are said to lie. They are read through the
server, or below the registry's own artifact root in an object store, or below places that the
settings allow; nothing else is opened, and no login is sent.
https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

import hashlib
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from privcore.exceptions import TerminalError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.day_paths import registry_address
from workers.lake.formats import NAMES
from workers.lake.layout import Lake
from workers.lake.mlflow_server import asked, get, server_address, told
from workers.lake.mlmodel import Flavor, UnreadableMLmodelError, read_flavors
from workers.lake.places import bucket_of, placed, within

PROXIED = "mlflow-artifacts:"
_FLAVORS = ("xgboost", "lightgbm", "catboost", "onnx")
_ENDINGS = {
    "xgboost": (".ubj", ".json", ".xgb"),
    "lightgbm": (".lgb", ".txt"),
    "catboost": (".cb", ".cbm"),
    "onnx": (".onnx",),
}
_LOGGED = {
    "xgboost": 'log it with mlflow.xgboost and model_format="ubj"',
    "lightgbm": "log model.booster_, and not the LGBMClassifier, with mlflow.lightgbm",
    "catboost": "log the CatBoostClassifier with mlflow.catboost",
    "onnx": "log it with mlflow.onnx as one file",
}
"""How a model is logged in its framework's own format."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION, _RUN = re.compile(r"[0-9]{1,19}"), re.compile(r"[A-Za-z0-9._-]{1,100}")
_SHOWN = 10
"""Flavors that a sentence names."""


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A version of a registered model.

    `code` is whether MLflow runs modules of the version's own before it loads the file.
    """

    version: str
    run: str | None
    folder: str
    name: str
    format: str
    code: bool


def find_registered(address: str, allowed: Iterable[str] = ()) -> RegisteredModel | None:
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
    if answer is None:
        return None
    found = _version_in(answer)
    return None if found.get("status", "READY") != "READY" else _located(name, found, allowed)


def find_version(name: str, version: str) -> RegisteredModel | None:
    """Return a version of a registered model; None where there is none.

    Raises:
        NotEvaluableError: as `find_registered`.
    """
    answer = asked("model-versions/get", name=name, version=version)
    return None if answer is None else _located(name, _version_in(answer), ())


def _version_in(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer says of a version; nothing where it says something else."""
    found = answer.get("model_version")
    return found if isinstance(found, dict) else {}


def _located(name: str, found: dict[str, Any], allowed: Iterable[str]) -> RegisteredModel:
    """Return where a version's own file lies, by what the registry says of the version."""
    version, run = str(found.get("version")), found.get("run_id") or None
    if not (_VERSION.fullmatch(version) and (run is None or _RUN.fullmatch(str(run)))):
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The MLflow registry gives {name} a version or a run that is none: register the model "
            "again.",
        )
    place = asked("model-versions/get-download-uri", name=name, version=version) or {}
    who = f"Version {version} of {name} in the MLflow registry"
    folder = _folder(str(place.get("artifact_uri") or found.get("source") or ""), allowed, who)
    flavors = _mlmodel(folder, who)
    file, form = _native(flavors, who)
    code = any(flavor.code is not None for flavor in flavors.values())
    return RegisteredModel(version, None if run is None else str(run), folder, file, form, code)


def read_artifact(folder: str, name: str, *, at_most: int) -> bytes:
    """Return a file of a model version, from where its artifacts lie.

    Raises:
        FileNotFoundError: there is none.
        NotEvaluableError: it is too large, or cannot be read.
    """
    if not folder.startswith(PROXIED):
        return Lake(folder).read(name, at_most=at_most)
    try:
        parts = urllib.parse.urlsplit(folder)
    except ValueError:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The MLflow registry names {folder[:200]!r}, which is no address: register the model "
            "again.",
        ) from None
    server = urllib.parse.urlsplit(server_address())
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
    content = get(f"/api/2.0/mlflow-artifacts/artifacts/{path}", at_most=at_most)
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
        answer = asked("experiments/get", experiment_id="0") or {}
    except NotEvaluableError:  # this login may not look
        return ()
    experiment = answer.get("experiment")
    place = experiment.get("artifact_location") if isinstance(experiment, dict) else None
    root = str(place or "").rpartition("/")[0]
    return () if bucket_of(root) is None or set("?#") & set(root) else (root,)


def _mlmodel(folder: str, who: str) -> dict[str, Flavor]:
    """Return the flavors that the file MLmodel lists."""
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


def _native(flavors: dict[str, Flavor], who: str) -> tuple[str, str]:
    """Return the model's own file, and its format; by which MLflow serves it, where it does."""
    served = flavors.get("python_function", Flavor(None))
    held: tuple[str, str] | None = None
    for form in _FLAVORS:
        data = flavors.get(form, Flavor(None)).data
        if data is None:
            continue
        if not (_PLAIN.fullmatch(data) and data.endswith(_ENDINGS[form])):
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
    found = find_version(version.name, version.number)
    if found is None:
        raise TerminalError(
            f"The MLflow registry has no version {version.number} of {version.name}: give the "
            "version that the training run registered."
        )
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
        if told(method, **content) is None:
            raise TerminalError(
                f"The MLflow registry does not take {method} for version {version.number} of "
                f"{version.name}: see that the version is there and the alias is a valid name."
            )
