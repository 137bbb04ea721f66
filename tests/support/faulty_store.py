"""An object store that fails on purpose, as a proxy before moto."""

import contextlib
import http.client
import http.server
import random
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from enum import StrEnum

from tests.support.http_server import Answering, running
from tests.support.object_store import empty_bucket, object_store


class Fault(StrEnum):
    """The outcome of a request."""

    THROTTLED = "throttled"
    HANGING = "hanging"
    TORN = "torn"
    DENIED = "denied"
    SLOW = "slow"
    ENDLESS = "endless"


Choice = Callable[[str, str], Fault | None]
"""From a request's method and path to its fault."""


def never(_method: str, _path: str) -> None:
    """Let every request pass."""


def sometimes(fault: Fault, share: float, *, seed: int) -> Choice:
    """Let a share of all requests fail, drawn from a seed."""
    drawn, lock = random.Random(seed), threading.Lock()  # noqa: S311

    def choose(_method: str, _path: str) -> Fault | None:
        with lock:
            return fault if drawn.random() < share else None

    return choose


def below(prefix: str, fault: Fault) -> Choice:
    """Let every request fail that names a key below a prefix."""
    return lambda _method, path: fault if f"/{prefix}" in urllib.request.unquote(path) else None


class FaultyStore(http.server.ThreadingHTTPServer):
    """Forwards requests to a store, but for those that `choice` lets fail."""

    def __init__(self, store: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.store = store
        self.choice: Choice = never
        self.failed = 0
        self.hang = 5.0
        self.rate = 1_000  # bytes a second of what is slow


class _Forwarding(Answering):
    protocol_version = "HTTP/1.1"
    server: FaultyStore

    def respond(self) -> None:
        """Refuse, hang or forward, as the choice is."""
        body = self.body()
        fault = self.server.choice(self.command, self.path)
        self.server.failed += fault is not None
        if fault is Fault.THROTTLED:
            self._refuse(503, "SlowDown")
        elif fault is Fault.DENIED:
            self._refuse(403, "AccessDenied")
        elif fault is Fault.HANGING:
            time.sleep(self.server.hang)
            self.close_connection = True
        elif fault is Fault.ENDLESS and "list-type=2" in self.path:
            self._list_without_end()
        else:
            self._forward(body, fault)

    def body(self) -> bytes:
        """Return the request's body, whose length may be said chunk by chunk."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return super().body()
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _refuse(self, status: int, code: str) -> None:
        said = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message></Error>"
        self._answer(status, [("Content-Type", "application/xml")], said.encode())

    def _list_without_end(self) -> None:
        """Answer one page of a listing, and that there is a further one."""
        prefix = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["prefix"][0]
        page = "".join(
            f"<Contents><Key>{prefix}{random.getrandbits(64):x}.txt</Key><Size>0</Size>"
            "<LastModified>2026-03-02T00:00:00.000Z</LastModified></Contents>"
            for _ in range(1000)
        )
        said = (
            "<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated>"
            f"<NextContinuationToken>{random.getrandbits(64)}</NextContinuationToken>"
            f"<Prefix>{prefix}</Prefix>{page}</ListBucketResult>"
        )
        self._answer(200, [("Content-Type", "application/xml")], said.encode())

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection(*self.server.store, timeout=30)
        with contextlib.closing(upstream):
            said = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in {"transfer-encoding", "content-length"}
            }
            upstream.request(self.command, self.path, body, said)
            answer = upstream.getresponse()
            kept = [
                (name, value)
                for name, value in answer.getheaders()
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}
            ]
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self._answer(answer.status, kept, answer.read(), fault=fault, length=length)

    def _answer(
        self,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        *,
        fault: Fault | None = None,
        length: str | None = None,
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        torn = fault is Fault.TORN
        with contextlib.suppress(ConnectionError):  # who asked may have gone
            if self.command != "HEAD" and fault is Fault.SLOW:
                for start in range(0, len(content), step := max(1, self.server.rate // 10)):
                    self.wfile.write(content[start : start + step])
                    time.sleep(0.1)
            elif self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if torn else content)
        self.close_connection = torn


@contextlib.contextmanager
def faulty_store() -> Iterator[tuple[FaultyStore, str]]:
    """Yield a store and the URI of an empty bucket in it, with the environment that leads there."""
    with object_store() as behind:
        host, port = behind.removeprefix("http://").split(":")
        store = FaultyStore((host, int(port)))
        with running(store) as address, empty_bucket(address) as bucket:
            yield store, bucket
