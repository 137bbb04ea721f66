"""Bad days of a machine: processes that are stopped for ever, storage without end, and clocks."""

import datetime as dt
import os
import signal
import threading
import time

import pytest

from privcore.exceptions import TransientError
from tests.support.audits import recorded, run_audits
from tests.support.boundary import contained
from tests.support.contained_calls import wait
from tests.support.in_a_child import nothing, stops_at
from tests.support.lake import DAY, PLAN, figures
from tests.support.postgresql import children
from workers import contained as contained_module
from workers import executors
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.contained import ContainedError
from workers.executors import InProcess, OneChild


def stop(process: int) -> None:
    """Stop a process and all that it has started, as a debugger or a freezer does."""
    for one in (process, *children(process)):
        os.kill(one, signal.SIGSTOP)


@pytest.fixture(params=[False, True], ids=["kept", "forked"])
def call(request, monkeypatch):
    monkeypatch.setattr(contained_module, "_GRACE", 1.0)
    with contained(wait, seconds=2, fork=request.param) as made:
        yield made


@pytest.mark.slow
def test_a_reader_that_is_stopped_in_the_middle_of_a_call_is_given_up(call, monkeypatch):
    started, start = [], call._start

    def start_and_stop_later() -> bool:
        monkeypatch.setattr(call, "_start", start)
        new = start()
        started.append(threading.Timer(0.5, lambda: stop(call._process.pid)))
        started[0].start()
        return new

    monkeypatch.setattr(call, "_start", start_and_stop_later)
    with pytest.raises(ContainedError, match="took over 2 seconds"):
        call(b"second", seconds=1.9)
    started[0].join()
    assert call(b"third") == "third"


def test_a_reader_that_is_stopped_is_not_waited_for_at_the_end(call):
    call(b"first")
    stop(call._process.pid)
    begin = time.monotonic()
    call.stop()
    assert time.monotonic() - begin < 5.0


@pytest.mark.slow
def test_a_child_that_is_stopped_is_given_up_without_a_deadline(monkeypatch):
    with OneChild() as child:
        assert list(child.map(nothing, None, [1])) == [1]
        stop(child._process.pid)
        with monkeypatch.context() as patched:
            patched.setattr(executors, "STUCK", 1.0)
            with pytest.raises(TransientError, match="gave no answer for 20 minutes"):
                list(child.map(nothing, None, [2]))
        assert list(child.map(nothing, None, [3])) == [3]


@pytest.mark.slow
def test_a_worker_of_ray_that_is_stopped_costs_no_other_audit(template):
    """Ray notices nothing: a processor is lost, and the deadline ends what waits for the worker."""
    undisturbed = recorded(template)
    done: list[None] = []
    with executors.on_ray("local", cpus=2) as executor:
        list(executor.map(nothing, None, range(8)))  # so that both workers run
        deadline = executors._now() + dt.timedelta(seconds=15)
        with pytest.raises(executors.DeadlinePassedError):
            executor.fold(stops_at, 0, range(4), on_done=done.append, deadline=deadline)
        assert len(done) == 3
        after = run_audit(template, "good", DAY, plan=PLAN, executor=executor)
        begin = time.monotonic()
    assert time.monotonic() - begin < 60.0  # it is not waited for at the end, either
    assert figures(after) == figures(undisturbed)


def test_a_clock_that_jumps_back_changes_no_figure(template, monkeypatch):
    undisturbed = recorded(template)
    now, asked = executors._now, [0]

    def jumped() -> dt.datetime:
        asked[0] += 1
        return now() - dt.timedelta(days=1 if asked[0] > 1 else 0)

    deadline = now() + dt.timedelta(hours=1)
    monkeypatch.setattr(executors, "_now", jumped)
    (record,) = run_audits(
        template, DAY, [Request("good", PLAN)], executor=InProcess(), deadline=deadline
    )
    assert figures(record) == figures(undisturbed)
    assert asked[0] > 1


def test_a_clock_that_jumps_over_the_deadline_ends_in_a_record(template, monkeypatch):
    deadline = executors._now() + dt.timedelta(hours=1)
    monkeypatch.setattr(executors, "_now", lambda: deadline + dt.timedelta(days=3))
    (record,) = run_audits(
        template, DAY, [Request("good", PLAN)], executor=InProcess(), deadline=deadline
    )
    assert (record.audit.status, record.audit.detail) == ("not_evaluable", "deadline")
