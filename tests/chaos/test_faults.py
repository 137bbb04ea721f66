"""An audit on a cluster that fails ends with the one right record, to the bit, or says why not.

Each fault once in slow tests, 50 runs at moments drawn from seeds in a soak.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.arena import (
    SECONDS,
    UNITS,
    Arena,
    disturb_after,
    fill_store,
    finish,
    kill_after,
    outcome,
    wait_until,
)
from tests.support.tiers import tiered
from workers.warehouse.store import Warehouse

RUNS = 50


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with pytest.MonkeyPatch.context() as patched:
        opened = Arena(tmp_path_factory.mktemp("chaos"), patched.setenv)
        yield opened
        opened.close()


def worker_killed(arena: Arena, choice: random.Random) -> None:
    warehouse, killed = arena.new_warehouse(), []
    driver = arena.start(arena.lake, warehouse)
    told = disturb_after(
        choice.randrange(UNITS - 4), driver, lambda: killed.append(wait_until(arena.kill_worker))
    )
    assert killed == [True]
    right(arena, warehouse, told)


def node_killed(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    driver = arena.start(arena.lake, warehouse)
    told = disturb_after(choice.randrange(UNITS - 2), driver, lambda: arena.kill_node(choice))
    right(arena, warehouse, told)


def driver_killed(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    kill_after(arena.start(arena.lake, warehouse), 1 + choice.randrange(UNITS - 2))
    right(arena, warehouse, finish(arena.start(arena.lake, warehouse)))


def store_filled(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    driver = arena.start(arena.lake, warehouse)
    told = disturb_after(choice.randrange(UNITS), driver, lambda: fill_store(arena.cluster.address))
    right(arena, warehouse, told)


def storage_fails(arena: Arena, _choice: random.Random) -> None:
    warehouse, before = arena.new_warehouse(), arena.store.failed
    arena.store.share = 0.2
    try:
        told = finish(arena.start(arena.remote, warehouse))
    finally:
        arena.store.share = 0.0
    assert arena.store.failed > before
    right(arena, warehouse, told)


def shard_corrupt(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    driver = arena.start(arena.corrupt, warehouse)
    disturb_after(choice.randrange(UNITS - 4), driver, lambda: wait_until(arena.kill_worker))
    (figures,) = outcome(warehouse, []).figures()
    assert figures == arena.expected["corrupt"]
    assert figures["audit"]["reason_code"] == "labels_unreadable"
    assert figures["audit"]["epsilon_lower"] is None


def committer_killed(arena: Arena, _choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    dying = arena.start(arena.lake, warehouse, dies=True)
    dying.communicate(timeout=SECONDS)
    assert dying.returncode == -9
    found = Warehouse(warehouse)
    assert found.scan("audit_bounds").collect().height > 0
    assert found.scan("audits").collect().height == 0
    right(arena, warehouse, finish(arena.start(arena.lake, warehouse)))


def twice_at_once(arena: Arena, choice: random.Random) -> None:
    warehouse = arena.new_warehouse()
    first = arena.start(arena.lake, warehouse)
    wait_until(lambda: choice.random() < 0.01)
    second = arena.start(arena.lake, warehouse)
    finish(first)
    right(arena, warehouse, finish(second))


FAULTS: tuple[Callable[[Arena, random.Random], None], ...] = (
    worker_killed,
    node_killed,
    driver_killed,
    store_filled,
    storage_fails,
    shard_corrupt,
    committer_killed,
    twice_at_once,
)


def right(arena: Arena, warehouse: str, told: list[dict[str, object]]) -> None:
    """Check that one record is committed, equal to the bit to that of an undisturbed audit."""
    ended = outcome(warehouse, told)
    assert ended.figures() == [arena.expected["whole"]]
    assert ended.records[0].audit.status == "evaluated"
    assert len(told) == len({unit["shards"] for unit in told}) == UNITS


@pytest.mark.parametrize("seed", tiered(range(RUNS), slow=len(FAULTS)))
def test_faults_at_random_moments(arena: Arena, seed: int) -> None:
    FAULTS[seed % len(FAULTS)](arena, random.Random(seed))  # noqa: S311
