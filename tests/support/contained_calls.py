"""Calls that tests run in a contained process, and attempts of a hostile file in it.

Little is imported, so that each such process starts soon.
"""

import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

from workers.contained_child import WithBytes

_SET_NAME = 15
_calls: list[str] = []


def hang() -> None:
    """Answer neither the caller nor the alarm."""
    signal.alarm(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(60)


_ENDS: dict[str, Callable[[], Any]] = {
    "die": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "leave": lambda: os._exit(7),
    "sleep": lambda: time.sleep(60),
    "hang": hang,
}


def behave(content: bytes, how: str = "well") -> Any:
    """Do what a bad input makes a library do; runs in the contained process."""
    if how == "raise":
        raise ValueError("No such thing.")
    if how in _ENDS:
        _ENDS[how]()
    if how == "grow":
        return len(bytearray(4 << 30))
    if how == "write":
        path = pathlib.Path(content.decode())
        path.write_bytes(b"x" * 100)
    if how == "environment":
        return sorted(os.environ)
    if how == "print":
        print("what a library says is no answer")  # noqa: T201
    if how == "import":
        try:
            importlib.import_module(content.decode())
        except ImportError:
            return False
        return True
    if how == "count":
        _calls.append(how)
        return len(_calls)
    return content.decode()


def triple(content: bytes) -> WithBytes:
    """Answer with bytes; runs in the contained process."""
    return WithBytes({"length": len(content)}, content * 3)


def wait(content: bytes, seconds: float = 0.0) -> str:
    """Answer after a while; runs in the contained process."""
    time.sleep(seconds)
    return content.decode()


def attempt(_content: bytes, what: str, about: str) -> Any:
    """Try what a hostile file would, and say what came of it; runs in the contained process."""
    try:
        return _TRIED[what](about)
    except OSError as error:
        return {"denied": type(error).__name__}


def environments(planted: str) -> dict[str, Any]:
    """Return which processes' environments have the secret, of all that can be read."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if planted.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return {"found": found}


def _connect(port: str) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=2):
        return {"connected": port}


def _forge(answer: str) -> dict[str, Any]:
    """Write the answer to whatever can be written to, as what the next call would be told."""
    header = json.dumps({"kind": "value", "value": answer, "with_bytes": False}).encode()
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(descriptor, struct.pack(">QQ", len(header), 0) + header)
    return {"forged": answer}


def _say(header: str) -> dict[str, Any]:
    """Answer with these words where an answer goes, and end."""
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(descriptor, struct.pack(">QQ", len(header), 0) + header.encode())
    os._exit(0)


def _steal(_: str) -> dict[str, Any]:
    """Read from whatever can be read from, what the next call would ask."""
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, False)
            os.read(descriptor, 1 << 16)
    return {"read": "all"}


def _leave_behind(name: str) -> dict[str, Any]:
    """Leave a process that outlives the call, if it can."""
    if os.fork() == 0:
        os.setsid()
        ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        time.sleep(60)
        os._exit(0)
    return {"left": name}


def trusted(_about: str) -> dict[str, Any]:
    """Return how many authorities are trusted, and the addresses of this machine's name."""
    context = ssl.create_default_context()
    context.set_default_verify_paths()
    held = [path.name for path in pathlib.Path("/etc/ssl/certs").glob("*.pem")]
    found = socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    return {"loaded": context.cert_store_stats(), "held": sorted(held), "named": len(found)}


_TRIED = {
    "trust": trusted,
    "environment": environments,
    "memory": lambda pid: {"opened": os.open(f"/proc/{pid}/mem", os.O_RDONLY)},
    "signal": lambda pid: {"sent": os.kill(int(pid), signal.SIGUSR1)},
    "delete": lambda path: {"deleted": pathlib.Path(path).unlink()},
    "read": lambda path: {"read": pathlib.Path(path).read_text()},
    "rename": lambda path: {"moved": str(pathlib.Path(path).rename(path + ".moved"))},
    "folder": lambda path: {"made": pathlib.Path(path + ".made").mkdir()},
    "connect": _connect,
    "leave": _leave_behind,
    "forge": _forge,
    "steal": _steal,
    "say": _say,
    "open": lambda _: {"opened": [os.open(os.devnull, os.O_RDONLY) for _ in range(10_000)]},
}
