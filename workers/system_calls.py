"""Deny system calls that a reader of foreign bytes never needs, by a filter of Linux (seccomp).

Namespaces and Landlock close files, processes and TCP. What they leave open is the kernel's rarely
used surface: io_uring, userfaultfd, keyrings, BPF, and sockets of families that belong to no
network namespace, such as AF_VSOCK, which reaches the host of a virtual machine, and local ones,
which a path names. Landlock also lets a process change the mode, the times and the attributes of
its user's files, and watch folders for the names of new files. Shared memory of System V is in no
bound on memory, and limits and priorities of all processes of a user are open to each of them.
Linux bounds no number of root's processes, so a process that asks no storage may start threads
alone. The filter is a list of denials, because allocators and thread pools of foreign libraries
change what they call.

Numbers are those of the kernel's `unistd.h`. On another processor there is no filter.
"""

import ctypes
import errno
import platform
from dataclasses import dataclass

_SET_FILTER, _BY_FILTER = 22, 2  # prctl: PR_SET_SECCOMP, SECCOMP_MODE_FILTER
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF, of 32 bits
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16  # offsets in what a filter is given
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # calls of x86-64 with pointers of 32 bits: a second table, not needed
_NEW_NAMESPACES = 0x7E020000  # flags of clone
_THREAD = 0x10000  # likewise: CLONE_THREAD
_CLONE3 = 435
_NEW_EVERYWHERE = (
    425, 426, 427,  # io_uring_setup, io_uring_enter, io_uring_register
    428, 429, 430, 431, 432,  # open_tree, move_mount, fsopen, fsconfig, fsmount
    434, 438,  # pidfd_open, pidfd_getfd
    452, 463, 466,  # fchmodat2, setxattrat, removexattrat
)  # fmt: skip
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; for who asks storage


@dataclass(frozen=True, slots=True)
class _Processor:
    """The numbers of one processor.

    Attributes:
        identity: what the kernel calls it (`AUDIT_ARCH_...`).
        socket: its number of that call.
        clone: likewise.
        limits: its number of `prlimit64`, by which a process sets its own limits.
        asking: calls for who asks storage alone: that make a process, or a pair of local sockets.
        denied: calls that fail.
    """

    identity: int
    socket: int
    clone: int
    limits: int
    asking: tuple[int, ...]
    denied: tuple[int, ...]


_PROCESSORS = {
    "x86_64": _Processor(0xC000003E, 41, 56, 302, (57, 58, 53), (
        101, 310, 311, 312,  # ptrace, process_vm_readv, process_vm_writev, kcmp
        323, 248, 249, 250, 321, 298,  # userfaultfd, add_key, request_key, keyctl, bpf, perf_event
        272, 308, 165, 166, 155, 161,  # unshare, setns, mount, umount2, pivot_root, chroot
        303, 304, 135,  # name_to_handle_at, open_by_handle_at, personality
        246, 320, 175, 313, 176,  # kexec_load, kexec_file_load, init, finit and delete_module
        90, 91, 268, 92, 93, 94, 260,  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
        132, 235, 261, 280,  # utime, utimes, futimesat, utimensat
        188, 189, 190, 197, 198, 199,  # setxattr, removexattr; of links and of open files, too
        253, 254, 294, 300,  # inotify_init, inotify_add_watch, inotify_init1, fanotify_init
        29, 30, 64, 65, 68, 69, 70,  # shmget, shmat, semget, semop, msgget, msgsnd, msgrcv
        141, 251, 142, 144, 203, 314,  # setpriority, ioprio_set; sched_setparam, _setscheduler, ...
    )),
    "aarch64": _Processor(0xC00000B7, 198, 220, 261, (199,), (
        117, 270, 271, 272,
        282, 217, 218, 219, 280, 241,
        97, 268, 40, 39, 41, 51,
        264, 265, 92,
        104, 294, 105, 273, 106,
        52, 53, 55, 54,
        88,
        5, 6, 7, 14, 15, 16,
        26, 27, 262,
        194, 196, 190, 193, 186, 189, 188,
        140, 30, 118, 119, 122, 274,
    )),
}  # fmt: skip


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("first", ctypes.POINTER(_Instruction)))


def filter_calls(*, network: bool) -> bool:
    """Let this process and its children no longer make such calls; return whether the kernel does.

    The process must have given up new privileges (`PR_SET_NO_NEW_PRIVS`).

    Args:
        network: whether it may open sockets, and start processes: storage's login may be a
            command's to give.
    """
    known = _PROCESSORS.get(platform.machine())
    if known is None:
        return False
    lines = _instructions(known, network=network)
    array = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), array)
    found = ctypes.CDLL(None).prctl(_SET_FILTER, _BY_FILTER, ctypes.byref(program), 0, 0)
    return bool(found == 0)


def _instructions(processor: _Processor, *, network: bool) -> list[tuple[int, int, int, int]]:
    """Return the filter, as (code, skipped if true, skipped if false, value) each."""
    families = _FAMILIES if network else ()
    denied = (_RETURN, 0, 0, _FAIL_WITH | errno.EPERM)
    lines = [
        (_LOAD, 0, 0, _PROCESSOR),
        (_EQUAL, 1, 0, processor.identity),
        denied,
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        denied,
        # Its flags lie in memory, which a filter cannot read; libraries then use clone.
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _FAIL_WITH | errno.ENOSYS),
    ]
    for number in (*processor.denied, *_NEW_EVERYWHERE, *(() if network else processor.asking)):
        lines += [(_EQUAL, 0, 1, number), denied]
    # Its own limits alone: a process may set those of all others of its user.
    lines += [
        (_EQUAL, 0, 4, processor.limits),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        denied,
    ]
    to_the_last = 4 + len(families)
    new = [(_ANY_BIT, 0, to_the_last, _NEW_NAMESPACES)]
    if not network:
        new = [(_ANY_BIT, 1, 0, _NEW_NAMESPACES), (_ANY_BIT, to_the_last, 0, _THREAD)]
    cloned = [(_LOAD, 0, 0, _FIRST_ARGUMENT), *new, denied]
    lines += [
        (_EQUAL, 0, len(cloned), processor.clone),
        *cloned,
        (_EQUAL, 0, 2 + len(families), processor.socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
    ]
    lines += [(_EQUAL, len(families) - n, 0, family) for n, family in enumerate(families)]
    return [*lines, (_RETURN, 0, 0, _FAIL_WITH | errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
