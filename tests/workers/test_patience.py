"""Transient failures: the number of attempts, the waits in between, and the error at the end."""

import pytest

from workers import patience
from workers.patience import ONCE, Patience

SOME = Patience(attempts=4, first=1.0, longest=3.0, spread=0.5)


@pytest.fixture
def slept(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("workers.patience.time.sleep", waits.append)
    return waits


def failing(times: int) -> tuple[list[int], object]:
    tries: list[int] = []

    def action() -> str:
        tries.append(1)
        if len(tries) <= times:
            raise OSError("away")
        return "done"

    return tries, action


@pytest.mark.parametrize(
    ("failures", "tries", "longest"), [(0, 1, 0.0), (1, 2, 1.5), (3, 4, 9.0), (4, 4, 9.0)]
)
def test_it_is_tried_as_often_as_said(slept, failures, tries, longest):
    tried, action = failing(failures)
    if failures < 4:
        assert SOME.retry(action, lambda _: True) == "done"
    else:
        with pytest.raises(OSError, match="away"):
            SOME.retry(action, lambda _: True)
    assert len(tried) == tries
    assert longest / 1.5 <= sum(slept) <= longest


def test_waits_double_to_the_longest_and_are_spread(waits):
    assert SOME.waits() == (1.0, 2.0, 3.0)
    SOME.retry(failing(3)[1], lambda _: True)
    assert waits == [1.5, 3.0, 4.5]


def test_an_error_may_ask_for_a_longer_wait_or_for_none(slept, monkeypatch):
    monkeypatch.setattr(patience.random, "uniform", lambda least, _: least)
    SOME.retry(failing(2)[1], lambda _: 2.0)
    assert slept == [2.0, 3.0]
    tried, action = failing(1)
    with pytest.raises(OSError, match="away"):
        SOME.retry(action, lambda _: 0.0)
    assert tried == [1]


def test_once_is_once(slept):
    tried, action = failing(1)
    with pytest.raises(OSError, match="away"):
        ONCE.retry(action, lambda _: True)
    assert (tried, slept) == ([1], [])


def test_a_request_to_stop_is_no_failure(slept):
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SOME.retry(stopped, lambda _: True)
    assert slept == []
