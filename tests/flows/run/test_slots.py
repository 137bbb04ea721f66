"""How many audits run at once, and that no slot of a killed run keeps a later one waiting."""

import concurrent.futures
import contextlib
import functools
import os
import subprocess
import sys
import threading

import httpx
import pytest
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.run import auditing
from flows.run.auditing import set_limit, slot
from privcore.exceptions import TransientError
from tests.support.lake import write_settings


def most_at_once(number, tasks):
    """Return how many of some tasks held a slot at the same time."""
    held, most, lock, met = 0, 0, threading.Lock(), threading.Event()

    def hold(_):
        nonlocal held, most
        with slot(number):
            with lock:
                held += 1
                most = max(most, held)
                if held == number:
                    met.set()
            assert met.wait(60)
            with lock:
                held -= 1

    with concurrent.futures.ThreadPoolExecutor(tasks) as pool:
        list(pool.map(hold, range(tasks)))
    return most


def test_a_process_without_a_server_counts_for_itself():
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert most_at_once(2, 8) == 2
        set_limit(2)  # asks nobody


SCRIPT = """
import sys
import flows  # says how long Prefect's server may take to start
import prefect
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from flows.run.auditing import begin
from flows.run.auditing import LIMIT, slot
from flows.settings import load_settings

with prefect.get_client(sync_client=True) as client:
    client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=LIMIT, limit=4))
    client.increment_concurrency_slots([LIMIT], 4, "concurrency")  # by four that were killed
    assert client.read_global_concurrency_limit_by_name(LIMIT).active_slots == 4
    begin(load_settings(sys.argv[1]))
with slot(4):
    print("a slot is free")
"""


@pytest.fixture
def in_place_of_slots(monkeypatch):
    """Return what replaces the server's slots, where a server stands."""
    monkeypatch.setattr(auditing, "_stands", lambda: True)
    return functools.partial(monkeypatch.setattr, auditing, "concurrency")


def test_a_server_that_is_away_is_asked_again_by_the_task(in_place_of_slots):
    def away(*_, **__):
        raise ConcurrencySlotAcquisitionError("All connection attempts failed")

    in_place_of_slots(away)
    with pytest.raises(TransientError, match="All connection attempts failed"), slot(2):
        pytest.fail("there is no slot")


def test_an_audit_does_not_fail_where_its_slot_is_not_taken_back(in_place_of_slots):
    @contextlib.contextmanager
    def restarting(*_, **__):
        yield
        answer = httpx.Response(500, request=httpx.Request("POST", "http://server/api"))
        raise PrefectHTTPStatusError("500", request=answer.request, response=answer)

    in_place_of_slots(restarting)
    with slot(2):
        done = True
    assert done
    with pytest.raises(TransientError, match="storage"), slot(2):
        raise TransientError("storage")


@pytest.mark.slow
def test_runs_that_were_killed_keep_nobody_waiting(tmp_path):
    write_settings(tmp_path, ["good"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "privaudit.toml")],
        env=kept | {"PREFECT_HOME": str(tmp_path / "prefect")},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "a slot is free\n"), done.stderr
