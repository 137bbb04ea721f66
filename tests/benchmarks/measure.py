"""Tools of every benchmark: time, peak memory, the peers' versions, one way to print."""

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import pathlib
import platform
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PACKAGES = ("privaudit", "jax-privacy", "privacyguard-platform", "numpy", "scipy", "numba")
_STATUS = pathlib.Path("/proc/self/status")
_FORGET_PEAK = pathlib.Path("/proc/self/clear_refs")


class Run(NamedTuple):
    """A call's result; median of its CPU seconds; memory added at most."""

    value: Any
    seconds: float
    megabytes: float


class Pair(NamedTuple):
    """Two calls made in turn: both runs, and how many times the CPU seconds of `mine` `peer` takes.

    `ratio` is the median over the pairs, `least` the smallest of them.
    """

    mine: Run
    peer: Run
    ratio: float
    least: float


def run(function: Callable[[], Any], *, repeats: int = 1) -> Run:
    """Call `function` and measure.

    Seconds are CPU seconds of this process, all threads, which other work on the machine adds
    little to. The memory is the operating system's: the peak of the resident set during the calls,
    over what was resident before them.
    """
    return _summary([_once(function) for _ in range(repeats)])


def beside(
    mine: Callable[[], Any], peer: Callable[[], Any], *, times: int = 1, pairs: int = 3
) -> Pair:
    """Call `mine` (`times` over) and `peer` in turn, `pairs` times, after one call of `mine`.

    The peer's first call compiles or imports and is left out if there are more.
    """
    mine()
    found = [(_once(lambda: [mine() for _ in range(times)][-1]), _once(peer)) for _ in range(pairs)]
    found = found[1:] if pairs > 2 else found
    ours = [one._replace(seconds=one.seconds / times) for one, _ in found]
    theirs = [other for _, other in found]
    ratios = [other.seconds / one.seconds for one, other in zip(ours, theirs, strict=True)]
    return Pair(_summary(ours), _summary(theirs), statistics.median(ratios), min(ratios))


def run_within(limit: int, function: Callable[[], Any]) -> Run | None:
    """Call `function` once and measure; None if it takes more than `limit` CPU seconds."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return run(function)
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _once(function: Callable[[], Any]) -> Run:
    _FORGET_PEAK.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    start = time.process_time()
    value = function()
    seconds = time.process_time() - start
    return Run(value, seconds, _resident("VmHWM") - before)


def _summary(runs: list[Run]) -> Run:
    seconds = statistics.median(each.seconds for each in runs)
    return Run(runs[0].value, seconds, max(each.megabytes for each in runs))


def installed(package: str) -> bool:
    """Return whether a peer is installed, and so can be measured."""
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


@contextlib.contextmanager
def usage() -> Iterator[dict[str, float]]:
    """Measure a block: seconds, processor seconds, and the process's peak resident memory.

    What is yielded has the figures once the block has ended. The peak is the operating system's
    (`VmHWM`), of the block alone, all that is resident included.
    """
    _FORGET_PEAK.write_text("5", encoding="ascii")
    used: dict[str, float] = {}
    start, cpu = time.perf_counter(), time.process_time()
    yield used
    used["seconds"], used["cpu_seconds"] = time.perf_counter() - start, time.process_time() - cpu
    used["peak_bytes"] = int(_resident("VmHWM") * (1 << 20))
