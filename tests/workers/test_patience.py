"""Transient failures: the number of attempts, the waits in between, and the error at the end."""

import contextlib

import pytest

from workers import patience
from workers.patience import ONCE, Patience

SOME = Patience(attempts=4, first=1.0, longest=3.0, spread=0.5)


def failing(times: int) -> tuple[list[int], object]:
    tries: list[int] = []

    def action() -> str:
        tries.append(1)
        if len(tries) <= times:
            raise OSError("away")
        return "done"

    return tries, action


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2), (3, 4), (4, 4)])
def test_it_is_tried_as_often_as_said_after_waits_that_double_to_the_longest(
    waits, failures, tries
):
    tried, action = failing(failures)
    with pytest.raises(OSError, match="away") if failures == 4 else contextlib.nullcontext():
        assert SOME.retry(action, lambda _: True) == "done"
    assert SOME.waits() == (1.0, 2.0, 3.0)
    assert (len(tried), waits) == (tries, [1.5, 3.0, 4.5][: tries - 1])


def test_an_error_may_ask_for_a_longer_wait_or_for_none(waits, monkeypatch):
    monkeypatch.setattr(patience.random, "uniform", lambda least, _: least)
    SOME.retry(failing(2)[1], lambda _: 2.0)
    assert waits == [2.0, 3.0]
    for once, wait in ((SOME, 0.0), (ONCE, True)):
        tried, action = failing(1)
        with pytest.raises(OSError, match="away"):
            once.retry(action, lambda _, wait=wait: wait)
        assert tried == [1]
    assert waits == [2.0, 3.0]


def test_a_request_to_stop_is_no_failure(waits):
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SOME.retry(stopped, lambda _: True)
    assert waits == []
