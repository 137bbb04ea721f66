"""Storage that sends a thousand bytes a second."""

import contextlib
import datetime as dt
import pathlib
import time
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.support.audits import run_audits
from tests.support.faulty_store import Choice, Fault, below, faulty_store, never
from tests.support.lake import DAY, PLAN, clone_model, label_rows, put_labels, small_lake
from workers.audit.request import Request
from workers.executors import Executor, OneChild, on_ray
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.schema import AuditRow

SECONDS = 20


def audited(lake: Lake, model: str, executor: Executor, *, seconds: int = SECONDS) -> AuditRow:
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    found = run_audits(lake, DAY, [Request(model, PLAN)], executor=executor, deadline=deadline)
    return next(iter(found)).audit


@contextlib.contextmanager
def slow(folder: pathlib.Path, choice: Choice) -> Iterator[Lake]:
    """Yield a lake in which what is chosen takes minutes to read."""
    local = small_lake(folder / "lake", parameters={"iterations": 200, "depth": 6})
    clone_model(local, "bad")
    put_labels(local, DAY, label_rows(60_000, seed=5), dataset="bad-labels", row_group_size=20_000)
    with faulty_store() as (server, uri):
        connected.cache_clear()
        lake = Lake(f"{uri}/lake")
        for path in sorted(pathlib.Path(local.uri).rglob("*")):
            if path.is_file():
                lake.write(path.relative_to(local.uri).as_posix(), path.read_bytes())
        server.choice = choice
        yield lake
        server.choice = never  # a listing without end would fill this process for hours
    connected.cache_clear()


def on_two_processors() -> contextlib.AbstractContextManager[Executor]:
    return on_ray("local", cpus=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefix", "started"),
    [
        ("lake/labels/bad-labels", on_two_processors),
        ("lake/labels/bad-labels", OneChild),
        (f"lake/models/bad/day={DAY}/model", OneChild),
    ],
    ids=["labels, with Ray", "labels, without Ray", "a model file"],
)
def test_storage_at_1_kb_a_second_ends_at_the_deadline_and_others_go_on(prefix, started, tmp_path):
    """Reading them once would take minutes."""
    with slow(tmp_path, below(prefix, Fault.SLOW)) as lake, started() as executor:
        begun = time.monotonic()
        row = audited(lake, "bad", executor)
        assert (row.status, row.detail) == ("not_evaluable", "deadline"), row.reason
        assert time.monotonic() - begun < 3 * SECONDS
        assert audited(lake, "good", executor, seconds=20 * SECONDS).status == "evaluated"


def endless(_method: str, path: str) -> Fault | None:
    return Fault.ENDLESS if "prefix=lake/labels/bad-labels/" in urllib.parse.unquote(path) else None


@pytest.mark.slow
def test_a_listing_without_end_ends_at_the_deadline_and_others_go_on(tmp_path):
    """Arrow asks for page after page: 88 MB in 20 seconds. It goes on until the process ends."""
    with slow(tmp_path, endless) as lake, OneChild() as executor:
        begun = time.monotonic()
        row = audited(lake, "bad", executor)
        assert (row.status, row.detail) == ("not_evaluable", "deadline"), row.reason
        assert time.monotonic() - begun < 3 * SECONDS
        # The listing goes on beside it, and so does its server: both are in this process.
        assert audited(lake, "good", executor, seconds=20 * SECONDS).status == "evaluated"
