"""Who carries work: the same answer from all. Functions are nested: Ray carries those by value."""

import contextlib
import datetime as dt
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow.parquet as pq
import pytest
import ray

from flows.run import night_plan
from flows.run.night_plan import Job, Planned
from flows.settings import RaySettings
from privcore.exceptions import TerminalError, TransientError
from tests.support.audits import recorded, run_audits
from tests.support.in_a_child import dies, fails, refuses, sleeps, times
from tests.support.lake import (
    DAY,
    PLAN,
    copied,
    declared,
    figures,
    label_path,
    label_rows,
    small_lake,
)
from tests.support.tiers import tiered
from tests.test_architecture import ROOT
from workers import executors
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import (
    DeadlinePassedError,
    Executor,
    InProcess,
    LostWorkerError,
    OneChild,
    Total,
    on_ray,
)
from workers.labels.shards import WORK_UNIT_BYTES
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord

Change = Callable[[pytest.MonkeyPatch], None]
LONG = f"/tmp/{'x' * 40}"  # noqa: S108  # too long for Ray's sockets


@pytest.mark.parametrize(
    ("address", "change", "words"),
    [
        ("nowhere", lambda _: None, "'.*' is not a Ray address. Use local, ."),
        ("http://127.0.0.1:8265", lambda _: None, "'.*' is not a Ray address. Use local, ."),
        ("auto", lambda at: at.setenv("RAY_ADDRESS", "nowhere"), "'nowhere' is not a Ray address"),
        ("local", lambda at: at.setenv("RAY_TMPDIR", LONG),
         "RAY_TMPDIR is .* of at most 39 characters, or unse"),
        ("local", lambda at: at.setattr("workers.executors.os.access", lambda *_: False),
         "Ray cannot write to /dev/shm: mount a writable"),
        ("ray://head:10001",
         lambda at: at.setattr("workers.executors.importlib.util.find_spec", lambda _: None),
         "To reach ray://head:10001, install privaudit with "),
    ],
)  # fmt: skip
def test_a_ray_that_cannot_be_reached_is_refused_in_one_sentence(
    monkeypatch, address, change, words
):
    change(monkeypatch)
    with pytest.raises(TerminalError, match=f"^{words}"):
        on_ray(address).__enter__()


OWN_RAY = """
import json, pathlib, random, stat, time
from workers.executors import on_ray
chance = random.Random(0)
def look(_, __):
    import os
    mask = os.umask(0)
    os.umask(mask)
    return mask
def works(_, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return None, 1
def gives_up(_):
    raise ValueError
with on_ray("local", 2) as executor:
    (mask,) = executor.map(look, None, [0])
    import psutil, ray
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ports = [each.laddr.ip for one in family for each in one.net_connections() if
             each.status == psutil.CONN_LISTEN]
    session = pathlib.Path(ray._private.worker._global_node.get_session_dir_path())
    modes = [stat.S_IMODE(path.stat().st_mode) for path in session.parents]
    closed = any(not mode & 0o77 for mode in modes)
    for _ in range(150):
        seconds = [chance.uniform(0.0, 0.02) for _ in range(chance.randint(2, 6))]
        results = executor.map(works, None, seconds)
        next(results)
        time.sleep(chance.uniform(0.0, 0.02))
        results.close()
        try:
            executor.fold(works, None, seconds, on_done=gives_up)
        except ValueError:
            pass
    print(json.dumps({"mask": mask, "ports": ports, "closed": closed}))
"""


@pytest.mark.slow
def test_a_ray_of_our_own_is_reached_by_no_machine_and_survives_what_its_user_gives_up():
    """Where tasks were cancelled, Ray 2.60 ended the process within some dozens of rounds."""
    done = subprocess.run(
        [sys.executable, "-c", OWN_RAY], capture_output=True, text=True, check=False, umask=0o022,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["ports"]) > 3
    assert {ip.removeprefix("::ffff:") for ip in found["ports"]} == {"127.0.0.1"}
    assert found["closed"]
    assert found["mask"] == 0o077


