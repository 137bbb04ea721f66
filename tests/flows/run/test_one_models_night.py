"""One model's failure becomes that model's record and changes no other model's record."""

import contextlib
import json
import pathlib
import shutil
import threading

import pytest

import workers.audit.run
from flows.run import night_plan
from flows.run.conclusion import AuditsFailedError
from flows.run.night_plan import Job, Lookups, Planned, plan_audit
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from flows.settings import ModelSettings, load_settings
from privcore.exceptions import TransientError
from tests.support.audits import run_audits
from tests.support.lake import DAY, PLAN, clone_model, edit_manifest, label_path, model_path
from tests.support.lake import write_settings as write
from tests.support.tiers import tiered
from workers.audit.request import Request
from workers.executors import InProcess, LostWorkerError
from workers.lake.layout import Lake
from workers.sources.checkpoints import label_places
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process", "no_pages")


@pytest.fixture
def lake(lake, tmp_path):
    """Return a lake of three models that share their labels."""
    for name in ("bad", "other"):
        clone_model(lake, name)
        for folder in model_path(lake, name).parent.iterdir():
            day = DAY.fromisoformat(folder.name.removeprefix("day="))
            edit_manifest(lake, name, day, dataset="flights")
    write(tmp_path, ["good", "bad", "other"])
    return lake


def night(lake):
    settings = pathlib.Path(lake.uri).parent / "privaudit.toml"
    try:
        rows = start(nightly_audit, day=DAY, settings=str(settings))
    except AuditsFailedError as error:
        rows = error.rows
    warehouse = Warehouse(str(settings.parent / "warehouse"))
    committed = warehouse.scan("audits").collect()["model"].to_list()
    assert sorted(committed) == ["bad", "good", "other"]
    return {row.model: row for row in rows}


@contextlib.contextmanager
def broken_pass(monkeypatch, error):
    """Let every pass that the model `bad` takes part in fail."""
    play, passes = workers.audit.run.scan_labels, []

    def breaks(shared, **more):
        models = [game.source.model for game in shared.games.values()]
        passes.append(models)
        if "bad" in models:
            raise error()
        return play(shared, **more)

    monkeypatch.setattr(workers.audit.run, "scan_labels", breaks)
    yield passes


class Panic(BaseException):
    """A panic as pyo3 raises it: its class is none that can be imported."""


Panic.__module__ = "pyo3_runtime"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "reason_code", "shared_passes"),
    tiered(
        [
            (lambda: Panic("index out of bounds"), "Panic", 1),
            (lambda: LostWorkerError("Ray lost a worker."), "LostWorkerError", 1),
            # Storage may come back: Prefect tries all of them again before each is tried alone.
            (lambda: TransientError("Storage was away."), "TransientError", 4),
            (MemoryError, "MemoryError", 1),
        ],
        always=3,
        slow=1,
    ),
    ids=["panic", "worker", "storage", "memory"],
)
def test_a_group_that_fails_is_tried_model_by_model(
    lake, monkeypatch, error, reason_code, shared_passes
):
    with broken_pass(monkeypatch, error) as passes:
        rows = night(lake)
    assert [row.status for row in (rows["good"], rows["other"])] == ["evaluated"] * 2
    assert (rows["bad"].status, rows["bad"].detail) == ("error", reason_code)
    alone = [["good"], ["bad"], ["other"]]
    assert passes == [["good", "bad", "other"]] * shared_passes + alone


