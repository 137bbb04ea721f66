"""The record names who asked for an audit, and an audit by another plan is exploratory."""

import getpass
import pathlib
import uuid
from types import SimpleNamespace

import httpx
import pytest

import flows.run.asked_by as module
from flows.run.asked_by import asked_by
from tests.flows.conftest import Command
from tests.support.lake import DAY, write_settings
from workers.lake.layout import Lake
from workers.warehouse.asked import every_audit
from workers.warehouse.store import Warehouse


def test_the_deployment_or_else_the_user_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "anna")
    assert asked_by() == "user anna"
    monkeypatch.setattr(module, "deployment", SimpleNamespace(name="nightly"))
    run = SimpleNamespace(id=str(uuid.uuid4()), flow_name="nightly-audit")
    monkeypatch.setattr(module, "flow_run", run)
    assert asked_by() == "deployment nightly-audit/nightly"
    monkeypatch.setattr(module, "deployment", SimpleNamespace(name=None))
    assert asked_by() == "deployment nightly-audit/nightly"  # asked once a run
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id=str(uuid.uuid4())))
    assert asked_by() == "user anna"


def test_a_server_that_is_away_ends_no_audit_and_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A night waited for its answer at each record, and all its audits ended with an error."""
    asked = []

    class Away:
        @property
        def name(self) -> str:
            asked.append(1)
            raise httpx.ConnectError("All connection attempts failed")

    monkeypatch.setattr(module, "deployment", Away())
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(id=str(uuid.uuid4())))
    assert [asked_by(), asked_by()] == [None, None]
    assert len(asked) == 1


def test_a_user_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert asked_by() is None


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_run_with_another_seed_is_exploratory_and_is_listed(
    template: Lake,
    tmp_path: pathlib.Path,
    privaudit: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "anna")
    monkeypatch.chdir(tmp_path)
    settings = write_settings(tmp_path, ["good"])
    told = settings.read_text().replace('"lake"', f'"{template.uri}"')
    settings.write_text(
        told.replace('name = "good"', 'name = "good"\nnotify = ["team@example.org"]')
    )
    run = ["run", "--model", "good", "--day", str(DAY)]
    assert privaudit(*run).code == privaudit(*run, "--seed", "0").code == 0
    privaudit(*run, "--seed", "5")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    found = every_audit(warehouse)
    assert found["exploratory"].to_list() == [False, True]
    assert found["counts"].to_list() == [True, False]
    assert found["asked_by"].to_list() == ["user anna", "user anna"]
    rows = warehouse.scan("audits").select("notify", "deadline").unique().collect()
    assert rows.rows() == [('["team@example.org"]', "09:00:00 UTC")]
    listed = privaudit("audits", "--model", "good", "--csv")
    assert listed.code == 0
    assert "seed 5" in listed.out
    page = next((tmp_path / "report" / "models").glob("*.html")).read_text()
    assert "2 audits" in page
    assert "plan with seed 5, by user anna, exploratory" in page
