"""The filter of system calls, run by a naive machine, and by the kernel in a contained process."""

import ctypes
import errno
import os
import platform
import resource
import socket
import subprocess
import threading
from typing import Any

import pytest

from tests.support.boundary import contained
from workers import system_calls
from workers.contained import closed_here

ALLOWED = 0x7FFF0000
FAILS = 0x00050000
GETPID = {"x86_64": 39, "aarch64": 172}
_SHMGET, _PRLIMIT, _SETPRIORITY = {"aarch64": (194, 261, 140)}.get(
    platform.machine(), (29, 302, 141)
)


def outcome(lines: list[tuple[int, int, int, int]], identity: int, call: int, argument: int) -> int:
    """Return what a filter answers, one instruction after the other."""
    data, held, place = {0: call, 4: identity, 16: argument}, 0, 0
    while True:
        code, if_true, if_false, value = lines[place]
        if code == 0x06:
            return value
        if code == 0x20:
            held = data[value]
        else:
            true = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            place += if_true if true else if_false
        place += 1


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
@pytest.mark.parametrize("network", [False, True])
def test_the_filter_denies_what_it_names_and_nothing_else(name, network):
    known = system_calls._PROCESSORS[name]
    families = (1, 2, 10, 16) if network else ()
    lines = system_calls._instructions(known, network=network)
    denied = {*known.denied, *system_calls._NEW_EVERYWHERE, *(() if network else known.asking)}

    def answer(call: int, argument: int = 0, identity: int = known.identity) -> int:
        return outcome(lines, identity, call, argument)

    for call in range(470):
        if call in {known.clone, known.socket, 435}:
            continue
        assert answer(call) == (FAILS | errno.EPERM if call in denied else ALLOWED), call
    assert answer(GETPID[name]) == ALLOWED
    assert answer(GETPID[name], identity=0x40000003) == FAILS | errno.EPERM  # of 32 bits
    assert answer(0x40000000 | GETPID[name]) == FAILS | errno.EPERM
    assert answer(435) == FAILS | errno.ENOSYS
    assert answer(known.limits) == ALLOWED  # its own
    assert answer(known.limits, 4711) == FAILS | errno.EPERM
    assert answer(known.clone, 0x003D0F00) == ALLOWED  # a thread, as glibc starts it
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(known.clone, flag | 17) == FAILS | errno.EPERM
    forked = FAILS | errno.EPERM if not network else ALLOWED
    assert answer(known.clone, 0x01200011) == forked  # as glibc forks
    for family in range(46):
        allowed = family in families
        assert answer(known.socket, family) == (ALLOWED if allowed else FAILS | errno.EAFNOSUPPORT)


def attempt(path: bytes, what: str) -> Any:
    """Call what a file that took the process over would; runs in the contained process."""
    try:
        return OF_A_FILE[what](path) or "done" if what in OF_A_FILE else TRIED[what]()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def _call(number: int, *arguments: Any) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.syscall(number, *arguments) >= 0 else errno.errorcode[ctypes.get_errno()]


def _open(family: int) -> str:
    with socket.socket(family, socket.SOCK_STREAM):
        return "done"


def _watch() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.inotify_init1(0) >= 0 else errno.errorcode[ctypes.get_errno()]


def _thread() -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append("done"))
    thread.start()
    thread.join()
    return found[0]


def _fork() -> str:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "done"


OF_A_FILE = {
    "mode": lambda path: os.chmod(path, 0o777),  # noqa: PTH101, S103  # the call itself is tried
    "owner": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "times": lambda path: os.utime(path, (0, 0)),
    "attribute": lambda path: os.setxattr(path, "user.read", b"1"),
}
TRIED = {
    "process": _fork,
    "shell": lambda: subprocess.run(["/bin/true"], check=True) and "done",
    "io_uring": lambda: _call(425, 4, ctypes.create_string_buffer(256)),
    "pidfd": lambda: _call(434, os.getpid(), 0),
    "virtual machine": lambda: _open(40),
    "internet": lambda: _open(socket.AF_INET),
    "local": lambda: _open(socket.AF_UNIX),
    "pair": lambda: socket.socketpair()[0].close() or "done",
    "shared memory": lambda: _call(_SHMGET, 0, ctypes.c_size_t(4096), 0o1600),
    "own limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)) or "done",
    "another's limits": lambda: _call(_PRLIMIT, os.getpid() + 1, 4, None, None),
    "priority": lambda: _call(_SETPRIORITY, 0, 0, 19),
    "names of files": _watch,
    "thread": _thread,
}


@pytest.mark.slow
@pytest.mark.skipif("seccomp" not in closed_here(), reason="this kernel takes no filter")
@pytest.mark.parametrize("asking", [False, True])
def test_a_contained_process_is_denied_the_kernels_rare_calls(tmp_path, asking):
    """Landlock knows no right on modes: a model file could let everybody read a key."""
    key = tmp_path / "publication.key"
    key.write_text("secret")
    key.chmod(0o600)
    before, given = key.stat(), ("PATH",) if asking else ()
    with contained(attempt, fork=True, environment=given) as call:
        found = {what: call(os.fsencode(key), what=what) for what in (*TRIED, *OF_A_FILE)}
    assert (key.stat(), os.listxattr(key)) == (before, [])
    assert found == dict.fromkeys(OF_A_FILE, "EPERM") | {
        "process": "done" if asking else "EPERM",
        "shell": "done" if asking else "EPERM",
        "io_uring": "EPERM",
        "pidfd": "EPERM",
        "virtual machine": "EAFNOSUPPORT",
        "internet": "done" if asking else "EAFNOSUPPORT",
        "local": "done" if asking else "EAFNOSUPPORT",
        "pair": "done" if asking else "EPERM",
        "shared memory": "EPERM",
        "own limits": "done",
        "another's limits": "EPERM",
        "priority": "EPERM",
        "names of files": "EPERM",
        "thread": "done",
    }
