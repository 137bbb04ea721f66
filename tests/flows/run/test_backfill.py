import contextlib
import datetime as dt
import json
import pathlib
from types import SimpleNamespace

import pytest

import flows.notify.alerts
import flows.run.auditing
import flows.run.nightly
import workers.executors
from flows.progress import listening
from flows.run.night_plan import Job, plan_audit, plan_night
from flows.run.nightly import (
    AuditsMissingError,
    backfill,
    nightly_audit,
    overdue,
    overdue_models,
    plan_backfill,
)
from flows.run.runs import start
from flows.settings import ModelSettings, load_settings
from privcore.exceptions import InvalidInputError
from tests.support.lake import (
    DAY,
    EVE,
    clone_model,
    label_rows,
    model_path,
    put_labels,
    write_settings,
)
from tests.support.warehouse import commit_night, evaluated
from tests.workers.audit.test_released_night import night
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.versions import METHOD_VERSION
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process", "no_pages")


@pytest.fixture
def folder(twins):
    return twins.parent


@pytest.mark.slow
def test_a_backfill_does_each_audit_once_and_the_second_does_nothing(folder):
    given = {"first": EVE, "last": DAY, "settings": str(folder / "privaudit.toml")}
    heard = []
    with listening(lambda *what: heard.append(what)):
        rows = start(backfill, **given)
    assert [(row.day, row.model) for row in rows] == [
        (EVE, "good"), (EVE, "twin"), (DAY, "good"), (DAY, "twin"),
    ]  # fmt: skip
    assert heard[-1] == ("Backfill", 4, 4)
    before = Warehouse(str(folder / "warehouse")).scan("audits").collect()
    assert before.height == 4

    # The eve has no proxy, so it came to no figures: it is tried again and leaves no other record.
    again = start(backfill, **given)
    assert {row.day for row in again} == {EVE}
    rows = start(backfill, **given | {"first": DAY})
    assert rows == []
    after = Warehouse(str(folder / "warehouse")).scan("audits").collect()
    assert after.sort("audit_id").equals(before.sort("audit_id"))


@pytest.mark.slow
def test_a_plan_leaves_out_what_is_committed_under_the_same_plan_alone(folder):
    start(backfill, first=DAY, last=DAY, models=["good"], settings=str(folder / "privaudit.toml"))
    loaded = load_settings(folder / "privaudit.toml")
    assert plan_backfill(loaded, DAY, DAY) == [Job("twin", DAY)]
    assert plan_backfill(loaded, DAY, DAY, force=True) == [Job("good", DAY), Job("twin", DAY)]
    other = loaded.model_copy(update={"plan": loaded.plan.model_copy(update={"seed": 9})})
    changed = load_settings(write_settings(folder, ["good", "twin"], more="seed = 9\n"))
    assert changed.plan_of("good") == other.plan
    assert len(plan_backfill(changed, DAY, DAY)) == 2
    with pytest.raises(InvalidInputError, match="must not be after last"):
        plan_backfill(loaded, DAY, EVE)


@pytest.fixture
def clock(monkeypatch):
    """Let the night's clock say what the list says, the last one for ever."""
    times = []
    monkeypatch.setattr(
        flows.run.nightly, "_now", lambda: times.pop(0) if len(times) > 1 else times[0]
    )
    # By the clock of those who play it is a minute before the deadline, unless a test says more.
    played_at(monkeypatch, at(8, 59))
    return times


def at(hour, minute=0):
    """Return a time of the morning after; the deadline is at nine."""
    return dt.datetime(DAY.year, DAY.month, DAY.day + 1, hour, minute, tzinfo=dt.UTC)


def played_at(monkeypatch, time):
    monkeypatch.setattr(workers.executors, "_now", lambda: time)


@pytest.mark.slow
def test_at_the_deadline_the_record_says_what_is_missing(folder, clock, monkeypatch):
    clock += [at(8, 59), at(9)]
    (model_path(Lake(str(folder / "lake")), "twin", DAY) / "_SUCCESS").unlink()
    waited = []
    monkeypatch.setattr(
        flows.run.nightly, "time", type("T", (), {"sleep": staticmethod(waited.append)})
    )
    good, twin = start(nightly_audit, day=DAY, settings=str(folder / "privaudit.toml"))
    assert len(waited) <= 1
    assert good.status == "evaluated"
    assert twin.detail == "missing_target"


