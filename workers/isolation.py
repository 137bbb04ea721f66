"""Keep files, memory and processes of an audit from other users, and from children it cannot trust.

Linux lets a process give up rights without having any. What a kernel lacks, or a container forbids,
is left out, and `measures` says so: `privaudit check` prints it.
"""

import contextlib
import ctypes
import functools
import os
import pathlib
import resource
import signal
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from typing import Any

from privcore.exceptions import TerminalError
from workers.system_calls import filter_calls

_NAMESPACES = {"user": 0x10000000, "process": 0x20000000, "network": 0x40000000, "ipc": 0x08000000}
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_NO_NEW_PRIVILEGES = 1, 4, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock's, on every processor
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1, 2, 4, 8, 1 << 14
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of rights on files that Landlock knows, from a version on."""
_TCP, _SIGNALS_AND_SOCKETS = 0b11, 0b11
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/self/statm", "/dev/urandom",
)  # fmt: skip
_NETWORK = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
    "/etc/services", "/etc/protocols", "/etc/passwd", "/etc/ssl/certs", "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates",
    "/var/lib/ca-certificates", "/sys/devices/virtual/dmi/id/product_name",
)  # fmt: skip
"""What finding a host and trusting it needs: names, authorities, and which cloud this is."""
_PROCESSES = 512
"""The most of a call and of those beside it; in a namespace of its own none outside is counted."""
_CAPABILITIES, _READ_ALL = 0x20080522, 1 << 2
"""The version of Linux's capabilities, and the one of root's that reads files of other users."""
_LONGEST = 18
"""Characters of a folder below which Ray's sockets still have names that Linux takes, of 107."""
_BY_SIGNAL = 128  # as a shell says it in an exit code

_ENDING = (signal.SIGABRT, signal.SIGALRM, signal.SIGXCPU)
"""What ends a call that goes wrong, but for faults, which end every process."""

_HERE = "localhost,127.0.0.1,::1"
_held: list[str] = []
_own_processes: int | None = None
"""This process's own namespace of processes, once its children have others."""


def keep_private() -> None:
    """Make this process's files and memory its user's own.

    Files that it makes have no rights for others, and so do its children's. No other process can
    read its memory or its environment in `/proc`, but for root's; nor does it leave a core dump.
    Python processes that it starts look for no module in the working folder, in which another user
    may have left a `json.py`. Nor does polars write rows to, and sweep, a folder of a known name in
    /var/tmp, which another user may have made as a link to one of ours. What is sent to this
    machine goes through no proxy of the environment.
    """
    os.umask(0o077)
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.setdefault("POLARS_OOC_SPILL_DIR", _folder_of_polars())
    _pass_proxies_by()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _folder_of_polars() -> str:
    """Return where polars puts what does not fit in memory; a place that is none in doubt."""
    try:
        return str(private_folder() / "polars")
    except (OSError, TerminalError):
        return f"{os.devnull}/polars"


def _pass_proxies_by() -> None:
    """Have libraries ask this machine itself: alerts and logins may go there without encryption."""
    names = ("no_proxy", "NO_PROXY")  # in the order in which Python reads them
    said = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if said.strip() != "*" and not said.endswith(_HERE):
        os.environ.update(dict.fromkeys(names, f"{said},{_HERE}" if said else _HERE))


def private_folder() -> pathlib.Path:
    """Return a folder for temporary files that no other user can enter; it is made if need be.

    Raises:
        TerminalError: another user has made a file or a folder of its name.
    """
    below = tempfile.gettempdir()
    if len(below) > _LONGEST:
        below = "/tmp"  # noqa: S108  # whose folder below is checked
    folder = pathlib.Path(below, f"privaudit-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise TerminalError(
            f"{folder} belongs to another user or is not a folder: remove it, or set TMPDIR to a "
            "folder of your own."
        )
    folder.chmod(0o700)
    return folder


def measures(_content: bytes = b"") -> list[str]:
    """Return what `enter_to_fork` and `give_up_files` have closed in this process, in words."""
    return list(_held)