@pytest.fixture(scope="module")
def executor():
    """Connect to a Ray of three workers, once: functions are nested, since it carries by value."""
    with on_ray("local", 3) as connected:
        assert ray.cluster_resources()["CPU"] == 3
        yield connected


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Return a lake whose labels lie in two files of several row groups each."""
    folder = tmp_path_factory.mktemp("ray") / "lake"
    lake = small_lake(folder, rows=600, privacy=declared(), row_group_size=128)
    second = label_path(lake, "flights").with_name("part-00001.parquet")
    pq.write_table(label_rows(500, seed=9).to_arrow(), second, row_group_size=100)
    return lake


def audited(lake: Lake, executor: Executor) -> AuditRecord:
    """Audit with a unit for every row group, so that there is something to spread."""
    (record,) = run_audits(lake, DAY, [Request("good", PLAN)], executor=executor, work_unit_bytes=1)
    return record


@pytest.mark.slow
@pytest.mark.parametrize("bad", [False, True])
def test_ray_workers_give_the_same_record_to_the_bit_of_bad_input_too(
    tmp_path, lake, executor, bad
):
    lake = copied(lake, tmp_path)
    if bad:
        second = label_path(lake, "flights").with_name("part-00001.parquet")
        rows = label_rows(500, seed=9).with_columns(delay=pl.lit("long"))
        pq.write_table(rows.to_arrow(), second, row_group_size=100)
    here = audited(lake, InProcess())
    assert here.audit.status == ("not_evaluable" if bad else "evaluated")
    assert (here.audit.detail == "feature_invalid") is bad
    assert figures(audited(lake, executor)) == figures(here)


@pytest.mark.slow
def test_a_transient_error_is_retried(tmp_path, executor):
    def fails_twice(folder: pathlib.Path, item: int) -> int:
        attempt = len(list(folder.iterdir()))
        (folder / str(attempt)).touch()
        if attempt < 2:
            raise TransientError("Storage was away.")
        return item * 10

    assert list(executor.map(fails_twice, tmp_path, [7])) == [70]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_a_terminal_error_arrives_as_itself_and_is_not_retried(tmp_path, executor):
    def fails(folder: pathlib.Path, item: int) -> int:
        (folder / str(len(list(folder.iterdir())))).touch()
        raise NotEvaluableError(Reason.LABEL_INVALID, f"Shard {item} has no labels.")

    with pytest.raises(NotEvaluableError) as caught:
        list(executor.map(fails, tmp_path, [7]))
    assert (type(caught.value), caught.value.reason) == (NotEvaluableError, Reason.LABEL_INVALID)
    assert str(caught.value) == "Shard 7 has no labels."
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_a_worker_that_dies_once_costs_nothing_and_one_that_keeps_dying_is_told(tmp_path, executor):
    def dies(folder: pathlib.Path, item: int) -> int:
        import os  # noqa: PLC0415  # carried by value

        if item < 0 or not (folder / "died").exists():
            (folder / "died").touch()
            os._exit(1)
        return item

    assert sorted(executor.map(dies, tmp_path, range(5))) == [0, 1, 2, 3, 4]
    with pytest.raises(TransientError, match="worker"):
        list(executor.map(dies, tmp_path, [-7]))


@pytest.mark.slow
def test_a_ray_that_finishes_nothing_is_a_transient_error(monkeypatch, executor):
    def sleeps(_shared: None, item: int) -> tuple[int, int]:
        import time  # noqa: PLC0415  # carried by value

        time.sleep(600.0)
        return item, item

    heard: list[int] = []
    monkeypatch.setattr("workers.executors.STUCK", 1.0)
    with pytest.raises(
        TransientError, match="Ray finished no task in 0 minutes, with 1 work units"
    ):
        executor.fold(sleeps, None, range(1), on_done=heard.append)
    assert heard == []


@pytest.mark.slow
def test_who_finds_ray_connected_leaves_it_connected(executor):
    with on_ray("local", 1) as again:
        assert list(again.map(lambda shared, item: shared + item, 1, [2])) == [3]
    assert ray.is_initialized()
    assert list(executor.map(lambda shared, item: shared + item, 1, [2])) == [3]


def test_what_ray_kept_of_runs_is_removed_a_week_later(monkeypatch, tmp_path):
    """Logs, and rows that Ray had put on disk where a run was killed, stayed for good.

    What a driver that runs has is kept: a clock that jumped a week ahead lost it, and long runs.
    """
    monkeypatch.setattr(executors, "private_folder", lambda: tmp_path)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    old, new = (tmp_path / "ray" / f"session_{number}" for number in (1, 2))
    for session in (old, new):
        (session / "logs").mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept, lost = (
        tmp_path / "ray" / f"session_2026-11-01_00-00-00_000000_{process}"
        for process in (os.getpid(), ended.pid)
    )
    for session in (kept, lost):
        session.mkdir()
    for session in (old, kept, lost):
        os.utime(session, (0, 0))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "ray" / "session_latest").symlink_to(elsewhere)
    os.utime(elsewhere, (0, 0))
    assert executors._folder_of_ray() == tmp_path / "ray"
    found = [one.exists() for one in (old, new, kept, lost, elsewhere)]
    assert found == [False, True, True, False, True]


@pytest.mark.parametrize(("error", "shut_down"), [(ValueError, 1), (KeyboardInterrupt, 0)])
def test_a_ray_that_threads_may_still_use_after_an_interrupt_is_not_shut_down(
    monkeypatch, error, shut_down
):
    """Ray ended an interrupted night with code 1, which is a violation's."""
    calls: list[int] = []
    monkeypatch.setattr(executors, "connected", lambda: False)
    monkeypatch.setattr(executors, "_start_here", lambda _: None)
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append(1))
    with pytest.raises(error), on_ray():
        raise error
    assert len(calls) == shut_down


