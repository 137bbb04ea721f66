"""Servers on loopback that answer what a test says."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any


class Answering(http.server.BaseHTTPRequestHandler):
    """A handler of every method that prints nothing, and answers with whole bodies."""

    disable_nagle_algorithm = True  # else head and body are 40 ms apart

    def respond(self) -> None:
        """Respond to a request of any method."""
        raise NotImplementedError

    def _respond(self) -> None:
        self.respond()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def body(self) -> bytes:
        """Return the request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, code: int, content: bytes = b"", **headers: str) -> None:
        """Send an answer; a header's name has underscores in place of hyphens."""
        self.send_response(code)
        for name, value in {**headers, "Content_Length": str(len(content))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def running(server: http.server.ThreadingHTTPServer) -> Iterator[str]:
    """Serve in a thread until the block ends; yield the address."""
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def serving(handler: type[Answering], port: int = 0) -> contextlib.AbstractContextManager[str]:
    """Serve with this handler as `running` does, on a free port if none is given."""
    return running(http.server.ThreadingHTTPServer(("127.0.0.1", port), handler))