@pytest.mark.slow
def test_released_labels_that_never_come_cost_the_models_own_audit_nothing(
    folder, clock, monkeypatch
):
    file = folder / "privaudit.toml"
    released = 'table = "released"\ntrue = "y"\nreleased = "z"\nrecord = "id"\n'
    file.write_text(
        file.read_text().replace('"good"', f'"good"\n[models.released_labels]\n{released}')
    )
    clock += [at(8, 59), at(9)]
    played_at(monkeypatch, at(9))
    monkeypatch.setattr(flows.run.nightly, "_POLL", 0.0)
    rows = start(nightly_audit, day=DAY, models=["good"], settings=str(file))
    found = {row.secret: row.detail or str(row.status) for row in rows}
    assert found == {"label": "evaluated", "released_labels": "missing_labels"}
    night(folder / "released", DAY, 1.0)
    clock[:] = [at(8, 59)]
    rows = start(nightly_audit, day=DAY, models=["good"], settings=str(file))
    assert {row.secret: row.detail for row in rows}["released_labels"] == "deadline"


@pytest.mark.slow
def test_what_is_not_done_at_the_models_deadline_is_not_evaluable_and_the_next_run_does_it(
    folder, clock, monkeypatch
):
    file = folder / "privaudit.toml"
    file.write_text(file.read_text().replace('"twin"', '"twin"\ndeadline = 07:30:00'))
    clock.append(at(7))
    played_at(monkeypatch, at(8))
    good, twin = start(nightly_audit, day=DAY, settings=str(file))
    assert (good.status, twin.verdict, twin.detail) == ("evaluated", "failed", "deadline")
    assert twin.epsilon_lower is None
    clock[0] = at(9, 5)  # a run that begins after the deadline has none
    later = start(nightly_audit, day=DAY, settings=str(file))
    assert [row.status for row in later] == ["evaluated"] * 2


def test_longest_audits_are_submitted_first(folder, monkeypatch):
    lake = Lake(str(folder / "lake"))
    clone_model(lake, "large")
    put_labels(lake, DAY, label_rows(9_000, seed=1), dataset="large-labels")
    submitted = []
    monkeypatch.setattr(
        flows.run.auditing.runs, "submit", lambda _, title, *__: submitted.append(title)
    )
    jobs = [Job(name, DAY) for name in ("absent", "good", "large")]
    settings = load_settings(folder / "privaudit.toml")
    flows.run.auditing.submit(plan_night(lake, jobs, settings), settings, InProcess())
    assert submitted == [f"large {DAY}", f"good {DAY}", f"absent {DAY}"]


def test_an_input_is_missing_until_its_mark_is_there(folder):
    lake = Lake(str(folder / "lake"))

    def missing(model):
        return plan_audit(lake, Job(model, DAY), ModelSettings(name=model)).missing

    assert missing("twin") is None
    labels = pathlib.Path(lake.uri) / "labels" / "twin-labels" / f"day={DAY}" / "_SUCCESS"
    labels.unlink()
    assert missing("twin") == str(labels.relative_to(lake.uri))
    model = model_path(lake, "twin", DAY)
    (model / "manifest.json").write_text("no json")
    assert missing("twin") is None  # the audit says what is wrong
    (model / "_SUCCESS").unlink()
    assert str(missing("twin")).startswith("models/twin/")
    assert missing("../twin") is None


@pytest.mark.slow
def test_a_model_without_a_record_is_overdue_after_its_deadline(folder, alerts):
    start(backfill, first=DAY, last=DAY, models=["good"], settings=str(folder / "privaudit.toml"))
    loaded = load_settings(folder / "privaudit.toml")
    deadline = loaded.deadline_of("twin", DAY)
    assert overdue_models(loaded, DAY, now=deadline) == ("twin",)
    assert overdue_models(loaded, DAY, now=deadline - dt.timedelta(seconds=1)) == ()
    explored = evaluated("twin", DAY, exploratory=True)
    Warehouse(loaded.warehouse).commit([explored])
    assert overdue_models(loaded, DAY, now=deadline) == ("twin",)
    with pytest.raises(AuditsMissingError, match="twin") as caught:
        start(overdue, day=DAY, settings=str(folder / "privaudit.toml"))
    assert [alert.model for alert in alerts] == ["twin"]
    assert json.dumps(caught.value.models) == '["twin"]'
    start(backfill, first=DAY, last=DAY, settings=str(folder / "privaudit.toml"))
    start(overdue, day=DAY, settings=str(folder / "privaudit.toml"))
    assert [alert.model for alert in alerts] == ["twin"]


