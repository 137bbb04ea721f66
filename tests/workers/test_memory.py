import pathlib
import subprocess
import sys

import pytest

from workers import memory
from workers.memory import bounded_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a machine with 6 GiB left, on which nothing limits this process."""
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\nMemAvailable: 6291456 kB\n")
    (tmp_path / "own").write_text("4:memory:/pods/ours\n1:cpu:/\n0::/pods/ours\n")
    for name, file in (("_MEMINFO", "meminfo"), ("_OWN_GROUPS", "own"), ("_GROUPS", "")):
        monkeypatch.setattr(memory, name, tmp_path / file)
    return tmp_path


def limited(folder: pathlib.Path, most: str, taken: int, names: tuple[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, value in zip(names, (most, str(taken)), strict=True):
        (folder / name).write_text(f"{value}\n")


@pytest.mark.usefixtures("machine")
def test_a_bound_is_ours_where_the_machine_has_twice_as_much() -> None:
    assert bounded_memory(2 * GIB) == 2 * GIB


@pytest.mark.usefixtures("machine")
def test_it_is_half_of_what_the_machine_has_left() -> None:
    assert bounded_memory(8 * GIB) == 3 * GIB


@pytest.mark.parametrize("group", ["pods/ours", "pods"])
def test_it_is_half_of_what_any_group_of_this_process_has_left(
    machine: pathlib.Path, group: str
) -> None:
    limited(machine / group, str(4 * GIB), 2 * GIB, ("memory.max", "memory.current"))
    assert bounded_memory(8 * GIB) == GIB


def test_groups_of_the_first_version_count_too(machine: pathlib.Path) -> None:
    names = "memory.limit_in_bytes", "memory.usage_in_bytes"
    limited(machine / "memory" / "pods" / "ours", str(4 * GIB), 3 * GIB, names)
    assert bounded_memory(8 * GIB) == GIB // 2


def test_files_that_linux_can_drop_are_not_taken(machine: pathlib.Path) -> None:
    own = machine / "pods" / "ours"
    limited(own, str(4 * GIB), 4 * GIB, ("memory.max", "memory.current"))
    (own / "memory.stat").write_text(f"anon {GIB}\ninactive_file {GIB}\nactive_file {2 * GIB}\n")
    assert bounded_memory(8 * GIB) == 3 * GIB // 2


def test_nor_are_those_of_groups_below_in_the_first_version(machine: pathlib.Path) -> None:
    own = machine / "memory" / "pods" / "ours"
    limited(own, str(4 * GIB), 4 * GIB, ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    files = f"inactive_file 0\nactive_file 0\ntotal_inactive_file {GIB}\ntotal_active_file 0\n"
    (own / "memory.stat").write_text(files)
    assert bounded_memory(8 * GIB) == GIB // 2


def test_a_group_without_a_limit_is_none(machine: pathlib.Path) -> None:
    limited(machine / "pods" / "ours", "max", 2 * GIB, ("memory.max", "memory.current"))
    assert bounded_memory(8 * GIB) == 3 * GIB


def test_where_nothing_is_known_it_is_ours(machine: pathlib.Path) -> None:
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
def test_freed_memory_is_given_back() -> None:
    """By default glibc would keep it: the first figure shows that there is something to mend."""
    assert held_after("kept") - held_after("returned") > 30_000
