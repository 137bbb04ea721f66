"""What every benchmark needs: time, peak memory, the peers' versions, one way to print."""

import argparse
import datetime as dt
import importlib.metadata
import json
import pathlib
import platform
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

PACKAGES = ("privaudit", "jax-privacy", "privacyguard-platform", "numpy", "scipy", "numba")
_STATUS = pathlib.Path("/proc/self/status")
_FORGET_PEAK = pathlib.Path("/proc/self/clear_refs")


class Run(NamedTuple):
    """What a call returned, its seconds of wall clock, and what memory it added at its peak."""

    value: Any
    seconds: float
    megabytes: float


def run(function: Callable[[], Any], *, repeats: int = 1) -> Run:
    """Call `function` and measure; the shortest of `repeats`, as other processes only add time.

    The memory is the operating system's: the peak of the resident set during the calls, over what
    was resident before them.
    """
    _FORGET_PEAK.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = function()
        seconds.append(time.perf_counter() - start)
    return Run(value, min(seconds), _resident("VmHWM") - before)


def run_within(limit: int, function: Callable[[], Any]) -> Run | None:
    """Call `function` once and measure; None if it takes more than `limit` seconds."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    try:
        return run(function)
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def installed(package: str) -> bool:
    """Whether a peer is there to be measured."""
    return version(package) is not None


def version(package: str) -> str | None:
    """Return the installed version; None if there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def report(rows: list[dict[str, Any]], *, description: str) -> None:
    """Print rows as a table, or with `--json` as one JSON object with versions and date."""
    versions = {package: version(package) or "not installed" for package in PACKAGES}
    if arguments(description).json:
        about = {"date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}", "python": platform.python_version()}
        print(json.dumps({**about, "versions": versions, "rows": rows}, indent=1))  # noqa: T201
        return
    lines = [f"{package} {number}" for package, number in versions.items()]
    lines += ["  ".join(f"{name}: {_short(value)}" for name, value in row.items()) for row in rows]
    print("\n".join(lines))  # noqa: T201


def arguments(description: str) -> argparse.Namespace:
    """Read the command line that all benchmarks share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="leave out what takes over a minute")
    return parser.parse_args()


def _resident(name: str) -> float:
    fields = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="ascii").splitlines())
    return int(fields[name].split()[0]) / 1024.0


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
