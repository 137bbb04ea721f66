"""Functions are nested: Ray carries those by value, and its workers cannot import a test."""

from collections.abc import Iterator

import pytest

from workers.executors import Executor, InProcess, on_ray
from workers.totals import Total, total


@pytest.fixture(scope="module", params=["here", pytest.param("ray", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "here":
        yield InProcess()
    else:
        with on_ray("local", 2) as connected:
            yield connected


def sum_of(executor: Executor, items: range) -> Total[int]:
    def double(shared: int, item: int) -> tuple[None, int]:
        return None, shared * item

    return total(executor, double, 2, items, nothing=-1, on_done=lambda _: None)


def asked(made: Total[int], items: list[int]) -> list[tuple[str, int, int]]:
    def beside(both: tuple[str, int], item: int) -> tuple[str, int, int]:
        word, whole = both
        return word, whole, item

    return sorted(made.map(beside, "of", items))


def test_a_total_is_worked_on_without_being_brought_here(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sum_of(executor, range(10))
    with monkeypatch.context() as patched:
        patched.setattr("workers.totals._Here.get", None)
        patched.setattr("workers.totals._There.get", None)
        assert asked(made, [0, 1, 2]) == [("of", 90, 0), ("of", 90, 1), ("of", 90, 2)]
    assert made.get() == 90


def test_a_total_of_no_items_is_what_stands_for_nothing(executor: Executor) -> None:
    made = sum_of(executor, range(0))
    assert made.get() == -1
    assert asked(made, [7]) == [("of", -1, 7)]
