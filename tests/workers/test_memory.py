import subprocess
import sys

import pytest

from workers import memory
from workers.memory import bounded_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a machine with 6 GiB left, on which nothing limits this process."""
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\nMemAvailable: 6291456 kB\n")
    (tmp_path / "own").write_text("4:memory:/pods/ours\n1:cpu:/\n0::/pods/ours\n")
    for name, file in (("_MEMINFO", "meminfo"), ("_OWN_GROUPS", "own"), ("_GROUPS", "")):
        monkeypatch.setattr(memory, name, tmp_path / file)
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_a_bound_is_ours_or_half_of_what_the_machine_has_left():
    assert (bounded_memory(2 * GIB), bounded_memory(8 * GIB)) == (2 * GIB, 3 * GIB)


SECOND = ("memory.max", "memory.current")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes")
DROPPED = f"inactive_file {GIB}\nactive_file {2 * GIB}\n"
BELOW = f"inactive_file 0\nactive_file 0\ntotal_inactive_file {GIB}\ntotal_active_file 0\n"


@pytest.mark.parametrize(
    ("group", "names", "most", "taken", "files", "left"),
    [
        ("pods/ours", SECOND, 4 * GIB, 2 * GIB, "", 2 * GIB),
        ("pods", SECOND, 4 * GIB, 2 * GIB, "", 2 * GIB),
        ("memory/pods/ours", FIRST, 4 * GIB, 3 * GIB, "", GIB),
        # Files that Linux can drop are not taken, nor are those of groups below.
        ("pods/ours", SECOND, 4 * GIB, 4 * GIB, DROPPED, 3 * GIB),
        ("memory/pods/ours", FIRST, 4 * GIB, 4 * GIB, BELOW, GIB),
        ("pods/ours", SECOND, "max", 2 * GIB, "", 6 * GIB),
    ],
    ids=["own", "above", "first version", "files", "files below", "without a limit"],
)
def test_it_is_half_of_what_any_group_of_this_process_has_left(
    machine, group, names, most, taken, files, left
):
    (machine / group).mkdir(parents=True)
    for name, value in zip(names, (most, taken), strict=True):
        (machine / group / name).write_text(f"{value}\n")
    if files:
        (machine / group / "memory.stat").write_text(files)
    assert bounded_memory(8 * GIB) == left // 2


def test_where_nothing_is_known_it_is_ours(machine):
    for name in ("meminfo", "own"):
        (machine / name).unlink()
    assert bounded_memory(8 * GIB) == 8 * GIB


_FREED = """
import pathlib, sys, threading
from workers.memory import return_freed_memory
if sys.argv[1] == "returned":
    return_freed_memory()
kept = []
def work():
    b"x" * (30 << 20)  # freed at once, it teaches glibc to keep blocks of this size
    freed = []
    for _ in range(10):
        freed.append(b"x" * (4 << 20))
        kept.append(b"x" * 2000)
for _ in range(6):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
status = pathlib.Path("/proc/self/status").read_text()
print(status.partition("RssAnon:")[2].split()[0])
"""


def held_after(how: str) -> int:
    """Return the kB that a process holds once its threads have freed 40 MiB each."""
    command = [sys.executable, "-c", _FREED, how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.slow
def test_freed_memory_is_given_back():
    """By default glibc would keep it: the first figure shows that there is something to mend."""
    assert held_after("kept") - held_after("returned") > 30_000