def test_a_request_to_stop_is_no_failure_of_a_model(lake, monkeypatch):
    requests = [Request(name, PLAN) for name in ("good", "bad")]
    with broken_pass(monkeypatch, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        list(run_audits(lake, DAY, requests, executor=InProcess()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    tiered([
        lambda lake: (model_path(lake, "bad") / "manifest.json").write_text("[" * 100_000),
        lambda lake: (shutil.rmtree(model_path(lake, "bad").parent),
                      model_path(lake, "bad").parent.symlink_to("bad")),
    ], always=1, slow=1),
    ids=["lists", "folder-loop"],
)  # fmt: skip
def test_a_model_whose_inputs_cannot_even_be_looked_for_has_a_record(lake, damage):
    damage(lake)
    rows = night(lake)
    assert [rows[name].status for name in ("good", "bad", "other")] == [
        "evaluated", "not_evaluable", "evaluated"
    ]  # fmt: skip
    assert rows["bad"].detail in {"manifest_invalid", "missing_target"}


@pytest.mark.slow
def test_the_manifest_is_read_once_from_planning_to_the_record(lake, monkeypatch):
    read = []
    lakes_read = Lake.read

    def counted(self, path, **more):
        read.append(path)
        return lakes_read(self, path, **more)

    monkeypatch.setattr(Lake, "read", counted)
    night(lake)
    manifests = [path for path in read if path.endswith(f"day={DAY}/manifest.json")]
    assert sorted(manifests) == sorted(set(manifests))
    assert len(manifests) == 3


@pytest.mark.slow
def test_a_dataset_that_the_settings_do_not_allow_is_refused_whenever_it_is_named(
    lake, monkeypatch
):
    settings = pathlib.Path(lake.uri).parent / "privaudit.toml"
    text = settings.read_text().replace('"bad"', '"bad"\ndataset = "own"')
    settings.write_text(text)
    # As if the manifest were replaced after it was checked: the audit is given none.
    plan = Lookups.plan
    monkeypatch.setattr(
        Lookups,
        "plan",
        lambda self, jobs: [
            Planned(one.job) if one.job.model == "bad" else one for one in plan(self, jobs)
        ],
    )
    row = night(lake)["bad"]
    assert (row.status, row.detail) == ("not_evaluable", "manifest_invalid")
    assert "the settings allow own alone" in row.reason


def test_labels_that_are_replaced_while_they_are_read_are_refused(lake, monkeypatch):
    path, listed = (label_path(lake, "flights"), label_places.find_partition)

    def replaced(*given, **more):
        partition = listed(*given, **more)
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)  # the same bytes, at another time: nobody can know that
        return partition

    monkeypatch.setattr(label_places, "find_partition", replaced)
    rows = night(lake)
    assert {row.detail for row in rows.values()} == {"labels_changed"}
    assert "was replaced" in rows["good"].reason


def test_looking_for_inputs_fails_for_nobody(lake, monkeypatch):
    def away(*_):
        raise TransientError("Storage was away.")

    asked = Job("good", DAY), ModelSettings(name="good")
    assert plan_audit(lake, *asked).missing is None
    monkeypatch.setattr(Lake, "exists", away)
    assert plan_audit(lake, *asked).missing == "an answer from storage"
    monkeypatch.setattr(Lake, "exists", lambda *_: json.loads("["))
    assert plan_audit(lake, *asked).declared is None


def test_a_lookup_that_never_answers_delays_no_other_model(lake, monkeypatch):
    """Storage of one model drips, or a mounted file system does not answer: eight models' night."""
    answers = threading.Event()
    looked = []

    def look(_lake, job, _settings=None):
        looked.append(job.model)
        if job.model == "bad":
            assert answers.wait(60.0)
        return Planned(job)

    monkeypatch.setattr(night_plan, "plan_audit", look)
    monkeypatch.setattr(night_plan, "_PATIENCE", 0.3)
    settings = load_settings(str(pathlib.Path(lake.uri).parent / "privaudit.toml"))
    lookups = Lookups(lake, settings)
    jobs = [Job("bad", DAY), Job("good", DAY)]
    for _ in range(3):
        assert [one.missing for one in lookups.plan(jobs)] == ["an answer from storage", None]
    assert looked.count("bad") == 1  # the first lookup goes on: none is begun beside it
    answers.set()
    assert [one.missing for one in lookups.plan(jobs)] == [None, None]
