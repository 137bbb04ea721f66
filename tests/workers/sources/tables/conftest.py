"""Fixtures that the tests of tables share."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def stranger() -> Iterator[tuple[int, list[bytes]]]:
    """A server of somebody else: its port, and what it was told."""
    told: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        told.append(connection.recv(1 << 16))

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], told
        server.shutdown(socket.SHUT_RDWR)
