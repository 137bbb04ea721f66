"""Storage that sends a thousand bytes a second."""

import datetime as dt
import pathlib
import time

import pytest

from tests.support.audits import run_audits
from tests.support.faulty_store import Fault, below, faulty_store
from tests.support.lake import DAY, PLAN, clone_model, label_rows, put_labels, small_lake
from workers.audit.request import Request
from workers.executors import Executor, on_ray
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.schema import AuditRow

SECONDS = 20


def audited(lake: Lake, model: str, executor: Executor) -> AuditRow:
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=SECONDS)
    found = run_audits(lake, DAY, [Request(model, PLAN)], executor=executor, deadline=deadline)
    return next(iter(found)).audit


@pytest.mark.slow
def test_labels_at_1_kb_a_second_end_at_the_deadline_and_others_go_on(
    tmp_path: pathlib.Path,
) -> None:
    """Reading them once would take seven minutes."""
    local = small_lake(tmp_path / "lake")
    clone_model(local, "bad")
    put_labels(local, DAY, label_rows(60_000, seed=5), dataset="bad-labels", row_group_size=20_000)
    with faulty_store() as (server, uri), on_ray("local", cpus=2) as executor:
        connected.cache_clear()
        lake = Lake(f"{uri}/lake")
        for path in sorted(pathlib.Path(local.uri).rglob("*")):
            if path.is_file():
                lake.write(path.relative_to(local.uri).as_posix(), path.read_bytes())
        server.choice = below("lake/labels/bad-labels", Fault.SLOW)
        begun = time.monotonic()
        row = audited(lake, "bad", executor)
        assert (row.verdict, row.reason_code) == ("not_evaluable", "deadline"), row.reason
        assert time.monotonic() - begun < 2 * SECONDS
        assert audited(lake, "good", executor).status == "evaluated"
    connected.cache_clear()