def enter_to_fork() -> None:
    """Go on in a child that has no network, sees no process outside, and forks by `fork_alone`.

    It is user of nothing there: no right of root's is left. It keeps the rights that it has in its
    namespaces, which it needs to make others. The processes between wait for it and end as it does,
    and when one of them is killed the child is killed too. Where namespaces are refused this
    process itself goes on, with what else there is.
    """
    global _own_processes  # noqa: PLW0603  # what a process is in, there is once
    _installed()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux" and _libc().unshare(sum(_NAMESPACES.values())) == 0:
        _held.append("namespaces of their own (users, processes, network)")
        follow_a_child()
        _own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def fork_alone() -> int:
    """Fork, and return as `os.fork` does: the child sees and can signal no other process.

    With the child whatever it has forked ends. No later child meets what it may have left in the
    kernel's queues and shared memory. After `enter_to_fork` alone; else it only forks.

    Raises:
        SystemExit: the kernel has no more namespaces for now. Another process may go on.
    """
    own = _own_processes
    if own is not None and _libc().unshare(_NAMESPACES["process"] | _NAMESPACES["ipc"]) != 0:
        raise SystemExit(0)
    child = os.fork()
    if child == 0:
        die_with_parent()
    if own is not None and child == 0:
        os.close(own)
        _end_by_signals()
        resource.setrlimit(resource.RLIMIT_NPROC, (_PROCESSES, _PROCESSES))
    elif own is not None and _libc().setns(own, _NAMESPACES["process"]) != 0:
        raise SystemExit(0)
    return child


def signalled(code: int) -> int:
    """Return the exit code of a child of `fork_alone`: less than 0 if a signal ended it."""
    return -code if _own_processes is not None and code in _ENDING else code


def _end_by_signals() -> None:
    """Let signals that bounds and `abort` send end the first process of a namespace, too.

    Linux ignores what such a process has no handler for. Its handler here is C's `_exit`, which is
    given the signal's number.
    """
    libc = _libc()
    for number in _ENDING:
        libc.signal(number, ctypes.cast(libc["_exit"], ctypes.c_void_p))


def follow_a_child() -> None:
    """Return in a child; this process waits for it and ends as it does."""
    child = os.fork()
    if child == 0:
        die_with_parent()
        return
    ended = 0
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    number = code - _BY_SIGNAL if code > _BY_SIGNAL else -code
    if number in signal.valid_signals():
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # ignored by the first process of a namespace
        os._exit(_BY_SIGNAL + number)
    os._exit(code)


def die_with_parent() -> None:
    """Have this process killed when the one that forked it ends, however that does."""
    if sys.platform == "linux":
        _libc().prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def give_up_files(*, network: bool, readable: Iterable[str] = ()) -> None:
    """Let this process write no file, and read few; it never gets more rights.

    Args:
        network: whether it has to ask storage itself, and so keeps the network.
        readable: files and folders that it may read besides Python's own and the system's. Without
            Landlock, a process that keeps the network may read all that its user may.
    """
    if sys.platform != "linux":
        return
    _libc().prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _drop_capabilities()
    _held.append("no new privileges")
    _restrict_files(network=network, readable=readable)
    if filter_calls(network=network):  # last: the filter may deny what the lines before need
        _held.append("seccomp")


def _restrict_files(*, network: bool, readable: Iterable[str]) -> None:
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return
    rights = (1 << max(bits for since, bits in _FILE_RIGHTS.items() if since <= version)) - 1
    handled = [rights]
    if version >= _TCP_SINCE:
        handled.append(0 if network else _TCP)
    if version >= _SCOPES_SINCE:
        handled.append(_SIGNALS_AND_SOCKETS)
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    rules = _libc().syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), 0
    )
    if rules < 0:
        return
    for path in {*_installed(), *(_NETWORK if network else ()), *readable}:
        _allow(rules, path, rights & (_EXECUTE | _READ_FILE | _READ_FOLDER))
    _allow(rules, os.devnull, rights & (_READ_FILE | _WRITE_FILE | _TRUNCATE))
    if _libc().syscall(_RESTRICT_SELF, rules, 0) == 0:
        _held.append(f"Landlock {version} (no files but Python's, the system's and a call's own)")
    os.close(rules)


def _drop_capabilities() -> None:
    """Root's could read any process's memory, whatever else is closed."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; the same of later ones
    if _libc().capget(header, sets) == 0:
        kept = (_READ_ALL, _READ_ALL, 0, 0, 0, 0)
        sets[:] = [had & keep for had, keep in zip(sets, kept, strict=True)]
        _libc().capset(header, sets)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not every system has it
        return
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        rights &= ~_READ_FOLDER
    rule = _PathBeneath(rights, place)
    _libc().syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    os.close(place)


@functools.cache  # before a fork, for all children
def _installed() -> frozenset[str]:
    """Return where Python and its packages lie; of a checkout, the packages alone."""
    here = pathlib.Path(__file__).resolve().parents[1]
    searched = {path for path in sys.path if path and pathlib.Path(path).resolve() != here}
    packages = {str(here / package) for package in ("privcore", "workers")}
    installed = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")}
    return frozenset({*_SYSTEM, *searched, *packages, *installed})


@functools.cache  # made anew for each rule, it took 15 ms of a call
def _libc() -> Any:
    return ctypes.CDLL(None)
