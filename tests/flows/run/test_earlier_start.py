"""A run that crashed and is started again audits what it lacks, and alerts what it committed."""

import datetime as dt
import pathlib
from typing import Any

import pytest

import flows.run.auditing
import flows.run.nightly
from flows.run import runs as module
from flows.run.night_plan import Job, Planned
from flows.run.nightly import backfill, nightly_audit
from flows.run.runs import audited_before, start
from flows.settings import load_settings
from tests.support.lake import DAY, EVE, PLAN, clone_model, write_settings
from tests.support.warehouse import START, evaluated, failed, put_rows
from workers.lake.layout import Lake
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process", "no_pages")
BEFORE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def folder(lake: Lake, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a lake in which `good` and `twin` are audited."""
    clone_model(lake, "twin")
    write_settings(tmp_path, ["good", "twin"])
    return tmp_path


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Models that were audited, and not only told again."""
    played, models = flows.run.auditing.run_batches, list[str]()

    def watched(lake: Lake, day: dt.date, requests: Any, **more: Any) -> Any:
        models.extend(request.model for request in requests)
        return played(lake, day, requests, **more)

    monkeypatch.setattr(flows.run.auditing, "run_batches", watched)
    return models


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Models of which something was announced."""
    models: list[str] = []
    announced = flows.run.auditing.announce

    def watched(record: Any, *given: Any, **more: Any) -> Any:
        models.append(record.audit.model)
        return announced(record, *given, **more)

    monkeypatch.setattr(flows.run.auditing, "announce", watched)
    return models


def night(folder: pathlib.Path, **given: Any) -> list[AuditRow]:
    rows: list[AuditRow] = start(
        nightly_audit, day=DAY, settings=str(folder / "privaudit.toml"), **given
    )
    return rows


def second_start(monkeypatch: pytest.MonkeyPatch, since: dt.datetime = BEFORE) -> None:
    monkeypatch.setattr(module, "first_start", lambda: since)
    monkeypatch.setattr(flows.run.nightly, "first_start", lambda: since)


def stored(folder: pathlib.Path) -> Any:
    return Warehouse(str(folder / "warehouse")).scan("audits").collect().sort("audit_id")


@pytest.mark.slow
def test_a_second_start_audits_what_is_left_and_tells_the_rest_again(
    folder: pathlib.Path, audited: list[str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (good,) = night(folder, models=["good"])
    before = Warehouse(str(folder / "warehouse")).record(good.audit_id)
    second_start(monkeypatch)
    rows = night(folder)
    assert [row.model for row in rows] == ["good", "twin"]
    assert audited == ["good", "twin"]
    assert sorted(told) == ["good", "good", "twin"]
    assert rows[0] == before.audit
    assert stored(folder).height == 2
    ids = [row.audit_id for row in rows]
    assert [row.audit_id for row in night(folder)] == ids
    assert audited == ["good", "twin"]


@pytest.mark.slow
def test_a_first_start_audits_all(folder: pathlib.Path, audited: list[str]) -> None:
    night(folder, models=["good"])
    night(folder, models=["good"])
    assert audited == ["good", "good"]


SINCE = START + dt.timedelta(hours=2)
METHOD = {"method_version": METHOD_VERSION}
OTHER_PLAN = PLAN.model_copy(update={"seed": 5}).model_dump_json()


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        (evaluated("good", DAY, hour=2, **METHOD), True),
        (evaluated("good", DAY, hour=1, **METHOD), False),  # before this run
        (evaluated("good", DAY, hour=3), False),  # by another method
        (evaluated("good", DAY, hour=3, **METHOD, plan=OTHER_PLAN), False),
        (evaluated("good", EVE, hour=3, **METHOD), False),
        (evaluated("twin", DAY, hour=3, **METHOD), False),
        (failed("good", DAY, hour=3), False),  # its labels may be there by now
    ],
)
def test_only_figures_of_this_run_under_its_plan_are_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, stored: AuditRecord, *, kept: bool
) -> None:
    monkeypatch.setattr(module, "first_start", lambda: SINCE)
    settings = load_settings(write_settings(tmp_path, ["good"]))
    put_rows(Warehouse(settings.warehouse), [stored])
    found = audited_before([Planned(Job("good", DAY))], settings)
    assert list(found) == ["good"] * kept
    assert all(one.audit.audit_id == stored.audit.audit_id for one in found.get("good", []))


def test_a_model_of_which_one_secret_lacks_is_audited_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "first_start", lambda: SINCE)
    path = write_settings(tmp_path, ["good"])
    path.write_text(path.read_text().replace('"good"', '"good"\nmembership = true'))
    settings = load_settings(path)
    plans = [plan.model_dump_json() for plan in settings.plans_of("good")]
    assert len(plans) == 2
    for place, plan in enumerate(plans):
        secret = "membership" if place else "label"
        record = evaluated("good", DAY, hour=3, **METHOD, plan=plan, secret=secret)
        put_rows(Warehouse(settings.warehouse), [record])
        found = audited_before([Planned(Job("good", DAY))], settings)
        assert [len(records) for records in found.values()] == [2] * place


@pytest.mark.slow
def test_a_backfill_tells_again_what_its_first_start_committed(
    folder: pathlib.Path, audited: list[str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    night(folder, models=["good"])
    given = {"first": DAY, "last": DAY, "settings": str(folder / "privaudit.toml")}
    second_start(monkeypatch)
    assert sorted(row.model for row in start(backfill, **given)) == ["good", "twin"]
    assert audited == ["good", "twin"]
    assert sorted(told) == ["good", "good", "twin"]
