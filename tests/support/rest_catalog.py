"""Stand-in for an Iceberg REST catalogue: the protocol over pyiceberg's SQL catalogue, on loopback.

Catalogues that speak this protocol (Polaris, Lakekeeper, Unity, Glue) are in no package index that
tests may use. The stand-in follows Iceberg's REST specification in what a reader and a writer of
tables ask: config, OAuth2 tokens, namespaces, and tables. To start one from a clone:

    PYTHONPATH=. python -m tests.support.rest_catalog FOLDER PORT TOKEN
"""

import contextlib
import json
import pathlib
import sys
import threading
import urllib.parse
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

from tests.support.http_server import Answering, serving

_ERRORS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}
SECRET = "a-client:a-client-secret"  # noqa: S105  # of a stand-in
"""Client and secret that the stand-in changes for its token."""


class Handler(Answering):
    """Answers of one stand-in; `catalog`, `token` and `asked` are set on a class of its own."""

    protocol_version = "HTTP/1.1"
    catalog: SqlCatalog
    token: str
    asked: list[tuple[str, dict[str, str]]]

    def respond(self) -> None:
        """Answer GET, HEAD and POST."""
        parts = urllib.parse.urlsplit(self.path)
        self.asked.append((self.path, dict(self.headers)))
        words = [urllib.parse.unquote(word) for word in parts.path.strip("/").split("/")]
        try:
            code, value = self._said(self.command, words, self.body())
        except tuple(_ERRORS) as error:
            code, kind = _ERRORS[type(error)], type(error).__name__
            value = {"error": {"message": str(error), "type": kind, "code": code}}
        content = b"" if self.command == "HEAD" else json.dumps(value).encode()
        self.answer(code, content, Content_Type="application/json")

    def _said(  # noqa: PLR0911  # one for each question
        self, method: str, words: list[str], body: bytes
    ) -> tuple[int, Any]:
        if words == ["v1", "oauth", "tokens"]:
            given = dict(urllib.parse.parse_qsl(body.decode()))
            if f"{given.get('client_id')}:{given.get('client_secret')}" != SECRET:
                return 401, {"error": "invalid_client"}
            return 200, {"access_token": self.token, "token_type": "bearer", "expires_in": 3600}
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            error = {"message": "Who are you?", "type": "NotAuthorizedException", "code": 401}
            return 401, {"error": error}
        if words == ["v1", "config"]:
            return 200, {"defaults": {}, "overrides": {"prefix": "here"}}
        match (method, *words[1:]):
            case ("POST", "here", "namespaces"):
                asked = json.loads(body)
                self.catalog.create_namespace(tuple(asked["namespace"]))
                return 200, {"namespace": asked["namespace"], "properties": {}}
            case ("GET" | "HEAD", "here", "namespaces", space):
                self.catalog.load_namespace_properties(_names(space))
                return 200, {"namespace": _names(space), "properties": {}}
            case ("POST", "here", "namespaces", space, "tables"):
                request = CreateTableRequest.model_validate({"location": None} | json.loads(body))
                table = self.catalog.create_table(
                    (*_names(space), request.name),
                    schema=request.table_schema,
                    partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                    properties=request.properties,
                )
                return 200, _table(table)
            case ("GET" | "HEAD", "here", "namespaces", space, "tables", name):
                return 200, _table(self.catalog.load_table((*_names(space), name)))
            case ("POST", "here", "namespaces", space, "tables", name):
                commit = CommitTableRequest.model_validate_json(body)
                found = self.catalog.load_table((*_names(space), name))
                done = self.catalog.commit_table(found, commit.requirements, commit.updates)
                return 200, json.loads(done.model_dump_json(by_alias=True))
        return 404, {"error": {"message": self.path, "type": "NotFound", "code": 404}}


def _names(space: str) -> tuple[str, ...]:
    return tuple(space.split("\x1f"))


def _table(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def handler_of(
    folder: pathlib.Path, token: str, **properties: str
) -> tuple[type[Handler], list[tuple[str, dict[str, str]]]]:
    """Return a stand-in whose catalogue is a file of a folder, and the list of what it is asked.

    Args:
        folder: where the catalogue, and by default its tables, lie.
        token: that each request must have.
        properties: of pyiceberg's SQL catalogue, like `warehouse`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked: list[tuple[str, dict[str, str]]] = []
    root = folder.absolute()
    given = {"uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/iceberg"}
    catalog = SqlCatalog("behind", **given | properties)
    known: dict[str, Any] = {"catalog": catalog, "token": token, "asked": asked}
    return type("Here", (Handler,), known), asked


def main() -> None:
    """Serve until the process is ended."""
    folder, port, token = sys.argv[1:]
    handler, _ = handler_of(pathlib.Path(folder), token)
    with contextlib.suppress(KeyboardInterrupt), serving(handler, int(port)):
        threading.Event().wait()


if __name__ == "__main__":
    main()
