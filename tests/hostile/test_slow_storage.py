"""Storage that sends a thousand bytes a second, or lists without end."""

import contextlib
import datetime as dt
import pathlib
import time
import urllib.parse

import pytest

from tests.support.audits import run_audits
from tests.support.faulty_store import Fault, below, faulty_store, never
from tests.support.lake import DAY, PLAN, clone_model, label_rows, put_labels, small_lake
from workers.audit.request import Request
from workers.executors import Executor, OneChild, on_ray
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.schema import AuditRow

SECONDS = 8


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Yield a server, and a lake in it that would take minutes to read slowly."""
    local = small_lake(
        tmp_path_factory.mktemp("slow") / "lake", parameters={"iterations": 200, "depth": 6}
    )
    clone_model(local, "bad")
    put_labels(local, DAY, label_rows(60_000, seed=5), dataset="bad-labels", row_group_size=20_000)
    with faulty_store() as (server, uri):
        connected.cache_clear()
        lake = Lake(f"{uri}/lake")
        for path in sorted(pathlib.Path(local.uri).rglob("*")):
            if path.is_file():
                lake.write(path.relative_to(local.uri).as_posix(), path.read_bytes())
        yield server, lake
    connected.cache_clear()


def endless(_method: str, path: str) -> Fault | None:
    """Arrow asks for page after page: 88 MB in 20 seconds."""
    return Fault.ENDLESS if "prefix=lake/labels/bad-labels/" in urllib.parse.unquote(path) else None


SLOW_LABELS = below("lake/labels/bad-labels", Fault.SLOW)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "started"),
    [
        (SLOW_LABELS, lambda: on_ray("local", cpus=2)),
        (SLOW_LABELS, OneChild),
        (below(f"lake/models/bad/day={DAY}/model", Fault.SLOW), OneChild),
        (endless, OneChild),
    ],
    ids=["labels, with Ray", "labels, without Ray", "a model file", "a listing without end"],
)
def test_endless_storage_ends_at_the_deadline_and_others_go_on(store, choice, started):
    server, lake = store

    def audited(model: str, executor: Executor, *, seconds: int = SECONDS) -> AuditRow:
        deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        found = run_audits(lake, DAY, [Request(model, PLAN)], executor=executor, deadline=deadline)
        return next(iter(found)).audit

    with started() as executor, contextlib.ExitStack() as after:
        server.choice = choice
        after.callback(setattr, server, "choice", never)  # else a listing would go on for hours
        begun = time.monotonic()
        row = audited("bad", executor)
        assert (row.status, row.detail) == ("not_evaluable", "deadline"), row.reason
        assert time.monotonic() - begun < 60.0
        assert audited("good", executor, seconds=400).status == "evaluated"
