"""`privaudit acknowledge`: stored with its user, shown, alerted of, and no verdict changes."""

import datetime as dt
import json

import pytest

from flows.run.conclusion import write
from flows.settings import load_settings
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import USER, evaluated
from workers.warehouse.store import Warehouse

UNTIL = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2)  # midnight may come before its test
WHY = "Fix in review <b>, exactly 0.93 was lost."


@pytest.fixture
def audit_id(tmp_path, monkeypatch):
    """Commit a violated night in a folder with settings, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    record = evaluated("good", DAY, verdict="violated", epsilon_lower=0.93)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for each in (record, evaluated("quiet", DAY)):
        warehouse.commit([each.model_copy(update={"promises": ()})])
    return record.audit.audit_id


@pytest.mark.slow
def test_it_is_shown_and_alerted_of_and_changes_no_verdict(privaudit, audit_id, alerts, tmp_path):
    before = json.loads(privaudit("show", "--json").out)
    told = privaudit("acknowledge", audit_id[:8], "--why", WHY, "--until", str(UNTIL))
    assert told.code == 0
    assert f"{USER} acknowledged" in told.out
    shown = json.loads(privaudit("show", "--json").out)
    added = {"acknowledged_until": str(UNTIL), "acknowledged_by": USER, "acknowledged_why": WHY}
    assert shown == [each | (added if each["model"] == "good" else {}) for each in before]
    assert str(UNTIL) in privaudit("show").out
    assert [(one.kind, one.stage, one.model) for one in alerts] == [
        ("privaudit.violated", "acknowledged", "good")
    ]
    assert alerts[0].figures
    privaudit("acknowledge", audit_id, "--why", WHY, "--until", str(UNTIL))
    assert len({alert.id for alert in alerts}) == 2
    rows = json.loads(privaudit("sql", "select why from audit_notes", "--json").out)
    assert rows == [{"why": WHY}] * 2
    write(load_settings(tmp_path / "privaudit.toml"))
    page = (tmp_path / "report" / "models" / "good.html").read_text()
    assert "Fix in review &lt;b&gt;" in page
    assert "Fix in review" not in (tmp_path / "report" / "models" / "quiet.html").read_text()


def test_without_an_end_it_is_wrong_usage(privaudit, audit_id):
    assert privaudit("acknowledge", audit_id, "--why", WHY).code == 64
    assert privaudit("acknowledge", audit_id, "--until", str(UNTIL)).code == 64
    wrong = privaudit("acknowledge", audit_id, "--why", WHY, "--until", "9999-12-31")
    assert (wrong.code, "28 days" in wrong.err) == (3, True)
