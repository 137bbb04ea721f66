"""A model whose attribute and membership are audited too: flow, records, windows, pages."""

import json
import re
import shutil

import pytest

from flows.commands.checks import checks
from flows.run.night_plan import Job, plan_night
from flows.run.nightly import PlanOverrides, audit_model, plan_backfill
from flows.run.runs import start
from flows.settings import SettingsError, load_settings
from tests.flows.notify.test_alerts import started
from tests.support.lake import DAY, EVE
from tests.workers.audit.test_released_night import night
from tests.workers.audit.test_secrets import lake_of
from workers.lake.layout import Lake
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")

MODELS = """
[[models]]
name = "good"
membership = true
[models.attribute]
column = "city"
values = ["AMS", "BER", "CDG"]
"""
SECRETS = ["attribute:city", "label", "membership"]


def write(folder, models=MODELS):
    path = folder / "privaudit.toml"
    path.write_text(
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n'
        f"{models}\n[plan]\nrepetitions = 4\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets") / "lake"
    lake_of(folder, number=1500)
    return folder


@pytest.fixture
def audited(lake, tmp_path):
    """Return a folder in which the day was audited."""
    shutil.copytree(lake, tmp_path / "lake")
    rows = start(audit_model, model="good", day=DAY, settings=str(write(tmp_path)))
    assert sorted(row.secret for row in rows) == SECRETS
    return tmp_path


def text_of(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")).split())


@pytest.mark.slow
def test_each_secret_has_a_record_windows_and_a_place_in_the_report(
    audited, monkeypatch, privaudit
):
    warehouse = Warehouse(str(audited / "warehouse"))
    assert warehouse.current()["secret"].to_list() == ["label"]
    every = warehouse.current(every_secret=True)
    assert every["secret"].to_list() == SECRETS
    windows = epsilon_windows(warehouse, every).join(every, on="audit_id")
    assert sorted(windows["secret"]) == SECRETS
    for row in windows.iter_rows(named=True):
        # One night's window is no better than the night: the standing of one says nothing of more.
        assert row["epsilon_lower_28_days"] <= row["epsilon_ceiling"] + 0.05
    found = query(warehouse, "select secret, model from latest_audits order by secret")
    assert found["secret"].to_list() == SECRETS
    assert query(warehouse, "from epsilon_windows").height == 3
    trend = query(warehouse, "select secret, change from epsilon_trend order by secret")
    assert trend["change"].to_list() == [None] * 3
    assert query(warehouse, "from coverage").height == 0
    for page in ("index.html", "models/good.html"):
        text = text_of(audited / "report" / page)
        assert "Other secrets than the label" in text
        assert "attribute:city" in text
        assert "membership" in text
    monkeypatch.chdir(audited)
    shown = privaudit("show")
    assert shown.code == 0
    for name in ("good (attribute:city)", "good (membership)"):
        assert name in shown.out


RELEASED = """
[[models]]
name = "good"
trust = "controlled"
[models.released_labels]
table = "released"
true = "y"
released = "z"
record = "id"
"""


@pytest.mark.slow
def test_released_labels_are_a_record_beside_the_audit_by_the_manifests_declaration(
    lake, tmp_path, monkeypatch, privaudit
):
    """Released at 3 where the manifest declares 1: page, terminal and gate say so."""
    shutil.copytree(lake, tmp_path / "lake")
    night(tmp_path / "released", DAY, 3.0)
    with started() as start_receiver:
        server = start_receiver(204)
        webhook = f'[webhook]\nurl = "{server.url}"\nsecret = "0123456789abcdef"\n'
        path = write(tmp_path, webhook + RELEASED)
        audits = start(audit_model, model="good", day=DAY, settings=str(path))
    rows = {row.secret: row for row in audits}
    subjects = [json.loads(body)["subject"] for _, body in server.taken]
    assert [subject for subject in subjects if "released_labels" in subject], subjects
    assert set(rows) == {"label", "released_labels"}
    found = rows["released_labels"]
    assert (found.verdict, found.epsilon_declared) == ("violated", rows["label"].epsilon_declared)
    assert found.target_sha256 == rows["label"].target_sha256
    assert (found.trust, rows["label"].trust) == ("controlled", "self")
    for page in ("index.html", "models/good.html"):
        assert "released_labels" in text_of(tmp_path / "report" / page)
    assert "trust controlled. It stands on labels that the platform" in text_of(
        tmp_path / "report" / "models" / "good.html"
    )
    monkeypatch.chdir(tmp_path)
    assert "good (released_labels)" in privaudit("show").out
    file = tmp_path / "lake" / "models" / "good" / f"day={DAY}" / "model.cbm"
    assert privaudit("gate", "--sha256", str(file)).code == 1


@pytest.mark.slow
def test_a_night_waits_for_released_labels_and_check_looks_at_them(lake, tmp_path):
    shutil.copytree(lake, tmp_path / "lake")
    night(tmp_path / "released", EVE, 1.0)
    path = write(tmp_path, RELEASED)

    def missing():
        settings = load_settings(path)
        (planned,) = plan_night(Lake(settings.lake), [Job("good", DAY)], settings)
        return planned.missing

    def checked():
        return next(one for one in checks(path, day=DAY) if one.what == "model good")

    assert str(missing()).startswith("its released labels: ")
    assert not checked().ok
    # What waiting cannot mend is said by its own audit, and costs the model's none of its inputs.
    log = tmp_path / "damaged" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("no log")
    settings = load_settings(write(tmp_path, RELEASED.replace('"released"', '"damaged"')))
    (planned,) = plan_night(Lake(settings.lake), [Job("good", DAY)], settings)
    assert planned.missing is None
    assert planned.declared is not None
    assert planned.label_bytes > 0
    path = write(tmp_path, RELEASED)
    table = night(tmp_path / "released", DAY, 1.0)
    assert missing() is None
    found = checked()
    assert found.ok
    assert f"; {table.height:,} released labels beside true ones" in found.sentence


@pytest.mark.slow
def test_a_backfill_goes_back_for_a_secret_that_was_not_audited(lake, tmp_path):
    shutil.copytree(lake, tmp_path / "lake")
    settings = write(tmp_path, '[[models]]\nname = "good"\n')
    rows = start(audit_model, model="good", day=DAY, settings=str(settings))
    assert [row.secret for row in rows] == ["label"]
    assert plan_backfill(load_settings(settings), DAY, DAY) == []
    (job,) = plan_backfill(load_settings(write(tmp_path)), DAY, DAY)
    assert job.model == "good"
    rows = start(
        audit_model,
        model="good",
        day=DAY,
        plan=PlanOverrides(secret="membership"),  # noqa: S106
        settings=str(tmp_path / "privaudit.toml"),
    )
    assert [row.secret for row in rows] == ["membership"]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (MODELS.replace('"CDG"]', '"CDG"]\ncities = 3'), "cities"),
        (MODELS.replace('["AMS", "BER", "CDG"]', '["AMS"]'), "values"),
        ('[[models]]\nname = "good"\nmembership = true\n[models.plan]\nprivacy_unit = "p"', "priv"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, models, words):
    path = write(tmp_path, models)
    check = lambda: load_settings(path).plans_of("good")  # noqa: E731
    with pytest.raises(SettingsError, match=words):
        check()
