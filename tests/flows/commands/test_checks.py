import json
import os
import types

import pytest

from flows.commands import checks
from flows.commands.checks import _sandbox, _workers_online
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.flows.notify.test_alerts import SECRET, receiver
from tests.support.lake import write_settings

__all__ = ["receiver"]  # a fixture


class Server:
    """The answer of Prefect's client about one work pool."""

    def __init__(self, kind, *states):
        self.kind, self.states = kind, states

    def read_work_pool(self, name):
        assert name == "privaudit"
        return types.SimpleNamespace(type=self.kind)

    def read_workers_for_work_pool(self, name):
        assert name == "privaudit"
        return [types.SimpleNamespace(status=state) for state in self.states]


def test_a_worker_that_is_online_is_counted():
    client = Server("process", "OFFLINE", "ONLINE")
    assert _workers_online(client, "privaudit") == "; 1 worker online in the pool privaudit"


@pytest.mark.parametrize(
    ("states", "known"),
    [((), "none was ever started"), (("OFFLINE", "OFFLINE"), "2 known, all offline")],
)
def test_a_pool_without_a_worker_fails_the_check(states, known):
    client = Server("process", *states)
    with pytest.raises(TerminalError, match=f"({known}).* prefect worker start --pool privaudit"):
        _workers_online(client, "privaudit")


def test_a_pool_that_needs_no_worker_and_a_flow_without_a_pool_are_well():
    client = Server("cloud-run:push")
    assert _workers_online(client, "privaudit") == ""
    assert _workers_online(client, None) == ""


@pytest.mark.parametrize(("user", "told"), [(0, True), (1000, False)])
def test_what_does_not_hold_of_root_is_said(monkeypatch, user, told):
    """Linux exempts root from the limit of processes, which threads count as."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(checks, "closed_here", lambda: ["namespaces", "Landlock 6", "seccomp"])
    assert ("bounds no number of root's threads" in _sandbox()) == told
    assert "this machine has no" not in _sandbox()


@pytest.mark.parametrize("status", [200, 503])
def test_the_webhook_is_asked_once_and_one_that_refuses_is_named(tmp_path, receiver, status):
    server = receiver(status)
    more = f'[webhook]\nurl = "{server.url}"\nsecret = "{SECRET}"\n'
    settings = load_settings(write_settings(tmp_path, ["ads"], more=more))
    if status == 200:
        assert "accepted a signed test alert" in checks._webhook(settings)
    else:
        with pytest.raises(TerminalError, match="status 503"):
            checks._webhook(settings)
    ((headers, body),) = server.taken
    assert headers["X-Privaudit-Signature"].startswith("sha256=")
    assert json.loads(body)["event"] == "privaudit.check"
