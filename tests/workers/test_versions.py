"""A night's work is done by one version of the code and of the method."""

import pytest

from privcore.exceptions import TerminalError
from workers import versions
from workers.executors import OnRay


def test_a_node_with_another_version_refuses_to_work(monkeypatch):
    begun = versions.by_one_version(lambda shared, item: shared + item)
    assert begun(1, 2) == 3
    monkeypatch.setattr(versions, "_BOTH", "0.0.1 (method version 1)")
    with pytest.raises(
        TerminalError,
        match=r"has privaudit 0\.0\.1 \(method version 1\), .*: install the same on every node",
    ):
        begun(1, 2)


def test_every_task_of_ray_is_of_one_version(monkeypatch):
    carried = []
    monkeypatch.setattr("workers.executors.ray.remote", lambda **_: carried.append, raising=False)
    OnRay()._task(lambda shared, item: shared + item)
    monkeypatch.setattr(versions, "_BOTH", "0.0.1 (method version 1)")
    with pytest.raises(TerminalError, match="install the same on every node"):
        carried[0](1, 2)
