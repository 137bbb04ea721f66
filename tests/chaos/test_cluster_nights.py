"""Nights of a fleet on four nodes, while machines come and go: every record is there, once.

A head without CPUs and four nodes of Ray, each with its own memory and folder; lake and warehouse
on an object store behind a proxy that lets each request wait for 30 ms and throttles one in a
hundred; Prefect on PostgreSQL with two workers and all that deploy/ declares.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.stage import DAYS, FEW, Stage, check_figures, check_records, name, stage
from tests.support.service import until
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.soak

MODELS = 200
SECONDS = 2400.0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage"), MODELS) as everything:
        yield everything


@pytest.mark.parametrize(("seed", "models"), [(0, 24), (1, 24), (2, 24), (3, MODELS), (4, MODELS)])
def test_a_night_while_machines_come_and_go(opened: Stage, seed: int, models: int) -> None:
    choice = random.Random(seed)  # noqa: S311
    settings, warehouse = opened.settings(models)
    faults: list[Any] = [
        lambda: opened.nodes.join(wait=False),
        lambda: opened.nodes.leave(choice.randrange(len(opened.nodes.nodes) - 1)),
        opened.kill_busy_worker,
        lambda: opened.database.restart(choice.uniform(1.0, 8.0)),
    ]
    choice.shuffle(faults)
    moments = sorted(choice.randrange(models * 3 // 4) for _ in faults)
    identity = opened.service.start("nightly-audit/production", day=str(DAYS[1]),
                                    settings=str(settings))  # fmt: skip
    opened.wait_for_run(identity)
    for moment, fault in zip(moments, faults, strict=True):
        until(lambda moment=moment: committed(warehouse) >= moment, SECONDS)  # type: ignore[misc]
        fault()
    run = opened.service.ended(identity, seconds=SECONDS)
    assert run["state"]["type"] == "COMPLETED", run["state"]
    assert run["run_count"] == 2
    names = [name(number) for number in range(models)]
    check_records(warehouse, {(model, DAYS[1]) for model in names})
    check_figures(opened, warehouse, choice.sample(names, 3), DAYS[1])
    opened.check_nothing_runs()
    opened.restore()


def test_nights_backfills_and_an_audit_on_demand_at_once(opened: Stage) -> None:
    """Two nights of two days, two backfills that overlap with them, and one model on demand."""
    settings, warehouse = opened.settings(FEW)
    given = {"settings": str(settings)}
    start = opened.service.start
    runs = [
        start("nightly-audit/production", day=str(DAYS[5]), **given),
        start("backfill/on-demand", first=str(DAYS[1]), last=str(DAYS[4]), **given),
        start("audit-model/on-demand", model=name(0), day=str(DAYS[5]), **given),
    ]
    commands = [
        # Of each kind a deployment runs one at a time; a person's commands are not held up.
        opened.command("night", "--day", str(DAYS[4]), "--config", str(settings)),
        opened.command("backfill", "--first", str(DAYS[1]), "--last", str(DAYS[5]),
                       "--config", str(settings)),
    ]  # fmt: skip
    for command in commands:
        assert command.wait(SECONDS) == 0
    for identity in runs:
        assert opened.service.ended(identity, seconds=SECONDS)["state"]["type"] == "COMPLETED"
    check_records(warehouse, {(name(number), day) for number in range(FEW) for day in DAYS[1:]})
    check_figures(opened, warehouse, [name(0), name(FEW - 1)], DAYS[4])
    opened.check_nothing_runs()


def committed(warehouse: Warehouse) -> int:
    """Return the number of records."""
    return warehouse.collect(warehouse.scan("audits").select("audit_id")).height
