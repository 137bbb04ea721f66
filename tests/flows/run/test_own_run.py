"""A run's first start, the account that acts, and an audit by another plan."""

import datetime as dt
import json
import os
import uuid
from types import SimpleNamespace

import httpx
import prefect
import pytest

import flows.run.runs as module
from flows.run.audit_requests import this_user
from flows.run.runs import first_start
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import USER
from workers.warehouse.store import Warehouse

SINCE = dt.datetime(2026, 3, 2, 4, tzinfo=dt.UTC)


class Server:
    """A server that knows runs, which were started so often, or is away."""

    def __init__(self, starts):
        self.asked, self._starts = 0, starts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return

    def read_flow_run(self, _):
        self.asked += 1
        if self._starts is None:
            raise httpx.ConnectError("All connection attempts failed")
        return SimpleNamespace(run_count=self._starts, start_time=SINCE)


def in_a_run(monkeypatch, *, starts):
    """Let this be another run, which was started so often; None if the server is away."""
    server = Server(starts)
    monkeypatch.setattr(prefect, "get_client", lambda **_: server)
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id=str(uuid.uuid4())))
    return server


@pytest.mark.parametrize(("starts", "since"), [(1, None), (2, SINCE), (None, None)])
def test_the_server_is_asked_once_a_run(monkeypatch, starts, since):
    """A night waited at each record for one that is away, and all audits ended with an error."""
    server = in_a_run(monkeypatch, starts=starts)
    assert [first_start(), first_start()] == [since, since]
    assert server.asked == 1


def test_outside_of_prefect_every_start_is_the_first():
    assert first_start() is None


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_run_with_another_seed_is_exploratory_and_is_listed(
    template, tmp_path, privaudit, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings = write_settings(tmp_path, ["good"])
    settings.write_text(settings.read_text().replace('"lake"', f'"{template.uri}"'))
    run = ["run", "--model", "good", "--day", str(DAY)]
    assert privaudit(*run).code == privaudit(*run, "--seed", "0").code == 0
    privaudit(*run, "--seed", "5")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    found = warehouse.scan("audits").sort("revision").select("audit_id", "exploratory", "plan")
    (own, *first), (_, *other) = found.collect().rows()
    assert (first[0], other[0]) == (False, True)
    assert [json.loads(plan)["seed"] for _, plan in (first, other)] == [0, 5]
    assert warehouse.current()["audit_id"].to_list() == [own]


@pytest.mark.parametrize("name", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_who_acts_is_the_account(monkeypatch, name):
    """What was asked for under a rival's name stood in the record as the rival's."""
    monkeypatch.setenv(name, "rival")
    assert this_user() == USER
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert this_user() == "user 4000000000"
