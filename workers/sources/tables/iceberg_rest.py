"""Iceberg REST catalogue of which operators alone decide where it is and how it is asked.

pyiceberg obeys a catalogue's `config`: `uri` and `oauth2-server-uri` send the operator's login to
another host, `auth.impl` names any callable of any module, and `scan-planning-mode` lets the server
say which files a snapshot has. Here a catalogue decides one thing, the prefix of its own paths.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManagerAdapter, AuthManagerFactory
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    OAuthError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from privcore.exceptions import TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits

_PREFIX, _SIGNED = "prefix", "rest.sigv4-enabled"
_STALLED = (10.0, 30.0)  # seconds until a connection stands, and between two pieces of an answer
_PIECE = 1 << 20


class OneHost(requests.Session):
    """Session that follows no redirect and reads no answer above a bound."""

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002  # requests'
        """Return that there is none: it could lead to another host, with the login."""
        return

    def send(self, request: requests.PreparedRequest, **given: Any) -> requests.Response:
        """Return the answer, read.

        Raises:
            NotEvaluableError: it is a redirect, or too large.
            requests.RequestException: there is none.
        """
        response = super().send(request, **given | {"stream": True, "timeout": _STALLED})
        with response:
            if 300 <= response.status_code < 400:  # HTTP's redirects
                raise NotEvaluableError(
                    Reason.PATH_OUTSIDE,
                    "The Iceberg catalogue redirects to another address, which is not asked: set "
                    "its uri to the address that answers.",
                )
            content = bytearray()
            for piece in response.iter_content(_PIECE):
                content += piece
                if len(content) > limits.CATALOG_BYTES:
                    raise NotEvaluableError(
                        Reason.TOO_LARGE,
                        f"The Iceberg catalogue answers with more than {limits.CATALOG_BYTES:,} "
                        "bytes: expire snapshots of the table.",
                    )
        response._content = bytes(content)  # noqa: SLF001  # as requests keeps what it has read
        response.encoding = "utf-8"  # JSON's; requests would try every encoding there is
        return response


class OperatorsRestCatalog(RestCatalog):
    """REST catalogue with the properties of operators' settings, and none of its own."""

    def _create_session(self) -> OneHost:
        """Return a session with the operator's certificates and login."""
        session = OneHost()
        self._config_headers(session)
        ssl: Any = self.properties.get("ssl") or {}
        session.verify = ssl.get("cabundle", True)
        client = ssl.get("client") or {}
        session.cert = (client["cert"], client["key"]) if "key" in client else client.get("cert")
        auth: Any = self.properties.get("auth")
        if auth:
            kind = auth["type"]
            name = auth["impl"] if kind == "custom" else kind
            self._auth_manager = AuthManagerFactory.create(name, auth.get(kind, {}))
        else:
            self._auth_manager = self._create_legacy_oauth2_auth_manager(session)
        session.auth = AuthManagerAdapter(self._auth_manager)
        if str(self.properties.get(_SIGNED, "")).lower() == "true":
            self._init_sigv4(session)
        return session

    def _config_headers(self, session: requests.Session) -> None:
        """Set the operator's headers, and ask for no storage login: none would be used."""
        super()._config_headers(session)
        session.headers.pop("X-Iceberg-Access-Delegation", None)

    def _fetch_config(self) -> None:
        """Ask for the catalogue's config, and take its prefix alone."""
        operators, uri = dict(self.properties), self.uri
        super()._fetch_config()
        prefix = self.properties.get(_PREFIX, "")
        if not isinstance(prefix, str):
            raise TypeError(prefix)
        self.properties, self.uri = operators | {_PREFIX: prefix}, uri

    def supports_server_side_planning(self) -> bool:
        """Return that the files of a snapshot are those of its manifests."""
        return False


def is_rest(properties: dict[str, Any]) -> bool:
    """Return whether operators describe a REST catalogue, as pyiceberg tells it."""
    kind = properties.get("type")
    if kind is None and "py-catalog-impl" not in properties:
        return str(properties.get("uri", "")).startswith("http")
    return str(kind).lower() == "rest"


@contextmanager
def asking(catalog: str) -> Iterator[None]:
    """Say what a REST catalogue did not answer; nothing that it said is repeated.

    Raises:
        NotEvaluableError: it refuses the login.
        TransientError: it is away, busy or too slow.
    """
    name = f"PYICEBERG_CATALOG__{catalog.upper()}"
    try:
        yield
    except (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError):
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Iceberg catalogue {catalog} refuses the login: set {name}__TOKEN, or "
            f"{name}__CREDENTIAL, to one that may read the table.",
        ) from None
    except (
        requests.ConnectionError,
        requests.Timeout,
        ServiceUnavailableError,
        TooManyRequestsError,
    ) as error:
        raise TransientError(
            f"The Iceberg catalogue {catalog} does not answer ({type(error).__name__}): try again, "
            f"or correct {name}__URI."
        ) from None
