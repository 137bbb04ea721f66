"""A Prefect server of the command's own, where none stands: it starts while the command imports.

Prefect would start one when the first flow begins, and import the server's code in this process as
well, one after the other: twice the seconds of an audit.
"""

import atexit
import os
import pathlib
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flows.ledger import report_to_watcher

_NAMED = "PREFECT_API_URL"
_STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_GRACE = 5.0
_LOST = 3
# As Prefect starts its temporary one: no pages, and fewer services.
_TEMPORARY = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}

# uvicorn looks for modules there first, else in the working folder, which is a team's own.
_PACKAGES = sysconfig.get_path("purelib")

_started: list[subprocess.Popen[bytes]] = []


def start_own_server() -> None:
    """Start a server for this process, unless something may name one that stands; do not wait."""
    if _started or server_stands():
        return
    with socket.socket() as listening:
        # Bound here and handed over, so that nobody takes the port in between, and who asks before
        # the server is ready waits instead of being refused.
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        handle = listening.fileno()
        application = ("--app-dir", _PACKAGES, "--factory", "prefect.server.api.server:create_app")
        how = ("--fd", str(handle), "--log-level", "error", "--lifespan", "on")
        server = subprocess.Popen(  # noqa: S603  # our own interpreter, no shell
            [sys.executable, "-m", "uvicorn", *application, *how],
            env=os.environ | _TEMPORARY,
            pass_fds=(handle,),
        )
        os.environ[_NAMED] = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    _started.append(server)
    atexit.register(_stop, server)


@contextmanager
def own_server() -> Iterator[None]:
    """Wait until the server that was started answers; where it ends in the block, so does all.

    Without it Prefect's client asks again for minutes, at every state and every step of progress.
    Who watches makes the records of what is left. Where none was started nothing is waited for.

    Raises:
        RuntimeError: it ended before it answered, or does not answer in time.
    """
    if not _started:
        yield
        return
    _wait()
    (server,) = _started
    over = threading.Event()

    def watch() -> None:
        code = server.wait()
        if not over.is_set():
            why = f"Prefect's temporary server ended in the middle of it, {_how(code)}"
            report_to_watcher(why=why)
            print(f"privaudit: {why}.", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(_LOST)

    threading.Thread(target=watch, daemon=True, name="own server").start()
    try:
        yield
    finally:
        over.set()


def _wait() -> None:
    import httpx  # noqa: PLC0415  # Prefect has it imported by now

    end = time.monotonic() + float(os.environ[_STARTUP])
    while time.monotonic() < end:
        try:
            # No proxy of the environment lies between this machine and itself.
            answer = httpx.get(f"{os.environ[_NAMED]}/health", timeout=1.0, trust_env=False)
            if answer.is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
        code = _started[0].poll()
        if code is not None:
            raise RuntimeError(f"Prefect's temporary server ended before it answered, {_how(code)}")
    raise RuntimeError(
        f"Prefect's temporary server did not answer within {os.environ[_STARTUP]} seconds"
    )


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


def own_server_started() -> bool:
    """Whether this process's server is one that ends with it."""
    return bool(_started)


def server_stands() -> bool:
    """Whether a server is named: as Prefect says where it was imported, else as may be."""
    if "prefect" not in sys.modules:
        return names_a_server()
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415  # takes seconds

    return bool(PREFECT_API_URL.value())


def names_a_server() -> bool:
    """Whether the environment, a folder's or a home's settings of Prefect may name a server."""
    if _NAMED in os.environ or "PREFECT_PROFILE" in os.environ:
        return True
    home = pathlib.Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    places = {
        pathlib.Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")): b"API_URL",
        pathlib.Path(".env"): b"PREFECT_API_URL",
        pathlib.Path("prefect.toml"): b"",
        pathlib.Path("pyproject.toml"): b"[tool.prefect",
    }
    return any(place.is_file() and word in place.read_bytes() for place, word in places.items())


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