def test_a_day_lacks_what_was_withdrawn_and_each_secret_that_is_asked_for(tmp_path):
    """Neither was missed, and a backfill left the withdrawn day out."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    path = write_settings(tmp_path, ["ads"])
    path.write_text(path.read_text("utf-8").replace('"ads"', '"ads"\nmembership = true'), "utf-8")
    settings = load_settings(path)
    late = settings.deadline_of("ads", DAY)
    of = {one.secret_name: one.model_dump_json() for one in settings.plans_of("ads")}
    ids = []
    for secret, plan in of.items():
        assert overdue_models(settings, DAY, now=late) == ("ads",)
        changes = {"secret": secret, "plan": plan, "method_version": METHOD_VERSION}
        ids.append(commit_night(warehouse, "violated", **changes))
    assert len(ids) == 2
    assert overdue_models(settings, DAY, now=late) == ()
    assert plan_backfill(settings, DAY, DAY) == []
    warehouse.withdraw(ids[0], "Damaged labels.")
    assert overdue_models(settings, DAY, now=late) == ("ads",)
    assert [job.day for job in plan_backfill(settings, DAY, DAY)] == [DAY]


BEFORE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.slow
def test_a_backfill_tells_again_what_its_first_start_committed(twins, monkeypatch):
    """To the same record: what was cut may have come between a record and its alert."""
    told, announced = [], flows.run.auditing.announce

    def watched(record, *given, **more):
        told.append((record.audit.model, record.audit.audit_id))
        return announced(record, *given, **more)

    monkeypatch.setattr(flows.run.auditing, "announce", watched)
    start(nightly_audit, day=DAY, models=["good"], settings=str(twins))
    monkeypatch.setattr(flows.run.nightly, "first_start", lambda: BEFORE)
    rows = start(backfill, first=DAY, last=DAY, settings=str(twins))
    assert sorted(row.model for row in rows) == ["good", "twin"]
    assert (len(told), len(set(told))) == (3, 2)
    assert Warehouse(str(twins.parent / "warehouse")).scan("audits").collect().height == 2


@pytest.mark.slow
def test_a_night_says_what_it_waits_for_and_one_that_does_not_wait_leaves_it_out(
    lake, tmp_path, monkeypatch
):
    clone_model(lake, "late")
    success = pathlib.Path(lake.uri) / f"models/late/day={DAY}/_SUCCESS"
    success.unlink()
    settings = str(write_settings(tmp_path, ["good", "late"]))
    seen: list[tuple[list[str], int]] = []
    missing = [f"models/late/day={DAY}/_SUCCESS"]

    def night(**more):
        seen.clear()
        with listening(
            lambda *_: None,
            lambda waits, models: seen.append(([one.missing for one in waits], models)),
        ):
            return [row.model for row in start(nightly_audit, day=DAY, settings=settings, **more)]

    monkeypatch.setattr(flows.run.nightly, "time", None)  # sleeping would fail
    assert night(wait=False) == ["good"]
    assert seen == [(missing, 2)]
    current = Warehouse(str(tmp_path / "warehouse")).current()
    assert current["model"].to_list() == ["good"]  # what is left out has no record

    early = dt.datetime.combine(DAY, dt.time(), dt.UTC) + dt.timedelta(days=1, minutes=1)
    for module in (flows.run.nightly, workers.executors):
        monkeypatch.setattr(module, "_now", lambda: early)
    slept: list[float] = []

    def arrives(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            success.touch()

    monkeypatch.setattr(flows.run.nightly, "time", SimpleNamespace(sleep=arrives))
    said_before_ray: list[int] = []

    def ray(*_):
        said_before_ray.append(len(seen))
        return contextlib.nullcontext(InProcess())

    monkeypatch.setattr(flows.run.nightly, "on_ray", ray)
    assert night() == ["good", "late"]
    assert seen == [(missing, 2), ([], 2)]
    assert (said_before_ray, len(slept)) == ([1], 2)
