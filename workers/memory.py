"""Memory that a child may take, and memory that this process gives back once it is free."""

import contextlib
import ctypes
import pathlib
import resource
from collections.abc import Iterator

_SHARE = 2
"""A child may take the bytes that are left, divided by this."""
_MEMINFO = pathlib.Path("/proc/meminfo")
_GROUPS = pathlib.Path("/sys/fs/cgroup")
_OWN_GROUPS = pathlib.Path("/proc/self/cgroup")
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`."""
_ARENAS, _LARGE_BYTES = 2, 1 << 18


def return_freed_memory() -> None:
    """Have the C library give freed blocks of 256 KiB and more back to the system at once.

    By default glibc keeps freed blocks of up to 32 MiB, in an arena for each of many threads: a
    driver that had read and freed the files of 50 models held 270 MB of them
    (docs/evidence/performance.md). The call should come before threads start. Without glibc it does
    nothing.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_ARENA_MAX, _ARENAS)


def bounded_memory(most: int) -> int:
    """Return `most`, or half of what the machine and the container have left if that is less."""
    return min([most, *(left // _SHARE for left in _left())])


def memory_left() -> int | None:
    """Return the bytes that the machine and the container have left; None where none says it."""
    return min(_left(), default=None)


def address_space() -> int:
    """Return the bytes of address space that this process has taken; 0 where there is no Linux."""
    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _left() -> Iterator[int]:
    """Yield the bytes that can still be taken, by each who limits them."""
    with contextlib.suppress(OSError):
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) << 10
    for folder in _own_groups():
        for limit, taken in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                most = int((folder / limit).read_text(encoding="ascii"))
                used = int((folder / taken).read_text(encoding="ascii"))
                yield max(0, most - max(0, used - _cached(folder)))


def _cached(folder: pathlib.Path) -> int:
    """Return the bytes of files that a group is charged for, which Linux drops when it has to."""
    with contextlib.suppress(OSError):
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        counted = {name: int(value) for name, value in map(str.split, lines)}
        for kind in ("total_", ""):  # of the first version, with the groups below
            if f"{kind}inactive_file" in counted:
                return counted[f"{kind}inactive_file"] + counted[f"{kind}active_file"]
    return 0


def _own_groups() -> Iterator[pathlib.Path]:
    """Yield the control groups of this process and all above them, of both versions."""
    lines = []
    with contextlib.suppress(OSError):
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, kinds, name = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root = _GROUPS / "memory" if kinds else _GROUPS
        own = root / name.lstrip("/")
        yield from (own, *(path for path in own.parents if path.is_relative_to(root)))