@pytest.fixture(params=["here", pytest.param("ray", marks=pytest.mark.slow)])
def either(request):
    return InProcess() if request.param == "here" else request.getfixturevalue("executor")


def sum_of(executor: Executor, items: range) -> Total[int] | None:
    def double(shared: int, item: int) -> tuple[None, int]:
        return None, shared * item

    return executor.total(double, 2, items, on_done=lambda _: None)


def asked(made: Total[int], items: list[int]) -> list[tuple[str, int, int]]:
    def beside(word: str, whole: int, item: int) -> tuple[str, int, int]:
        return word, whole, item

    return sorted(made.map(beside, "of", items))


def test_a_total_is_worked_on_without_being_brought_here(either, monkeypatch):
    made = sum_of(either, range(10))
    with monkeypatch.context() as patched:
        patched.setattr(Total, "get", None)
        assert asked(made, [0, 1, 2]) == [("of", 90, 0), ("of", 90, 1), ("of", 90, 2)]
    assert made.get() == 90


@pytest.fixture(scope="module")
def child():
    with OneChild() as executor:
        yield executor


@pytest.fixture
def counted(tmp_path):
    file = tmp_path / "counted"
    file.write_text("")
    return file


def test_all_items_are_carried_by_one_other_process_and_its_errors_are_raised_here(child):
    seen: list[int] = []
    assert child.fold(times, 3, range(5), on_done=seen.append) == 30
    assert len(set(seen)) == 1
    assert seen[0] != os.getpid()
    assert [value for _, value in child.map(times, 3, range(5))] == [0, 3, 6, 9, 12]
    assert child.fold(times, 3, [], on_done=seen.append) is None
    with pytest.raises(NotEvaluableError, match="no label") as refused:
        list(child.map(refuses, None, ["no label"]))
    assert refused.value.reason is Reason.LABEL_INVALID


@pytest.mark.parametrize("what", tiered([fails, dies], always=1, slow=1))
def test_what_may_go_away_is_tried_again(child, counted, what):
    assert child.fold(what, counted, [3], on_done=lambda _: None) == 4


@pytest.mark.parametrize(
    ("what", "error"), tiered([(fails, TransientError), (dies, LostWorkerError)], always=1, slow=1)
)
def test_what_does_not_go_away_is_told(child, counted, what, error):
    with pytest.raises(error):
        child.fold(what, counted, [9], on_done=lambda _: None)
    assert len(counted.read_text()) == 4
    assert child.fold(times, 2, [1], on_done=lambda _: None) == 2


@pytest.mark.slow
def test_a_deadline_ends_it(child):
    begun = time.monotonic()
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    with pytest.raises(DeadlinePassedError):
        child.fold(sleeps, None, [120.0], on_done=lambda _: None, deadline=deadline)
    assert time.monotonic() - begun < 60.0
    assert child.fold(times, 2, [1], on_done=lambda _: None) == 2


def test_nothing_is_left_of_it_and_whoever_still_asks_is_told():
    with ThreadPoolExecutor(1) as threads:
        with OneChild() as executor:
            ((pid, _),) = executor.map(times, 1, [1])
            asked = threads.submit(lambda: list(executor.map(sleeps, None, [120.0])))
            time.sleep(1.0)
        with pytest.raises(TransientError, match="was killed"):
            asked.result(timeout=60.0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_cannot_start_is_the_error_that_is_raised(monkeypatch):
    """As in a script that calls an audit without asking for `__name__ == "__main__"`."""

    def no_start(_: object) -> None:
        raise RuntimeError("no new process before the bootstrapping phase is over")

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", no_start)
    with pytest.raises(RuntimeError, match="bootstrapping"), OneChild() as executor:
        list(executor.map(times, 1, [1]))


@pytest.mark.slow
def test_an_audit_has_the_same_figures(child, template):
    here = recorded(template)
    there = run_audit(template, "good", DAY, plan=PLAN, executor=child)
    assert figures(there) == figures(here)
    assert here.audit.status == "evaluated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "address", "connected", "where"),
    [
        (WORK_UNIT_BYTES, "local", False, "child"),
        (WORK_UNIT_BYTES + 1, "local", False, "ray"),
        (0, "auto", False, "ray"),
        (0, "local", True, "ray"),
    ],
)
def test_ray_carries_what_can_be_shared_out(monkeypatch, size, address, connected, where):
    monkeypatch.setattr(night_plan, "connected", lambda: connected)
    monkeypatch.setattr(night_plan, "on_ray", lambda *_: contextlib.nullcontext("ray"))
    planned = [Planned(Job("good", DAY), label_bytes=size)]
    with night_plan.choose_executor(planned, RaySettings(address=address)) as executor:
        assert ("child" if isinstance(executor, OneChild) else executor) == where
