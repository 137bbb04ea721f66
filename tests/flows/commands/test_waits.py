import contextlib
import datetime as dt
import pathlib

import pytest

import flows.run.nightly
import workers.executors
from flows.progress import listening
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from tests.support.lake import DAY, clone_model, write_settings
from workers.executors import InProcess
from workers.warehouse.store import Warehouse


@pytest.mark.slow
@pytest.mark.usefixtures("in_process", "no_pages")
def test_a_night_says_at_once_what_it_waits_for_and_again_when_that_changes(
    lake, tmp_path, monkeypatch
):
    clone_model(lake, "late")
    success = pathlib.Path(lake.uri) / f"models/late/day={DAY}/_SUCCESS"
    success.unlink()
    write_settings(tmp_path, ["good", "late"])
    early = dt.datetime.combine(DAY, dt.time(), dt.UTC) + dt.timedelta(days=1, minutes=1)
    for module in (flows.run.nightly, workers.executors):
        monkeypatch.setattr(module, "_now", lambda: early)
    slept: list[float] = []

    def arrives(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            success.touch()

    monkeypatch.setattr(flows.run.nightly, "time", type("T", (), {"sleep": staticmethod(arrives)}))
    seen: list[tuple[list[str], int]] = []
    said_before_ray: list[int] = []

    def ray(*_):
        said_before_ray.append(len(seen))
        return contextlib.nullcontext(InProcess())

    monkeypatch.setattr(flows.run.nightly, "on_ray", ray)
    with listening(
        lambda *_: None, lambda waits, models: seen.append(([one.missing for one in waits], models))
    ):
        rows = start(nightly_audit, day=DAY, settings=str(tmp_path / "privaudit.toml"))
    assert seen == [([f"models/late/day={DAY}/_SUCCESS"], 2), ([], 2)]
    assert said_before_ray == [1]
    assert len(slept) == 2
    assert [row.model for row in rows] == ["good", "late"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_process", "no_pages")
def test_a_night_that_does_not_wait_audits_what_is_there_and_ends(lake, tmp_path, monkeypatch):
    write_settings(tmp_path, ["good", "late"])
    assert lake.exists(f"models/good/day={DAY}")
    monkeypatch.setattr(flows.run.nightly, "time", None)  # sleeping would fail
    seen: list[tuple[list[str], int]] = []
    with listening(
        lambda *_: None, lambda waits, models: seen.append(([one.model for one in waits], models))
    ):
        rows = start(nightly_audit, day=DAY, settings=str(tmp_path / "privaudit.toml"), wait=False)
    assert [row.model for row in rows] == ["good"]
    assert seen == [(["late"], 2)]
    current = Warehouse(str(tmp_path / "warehouse")).current()
    assert current["model"].to_list() == ["good"]  # what is left out has no record
