"""A version of an MLflow registry is tagged, and an alias moved to it, once its file has passed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from privcore.exceptions import TerminalError
from workers.lake import limits
from workers.lake.mlflow_registry import find_version, read_artifact
from workers.lake.mlflow_server import told


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
