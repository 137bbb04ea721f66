import types
from typing import Any

import pytest

from flows.commands.checks import _workers_online
from privcore.exceptions import TerminalError


class Server:
    """The answer of Prefect's client about one work pool."""

    def __init__(self, kind: str, *states: str) -> None:
        self.kind, self.states = kind, states

    def read_work_pool(self, name: str) -> Any:
        assert name == "privaudit"
        return types.SimpleNamespace(type=self.kind)

    def read_workers_for_work_pool(self, name: str) -> list[Any]:
        assert name == "privaudit"
        return [types.SimpleNamespace(status=state) for state in self.states]


def test_a_worker_that_is_online_is_counted() -> None:
    client: Any = Server("process", "OFFLINE", "ONLINE")
    assert _workers_online(client, "privaudit") == "; 1 worker online in the pool privaudit"


@pytest.mark.parametrize(
    ("states", "known"),
    [((), "none was ever started"), (("OFFLINE", "OFFLINE"), "2 known, all offline")],
)
def test_a_pool_without_a_worker_fails_the_check(states: tuple[str, ...], known: str) -> None:
    client: Any = Server("process", *states)
    with pytest.raises(TerminalError, match=f"({known}).* prefect worker start --pool privaudit"):
        _workers_online(client, "privaudit")


def test_a_pool_that_needs_no_worker_and_a_flow_without_a_pool_are_well() -> None:
    client: Any = Server("cloud-run:push")
    assert _workers_online(client, "privaudit") == ""
    assert _workers_online(client, None) == ""
