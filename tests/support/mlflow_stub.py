"""A registry on loopback that answers as `mlflow server` 3.17.2 was seen to answer."""

import contextlib
import datetime as dt
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import Answering, serving

_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
_RUN = "712e10d6133d47579963ea01a8fab301"
_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@dataclass
class Registry:
    """The stub's contents, and the requests that it received.

    Attributes:
        address: of the server.
        versions: of each registered model, by alias.
        files: artifacts, by path.
        fails: statuses to answer before anything else, one by one.
        told: the Authorization header of each request.
        written: method and content of each POST that it took.
        root: where its artifacts are said to lie.
    """

    address: str = ""
    versions: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    fails: list[int] = field(default_factory=list)
    told: list[str | None] = field(default_factory=list)
    written: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    root: str = "mlflow-artifacts:"

    def register(
        self,
        name: str,
        alias: str,
        flavors: str,
        content: bytes,
        *,
        data: str = "model.ubj",
        place: str | None = None,
        status: str = "READY",
        at: dt.datetime = _LONG_AGO,
    ) -> str:
        """Register one more version, and return its number; `flavors` is YAML."""
        versions = self.versions.setdefault(name, {})
        number = str(1 + len({each["version"] for each in versions.values()}))
        folder = f"0/models/m-{name}-{number}/artifacts"
        self.files |= {f"{folder}/MLmodel": flavors.encode(), f"{folder}/{data}": content}
        versions[alias] = {
            "name": name,
            "version": number,
            "source": f"models:/m-{name}-{number}",
            "run_id": _RUN,
            "status": status,
            "creation_timestamp": int(at.timestamp() * 1000),
            "place": place or f"mlflow-artifacts:/{folder}",
        }
        return number

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a GET."""
        if self.fails:
            return self.fails.pop(0), b"<html>busy</html>"
        parts = urllib.parse.urlsplit(path)
        asked = {name: each[0] for name, each in urllib.parse.parse_qs(parts.query).items()}
        if parts.path.startswith(_ARTIFACTS):
            name = urllib.parse.unquote(parts.path.removeprefix(_ARTIFACTS))
            if name in self.files:
                return 200, self.files[name]
            return _error(404, "RESOURCE_DOES_NOT_EXIST", f"No such artifact: '{name}'")
        return self._about_models(parts.path, asked)

    def _about_models(self, path: str, asked: dict[str, str]) -> tuple[int, bytes]:
        if path.endswith("/experiments/get"):
            assert asked == {"experiment_id": "0"}
            first = {"experiment_id": "0", "artifact_location": f"{self.root}/0"}
            return 200, json.dumps({"experiment": first}).encode()
        if path.endswith("/model-versions/get"):
            found = self._version(asked)
            if found is None:
                return _error(404, "RESOURCE_DOES_NOT_EXIST", "Model Version not found")
            return 200, json.dumps({"model_version": found}).encode()
        return self._about_versions(path.endswith("/alias"), asked)

    def take(self, path: str, content: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body of a POST: tags of a version, and aliases."""
        if self.fails:
            return self.fails.pop(0), b"<html>busy</html>"
        if self._version(content) is None:
            return _error(404, "RESOURCE_DOES_NOT_EXIST", "Model Version not found")
        self.written.append((path.removeprefix("/api/2.0/mlflow/"), content))
        return 200, b"{}"

    def _version(self, asked: dict[str, str]) -> dict[str, Any] | None:
        versions = self.versions.get(asked["name"], {}).values()
        return next((one for one in versions if one["version"] == asked["version"]), None)

    def _about_versions(self, by_alias: bool, asked: dict[str, str]) -> tuple[int, bytes]:
        versions = self.versions.get(asked["name"])
        if versions is None:
            return _error(404, "RESOURCE_DOES_NOT_EXIST", "Registered Model not found")
        if by_alias:
            found = versions.get(asked["alias"])
            if found is None:
                return _error(400, "INVALID_PARAMETER_VALUE", "Registered model alias not found.")
            return 200, json.dumps({"model_version": found}).encode()
        place = next(
            each["place"] for each in versions.values() if each["version"] == asked["version"]
        )
        return 200, json.dumps({"artifact_uri": place}).encode()


def _error(status: int, code: str, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "message": message}).encode()


@contextlib.contextmanager
def mlflow_stub() -> Iterator[Registry]:
    """Serve a registry on a free port."""
    registry = Registry()

    class Handler(Answering):
        def respond(self) -> None:
            registry.told.append(self.headers.get("Authorization"))
            if self.command == "POST":
                self.answer(*registry.take(self.path, json.loads(self.body())))
            else:
                self.answer(*registry.answer(self.path))

    with serving(Handler) as registry.address:
        yield registry
