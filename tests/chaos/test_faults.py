"""An audit on a cluster that fails ends with the one right record, to the bit, or says why not.

Storage that fails, a driver that dies, a commit that is killed or raced, and damaged files are the
business of other tests: `test_failing_store.py`, `test_watched_nights.py`, `test_commit.py`,
`test_bad_inputs.py`.
"""

import random
from collections.abc import Callable

import pytest

from tests.chaos.arena import UNITS, Arena, disturb_after, fill_store, outcome, wait_until


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        opened = Arena(tmp_path_factory.mktemp("chaos"), patched.setenv)
        yield opened
        opened.close()


def worker_killed(arena: Arena, choice: random.Random) -> None:
    warehouse, killed = arena.new_warehouse(), []
    driver = arena.start(warehouse)
    told = disturb_after(
        choice.randrange(UNITS - 4), driver, lambda: killed.append(wait_until(arena.kill_worker))
    )
    assert killed == [True]
    right(arena, warehouse, told)


def node_killed(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    driver = arena.start(warehouse)
    told = disturb_after(choice.randrange(UNITS - 2), driver, lambda: arena.kill_node(choice))
    right(arena, warehouse, told)


def store_filled(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    driver = arena.start(warehouse)
    told = disturb_after(choice.randrange(UNITS), driver, lambda: fill_store(arena.cluster.address))
    right(arena, warehouse, told)


FAULTS: tuple[Callable[[Arena, random.Random], None], ...] = (
    worker_killed,
    node_killed,
    store_filled,
)


def right(arena: Arena, warehouse: str, told: list[dict[str, object]]) -> None:
    """Check that one record is committed, equal to the bit to that of an undisturbed audit."""
    ended = outcome(warehouse, told)
    assert ended.figures() == [arena.expected]
    assert ended.records[0].audit.status == "evaluated"
    assert len(told) == len({unit["shards"] for unit in told}) == UNITS


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_at_random_moments(arena, fault):
    """At a moment drawn from the seed 0."""
    fault(arena, random.Random(0))  # noqa: S311
